"""A paper's table: what it consists of, what of it was run, and whether the two agree.

conf/table/NAME.yaml states rows (setting: data sets), columns (method: overrides), metrics, seeds and the printed numbers;
`base` names a table from which all that is not stated is taken.
"""

from __future__ import annotations

import copy
import csv
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from fedincent.config import Config, compose
from fedincent.errors import ConfigError, suggest
from fedincent.groups import group_folders, options_of
from fedincent.results.index import Index

PARAMETERS = {"dirichlet": "beta", "classes": "k", "noise": "sigma", "quantity": "beta"}  # what a setting's number is
PERCENT = ("accuracy_mean", "accuracy_max", "accuracy_gain")  # printed in percent
TOLERANCE = {
    "ipr_accuracy": 0.1,
    "ipr_loss": 0.1,
    "pearson": 0.15,
    "accuracy_mean": 4.0,
    "accuracy_max": 4.0,
    "accuracy_gain": 4.0,
}
DIGITS = {"accuracy_mean": 0, "accuracy_max": 0, "accuracy_gain": 1}  # as printed; 2 for the others


@dataclass(frozen=True)
class Printed:
    """A number as a paper prints it, in the paper's unit; None where it prints `undefined`."""

    value: float | None
    error: float | None
    note: str = ""


@dataclass
class Cell:
    """One number of a table: ours over the seeds that are done, and the paper's."""

    metric: str
    ours: list[float] = field(default_factory=list)  # one per finished seed, in the paper's unit
    undefined: int = 0  # finished seeds whose value is undefined
    wanted: int = 0
    paper: Printed | None = None
    notes: set[str] = field(default_factory=set)

    @property
    def done(self) -> int:
        """Finished seeds."""
        return len(self.ours) + self.undefined

    @property
    def mean(self) -> float | None:
        """Mean over the seeds for which there is a value."""
        return float(np.mean(self.ours)) if self.ours else None

    @property
    def error(self) -> float | None:
        """Standard error of the mean; None with fewer than two seeds."""
        return float(np.std(self.ours, ddof=1) / math.sqrt(len(self.ours))) if len(self.ours) > 1 else None

    @property
    def agrees(self) -> bool | None:
        """Whether ours and the paper's agree; None where there is nothing to compare.

        With standard errors on both sides: the difference is within twice their root sum of squares, plus half a unit
        of the last printed digit. Otherwise within a plain tolerance (0.1 IPR, 0.15 ρ, 4 points of accuracy).
        """
        if self.paper is None or not self.done or (self.paper.value is None and not self.paper.note and not self.undefined):
            return None
        if self.mean is None or self.paper.value is None:
            return self.mean is None and self.paper.value is None
        gap = abs(self.mean - self.paper.value)
        if self.error is not None and self.paper.error is not None:
            rounding = 0.5 * 10.0 ** -DIGITS.get(self.metric, 2)
            return gap <= 2 * math.hypot(self.error, self.paper.error) + rounding
        return gap <= TOLERANCE.get(self.metric, 0.1) + 1e-9


@dataclass
class PaperTable:
    """A table as its YAML states it."""

    name: str
    title: str
    paper: str | None  # file of printed numbers; null for a table of one's own
    metrics: list[str]
    seeds: int
    rows: list[tuple[str, str]]  # (data set, setting)
    columns: dict[str, list[str]]  # method: overrides
    overrides: list[str]
    note: str = ""

    def line(self, dataset: str, setting: str, method: str) -> list[str]:
        """The overrides of a cell's runs, but for the seed."""
        return [f"dataset={dataset}", *setting_overrides(setting), *self.overrides, *self.columns[method]]

    def wishes(self, seeds: int | None, only: Mapping[str, Sequence[str]]) -> list[tuple[list[str], Config]]:
        """All runs the table wants: how each is asked for, and what that means. Whole rows first, then the next seed."""
        configs = self.configs(only)
        return [
            ([*self.line(*key), f"seed={seed}"], at_seed(config, seed))
            for seed in range(seeds or self.seeds)
            for key, config in configs.items()
        ]

    def configs(self, only: Mapping[str, Sequence[str]] | None = None) -> dict[tuple[str, str, str], Config]:
        """The configuration, at seed 0, of each (data set, setting, method) that `only` does not exclude."""
        only = only or {}
        chosen = {}
        for dataset, setting in self.rows:
            for method in self.columns:
                labels = {"dataset": dataset, "setting": setting, "mechanism": method}
                if all(labels[name] in values for name, values in only.items()):
                    chosen[dataset, setting, method] = compose(self.line(dataset, setting, method))
        return chosen


