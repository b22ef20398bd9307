"""fedincent: a benchmark for incentives in federated learning.

>>> import fedincent
>>> result = fedincent.run(["mechanism=iafl", "dataset=digits", "seed=3"])
>>> result.summary["pearson"], result.clients.head()
>>> fedincent.load_runs("mechanism=iafl")          # everything that is stored, as a data frame
>>> fedincent.table("iafl-1"), fedincent.figure("cgsv-1")
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fedincent.version import __version__

if TYPE_CHECKING:
    import pandas as pd

    from fedincent.results.notebook import ShownFigure, ShownTable
    from fedincent.store.result import Result

__all__ = ["__version__", "figure", "load_runs", "run", "table"]


def run(overrides: Sequence[str] = (), plugins: str | Path | None = None) -> Result:
    """Carry out one run, or find it finished, and return its result with data frames.

    overrides: Hydra overrides as on the command line, e.g. ["mechanism=iafl", "seed=3"]; plugins: a folder of one's own
    mechanisms, data sets and so on, which counts from then on.
    """
    from fedincent.config.compose import compose  # torch loads here, so that `import fedincent` is instant
    from fedincent.runs.runner import run as run_config

    use(plugins)
    return run_config(compose(overrides))


def load_runs(*filters: str, results: str | Path | None = None) -> pd.DataFrame:
    """A data frame of the stored runs, one's own and published ones: choices, seed and metrics, a line for each run.

    filters: NAME=VALUE[,VALUE…] of any field or choice, or a part of a run's name; a run must pass all of them. Runs of the
    published audits are left out, unless a filter names a behaviour.
    """
    from fedincent.errors import ConfigError
    from fedincent.results.notebook import runs_frame

    if results is not None and not Path(results).expanduser().is_dir():
        raise ConfigError("results", results, "no such folder")
    return runs_frame(filters, folder_of(results))


def table(
    name: str,
    overrides: Sequence[str] = (),
    *,
    only: Mapping[str, Sequence[str]] | None = None,
    seeds: int | None = None,
    results: str | Path | None = None,
    plugins: str | Path | None = None,
) -> ShownTable:
    """A paper's table as far as its runs are stored; a notebook shows it, `.frame` has its cells.

    only: {"dataset": ["fmnist"], "mechanism": ["iafl", "cgsv"]} keeps a part of it.
    """
    from fedincent.results.notebook import shown_table

    use(plugins)
    shown: ShownTable = shown_table(name, overrides, only or {}, seeds, folder_of(results))
    return shown


def figure(
    name: str, overrides: Sequence[str] = (), *, results: str | Path | None = None, plugins: str | Path | None = None
) -> ShownFigure:
    """A paper's figure, drawn from stored runs; a notebook shows it, `.paths` are its files."""
    from fedincent.results.notebook import shown_figure

    use(plugins)
    return shown_figure(name, overrides, folder_of(results))


def use(plugins: str | Path | None) -> None:
    """Let a folder of plug-ins count from now on."""
    if plugins is not None:
        os.environ["FEDINCENT_PLUGINS"] = str(Path(plugins).expanduser().resolve())


def folder_of(results: str | Path | None) -> Path:
    """Where the results are."""
    return Path(results or os.environ.get("FEDINCENT_RESULTS") or "results").expanduser()
