"""Composing configurations: paper values, overrides, and errors that a user can act on."""

from __future__ import annotations

import dataclasses
import pickle
from pathlib import Path

import pytest
import yaml

from fedincent.campaigns.sweep import check
from fedincent.config.compose import COMPONENTS, compose
from fedincent.config.groups import conf_folder, options_of
from fedincent.errors import ConfigError


@pytest.mark.parametrize(
    ("dataset", "rounds", "lr", "model", "augment"),
    [
        ("mnist", 50, 0.01, "cnn", "none"),
        ("fmnist", 50, 0.001, "cnn", "none"),
        ("svhn", 50, 0.001, "cnn", "none"),
        ("cifar10", 100, 0.001, "cnn", "crop_flip"),
        ("cifar100", 100, 0.001, "cnn", "crop_flip"),
        ("sst", 100, 0.001, "lstm", "none"),
    ],
)
def test_recipes_are_the_papers(dataset: str, rounds: int, lr: float, model: str, augment: str) -> None:
    config = compose([f"dataset={dataset}"])
    recipe = config.training
    assert (config.rounds, recipe.lr, config.choices["model"], recipe.augment) == (rounds, lr, model, augment)
    assert (recipe.optimizer, recipe.batch_size, recipe.decay, recipe.local_epochs) == ("adam", 64, 0.977, 1)
    assert (config.n_clients, config.partition.min_size) == (50, 10)
    assert recipe.rate(0) == lr and recipe.rate(2) == pytest.approx(lr * 0.977**2)


@pytest.mark.parametrize(("dataset", "gamma"), [("mnist", 0.5), ("cifar10", 0.15), ("cifar100", 0.15), ("sst", 1.0)])
def test_cgsv_norm_follows_the_data_set(dataset: str, gamma: float) -> None:
    assert compose([f"dataset={dataset}", "mechanism=cgsv"]).mechanism.gamma == gamma  # type: ignore[attr-defined]


def test_command_line_wins_over_the_data_set() -> None:
    config = compose(["dataset=sst", "model=lstm", "rounds=7", "training.lr=0.5", "partition.min_size=3"])
    assert (config.rounds, config.training.lr, config.partition.min_size) == (7, 0.5, 3)


BAD = [
    ("mechanism=ialf", "mechanism=ialf", "did you mean 'iafl'"),
    ("dataset=cifar", "dataset=cifar", "cifar10"),
    ("sed=3", "sed=3", "did you mean 'seed'"),
    ("partition.bta=1", "partition.bta=1", "did you mean 'beta'"),
    ("partition.k=3", "partition.k=3", "no such field of partition=dirichlet"),
    ("training.learning=1", "training.learning=1", "batch_size"),
    ("mechanism.kappa=1.5", "mechanism.kappa=1.5", "≤ 1"),
    ("mechanism.kappa=big", "mechanism.kappa=big", "a number"),
    ("mechanism.reference=mean", "mechanism.reference=mean", "max, median"),
    ("n_clients=0", "n_clients=0", "≥ 1"),
    ("training.batch_size=0", "training.batch_size=0", "≥ 1"),
    ("device=tpu", "device=tpu", "auto, cpu, cuda"),
    ("participation=0", "participation=0", "> 0"),
    ("seed=-1", "seed=-1", "≥ 0"),
    ("nonsense", "nonsense", "NAME=VALUE"),
    ("dataset=sst model.hiden=3", "model.hiden=3", "did you mean 'hidden'"),
]


@pytest.mark.parametrize(("line", "start", "words"), BAD, ids=[b[0] for b in BAD])
def test_errors_name_the_field_the_value_and_what_is_allowed(line: str, start: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        compose(line.split())
    message = str(caught.value)
    assert start in message and words in message
    assert len(message.splitlines()) <= 2


def test_a_sweep_finds_its_last_typo_before_the_first_run() -> None:
    with pytest.raises(ConfigError, match=r"mechanism\.kappa=7"):
        check(["mechanism.kappa=0,0.5,7", "seed=range(0,3)"])
    check(["mechanism=iafl,fedavg_finetune", "seed=range(0,3)"])


@pytest.mark.parametrize("group", sorted(COMPONENTS))
def test_every_choice_composes_and_says_what_it_is(group: str) -> None:
    for name, line in options_of(group).items():
        assert line, f"{group}/{name}.yaml begins with no comment that describes it"
        component = getattr(compose([f"{group}={name}"]), group)
        assert component.group == group
        for field in dataclasses.fields(component):
            assert field.metadata.get("help"), f"{group}={name}: {field.name} is not documented"


def test_every_yaml_file_is_read_by_something() -> None:
    known = {*COMPONENTS, "experiment", "table", "figure", "launcher", "game", "stability"}
    assert {path.parent.name for path in conf_folder().rglob("*.yaml")} - {"conf"} <= known


def test_plugins_bring_ones_own_mechanism(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "conf" / "mechanism").mkdir(parents=True)
    (tmp_path / "my_own.py").write_text(
        "from dataclasses import dataclass\nfrom fedincent.mechanisms.standalone import Standalone\n"
        "@dataclass(kw_only=True)\nclass Mine(Standalone):\n    'Mine.'\n"
    )
    text = "# my own\n_target_: my_own.Mine\n"
    (tmp_path / "conf" / "mechanism" / "mine.yaml").write_text(text)
    monkeypatch.setenv("FEDINCENT_PLUGINS", str(tmp_path))
    assert type(compose(["mechanism=mine"]).mechanism).__name__ == "Mine"
    assert options_of("mechanism")["mine"] == "my own"
    assert yaml.safe_load(text)["_target_"] == "my_own.Mine"
    monkeypatch.setenv("FEDINCENT_PLUGINS", str(tmp_path / "nowhere"))
    with pytest.raises(ConfigError, match="no such folder"):
        compose(["mechanism=mine"])


def test_an_error_comes_back_from_another_process() -> None:
    error = pickle.loads(pickle.dumps(ConfigError("seed", -1, "must be ≥ 0")))
    assert str(error) == "seed=-1: must be ≥ 0" and error.field == "seed"
