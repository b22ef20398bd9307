"""Bad luck, on purpose: kills, damaged stores, full disks, several writers, and configurations that make no sense.

`python scripts/reliability.py` does all of it (an hour on two cores) and prints a table; `python scripts/reliability.py
kill --trials 10` a part. Nothing outside a scratch folder is touched. A full disk needs the right to mount a tmpfs.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = [sys.executable, "-m", "fedincent"]
BASE = "n_clients=6 rounds=12 model=mlp checkpoint_every=0"
STREAM = "stream.per_round=3 protocol=online training.carry=true reference=none held_out=0.1 per_round=3 partition=iid"
MIXED = "partition=mixture client_validation_fraction=0.2 reference=fedavg per_round=4"
CASES = {
    "run": ["run", *BASE.split(), "mechanism=iafl"],
    "processes": ["run", *BASE.split(), "mechanism=cgsv", "executor=processes", "executor.workers=2"],
    "online": ["run", *BASE.split(), *STREAM.split(), "mechanism=fye", "mechanism.watched=3", "mechanism.window=3"],
    "tokens": ["run", *BASE.split(), *MIXED.split(), "mechanism=ipfl"],
    "table": ["table", "small", "--plugins", "plugins", "--run", "--jobs", "2"],
}
TABLE = """title: a small table
paper: null
metrics: [ipr_accuracy]
seeds: 1
overrides: [n_clients=5, rounds=8, model=mlp, checkpoint_every=0]
rows: {iid: [digits], classes_3: [digits]}
columns: {fedavg: [mechanism=fedavg], iafl: [mechanism=iafl]}
"""
CHANGING = ("seconds", "versions")  # of a summary, from one run to the next
LOOKS = (
    ["status"],
    ["report"],
    ["list", "runs"],
    ["table", "small", "--plugins", "plugins"],
    ["table", "--sweep", "mechanism", "--metric", "accuracy_mean"],
    ["verify"],
)


def environment() -> dict[str, str]:
    """Of the programs that are started: this checkout, and nothing of the user's settings."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("FEDINCENT_", "WANDB_"))}
    return {**kept, "PYTHONPATH": str(ROOT)}


def started(words: list[str], folder: Path) -> subprocess.Popen:
    """A command in a session of its own, so that all of it can be killed at once."""
    return subprocess.Popen(
        [*PROGRAM, *words],
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def done(words: list[str], folder: Path) -> tuple[int, str]:
    """A command to its end: exit code, and what it said."""
    ended = subprocess.run([*PROGRAM, *words], cwd=folder, env=environment(), capture_output=True, text=True, timeout=300)
    return ended.returncode, ended.stdout + ended.stderr


def numbers(folder: Path) -> dict[str, str]:
    """What all runs of a folder say, without what changes from one run to the next."""
    found = {}
    for path in sorted((folder / "results" / "runs").glob("*/*")):
        if path.suffix == ".csv":
            found[f"{path.parent.name}/{path.name}"] = path.read_text()
        elif path.name == "summary.json":
            summary = json.loads(path.read_text())
            found[f"{path.parent.name}/{path.name}"] = json.dumps({k: v for k, v in summary.items() if k not in CHANGING})
    return found


def prepared(folder: Path) -> Path:
    """An empty folder with the small table."""
    (folder / "plugins" / "conf" / "table").mkdir(parents=True)
    (folder / "plugins" / "conf" / "table" / "small.yaml").write_text(TABLE)
    return folder


def kill(scratch: Path, trials: int, rng: random.Random) -> Counter[str]:
    """kill -9 of a command and all its processes at a random moment, once or twice; then it must end with equal numbers."""
    wanted, lasts = {}, {}
    for name, words in CASES.items():
        folder, begun = prepared(scratch / f"whole-{name}"), time.monotonic()
        code, said = done(words, folder)
        assert code == 0, said
        wanted[name], lasts[name] = numbers(folder), time.monotonic() - begun
    counts: Counter[str] = Counter()
    for trial in range(trials):
        name = list(CASES)[trial % len(CASES)]
        folder = prepared(scratch / f"kill-{trial}")
        for _ in range(rng.choice((1, 1, 2))):
            process = started(CASES[name], folder)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.communicate(timeout=rng.uniform(0.3, 1.05 * lasts[name]))
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
        code, said = done(CASES[name], folder)
        equal = code == 0 and numbers(folder) == wanted[name]
        counts["equal" if equal else f"NOT EQUAL ({name}): {said[-300:]}"] += 1
        shutil.rmtree(folder)
    return counts


def packing(scratch: Path, trials: int, rng: random.Random) -> Counter[str]:
    """kill -9 while runs are packed and their folders deleted; then the same pack, byte for byte, and nothing lost."""
    whole = prepared(scratch / "unpacked")
    for seed in range(6):
        code, said = done(["run", *BASE.split(), "keep_checkpoint=false", f"seed={seed}"], whole)
        assert code == 0, said
    words = ["pack", "mine", "--move"]
    shutil.copytree(whole, scratch / "packed")
    begun = time.monotonic()
    code, said = done(words, scratch / "packed")
    assert code == 0, said
    last, wanted = time.monotonic() - begun, (scratch / "packed" / "results" / "published" / "mine.zip").read_bytes()
    counts: Counter[str] = Counter()
    for trial in range(trials):
        folder = scratch / f"packing-{trial}"
        shutil.copytree(whole, folder)
        process = started(words, folder)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=rng.uniform(0.1 * last, last))
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        done(words, folder)
        packed = (folder / "results" / "published" / "mine.zip").read_bytes() == wanted
        equal = packed and done(["verify"], folder)[0] == 0
        counts["equal" if equal else "NOT EQUAL"] += 1
        shutil.rmtree(folder)
    return counts


