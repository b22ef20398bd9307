"""What people wait for beside training: looking at results, planning, a refused line, a table of many runs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.common import Row, spread

ROOT = Path(__file__).resolve().parent.parent
TRIES = 3
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


def asked(words: str, folder: Path) -> tuple[float, float]:
    """Seconds that a command takes from its start to its end, and its largest memory in MB."""
    measured = rf"""
import re, sys
sys.argv = ["fedincent", *{words.split()!r}]
from fedincent.cli import main
try:
    main()
except SystemExit:
    pass
assert "torch._C" not in sys.modules
print(int(re.search(r"VmHWM:\s+(\d+)", open("/proc/self/status").read())[1]) / 1024, file=sys.__stderr__)
"""
    begun = time.perf_counter()
    ended = subprocess.run([sys.executable, "-c", measured], cwd=folder, env=ENVIRONMENT, capture_output=True, text=True)
    spent = time.perf_counter() - begun
    assert ended.returncode == 0, ended.stderr
    return spent, float(ended.stderr.split()[-1])


def carried_out(words: list[str], folder: Path) -> None:
    """A command to its end."""
    line = [sys.executable, "-m", "fedincent", *words]
    subprocess.run(line, cwd=folder, env=ENVIRONMENT, check=True, capture_output=True)


def store_of(count: int, folder: Path) -> None:
    """A results folder with so many finished runs: one real run, and copies of it with other seeds."""
    line = ["run", "n_clients=10", "rounds=10", "model=logistic", "eval_every=1", "keep_checkpoint=false"]
    carried_out(line, folder)
    runs = folder / "results" / "runs"
    first = next(runs.glob("iafl-*"))
    summary = json.loads((first / "summary.json").read_text())
    for seed in range(1, count - 1):
        copied = runs / f"iafl-digits-dirichlet-logistic-s{seed}-{seed:010x}"
        shutil.copytree(first, copied)
        for lock in copied.glob("run.*"):
            lock.unlink()
        other = {**summary, "run": copied.name, "seed": seed, "identity": {**summary["identity"], "seed": seed}}
        (copied / "summary.json").write_text(json.dumps(other))


def looking() -> list[Row]:
    """Every verb that only looks; none of them loads torch."""
    rows = []
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "results").mkdir()
        (folder / "results" / "published").symlink_to(ROOT / "results" / "published")
        verbs = {
            "seconds of `scoreboard`: all papers' tables together": ("scoreboard", "≤ 2.0"),
            "seconds of `table iafl-1 --dry-run`, 1,450 runs": ("table iafl-1 --dry-run", ""),
            "seconds of a refused line": ("run training.lr=-1", "≤ 0.7"),
            "seconds of `run --show`": ("run --show", "≤ 0.7"),
        }
        for name, (words, target) in verbs.items():
            rows.append(spread(name, [asked(words, folder)[0] for _ in range(TRIES)], target))
    for count, report, status in ((150, "≤ 3.0", ""), (5000, "≤ 10.0", "≤ 1.0")):
        with tempfile.TemporaryDirectory() as scratch:
            store_of(count, Path(scratch))
            for verb, target in (("report", report), ("status", status)):
                found = [asked(verb, Path(scratch)) for _ in range(TRIES)]
                rows.append(spread(f"seconds of `{verb}` of {count:,} runs", [spent for spent, _ in found], target))
                rows.append(spread("MB of memory for it", [memory for _, memory in found], "≤ 200"))
    return rows


def table() -> list[Row]:
    """A table of 60 runs on all cores, against the sum of the runs' own times over the cores."""
    content = """title: x
metrics: [ipr_accuracy]
seeds: 10
overrides: [n_clients=10, rounds=60, model=cnn, partition.min_size=2]
rows: {iid: [digits]}
columns:
  fedavg: [mechanism=fedavg]
  iafl: [mechanism=iafl]
  cgsv: [mechanism=cgsv]
  rank: [mechanism=rank]
  lg_fedavg: [mechanism=lg_fedavg]
"""
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "plugins" / "conf" / "table").mkdir(parents=True)
        (folder / "plugins" / "conf" / "table" / "many.yaml").write_text(content)
        words = ["table", "many", "--plugins", "plugins", "--run"]
        begun = time.perf_counter()
        carried_out(words, folder)
        spent = time.perf_counter() - begun
        own = [json.loads(path.read_text())["seconds"]["total"] for path in folder.glob("results/runs/*/summary.json")]
    cores = len(os.sched_getaffinity(0))
    print(f"  {len(own)} runs, {sum(own):.1f} s of their own on {cores} cores, {spent:.1f} s in all")
    share = spent / (sum(own) / cores)
    return [spread("a table of 60 runs takes, of its runs' own times over the cores,", [share], "≤ 1.10")]
