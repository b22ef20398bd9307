"""What cannot be used is refused in one line, before any work, without a trace; and quickly."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from fedincent.cli import main

SMALL = ["n_clients=4", "rounds=2", "model=logistic"]
TABLE = "title: x\nmetrics: [pearson]\nseeds: 1\ncolumns: {iafl: [mechanism=iafl]}\nrows: {iid: [digits]}\n"


def refused(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    """What a line is answered that is refused."""
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    assert ended.value.code == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (["model=mlp", "model.hidden=[-5]"], "model.hidden=-5: must be ≥ 1"),
        (["dataset.size=100000"], "dataset.size=100000: must be ≥ 8 and ≤ 1024"),
        (["training=null"], "training=None: must be fields with values"),
        (["training.lr=inf"], "training.lr=inf: must be a finite number"),
        (["tune_epochs=1", "tune_steps=1"], "tune_steps=1: goes without tune_epochs"),
        (["results_dir="], r"results_dir=(nothing): must be a folder"),
        (["mechanism=iafl,cgsv"], "several values are a sweep: fedincent run -m"),
        (["mechanism=[iafl,cgsv]"], "several choices are a sweep: fedincent run -m"),
        (["mechanism="], "mechanism=(nothing): known: cffl"),
        (["mechanism._target_=../x"], "mechanism._target_=../x: must be the dotted path of a class"),
        (["mechanism=fye"], "per_round=0: mechanism=fye draws so many nodes a round"),
    ],
)
def test_values_out_of_range(overrides: list[str], said: str, capsys: pytest.CaptureFixture[str], own_results: Path) -> None:
    assert said in refused(capsys, "run", *SMALL, *overrides)
    assert not own_results.exists()


def test_what_no_memory_can_hold(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["run", "n_clients=4", "rounds=1", "model=mlp", "model.hidden=[1000000000]"])
    assert ended.value.code == 1 and "fedincent: not enough memory" in capsys.readouterr().err


def test_a_run_that_blew_up_but_stayed_finite_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    main(["run", *SMALL, "reference=none", "contribution=data_size", "training.optimizer=sgd", "training.lr=1e8"])
    assert "note: blew up: half of the clients have a loss 20 times" in capsys.readouterr().out
    main(["run", *SMALL, "reference=none", "contribution=data_size"])
    assert "blew up" not in capsys.readouterr().out


@pytest.mark.parametrize("words", [["table", "iafl-1", "--seeds", "0"], ["table", "iafl-1", "--run", "--jobs", "-2"]])
def test_counts_are_positive(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert "must be a whole number ≥ 1" in refused(capsys, *words)


def test_at_most_two_fields_make_a_grid(capsys: pytest.CaptureFixture[str]) -> None:
    assert "one or two fields" in refused(capsys, "table", *("--sweep=seed " * 3).split())


def test_verbs_without_a_name_list_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    for verb, name in (("table", "iafl-1"), ("figure", "cgsv-1"), ("list", "mechanisms")):
        main([verb])
        assert name in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("title: [\n", "is no YAML: line 2"),
        ("[1, 2]", "must hold names and values"),
        ("", "must hold names and values"),
        ("base: bad", "builds on itself"),
        (f"{TABLE}scale: abc", "scale=abc: must be numbers by metric"),
        (TABLE.replace("[digits]", "digits"), "rows={'iid': 'digits'}: must be names with a list each"),
        (TABLE.replace("[mechanism=iafl]", "mechanism=iafl"), "columns={'iafl': 'mechanism=iafl'}: must be names"),
        (f"{TABLE}overrides: abc", "overrides=abc: must be a list"),
        (TABLE.replace("seeds: 1", "seeds: 0"), "seeds=0: must be a whole number ≥ 1"),
    ],
)
def test_what_a_table_gets_wrong(content: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "plugins" / "conf" / "table"
    folder.mkdir(parents=True)
    (folder / "bad.yaml").write_text(content)
    assert said in refused(capsys, "table", "bad", "--plugins", str(tmp_path / "plugins"))
    main(["run", *SMALL])
    main(["report", "--plugins", str(tmp_path / "plugins")])  # one bad table stops no report


def test_wandb_is_asked_before_the_work(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, own_results: Path
) -> None:
    for name in ("WANDB_API_KEY", "WANDB_MODE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(own_results.parent))  # where no key is noted
    assert "logger=wandb: there is no API key" in refused(capsys, "run", *SMALL, "logger=wandb")
    assert not own_results.exists()
    monkeypatch.setenv("WANDB_MODE", "offline")
    main(["run", *SMALL, "logger=wandb", f"logger.folder={own_results.parent}"])
    assert list((own_results.parent / "wandb").glob("offline-run-*/*.wandb"))


LOOKS = ["['run', 'training.lr=-1']", "['run', 'mechanism=nothing']", "['run', '--show']", "['status']", "['list', 'runs']"]


@pytest.mark.parametrize("words", [*LOOKS, "['table', 'iafl-1', '--dry-run']", "['report']"])
def test_looking_and_refusing_load_no_torch(words: str, own_results: Path) -> None:
    (own_results / "runs").mkdir(parents=True)
    code = f"""
