"""Fixtures: small real data (the embedded digits), a cache and a results folder of the tests' own."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from fedincent.contributions import Baseline, Contribution
from fedincent.federation import Federation, Layout, Round, Streams

ROOT = Path(__file__).resolve().parent.parent


signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it, and so would our children


@pytest.fixture(scope="session", autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Keep the tests out of the user's cache and free of the user's settings."""
    os.environ["FEDINCENT_CACHE"] = str(tmp_path_factory.mktemp("cache"))
    for name in ("FEDINCENT_DATA", "FEDINCENT_PLUGINS", "FEDINCENT_RESULTS"):
        os.environ.pop(name, None)


@pytest.fixture(autouse=True)
def own_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Every test works in a folder of its own and stores its results there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FEDINCENT_RESULTS", str(tmp_path / "results"))
    monkeypatch.setenv("FEDINCENT_PLUGINS", "")  # and so taken back after a test whose command line sets it
    return tmp_path / "results"


REAL_DATA = os.environ.get("FEDINCENT_DATA") or str(ROOT.parent / "shared" / "data")


@pytest.fixture
def real_data() -> Path:
    """A folder of real data sets; a test that needs it says that it was not run where there is none."""
    folder = Path(REAL_DATA)
    if not folder.is_dir():
        pytest.skip(f"not run: no real data sets in {folder} (set FEDINCENT_DATA)")
    return folder


TINY = ["n_clients=6", "rounds=3", "model=logistic", "checkpoint_every=0"]


@pytest.fixture
def tiny() -> list[str]:
    """Overrides of a run that takes a second."""
    return list(TINY)


class GivenContribution(Contribution):
    """Contributions as a test states them."""

    def __init__(self, values: list[float]) -> None:
        self.values = torch.tensor(values, dtype=torch.float64)


@pytest.fixture
def make_federation() -> Callable[..., Federation]:
    """A federation of N clients over a small linear model, with stated contributions and judge."""

    def make(n: int, contribution: list[float] | None = None, seed: int = 0, module: torch.nn.Module | None = None, **more):  # type: ignore[no-untyped-def]
        torch.manual_seed(seed)
        module = module or torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Linear(3, 2))
        layout = Layout(module)
        return Federation(
            initial=layout.flatten(module),
            layout=layout,
            sizes=torch.tensor(more.get("sizes", [10] * n)),
            participation=torch.ones(n, dtype=torch.float64),
            streams=Streams(seed),
            contribution=GivenContribution(contribution or [1.0] * n),
            judge=more.get("judge"),
        )

    return make


@pytest.fixture
def make_round() -> Callable[..., Round]:
    """A round in which the stated clients joined."""

    def make(joined: list[bool], index: int = 0, seed: int = 0) -> Round:
        losses = torch.zeros(len(joined))
        return Round(index, 0.1, Streams(seed), torch.tensor(joined), losses, losses.clone())

    return make


def baseline(accuracy: list[float]) -> Baseline:
    """A standalone baseline with the stated accuracies."""
    values = torch.tensor(accuracy, dtype=torch.float64)
    return Baseline(values, 1 - values, torch.zeros(0))


def random_updates(n: int, dim: int, seed: int = 0) -> torch.Tensor:
    """G (N×D) of standard normal numbers."""
    return torch.from_numpy(np.random.default_rng(seed).standard_normal((n, dim)).astype(np.float32))


OWN_TABLE = """
# a small table of one's own
title: "A small table"
paper: null
metrics: [ipr_accuracy, pearson]
seeds: 2
overrides: [n_clients=5, rounds=3, model=logistic, checkpoint_every=0]
rows: {iid: [digits], classes_3: [digits]}
columns:
  fedavg_finetune: [mechanism=fedavg_finetune]
  iafl: [mechanism=iafl, mechanism.kappa=0]
"""


@pytest.fixture
def own_table(tmp_path: Path) -> str:
    """A folder of plugins with a table `small`."""
    folder = tmp_path / "plugins"
    (folder / "conf" / "table").mkdir(parents=True)
    (folder / "conf" / "table" / "small.yaml").write_text(OWN_TABLE)
    return str(folder)
