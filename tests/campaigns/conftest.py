"""A table of digits whose runs take some seconds each."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest


@pytest.fixture
def small_table(own_table: str) -> str:
    """The folder of plugins with the table `small`, its runs made longer: 12 with both seeds, baselines included."""
    path = Path(own_table) / "conf" / "table" / "small.yaml"
    path.write_text(path.read_text().replace("rounds=3", "rounds=40").replace("checkpoint_every=0", "checkpoint_every=0.2"))
    return own_table


def table_command(plugins: str, results: Path, seeds: int = 1, *more: str) -> list[str]:
    """The command that runs the table: 6 runs for each seed."""
    options = ["--plugins", plugins, "--results", str(results), "--run", "--seeds", str(seeds)]
    return [sys.executable, "-m", "fedincent", "table", "small", *options, *more]
