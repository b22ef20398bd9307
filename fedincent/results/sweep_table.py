"""A grid of any metric over one or two fields, from whatever runs are stored."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from fedincent.config.compose import flat
from fedincent.errors import ConfigError, FedincentError
from fedincent.evaluation.metrics import METRICS, known, metric_of
from fedincent.store.index import Index


def sweep_grid(results_dir: Path, fields: Sequence[str], metric: str, filters: Sequence[str]) -> None:
    """Print mean ± standard error of a metric for each value of one or two fields, over all runs that pass the filters."""
    if not known(metric):
        raise ConfigError("--metric", metric, f"must be one of {', '.join(METRICS)}, or such a one with _tuned")
    groups: dict[tuple[str, ...], list[float | None]] = {}
    varying: dict[str, set[str]] = {}
    for result in Index(results_dir).select(filters):
        try:
            config = flat(result.config) | result.summary["choices"]
        except FedincentError:
            continue
        if all(name in config for name in fields) and config["mechanism"] != "standalone":
            try:
                value = result.value(metric)
            except KeyError:
                continue
            groups.setdefault(tuple(str(config[name]) for name in fields), []).append(value)
            for name, value in config.items():
                varying.setdefault(name, set()).add(str(value))
    if not groups:
        raise ConfigError(
            "--sweep",
            ", ".join(fields),
            f"no stored run below {results_dir} has that{' and ' + ', '.join(filters) if filters else ''}",
        )
    columns = sorted({key[1] for key in groups}, key=natural) if len(fields) > 1 else [""]
    table = Table(title=f"{metric} by {' and '.join(fields)}", title_justify="left")
    table.add_column(fields[0])
    for column in columns:
        table.add_column(f"{fields[1]}={column}" if column else metric, justify="right")
    for first in sorted({key[0] for key in groups}, key=natural):
        keys = [(first, column) if column else (first,) for column in columns]
        table.add_row(first, *(cell(groups.get(key, []), metric_of(metric).scale) for key in keys))
    console = Console()
    console.print(table)
    ignored = {"seed", *fields, "force", "eval_every", "checkpoint_every", "keep_checkpoint", "device"}
    others = [
        n
        for n, values in varying.items()
        if len(values) > 1 and n not in ignored and not n.startswith(("executor", "logger")) and "_target_" not in n
    ]
    if others:
        console.print(
            f"averaged over different values of {', '.join(sorted(others))}; name one to keep apart: NAME=VALUE",
            highlight=False,
        )


def natural(text: str) -> tuple[int, float, str]:
    """Numbers in their order, then words in theirs."""
    try:
        return (0, float(text), "")
    except ValueError:
        return (1, 0.0, text)


def cell(values: list[float | None], scale: float) -> str:
    """Mean ± standard error (number of runs)."""
    defined = [scale * value for value in values if value is not None]
    if not values:
        return "missing"
    if not defined:
        return f"undefined ({len(values)})"
    error = f" ±{np.std(defined, ddof=1) / np.sqrt(len(defined)):.2f}" if len(defined) > 1 else " ±–"
    return f"{np.mean(defined):.2f}{error} ({len(values)})"
