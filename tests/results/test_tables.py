"""Paper tables: what they consist of, how a cell is judged, and that what is missing is run once, whatever happens."""

from __future__ import annotations

import csv
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import yaml

import fedincent
from fedincent.campaigns.plan import last_of_each, missing_jobs
from fedincent.cli import main
from fedincent.config.groups import options_of
from fedincent.errors import ConfigError
from fedincent.results.figures import load_figure
from fedincent.results.render import ours_text, paper_text
from fedincent.results.table import Cell, Printed, best_methods, load_table, paper_file, printed_numbers, setting_overrides
from fedincent.runs.runner import run
from fedincent.store.index import Index
from tests.conftest import OWN_TABLE


def test_a_cell_by_hand() -> None:
    cell = Cell("pearson", ours=[0.5, 0.7], wanted=3, paper=Printed(0.65, 0.02))
    assert cell.mean == pytest.approx(0.6) and cell.error == pytest.approx(0.1) and cell.done == 2
    assert cell.agrees is True  # |0.6 − 0.65| ≤ 2·√(0.1² + 0.02²) + 0.005
    assert Cell("pearson", ours=[0.50, 0.51], paper=Printed(0.65, 0.02)).agrees is False
    assert Cell("pearson", ours=[0.5], paper=Printed(0.64, 0.02)).agrees is True  # one seed: within 0.15
    assert Cell("pearson", ours=[0.5], paper=Printed(0.66, 0.02)).agrees is False
    assert Cell("accuracy_mean", ours=[64.0, 64.1], paper=Printed(68.0, None)).agrees is True  # no printed error: 4 points
    assert Cell("pearson", undefined=2, paper=Printed(None, None, "undefined")).agrees is True
    assert Cell("pearson", paper=Printed(0.5, 0.1)).agrees is None
    assert Cell("pearson", ours=[0.5]).agrees is None


def test_ties_are_all_best() -> None:
    row = {"a": Cell("pearson", [0.901], paper=Printed(0.9, 0)), "b": Cell("pearson", [0.899]), "c": Cell("pearson")}
    assert best_methods(row, paper=False) == ["a", "b"] and best_methods(row, paper=True) == ["a"]
    assert best_methods({"a": Cell("pearson", ours=[-0.4]), "b": Cell("pearson", undefined=1)}, paper=False) == []


def test_settings() -> None:
    assert setting_overrides("classes_30") == ["partition=classes", "partition.k=30"]
    assert setting_overrides("iid") == ["partition=iid"]
    assert last_of_each(["a=1", "b=2", "a=3"]) == ["b=2", "a=3"]


@pytest.mark.parametrize("name", sorted(options_of("table")))
def test_every_printed_number_has_its_cell(name: str) -> None:
    table = load_table(name)
    printed = printed_numbers(table)
    if name == "iafl-3" or table.paper is None:  # only prose numbers are known, of a setting the paper does not name
        return
    ours = {"electricity_load", "fmnist_stand_in"} | (
        {"classes_10"} if name == "fye-13" else set()
    )  # rows of our own beside the paper's
    rows = [row for row in table.rows if not ours & set(row)]
    wanted = {(d, s, m, table.metric_at(d, metric)) for d, s in rows for m in table.columns for metric in table.metrics}
    assert wanted == {key for key in printed if not key[3].endswith("_change")}  # differences of two rows


def test_the_papers_wins_are_recounted() -> None:
    """By the printed digits LG-FedAvg wins 12 times in table 1; the paper says 11, having broken a tie before rounding."""
    table = load_table("iafl-1")
    printed = printed_numbers(table)
    wins = dict.fromkeys(table.columns, 0)
    for dataset, setting in table.rows:
        row = {m: Cell("ipr_accuracy", paper=printed[dataset, setting, m, "ipr_accuracy"]) for m in table.columns}
        for method in best_methods(row, paper=True):
            wins[method] += 1
    assert list(wins.values()) == [10, 12, 7, 3, 24]


def test_one_set_of_runs_serves_five_tables(tmp_path: Path) -> None:
    index = Index(tmp_path)
    only = {"dataset": ["fmnist", "sst"]}
    jobs = [set(missing_jobs(load_table(f"iafl-{k}").wishes(2, only), index)) for k in (1, 2, 4, 5, 6)]
    assert all(job == jobs[0] for job in jobs)
    assert len(jobs[0]) == (5 + 4) * 2 * (5 + 1)  # settings × seeds × (mechanisms and their baseline)


