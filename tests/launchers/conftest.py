"""A table of digits whose runs take some seconds each."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

SMALL = """
# a small table
title: "A small table"
paper: null
metrics: [ipr_accuracy, pearson]
seeds: 2
overrides: [n_clients=5, rounds=40, model=logistic, checkpoint_every=0.2]
rows: {iid: [digits], classes_3: [digits]}
columns:
  fedavg_finetune: [mechanism=fedavg_finetune]
  iafl: [mechanism=iafl, mechanism.kappa=0]
"""


@pytest.fixture
def small_table(tmp_path: Path) -> str:
    """A folder of plugins with a table `small`: 12 runs with both seeds, baselines included."""
    folder = tmp_path / "plugins"
    (folder / "conf" / "table").mkdir(parents=True)
    (folder / "conf" / "table" / "small.yaml").write_text(SMALL)
    return str(folder)


def table_command(plugins: str, results: Path, seeds: int = 1, *more: str) -> list[str]:
    """The command that runs the table: 6 runs for each seed."""
    options = ["--plugins", plugins, "--results", str(results), "--run", "--seeds", str(seeds)]
    return [sys.executable, "-m", "fedincent", "table", "small", *options, *more]