def damage(scratch: Path, trials: int, rng: random.Random) -> Counter[str]:
    """A file of a store flipped, cut, emptied, swapped or gone: no command stops, and `verify` or the list says so."""
    whole = prepared(scratch / "store")
    for words in (CASES["table"], CASES["online"], CASES["tokens"], ["run", *BASE.split(), "mechanism=cgsv", "trace=true"]):
        code, said = done(words, whole)
        assert code == 0, said
    code, said = done(["pack", "mine", "mechanism=ipfl,fedavg", "--move"], whole)
    assert code == 0, said
    counts: Counter[str] = Counter()
    for trial in range(trials):
        folder = scratch / f"damaged-{trial}"
        shutil.copytree(whole, folder)
        files = sorted(
            path
            for path in (folder / "results").rglob("*")
            if path.is_file() and path.suffix in (".csv", ".json", ".yaml", ".zip")
        )
        path = rng.choice(files)
        how = spoil(path, rng.choice(files), rng)
        stopped = False
        for words in LOOKS:
            code, said = done(words, folder)
            if "Traceback" in said or code not in (0, 1, 2):
                counts[f"TRACE {words[0]} {how} {path.name}: {said[-200:]}"] += 1
                stopped = True
            if words[0] == "verify" and not stopped:
                told = code != 0 or "damaged" in said or "broken off" in done(["status"], folder)[1]
                counts["told" if told else f"not told: {how} {path.name}"] += 1
        code, said = done(["run", *BASE.split(), "mechanism=iafl", "seed=5"], folder)
        if code != 0:
            counts[f"STOPPED a run of its own: {said[-200:]}"] += 1
        shutil.rmtree(folder)
    return counts


def spoil(path: Path, other: Path, rng: random.Random) -> str:
    """Damage one file; how."""
    content = path.read_bytes()
    how = rng.choice(("flipped", "cut", "emptied", "swapped", "gone", "garbage"))
    if how == "flipped" and content:
        place = rng.randrange(len(content))
        path.write_bytes(content[:place] + bytes([content[place] ^ (1 << rng.randrange(8))]) + content[place + 1 :])
    elif how == "cut":
        path.write_bytes(content[: rng.randrange(len(content) or 1)])
    elif how == "emptied":
        path.write_bytes(b"")
    elif how == "swapped":
        path.write_bytes(other.read_bytes())
    elif how == "gone":
        path.unlink()
    else:
        path.write_bytes(bytes(rng.randrange(256) for _ in range(200)))
    return how


def disk(scratch: Path, trials: int, rng: random.Random) -> Counter[str]:
    """A disk that is full at a random moment: one line, no trace; with room, the same command ends with equal numbers."""
    whole = prepared(scratch / "roomy")
    code, said = done(CASES["run"], whole)
    assert code == 0, said
    wanted = numbers(whole)
    needs = sum(path.stat().st_size for path in (whole / "results").rglob("*") if path.is_file()) // 1024
    counts: Counter[str] = Counter()
    for trial in range(trials):
        folder = scratch / f"disk-{trial}"
        folder.mkdir()
        size = rng.randrange(8, int(1.5 * needs))
        if subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size}k", "tmpfs", str(folder)], capture_output=True
        ).returncode:
            return Counter({"not run: no right to mount a tmpfs": 1})
        try:
            code, said = done(CASES["run"], folder)
            if code == 0:
                counts["had room"] += 1
            else:
                lines = [line for line in said.splitlines() if line.startswith("fedincent:")]
                told = code == 1 and len(lines) == 1 and "Traceback" not in said
                counts["one line" if told else f"NOT TOLD: {said[-300:]}"] += 1
            subprocess.run(["mount", "-o", "remount,size=200m", str(folder)], check=True)
            code, said = done(CASES["run"], folder)
            counts["then equal" if code == 0 and numbers(folder) == wanted else f"NOT EQUAL: {said[-300:]}"] += 1
        finally:
            subprocess.run(["umount", str(folder)], check=True)
    return counts