def test_unknown_names(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'iafl-1'"):
        load_table("iafl1")
    for line in (
        ["table", "iafl-1", "--only", "colour=red"],
        ["table", "iafl-1", "--only", "dataset=none"],
        ["figure", "x"],
    ):
        with pytest.raises(SystemExit) as ended:
            main(line)
        assert ended.value.code == 2


def test_run_render_and_resume(own_table: str, own_results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["table", "small", "--plugins", own_table, "--dry-run"])
    assert len(capsys.readouterr().out.splitlines()) == 12  # 2 settings × 2 seeds × (2 mechanisms + baseline)
    main(["table", "small", "--plugins", own_table])
    assert capsys.readouterr().out.count("missing") == 8
    main(["table", "small", "--plugins", own_table, "--run", "--seeds", "1"])
    first = capsys.readouterr()
    assert "[6/6 done, 0 running, 0 queued, 0 failed" in first.err and "±–" in first.out
    stamps = {p: p.stat().st_mtime_ns for p in own_results.glob("runs/*/summary.json")}
    main(["table", "small", "--plugins", own_table, "--run"])
    second = capsys.readouterr()
    assert "[6/6 done" in second.err and "2/2" in second.out
    assert all(p.stat().st_mtime_ns == stamp for p, stamp in stamps.items()), "a finished run was repeated"
    assert len(list(own_results.glob("runs/*/summary.json"))) == 12
    for ending in ("md", "csv", "tex"):
        assert (own_results / "tables" / f"small.{ending}").is_file()
    rows = list(csv.DictReader((own_results / "tables" / "small.csv").open()))
    assert len(rows) == 8 and all(row["seeds_done"] == "2" for row in rows)
    one = fedincent.run([*yaml.safe_load(OWN_TABLE)["overrides"], "partition=iid", "mechanism=fedavg_finetune", "seed=0"])
    two = fedincent.run([*yaml.safe_load(OWN_TABLE)["overrides"], "partition=iid", "mechanism=fedavg_finetune", "seed=1"])
    mean = (one.summary["ipr_accuracy"] + two.summary["ipr_accuracy"]) / 2
    assert float(rows[0]["mean"]) == pytest.approx(mean)
    text = (own_results / "tables" / "small.tex").read_text()
    assert r"\toprule" in text and r"\#C=3" in text


def test_a_killed_table_goes_on(
    own_table: str, own_results: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [
        sys.executable,
        "-m",
        "fedincent",
        "table",
        "small",
        "--plugins",
        own_table,
        "--run",
        "--seeds",
        "1",
        "--jobs",
        "1",
    ]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True)
    while len(list(own_results.glob("runs/*/summary.json"))) < 2:
        assert process.poll() is None
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    done = {p: p.read_bytes() for p in own_results.glob("runs/*/summary.json")}
    assert 2 <= len(done) < 6
    main(["table", "small", "--plugins", own_table, "--run", "--seeds", "1"])
    assert f"[{6 - len(done)}/{6 - len(done)} done" in capsys.readouterr().err
    assert all(p.read_bytes() == content for p, content in done.items())


def test_a_failed_run_is_listed_with_its_log_and_stops_nobody(
    own_table: str, own_results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(own_table) / "conf" / "table" / "small.yaml"
    content = yaml.safe_load(path.read_text())
    content["columns"]["wild"] = ["mechanism=rank", "mechanism.validation=held_out"]  # there is no held-out data
    path.write_text(yaml.safe_dump(content))
    with pytest.raises(SystemExit) as ended:
        main(["table", "small", "--plugins", own_table, "--run", "--seeds", "1"])
    printed = capsys.readouterr()
    assert ended.value.code == 1
    assert printed.err.count("FAILED") == 2 and "held_out=0" in printed.err and "log: " in printed.err
    assert "2 of 8 runs failed" in printed.err and printed.out.count("missing") == 4


def test_damaged_runs_are_left_out(own_results: Path, tiny: list[str]) -> None:
    path = fedincent.run(tiny).path / "summary.json"
    path.write_text("{half")
    index = Index(own_results)
    assert [damage.name for damage in index.damaged] == [path.parent.name] and len(index.results) == 1


def test_sweeps_as_grids(own_results: Path, tiny: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    main(["run", "-m", *tiny, "mechanism.kappa=0,1", "mechanism.q=0,0.5", "seed=range(0,2)"])
    capsys.readouterr()
    main(["table", "--sweep", "mechanism.kappa", "--sweep", "mechanism.q", "--metric", "accuracy_mean", "dataset=digits"])
    text = capsys.readouterr().out
    assert text.count("(2)") == 4 and "averaged over different" not in text
    files = sorted((own_results / "tables").glob("sweep+accuracy_mean+mechanism.kappa+mechanism.q+dataset=digits.*"))
    assert [path.suffix for path in files] == [".csv", ".md", ".tex"]
    frame = pd.read_csv(files[0])
    runs = Index(own_results).select(["mechanism=iafl", "mechanism.kappa=0", "mechanism.q=0.5"])
    values = [100 * run.summary["accuracy_mean"] for run in runs]
    line = frame[(frame["mechanism.kappa"] == 0) & (frame["mechanism.q"] == 0.5)].iloc[0]
    assert line["mean"] == pytest.approx(np.mean(values)) and line.error == pytest.approx(np.std(values, ddof=1) / 2**0.5)
    main(["table", "--sweep", "mechanism.kappa", "--metric", "accuracy_mean"])
    assert "averaged over different values of mechanism.q" in capsys.readouterr().out
    for line in (["--sweep", "mechanism.nothing"], ["--sweep", "mechanism.kappa", "--metric", "beauty"]):
        with pytest.raises(SystemExit) as ended:
            main(["table", *line])
        assert ended.value.code == 2


RUN_FIGURES = [name for name in sorted(options_of("figure")) if load_figure(name).kind != "study"]


def small_figure(name: str) -> list[str]:
    """Overrides that make a figure's runs take a moment."""
    if name.startswith("fye"):
        static = name in ("fye-2", "fye-12")
        size = ["partition.size=40"] if static else ["stream.per_round=1"]
        return ["dataset=digits", "model=logistic", "rounds=38", "n_clients=30", "per_round=4", "executor=serial", *size]
    few = ["rounds=3", "n_clients=8", "executor=serial"]
    if name.startswith("ipfl"):
        own = ["partition.samples=40", "partition.test_samples=20", "per_round=4", "eval_every=1"]
        return ["dataset=digits", "model=logistic", *few, *own]
    if not name.startswith("incfl"):
        size = ["partition.size=30"] if name.startswith("cgsv") else []
        return ["dataset=digits", "model=logistic", *few, *size]
    few += ["per_round=4", "solo_steps=5", "training.local_steps=2"]
    if name == "incfl-2":
        return few
    data = ["dataset=digits", "model=mlp", "partition=clusters", "experiment=incfl_fmnist"]
    return [*data, *few, "unseen_clients=8", "eval_every=1"]


@pytest.mark.parametrize("name", RUN_FIGURES)
def test_figures_on_digits(name: str, own_results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = small_figure(name)
    with pytest.raises(SystemExit) as ended:
        main(["figure", name, *small])
    assert ended.value.code == 2 and "--run does them" in capsys.readouterr().err
    for wish in load_figure(name).wishes(small):
        run(wish.config)
    main(["figure", name, *small])
    for ending, start in (("png", b"\x89PNG"), ("svg", b"<?xml")):
        assert (own_results / "figures" / f"{name}.{ending}").read_bytes().startswith(start)


def test_a_figure_does_the_runs_it_needs(own_results: Path) -> None:
    main(["figure", "iafl-3", "--run", *small_figure("iafl-3")])
    assert (own_results / "figures" / "iafl-3.png").is_file()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("rows:", "row:"), "did you mean 'rows'"),
        (("seeds: 2", "seeds: two"), "seeds=two: must be a whole number"),
        (("[ipr_accuracy, pearson]", "[ipr_acuracy]"), "did you mean 'ipr_accuracy'"),
        (("paper: null", "paper: none.csv"), "no such file of printed numbers"),
        (("classes_3:", "clases_3:"), "must be a partition"),
        (("mechanism=iafl,", "mechanism=ialf,"), "did you mean 'iafl'"),
    ],
)
def test_a_mistake_in_a_table_is_named(
    change: tuple[str, str], words: str, own_table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(own_table) / "conf" / "table" / "small.yaml"
    text = path.read_text()
    assert change[0] in text
    path.write_text(text.replace(*change))
    with pytest.raises(SystemExit) as ended:
        main(["table", "small", "--plugins", own_table, "--dry-run"])
    assert ended.value.code == 2
    assert re.search(words, capsys.readouterr().err)


def test_printed_commands_know_the_plugins(own_table: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["table", "small", "--plugins", own_table, "--dry-run"])
    captured = capsys.readouterr()
    assert all(line.startswith(f"fedincent run --plugins {own_table}") for line in captured.out.splitlines())
    assert "12 runs to do" in captured.err and "the runs that others build on among them (4)" in captured.err


def test_agreement_by_the_spread_of_the_row() -> None:
    """Print differs by 0.8 between methods: four points off is no agreement."""
    paper = Printed(93.0, None)
    cell = Cell("preferred_own", ours=[95.0], paper=paper, spread=0.4)
    assert cell.agrees is False and Cell("preferred_own", ours=[93.3], paper=paper, spread=0.4).agrees
    assert Cell("preferred_own", ours=[95.0], paper=paper).agrees  # the plain tolerance


def test_a_printed_deviation_is_no_error() -> None:
    tables = {name: printed_numbers(load_table(name)) for name in ("incfl-1", "iafl-1")}
    with paper_file("incfl_table1.csv").open() as file:
        row = next(csv.DictReader(file))
    found = tables["incfl-1"][row["dataset"], row["setting"], row["method"], row["metric"]]
    assert found.error == pytest.approx(float(row["error"]) / 3**0.5)


def test_conditions_of_one_data_set() -> None:
    table = load_table("cgsv-1")
    assert "partition.size=600" in table.line("cifar10_10", "cla", "dw")
    assert "partition.size=2000" in table.line("cifar10_10", "uni", "dw")
    fye = load_table("fye-1")
    assert "disturbance=sign_flip" in fye.line("electricity_load", "feature_noise", "fye")
    assert fye.metric_at("electricity", "online_accuracy_mean") == "online_mape_mean"


def test_small_numbers_are_readable() -> None:
    cell = Cell("std_online_accuracy", ours=[0.00042, 0.00044], paper=Printed(0.0022, 3e-4))
    assert ours_text(cell, best=False).startswith("4.3e-04 ±1e-05") and paper_text(cell) == "2.2e-03 ±3e-04"
    share = Cell("online_accuracy_mean", ours=[0.6114], unit=1)
    assert ours_text(share, best=False) == "0.611 ±–"


FIGURE = """
title: mine
kind: scatter
overrides: [n_clients=4, rounds=2, model=logistic]
panels: {one: []}
"""


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("kind: scatter", "kind: scater"), "must be one of curves, scatter"),
        (("panels:", "panel:"), "did you mean 'panels'"),
        (("title: mine", ""), "title=is missing|title: is missing|is missing"),
        (("{one: []}", "one"), "cannot be 'one'"),
        (("kind: scatter", "kind: trace"), "columns"),
        (("kind: scatter", "kind: study\nstudy: os.system\noptions: {command: 'touch hacked'}"), "must be MODULE.FUNCTION"),
        (("kind: scatter", "kind: study\nstudy: mystudy.nothing"), "cannot be imported"),
    ],
)
def test_a_mistake_in_a_figure_is_named(change: tuple[str, str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("mine/conf/figure").mkdir(parents=True)
    Path("mine/mystudy.py").write_text("def numbers():\n    raise SystemExit\n")
    Path("mine/conf/figure/own.yaml").write_text(FIGURE.replace(*change))
    with pytest.raises(SystemExit) as ended:
        main(["figure", "own", "--plugins", "mine", "--run"])
    assert ended.value.code == 2 and re.search(words, capsys.readouterr().err)
    assert not Path("hacked").exists() and not Path("results").exists()


def test_a_star_needs_as_many_seeds_as_its_rivals() -> None:
    row = {"a": Cell("pearson", ours=[0.9]), "b": Cell("pearson", ours=[0.8, 0.8]), "c": Cell("pearson", ours=[0.7, 0.7])}
    assert best_methods(row, paper=False) == ["b"]


def test_several_values_without_a_sweep(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["run", "mechanism=iafl,cgsv"])
    assert "mechanism=iafl,cgsv: several values are a sweep: fedincent run -m" in capsys.readouterr().err
