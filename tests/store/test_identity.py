"""What a run is: change each field there is, and either its key changes or its numbers do not."""

from __future__ import annotations

import copy
import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fedincent.campaigns.plan import Wish, missing_jobs
from fedincent.cli import main
from fedincent.config.compose import COMPONENTS, compose, from_values, line_of
from fedincent.config.groups import conf_folder, options_of
from fedincent.config.references import references
from fedincent.config.run import Config
from fedincent.config.schema import Component, hint_of
from fedincent.datasets import load
from fedincent.errors import ConfigError, DataError
from fedincent.runs.runner import run
from fedincent.runs.view import View
from fedincent.store.identity import key_of_config
from fedincent.store.index import Index
from fedincent.store.result import Result

BASE = ["n_clients=6", "rounds=2", "model=logistic", "executor=serial", "mechanism=fedavg", "mechanism.weighting=equal"]
CHOICES = [(group, choice) for group in COMPONENTS for choice in options_of(group)]
NUMBERS = ("clients.csv", "rounds.csv", "partition.csv")


def other_value(owner: type, field: dataclasses.Field, value: Any) -> Any:
    """Another value that the field allows."""
    limits, hint = field.metadata, str(hint_of(owner, field.name))
    if limits.get("choices"):
        return next(choice for choice in limits["choices"] if choice != value)
    if isinstance(value, bool):
        return not value
    if hint.startswith("tuple[tuple"):
        return [[0], [1]]
    if isinstance(value, tuple | list):
        return [*value, (value or [1])[-1]]
    if isinstance(value, int | float):
        step = 1 if isinstance(value, int) else 0.01
        top = limits.get("high") if limits.get("high") is not None else limits.get("below")
        return value + step if top is None or value + step < top else value - step
    if isinstance(value, str):
        return f"{value}x"
    if isinstance(value, dict):
        return {**value, "x": 1}
    return 3 if "int" in hint else 0.5 if "float" in hint else "x"


def with_value(config: Config, place: list[str], value: Any) -> Config:
    """The same configuration with one field changed."""
    raw = copy.deepcopy(config.raw)
    node = raw
    for name in place[:-1]:
        node = node[name]
    node[place[-1]] = value
    return from_values(raw, config.choices)


def fields_of(part: Any) -> list[dataclasses.Field]:
    """The fields of a component, or of the whole, that hold plain values."""
    return [field for field in dataclasses.fields(part) if "help" in field.metadata]


def unnoticed(config: Config, where: str) -> list[str]:
    """The fields of one part of a configuration (or of its top) that can change without its key."""
    part = getattr(config, where) if where else config
    found = []
    for field in fields_of(part):
        place = [*([where] if where else []), field.name]
        value = other_value(type(part), field, getattr(part, field.name))
        if key_of_config(with_value(config, place, value)) == key_of_config(config):
            found.append(".".join(place))
    return found


CANNOT_CHANGE_NUMBERS = {
    *("executor.workers", "executor.chunk", "logger.project", "logger.entity", "logger.mode", "logger.folder"),
    *("eval_every", "device", "force", "results_dir", "checkpoint_every", "keep_checkpoint", "hints"),
    "dataset.root",  # what lies there is told by its fingerprint
}


@pytest.mark.parametrize(("group", "choice"), CHOICES)
def test_every_field_of_a_component_is_in_the_key(group: str, choice: str) -> None:
    config = compose([*BASE[:2], f"{group}={choice}"])
    wanted = {"dataset.file"} if group == "dataset" and choice in ("npz", "csv", "sent140", "sent140_vectors") else set()
    if group in ("executor", "logger"):
        assert set(unnoticed(config, group)) <= CANNOT_CHANGE_NUMBERS
    elif wanted or (group == "model" and hasattr(config.model, "vectors")):
        with pytest.raises((ConfigError, DataError), match="no such file"):
            unnoticed(config, group)  # what counts of a file is its content
    else:
        assert set(unnoticed(config, group)) <= CANNOT_CHANGE_NUMBERS


@pytest.mark.parametrize("where", ["", "training", "stream"])
@pytest.mark.parametrize("mechanism", ["iafl", "fedavg", "standalone"])
def test_every_other_field_is_in_the_key_or_changes_nothing(mechanism: str, where: str, tmp_path: Path) -> None:
    config = compose(["n_clients=6", "rounds=2", "model=logistic", "executor=serial", f"mechanism={mechanism}"])
    plain = numbers(run(config, View()))
    for name in set(unnoticed(config, where)) - {"results_dir"}:
        place = name.split(".")
        field = next(field for field in fields_of(getattr(config, where) if where else config) if field.name == place[-1])
        value = other_value(type(getattr(config, where) if where else config), field, at(config, place))
        other = with_value(with_value(config, place, value), ["results_dir"], str(tmp_path / name))
        if name == "device" and value == "cuda":
            continue
        found = numbers(run(other, View()))
        if name == "eval_every":  # more columns of rounds.csv
            found["rounds.csv"] = plain["rounds.csv"]
        assert found == plain, name