def at_seed(config: Config, seed: int) -> Config:
    """The same configuration with another seed."""
    other = copy.copy(config)
    other.seed, other.raw = seed, {**config.raw, "seed": seed}
    return other


def setting_overrides(setting: str) -> list[str]:
    """classes_3 as overrides: partition=classes partition.k=3."""
    name, _, value = setting.partition("_")
    return [f"partition={name}", *([f"partition.{PARAMETERS[name]}={value}"] if value else [])]


def load_table(name: str) -> PaperTable:
    """A table by its name; an error that lists the known ones."""
    content = read_yaml(name)
    rows = [(dataset, setting) for setting, datasets in content["rows"].items() for dataset in datasets]
    fields = {key: content[key] for key in ("title", "paper", "metrics", "seeds", "columns", "overrides")}
    return PaperTable(name=name, rows=rows, note=content.get("note", ""), **fields)


def read_yaml(name: str) -> dict[str, Any]:
    """A table's YAML with what its base states."""
    for folder in group_folders("table"):
        path = folder / f"{name}.yaml"
        if path.is_file():
            content = yaml.safe_load(path.read_text(encoding="utf-8"))
            return {**read_yaml(content["base"]), **content} if "base" in content else content
    known = options_of("table")
    raise ConfigError("table", name, f"no such table; {suggest(name, known)}known: {', '.join(known)}")


def printed_numbers(file: str | None) -> dict[tuple[str, str, str, str], Printed]:
    """A paper's numbers by (data set, setting, method, metric)."""
    if file is None:
        return {}
    path = Path(__file__).parent / "paper" / file
    with path.open(newline="", encoding="utf-8") as source:
        return {
            (row["dataset"], row["setting"], row["method"], row["metric"]): Printed(
                float(row["value"]) if row["value"] else None,
                float(row["error"]) if row["error"] else None,
                row["note"],
            )
            for row in csv.DictReader(source)
        }


Cells = dict[tuple[str, str, str, str], Cell]  # by data set, setting, method, metric


def fill_cells(
    table: PaperTable, index: Index, seeds: int | None = None, only: Mapping[str, Sequence[str]] | None = None
) -> Cells:
    """Every cell of a table with what is stored and what is printed."""
    printed = printed_numbers(table.paper)
    cells: Cells = {}
    for (dataset, setting, method), config in table.configs(only).items():
        found = [index.find(at_seed(config, seed)) for seed in range(seeds or table.seeds)]
        for metric in table.metrics:
            cell = Cell(metric, wanted=len(found), paper=printed.get((dataset, setting, method, metric)))
            for result in found:
                if result is None:
                    continue
                value = result.summary[metric]
                cell.notes.update(result.summary["notes"])
                if value is None:
                    cell.undefined += 1
                else:
                    cell.ours.append(100 * value if metric in PERCENT else value)
            cells[dataset, setting, method, metric] = cell
    return cells


def best_methods(row: Mapping[str, Cell], paper: bool) -> list[str]:
    """Who is best in a row (by the paper's numbers or by ours), to the printed digits; ties are all best."""
    values = {}
    for method, cell in row.items():
        value = (cell.paper.value if cell.paper else None) if paper else cell.mean
        if value is not None:
            values[method] = round(value, DIGITS.get(cell.metric, 2))
    top = max(values.values(), default=None)
    return [method for method, value in values.items() if value == top]
