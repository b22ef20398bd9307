"""A grid of any metric over one or two fields, from whatever runs are stored."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from fedincent.config.compose import flat
from fedincent.errors import ConfigError, FedincentError
from fedincent.evaluation.formulas import Metric
from fedincent.evaluation.metrics import METRICS, SHORT, known, metric_of
from fedincent.results.render import escaped
from fedincent.store.files import write_text
from fedincent.store.index import Index
from fedincent.store.result import Result


@dataclass(frozen=True)
class Grid:
    """A table of texts and the numbers behind it: one line for each value of the first field."""

    title: str
    header: list[str]
    rows: list[list[str]]
    numbers: list[dict[str, Any]]  # one for each cell: the fields' values, mean, error, runs
    note: str = ""


def sweep_grid(results_dir: Path, fields: Sequence[str], metric: str, filters: Sequence[str]) -> Grid:
    """Mean ± standard error of a metric for each value of one or two fields, over all runs that pass the filters."""
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
    header = [fields[0], *(f"{fields[1]}={column}" if column else metric for column in columns)]
    rows, numbers, shown = [], [], metric_of(metric)
    for first in sorted({key[0] for key in groups}, key=natural):
        keys = [(first, column) if column else (first,) for column in columns]
        rows.append([first, *(cell(groups.get(key, []), shown) for key in keys)])
        numbers += [{**dict(zip(fields, key, strict=True)), **mean_and_error(groups.get(key, []), shown)} for key in keys]
    ignored = {"seed", *fields, "force", "eval_every", "checkpoint_every", "keep_checkpoint", "device"}
    others = [
        n
        for n, values in varying.items()
        if len(values) > 1 and n not in ignored and not n.startswith(("executor", "logger")) and "_target_" not in n
    ]
    note = f"averaged over different values of {', '.join(sorted(others))}; name one to keep apart: NAME=VALUE"
    title = f"{metric} by {' and '.join(fields)}" + (f", {' '.join(filters)}" if filters else "")
    return Grid(title, header, rows, numbers, note if others else "")


def sweep_summary(lines: Sequence[Sequence[str]], found: Sequence[Result | None]) -> Grid:
    """The end of a sweep: a line for each combination of what was swept but the seed, mean ± standard error over seeds."""
    swept = [place for place in range(len(lines[0])) if len({line[place] for line in lines}) > 1]
    kept = [place for place in swept if not lines[0][place].startswith("seed=")]
    groups: dict[tuple[str, ...], list[Result]] = {}
    for line, result in zip(lines, found, strict=True):
        group = groups.setdefault(tuple(line[place].partition("=")[2] for place in kept), [])
        if result is not None:
            group.append(result)
    there = [result for results in groups.values() for result in results]
    columns = [name for name in SHORT if any(name in result.summary for result in there)]
    header = [*(lines[0][place].partition("=")[0] for place in kept), "runs", *(SHORT[name] for name in columns)]
    rows, numbers = [], []
    for values, results in groups.items():
        known_of = {name: [run.summary[name] for run in results if name in run.summary] for name in columns}
        cells = [cell(known_of[name], METRICS[name], count=False) for name in columns]
        rows.append([*values, str(len(results)), *cells])
        numbers += [
            {**dict(zip(header, values, strict=False)), "metric": name, **mean_and_error(known_of[name], METRICS[name])}
            for name in columns
        ]
    return Grid("the sweep: mean ± standard error over seeds", header, rows, numbers)


def print_grid(grid: Grid) -> None:
    """In the terminal."""
    table = Table(title=grid.title, title_justify="left")
    for place, name in enumerate(grid.header):
        table.add_column(name, justify="right" if place else "left", overflow="fold")
    for row in grid.rows:
        table.add_row(*row)
    console = Console()
    console.print(table)
    if grid.note:
        console.print(grid.note, highlight=False)


def grid_to_files(grid: Grid, name: str, folder: Path) -> list[Path]:
    """Markdown, CSV (with the plain numbers) and LaTeX into a folder."""
    lines = [f"# {grid.title}", "", f"| {' | '.join(grid.header)} |", f"|{'---|' * len(grid.header)}"]
    lines += [f"| {' | '.join(row)} |" for row in grid.rows]
    out = io.StringIO()
    writer = csv.DictWriter(out, list(grid.numbers[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(grid.numbers)
    latex = [f"% {grid.title}", rf"\begin{{tabular}}{{l{'r' * (len(grid.header) - 1)}}}", r"\toprule", escaped(grid.header)]
    latex += [r"\midrule", *map(escaped, grid.rows), r"\bottomrule", r"\end{tabular}", ""]
    contents = {"md": "\n".join([*lines, "", *([grid.note, ""] if grid.note else [])]), "csv": out.getvalue()}
    contents["tex"] = "\n".join(latex)
    for ending, text in contents.items():
        write_text(folder / f"{name}.{ending}", text)
    return [folder / f"{name}.{ending}" for ending in contents]


def natural(text: str) -> tuple[int, float, str]:
    """Numbers in their order, then words in theirs."""
    try:
        return (0, float(text), "")
    except ValueError:
        return (1, 0.0, text)


def mean_and_error(values: Sequence[float | None], metric: Metric) -> dict[str, float | int | None]:
    """Of the defined values, in the metric's unit; how many runs, and how many of them undefined."""
    defined = [metric.scale * value for value in values if value is not None]
    mean = float(np.mean(defined)) if defined else None
    error = float(np.std(defined, ddof=1) / np.sqrt(len(defined))) if len(defined) > 1 else None
    return {"mean": mean, "error": error, "runs": len(values), "undefined": len(values) - len(defined)}


def cell(values: Sequence[float | None], metric: Metric, count: bool = True) -> str:
    """Mean ± standard error (number of runs)."""
    if not values:
        return "missing"
    known = mean_and_error(values, metric)
    of = f" ({len(values)})" if count else ""
    if known["mean"] is None:
        return f"undefined{of}"
    digits = 2 if metric.scale == 1 else 1
    error = f" ±{known['error']:.{digits}f}" if known["error"] is not None else " ±–"
    return f"{known['mean']:.{digits}f}{error}{of}"