@pytest.mark.parametrize("group", ["mechanism", "contribution", "behaviour", "logger", "executor"])
def test_choices_that_standalone_training_does_not_name_change_nothing(group: str, tmp_path: Path) -> None:
    line = ["n_clients=6", "rounds=2", "model=logistic", "held_out=0.1", "mechanism=standalone"]
    config = compose(line)
    plain = numbers(run(config, View()))
    for choice in options_of(group):
        other = compose([*line, f"{group}={choice}", f"results_dir={tmp_path / choice}"])
        if key_of_config(other) == key_of_config(config) and choice != "wandb":
            assert numbers(run(other, View())) == plain, choice


def at(config: Config, place: list[str]) -> Any:
    """A field's value."""
    value: Any = config
    for name in place:
        value = getattr(value, name)
    return value


def numbers(result: Result) -> dict[str, bytes | None]:
    """The files in which a run's numbers are."""
    return {name: result.read(name) for name in NUMBERS}


def write_npz(path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(90, 5)).astype(np.float32), rng.integers(0, 3, 90)
    np.savez(path, x_train=x[:60], y_train=y[:60], x_test=x[60:], y_test=y[60:])


NPZ = (
    "-m launcher=local --jobs 2 dataset=npz model=logistic partition=iid partition.min_size=2 n_clients=3 rounds=2 "
    "keep_checkpoint=false"
)


def test_a_sweep_over_two_files_is_two_runs(capsys: pytest.CaptureFixture[str], own_results: Path) -> None:
    for name, seed in (("a", 0), ("b", 1)):
        write_npz(Path(f"{name}.npz"), seed)
    main(["run", *NPZ.split(), "dataset.file=a.npz,b.npz"])
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("dataset=npz")]
    assert len(lines) == 2 and lines[0].split("IPR")[1] != lines[1].split("IPR")[1]
    index = Index(own_results)
    found = {name: index.find(compose([*NPZ.split()[4:], f"dataset.file={name}.npz"])) for name in "ab"}
    assert found["a"] is not None and found["b"] is not None and found["a"].name != found["b"].name
    main(["table", "--sweep", "dataset.file", "--metric", "accuracy_mean"])
    out = capsys.readouterr().out
    assert "a.npz" in out and "b.npz" in out and out.count("(1)") == 2
    write_npz(Path("a.npz"), 2)  # the same name, other content
    assert index.find(compose([*NPZ.split()[4:], "dataset.file=a.npz"])) is None


def test_a_sweep_over_a_field_of_the_data(capsys: pytest.CaptureFixture[str], own_results: Path) -> None:
    words = "model=logistic n_clients=4 rounds=2 keep_checkpoint=false"
    main(["run", "-m", "launcher=local", *words.split(), "dataset.size=8,12,16"])
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("model=logistic")]
    assert len({line.split("IPR")[1] for line in lines}) > 1
    assert len(Index(own_results).results) == 6  # three, and their standalone runs
    main(["status"])
    assert "6 finished" in capsys.readouterr().out
    main(["table", "--sweep", "dataset.size", "--metric", "accuracy_mean"])
    assert [line.split()[1] for line in capsys.readouterr().out.splitlines() if "(1)" in line] == ["8", "12", "16"]