def writers(scratch: Path, trials: int, rng: random.Random) -> Counter[str]:
    """Two and four processes that want the same at once: all end well, with the numbers of one."""
    wanted = {}
    for name in ("run", "table"):
        folder = prepared(scratch / f"alone-{name}")
        done(CASES[name], folder)
        wanted[name] = numbers(folder)
    counts: Counter[str] = Counter()
    for trial in range(trials):
        name, many = ("run", "table")[trial % 2], (2, 4)[trial // 2 % 2]
        folder = prepared(scratch / f"writers-{trial}")
        processes = [started(CASES[name], folder) for _ in range(many)]
        codes = [(process.communicate()[1], process.returncode)[1] for process in processes]
        equal = not any(codes) and numbers(folder) == wanted[name]
        counts[f"{many} writers, equal" if equal else f"{many} writers: {codes}"] += 1
    return counts


def fuzz(scratch: Path, trials: int, rng: random.Random) -> Counter[str]:
    """Fields with values of other types, ranges and scripts: exit code 0 or 2, no trace, nothing stored on refusal."""
    os.chdir(scratch)
    sys.path.insert(0, str(ROOT))
    from fedincent.cli import main
    from fedincent.config.compose import compose, flat
    from fedincent.config.groups import options_of

    groups = ("mechanism", "dataset", "partition", "contribution", "behaviour", "model", "disturbance", "executor")
    texts = (
        "abc",
        "ünïcödé",
        "''",
        "null",
        "true",
        "[]",
        "[1]",
        "[-1]",
        "[a,b]",
        "[[1]]",
        "{a: 1}",
        "{}",
        "${seed}",
        "${nix}",
    )
    odd = (
        "-5",
        "-1",
        "0",
        "1",
        "2",
        "0.5",
        "1.5",
        "1e30",
        "-1e30",
        "nan",
        "inf",
        "a b",
        "'",
        '"',
        "=",
        ",",
        "1,2",
        "",
        "\\\\",
        "%",
        "../x",
    )
    numeric = ("0", "1", "2", "3", "0.1", "0.5", "1.0", "0.99", "-1", "1e-3", "1e30", "7")
    embedded = {"dataset": ("digits", "diabetes", "synthetic")}
    counts: Counter[str] = Counter()
    signal.signal(signal.SIGALRM, too_long)
    for trial in range(trials):
        chosen = {
            group: rng.choice(embedded.get(group, tuple(options_of(group))))
            for group in rng.sample(groups, rng.choice((0, 1, 2)))
        }
        words = [f"{group}={name}" for group, name in chosen.items()]
        try:
            values = flat(compose(words).raw)
            names = sorted(values)
        except Exception as error:
            counts[f"refused: {type(error).__name__}"] += 1
            continue
        usual = ["rounds=1", "n_clients=4", "training.local_steps=1", *([] if "model" in chosen else ["model=logistic"])]
        fields = []
        for name in rng.choices(names, k=rng.choice((1, 1, 2))):
            known = numeric if isinstance(values[name], int | float) and rng.random() < 0.7 else (*texts, *odd)
            fields.append(f"{name}={rng.choice(('true', 'false') if isinstance(values[name], bool) else known)}")
        results = scratch / f"fuzz-{trial}"
        line = ["run", *words, *usual, *fields, f"results_dir={results}"]
        out, code = io.StringIO(), 0
        try:
            signal.alarm(120)
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
                main(line)
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
        except BaseException as error:
            counts[f"TRACE {type(error).__name__}: {' '.join(line)}: {str(error)[:150]}"] += 1
            continue
        finally:
            signal.alarm(0)
        stored = results.exists() and any(results.rglob("summary.json"))
        refusal = re.search(r"fedincent: .+", out.getvalue())
        if code == 0:
            counts["done"] += 1
        elif code == 2 and refusal and not stored:
            counts["refused in one line"] += 1
        elif code == 1 and refusal:  # what shows in training alone: it diverged, it needs too much memory
            counts[
                f"ended in one line: {refusal[0][11:60]}" if "diverged" not in refusal[0] else "ended in one line: diverged"
            ] += 1
        else:
            counts[f"WRONG {code}, stored {stored}: {' '.join(line)}: {out.getvalue()[-150:]}"] += 1
        shutil.rmtree(results, ignore_errors=True)
    return counts


def too_long(signum: int, frame: object) -> None:
    raise TimeoutError("took two minutes")


PARTS: dict[str, tuple[Callable[[Path, int, random.Random], Counter[str]], int]] = {
    "kill": (kill, 100),
    "packing": (packing, 30),
    "damage": (damage, 50),
    "disk": (disk, 20),
    "writers": (writers, 8),
    "fuzz": (fuzz, 2000),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)} (default: all)")
    parser.add_argument("--trials", type=int, help="how often each")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    for name in given.parts or PARTS:
        work, usual = PARTS[name]
        with tempfile.TemporaryDirectory() as scratch:
            begun, home = time.monotonic(), Path.cwd()
            counts = work(Path(scratch), given.trials or usual, random.Random(given.seed))
            os.chdir(home)
        print(f"## {name}: {(work.__doc__ or '').splitlines()[0]}  ({time.monotonic() - begun:.0f} s)")
        for what, count in counts.most_common():
            print(f"{count:6d}  {what}", flush=True)


if __name__ == "__main__":
    main()