import sys
from fedincent.cli import main
try:
    main({words})
except SystemExit:
    pass
assert "torch._C" not in sys.modules, "torch was loaded"
"""
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_a_module_that_is_loaded_later_is_the_module() -> None:
    code = """
import sys
from fedincent.cli.later import import_later
import_later("colorsys")
import colorsys as first
assert type(sys.modules["colorsys"]).__name__ == "Later"
assert first.rgb_to_hsv(1, 1, 1) == (0.0, 0.0, 1)
import colorsys as second
from colorsys import rgb_to_hls
assert second is sys.modules["colorsys"] and first.rgb_to_hls is rgb_to_hls
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_completion(capsys: pytest.CaptureFixture[str]) -> None:
    for line, wanted in {
        "fedincent ta": "table ",
        "fedincent run mech": "mechanism=",
        "fedincent run mechanism=ia": "mechanism=iafl",
        "fedincent run -m mechanism=iafl,cgsv_": "mechanism=iafl,cgsv_eu",
        "fedincent table iafl-1": "iafl-10 ",
        "fedincent table iafl-1 --see": "--seeds ",
        "fedincent list me": "metrics ",
        "fedincent run training.l": "training.lr=",
        "fedincent run mechanism=cgsv mechanism.al": "mechanism.alpha=",
        "fedincent run partition=classes partition.": "partition.k=",
        "fedincent completion ba": "bash ",
        "fedincent data f": "fetch ",
    }.items():
        main(["completion", "--line", line])
        assert wanted in capsys.readouterr().out.split("\n"), line
    for shell in ("bash", "zsh", "fish"):
        main(["completion", shell])
        assert "fedincent completion --line" in capsys.readouterr().out


def test_the_configuration_for_a_pipe_is_a_line_a_field(capsys: pytest.CaptureFixture[str]) -> None:
    main(["run", "--show"])
    (line,) = [line for line in capsys.readouterr().out.splitlines() if line.startswith("partition.beta")]
    assert "0.5" in line


def test_a_refused_run_leaves_nothing_behind(capsys: pytest.CaptureFixture[str], own_results: Path) -> None:
    """Found out only when the clients are there: who cheats."""
    words = ["behaviour=zeros", "behaviour.clients=[9]", "reference=none", "contribution=data_size"]
    assert "there are 4 clients" in refused(capsys, "run", *SMALL, *words)
    assert not list((own_results / "runs").glob("*"))


def test_gains_are_named_by_what_they_are_measured_against(capsys: pytest.CaptureFixture[str]) -> None:
    main(["run", *SMALL, "reference=fedavg", "contribution=data_size"])
    out = capsys.readouterr().out
    assert "over fedavg, in points" in out and "over standalone" not in out


def test_a_scoreboard_of_nothing(capsys: pytest.CaptureFixture[str], own_results: Path) -> None:
    assert "there are no runs" in refused(capsys, "scoreboard")
    assert not own_results.exists()