def test_a_table_of_two_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name, seed in (("a", 0), ("b", 1)):
        write_npz(Path(f"{name}.npz"), seed)
    (tmp_path / "mine/conf/table").mkdir(parents=True)
    (tmp_path / "mine/conf/table/two.yaml").write_text(
        "title: two files\npaper: null\nmetrics: [accuracy_mean]\nseeds: 1\n"
        "overrides: [model=logistic, n_clients=3, rounds=2, partition.min_size=2]\nrows: {iid: [first, second]}\n"
        "datasets: {first: [dataset=npz, dataset.file=a.npz], second: [dataset=npz, dataset.file=b.npz]}\n"
        "columns: {fedavg: [mechanism=fedavg]}\n"
    )
    main(["table", "two", "--plugins", "mine", "--run"])
    capsys.readouterr()
    for name in "ab":  # as found by chance: a direct run afterwards must not turn a cell into a mean over both
        words = "dataset=npz model=logistic n_clients=3 rounds=2 partition=iid partition.min_size=2 mechanism=fedavg"
        main(["run", *words.split(), f"dataset.file={name}.npz"])
    assert capsys.readouterr().err.count("found finished") == 2
    main(["table", "two", "--plugins", "mine"])
    csv = [line.split(",") for line in Path("results/tables/two.csv").read_text().splitlines()[1:]]
    wanted = [100 * r.summary["accuracy_mean"] for r in Index(Path("results")).select(["mechanism=fedavg"])]
    assert sorted(float(line[4]) for line in csv) == pytest.approx(sorted(wanted)) and len(csv) == 2


def test_files_of_ones_own_under_a_known_name_are_not_mixed(tmp_path: Path, own_results: Path) -> None:
    """digits.npz below two data roots: two data sets of one name; a table takes the runs on the one that is here."""
    words = ["dataset=digits", "model=logistic", "n_clients=3", "rounds=1", "mechanism=fedavg", "reference=none"]
    for name, seed in (("one", 0), ("two", 1)):
        (tmp_path / name).mkdir()
        write_npz(tmp_path / name / "digits.npz", seed)
        for run_seed in range(1 + seed):
            run(compose([*words, f"dataset.root={tmp_path / name}", f"seed={run_seed}"]), View())
    index = Index(own_results)
    assert len(index.results) == 3
    one, two, elsewhere = (
        index_of(own_results).find(compose([*words, *root]))
        for root in ([f"dataset.root={tmp_path / 'one'}"], [f"dataset.root={tmp_path / 'two'}"], [])
    )
    assert one is not None and two is not None and elsewhere is not None
    assert one.name != two.name == elsewhere.name  # where neither is here, the one with more runs counts
    assert index_of(own_results).find(compose([*words, f"dataset.root={tmp_path / 'one'}", "seed=1"])) is None


def index_of(folder: Path) -> Index:
    return Index(folder)


def test_plugins_of_the_same_name_are_not_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "from fedincent.mechanisms.fedavg import FedAvg as Base\n\n\nclass FedAvg(Base):\n    factor = 1\n"
    ours = compose(["mechanism=fedavg"])
    names = []
    for factor in (1, 2):
        module = f"theirs_{factor}"
        (tmp_path / f"{module}.py").write_text(code.replace("= 1", f"= {factor}"))
        monkeypatch.syspath_prepend(tmp_path)
        raw = copy.deepcopy(ours.raw)
        raw["mechanism"]["_target_"] = f"{module}.FedAvg"
        names.append(key_of_config(from_values(raw, ours.choices)))
    assert len({*names, key_of_config(ours)}) == 3


def test_a_vectorized_run_is_another(own_results: Path) -> None:
    lines = [[*BASE[:3], *BASE[4:], f"executor={name}"] for name in ("serial", "vectorized")]
    run(compose(lines[0]), View())
    jobs = missing_jobs([Wish(line, compose(line)) for line in lines], Index(own_results))
    assert len(jobs) == 2 and all("executor=vectorized" in job.overrides for job in jobs.values())  # and its reference
    run(compose(lines[1]), View())
    index = Index(own_results)
    assert not missing_jobs([Wish(line, compose(line)) for line in lines], index)
    found = [index.find(compose(line)) for line in lines]
    assert [result.summary["identity"]["numerics"] for result in found if result] == ["exact", "vectorized"]


@pytest.mark.parametrize("experiment", sorted(options_of("experiment")))
def test_a_references_line_means_the_reference(experiment: str) -> None:
    """Made from the configuration, whatever an experiment's file set."""
    example = (conf_folder() / "experiment" / f"{experiment}.yaml").read_text().splitlines()[1]  # its command
    chosen = [word for word in example.split() if word.startswith(("dataset=", "partition=", "model="))]
    for overrides in ([], ["reference=fedavg"], ["behaviour=zeros", "trace=true"]):
        config = compose([*chosen, f"experiment={experiment}", "mechanism=iafl", "mechanism.kappa=0.3", *overrides])
        for name, other in references(config).items():
            line = line_of(other)
            assert f"mechanism={name}" in line and not any("kappa" in word for word in line)
            assert key_of_config(compose(line)) == key_of_config(other)


