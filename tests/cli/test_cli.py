"""The command line as a user meets it."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from fedincent import __version__
from fedincent.cli import main
from fedincent.cli.listing import GROUPS


def cli(*arguments: str) -> None:
    main(list(arguments))


def test_help_on_every_verb_with_two_examples(capsys: pytest.CaptureFixture[str]) -> None:
    for verb in ([], ["run"], ["table"], ["figure"], ["status"], ["report"], ["compare"], ["data"], ["list"]):
        with pytest.raises(SystemExit) as ended:
            cli(*verb, "--help")
        assert ended.value.code == 0
        text = capsys.readouterr().out
        assert text.split("examples:")[1].count("fedincent ") >= 2
        assert max(map(len, text.splitlines())) <= 125


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        cli("--version")
    assert capsys.readouterr().out.strip() == f"fedincent {__version__}"


@pytest.mark.parametrize("group", GROUPS)
def test_lists_have_a_line_on_each(group: str, capsys: pytest.CaptureFixture[str]) -> None:
    cli("list", group)
    lines = capsys.readouterr().out.splitlines()
    assert lines and all(len(line.split(None, 1)) == 2 for line in lines)


def test_help_imports_nothing_heavy() -> None:
    code = "import sys\nfrom fedincent.cli import make_parser\nmake_parser().format_help()\n"
    code += "print([m for m in ('torch', 'hydra', 'numpy', 'pandas', 'rich') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"


@pytest.mark.parametrize(
    "line",
    [
        "run mechanism=ialf",
        "run partition.bta=1",
        "run mechanism.kappa=2",
        "run n_clients=0",
        "run partition=classes partition.k=11",
        "run training.batch_size=0",
        "run dataset=mnist dataset.root=/no/such/folder",
        "run n_clients=5000",
        "run model=lstm",
        "run -m mechanism.kappa=0,7",
        "data fetch nothing",
        "data fetch",
        "run --plugins /no/such/folder",
    ],
)
def test_mistakes_end_with_two_and_a_line_or_two(line: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli(*line.split())
    assert ended.value.code == 2
    text = capsys.readouterr().err.strip()
    assert text.startswith("fedincent: ") and len(text.splitlines()) <= 2
    assert "Traceback" not in text


@pytest.mark.real
def test_noise_on_text(real_data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli("run", "dataset=sst", f"dataset.root={real_data}", "partition=noise")
    assert ended.value.code == 2 and "not text" in capsys.readouterr().err


def test_run_prints_the_table_and_says_where_the_files_are(tiny: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    cli("run", *tiny)
    first = capsys.readouterr()
    for word in ("IPR (accuracy)", "Pearson ρ", "mean accuracy", "mean gain", "clients", "files: "):
        assert word in first.out
    assert "iafl: round 3/3" in first.err  # plain lines where nobody looks on
    cli("run", *tiny)
    second = capsys.readouterr()
    assert second.out == first.out and second.err == "found finished; force=true runs it anew\n"


def test_show_explains_every_field(capsys: pytest.CaptureFixture[str]) -> None:
    cli("run", "--show", "partition=classes")
    text = capsys.readouterr().out
    for name in ("seed", "n_clients", "partition.k", "mechanism.kappa", "training.lr", "executor.workers"):
        assert name in text


def test_multirun(
    tiny: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, own_results: Path
) -> None:
    cli("run", "-m", *tiny, "mechanism=iafl,fedavg_finetune", "seed=range(0,2)")
    out = capsys.readouterr().out
    lines = [line for line in out.splitlines() if line.startswith(tiny[0])]
    assert "the sweep: mean ± standard error over seeds" in out and "│ iafl" in out and "±" in out.rpartition("│ iafl")[2]
    assert len(lines) == 4 and "mechanism=iafl seed=1" in " ".join(lines).replace(" ".join(tiny) + " ", "")
    assert len(list((own_results / "runs").iterdir())) == 6
    assert not list(Path.cwd().glob("multirun"))


def test_a_failed_run_of_a_sweep_does_not_stop_the_others(tiny: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli("run", "-m", *tiny, "model=mlp", "training.optimizer=sgd", "training.lr=0.01,1e30,0.02", "mechanism=standalone")
    assert ended.value.code == 1
    printed = capsys.readouterr()
    assert printed.out.count("IPR") == 2 and printed.err.count("FAILED") == 1 and "diverged" in printed.err


def test_data_verbs(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    cli("data", "list")
    assert "digits" in capsys.readouterr().out
    cli("data", "fetch", "digits")
    assert "1,437 + 360 samples" in capsys.readouterr().out
    cli("data", "verify", "digits")
    assert "as it should be" in capsys.readouterr().out
    cli("data", "show", "partition=classes", "--output", str(tmp_path / "skew.png"))
    assert "classes per client: 3 to 3 of 10" in capsys.readouterr().out
    assert (tmp_path / "skew.png").read_bytes()[:4] == b"\x89PNG"


def test_interrupted_by_the_user(tiny: list[str]) -> None:
    command = [sys.executable, "-m", "fedincent", "run", "rounds=500", "n_clients=20"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stderr is not None
    process.stderr.readline()  # the first line of progress: it is at work
    time.sleep(0.5)
    process.send_signal(2)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "goes on from the last checkpoint" in error and "Traceback" not in error