def test_a_metric_that_came_later(own_results: Path, tiny: list[str]) -> None:
    """It is made of the stored columns; where they do not hold what it needs, table and plan call the run missing."""
    result = run(compose([*tiny, "mechanism=fedavg"]), View())
    path = result.path / "summary.json"
    summary = json.loads(path.read_text())
    kept = summary.pop("accuracy_max")
    path.write_text(json.dumps({**summary, "metrics_known": "older"}))
    found = Index(own_results).find(compose([*tiny, "mechanism=fedavg"]))
    assert found is not None and found.value("accuracy_max") == kept
    wish = Wish([*tiny, "mechanism=fedavg"], compose([*tiny, "mechanism=fedavg"]), ("accuracy_max",))
    assert not missing_jobs([wish], Index(own_results))
    lacking = wish._replace(metrics=("pearson_importance",))
    (job,) = missing_jobs([lacking], Index(own_results)).values()
    assert job.overrides[-1] == "force=true"
    path.write_text(json.dumps(summary))  # stored when that metric was known: again would not help
    assert not missing_jobs([lacking], Index(own_results))


def test_a_component_from_elsewhere_keeps_its_fields() -> None:
    @dataclasses.dataclass(kw_only=True)
    class Elsewhere(Component):
        pass

    assert set(Elsewhere().identity()) == {"class", "code", "version"}


def test_another_way_of_training_alone_is_another_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    code = "from fedincent.mechanisms.standalone import Standalone\n\n\nclass Half(Standalone):\n    pass\n"
    (tmp_path / "halfway.py").write_text(code)
    monkeypatch.syspath_prepend(tmp_path)
    ours = compose(["mechanism=standalone"])
    raw = {**ours.raw, "mechanism": {"_target_": "halfway.Half"}}
    assert key_of_config(from_values(raw, ours.choices)) != key_of_config(ours)


def test_what_the_arrays_do_not_show_counts_too(tmp_path: Path) -> None:
    """Two files with the same tokens, of 16 words and of 5,000; two lists of the same tweets by other users."""
    x, y = np.arange(40).reshape(10, 4) % 7, np.arange(10) % 2
    for name, words in (("a", 16), ("b", 5000)):
        np.savez(f"{name}.npz", x_train=x, y_train=y, x_test=x, y_test=y, vocabulary=words)
    prints = [load(compose(["dataset=npz", f"dataset.file={name}.npz"]).dataset).fingerprint for name in "ab"]
    assert prints[0] != prints[1]
    for name, users in (("c", 2), ("d", 5)):
        lines = [f'"{4 * (k % 2)}","{k}","d","q","u{k % users}","good day {k % 3}"' for k in range(40)]
        Path(f"{name}.csv").write_text("\n".join(lines))
    prints = [load(compose(["dataset=sent140", f"dataset.file={name}.csv"]).dataset).fingerprint for name in "cd"]
    assert prints[0] != prints[1]


def test_a_file_that_changes_while_it_is_run_on(own_results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fedincent.runs.session import Session

    write_npz(Path("a.npz"), 0)
    line = [*NPZ.split()[4:], "dataset.file=a.npz", "mechanism=fedavg", "reference=none", "executor=serial"]
    before = load(compose(line).dataset).fingerprint
    play = Session.play

    def changed(self):  # type: ignore[no-untyped-def]
        write_npz(Path("a.npz"), 1)
        return play(self)

    monkeypatch.setattr(Session, "play", changed)
    result = run(compose(line), View())
    assert result.summary["dataset"]["data"] == result.summary["identity"]["data"] == before


def test_force_and_finer_curves_reach_the_plan(own_results: Path, tiny: list[str]) -> None:
    def planned(*lines: list[str]) -> list[list[str]]:
        wishes = [Wish([*tiny, *line], compose([*tiny, *line])) for line in lines]
        return [
            job.overrides for job in missing_jobs(wishes, Index(own_results)).values() if "mechanism=fedavg" in job.overrides
        ]

    (job,) = planned(["mechanism=fedavg"], ["mechanism=fedavg", "eval_every=1"])
    assert "eval_every=1" in job
    run(compose([*tiny, "mechanism=fedavg"]), View())
    assert not planned(["mechanism=fedavg"])
    assert len(planned(["mechanism=fedavg", "force=true"])) == 1


def test_a_damaged_reference_is_made_anew(own_results: Path, tiny: list[str]) -> None:
    alone = run(compose([*tiny, "mechanism=standalone"]), View())
    (alone.path / "summary.json").write_text("{half")
    assert run(compose([*tiny, "mechanism=fedavg"]), View()).summary["accuracy_gain"] is not None
    assert not Index(own_results).damaged
