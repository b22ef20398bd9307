"""A paper's table: what it consists of, what of it was run, and whether the two agree.

conf/table/NAME.yaml states rows (setting: data sets), columns (method: overrides), metrics, seeds and the printed numbers;
`base` names a table from which all that is not stated is taken. Where a row is more than a data set, `datasets` says what
its label means (label: overrides). `metrics` may map our name of a metric to the paper's, `scale` its unit, `settings` a
setting to the paper's name of it.
"""

from __future__ import annotations

import copy
import csv
import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from fedincent.campaigns.plan import Wish, outdated
from fedincent.config.compose import composed
from fedincent.config.groups import is_option, options_of, read_group
from fedincent.config.run import Config
from fedincent.errors import ConfigError, suggest
from fedincent.evaluation.metrics import METRICS, known, metric_of
from fedincent.store.index import Index

PARAMETERS = {"dirichlet": "beta", "classes": "k", "noise": "sigma", "quantity": "beta"}  # what a setting's number is


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
    lacking: int = 0  # finished seeds that cannot have this metric
    wanted: int = 0
    paper: Printed | None = None
    notes: set[str] = field(default_factory=set)
    compared: bool = True  # whether print is in the same unit, of the same task
    spread: float | None = None  # of the printed values in this row, where the table compares by that
    where: list[int] = field(default_factory=list)  # the number beside ours that the metric names, one per finished seed
    unit: float | None = None  # 100 where the paper prints percent; None: as the metric is usually shown

    @property
    def scale(self) -> float:
        """What a summary's value is multiplied by."""
        return metric_of(self.metric).scale if self.unit is None else self.unit

    @property
    def digits(self) -> int:
        """Digits behind the point, in the unit of this table."""
        measure = metric_of(self.metric)
        return measure.digits + max(0, round(math.log10(measure.scale / self.scale)))

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
        of the last printed digit. Otherwise within a plain tolerance (0.1 IPR, 0.15 ρ, 4 points of accuracy), or, where the
        table says so, within the standard deviation of the printed values of the row, if that is less.
        """
        if not self.compared or self.paper is None or not self.done:
            return None
        if self.paper.value is None and not self.paper.note and not self.undefined:
            return None
        measure = metric_of(self.metric)
        if measure.tolerance is None:
            return None
        if self.mean is None or self.paper.value is None:
            return self.mean is None and self.paper.value is None
        gap = abs(self.mean - self.paper.value)
        if self.error is not None and self.paper.error is not None:
            rounding = 0.5 * 10.0**-self.digits
            return gap <= 2 * math.hypot(self.error, self.paper.error) + rounding
        tolerance = measure.tolerance * self.scale
        return gap <= (tolerance if self.spread is None else min(tolerance, self.spread)) + 1e-9


@dataclass
class PaperTable:
    """A table as its YAML states it."""

    name: str
    title: str
    paper: str | None  # file of printed numbers; null for a table of one's own
    metrics: dict[str, str]  # our name of a metric: the paper's
    seeds: int
    rows: list[tuple[str, str]]  # (data set, setting)
    columns: dict[str, list[str]]  # method: overrides
    overrides: list[str]
    datasets: dict[str, list[str]] = field(default_factory=dict)  # label of a row: overrides, where it is no data set's name
    settings: dict[str, str] = field(default_factory=dict)  # setting: the paper's name of it
    scale: dict[str, float] = field(default_factory=dict)  # metric: unit, where it is not the usual one
    extra: list[str] = field(default_factory=list)  # overrides asked for on the command line
    note: str = ""
    within_spread: bool = False  # ours agrees only within the deviation of the printed values of its row
    errors: str = "standard_error"  # what print's ± is: standard_error, or deviation (over `seeds` seeds)
    conditions: dict[str, list[str]] = field(default_factory=dict)  # what a setting means where it is no partition's name
    uncompared: list[str] = field(default_factory=list)  # "DATASET" or "DATASET METHOD": shown beside print, not compared
    regression: list[str] = field(default_factory=list)  # labels of rows whose metrics are of MAPE, not of accuracy

    def metric_at(self, dataset: str, metric: str) -> str:
        """Which metric a row of a data set shows."""
        return metric.replace("accuracy", "mape") if dataset in self.regression else metric

    def overrides_of(self, dataset: str, setting: str) -> list[str]:
        """A setting as overrides; a condition named "DATASET SETTING" holds for one data set's rows."""
        for name in (f"{dataset} {setting}", setting):
            if name in self.conditions:
                return self.conditions[name]
        return setting_overrides(setting)

    def unit_of(self, dataset: str, metric: str) -> float | None:
        """What a metric is multiplied by in a row; None: as it is usually shown."""
        unit = self.scale.get(metric)
        return unit.get(dataset) if isinstance(unit, Mapping) else unit

    def line(self, dataset: str, setting: str, method: str) -> list[str]:
        """The overrides of a cell's runs, but for the seed."""
        data = self.datasets.get(dataset) or [f"dataset={dataset}"]
        return [*data, *self.overrides_of(dataset, setting), *self.overrides, *self.columns[method], *self.extra]

    def wishes(self, seeds: int | None, only: Mapping[str, Sequence[str]]) -> list[Wish]:
        """All runs the table wants: how each is asked for, and what that means. Whole rows first, then the next seed."""
        configs = self.configs(only)
        return [
            Wish(
                [*self.line(*key), f"seed={seed}"],
                at_seed(config, seed),
                tuple(self.metric_at(key[0], metric) for metric in self.metrics),
            )
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
                    line = tuple(self.line(dataset, setting, method))
                    chosen[dataset, setting, method] = composed(line)
        return chosen


def checked_only(table: PaperTable, only: Mapping[str, Any]) -> dict[str, list[str]]:
    """Which labels to keep of a table's rows and columns, each of which it must have; one label may stand for a list."""
    if not isinstance(only, Mapping):
        raise ConfigError("only", only, 'must be labels by kind: {"dataset": ["fmnist"], "mechanism": ["iafl"]}')
    known = {
        "dataset": list(dict.fromkeys(dataset for dataset, _ in table.rows)),
        "setting": list(dict.fromkeys(setting for _, setting in table.rows)),
        "mechanism": list(table.columns),
    }
    kept = {}
    for kind, labels in only.items():
        if kind not in known:
            raise ConfigError("only", kind, f"must be one of {', '.join(known)}")
        kept[kind] = [labels] if isinstance(labels, str) else list(labels)
        for label in kept[kind]:
            if label not in known[kind]:
                why = f"the table has none; {suggest(label, known[kind])}known: {', '.join(known[kind])}"
                raise ConfigError(f"only {kind}", label, why)
    return kept


def at_seed(config: Config, seed: int) -> Config:
    """The same configuration with another seed."""
    other = copy.copy(config)
    other.seed, other.raw = seed, {**config.raw, "seed": seed}
    return other


def setting_overrides(setting: str) -> list[str]:
    """classes_3 as overrides: partition=classes partition.k=3; a name without a number is a partition as it is."""
    if is_option("partition", setting):
        return [f"partition={setting}"]
    name, _, value = setting.partition("_")
    if name not in PARAMETERS or not value:
        numbered = ", ".join(f"{known}_NUMBER" for known in PARAMETERS)
        raise ConfigError("rows", setting, f"must be a partition ({', '.join(options_of('partition'))}) or {numbered}")
    return [f"partition={name}", f"partition.{PARAMETERS[name]}={value}"]


def texts(value: Any) -> bool:
    """A list of texts."""
    return isinstance(value, list) and all(isinstance(part, str) for part in value)


def lists(value: Any) -> bool:
    """Names of lists of texts."""
    return isinstance(value, dict) and all(isinstance(name, str) and texts(part) for name, part in value.items())


def units(value: Any) -> bool:
    """Numbers by metric, or by metric and data set."""
    numbers = isinstance(value, dict) and all(
        units(part) if isinstance(part, dict) else isinstance(part, int | float) for part in value.values()
    )
    return bool(numbers)


def names(value: Any) -> bool:
    """Texts by text."""
    return isinstance(value, dict) and all(isinstance(part, str) for pair in value.items() for part in pair)


def positive(value: Any) -> bool:
    """A whole number from 1."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


REQUIRED = ("title", "metrics", "seeds", "rows", "columns")
SHAPES: dict[str, tuple[Callable[[Any], bool], str]] = {  # of the keys of a table's YAML
    "title": (lambda value: isinstance(value, str), "a text"),
    "note": (lambda value: isinstance(value, str), "a text"),
    "paper": (lambda value: value is None or isinstance(value, str), "a file of printed numbers, or null"),
    "errors": (lambda value: value in ("standard_error", "deviation"), "standard_error or deviation"),
    "within_spread": (lambda value: isinstance(value, bool), "true or false"),
    "seeds": (positive, "a whole number ≥ 1"),
    "metrics": (lambda value: texts(value) or names(value), "a list of metrics, or our names of them with the paper's"),
    "scale": (units, "numbers by metric: {accuracy_mean: 100}"),
    "settings": (names, "the paper's name of each setting"),
    **dict.fromkeys(("overrides", "uncompared", "regression"), (texts, "a list: [a, b]")),
    **dict.fromkeys(("rows", "columns", "datasets", "conditions"), (lists, "names with a list each: {name: [a, b]}")),
}


def load_table(name: str, extra: Sequence[str] = ()) -> PaperTable:
    """A table by its name, with more overrides for all of its runs; an error names what its YAML gets wrong."""
    content = {"paper": None, "overrides": [], **read_group("table", name)}
    keys = {field.name for field in dataclasses.fields(PaperTable)} - {"name", "extra"}
    for key in content:
        if key not in keys:
            raise ConfigError(f"table {name}", key, f"no such key; {suggest(key, keys)}known: {', '.join(sorted(keys))}")
    for key in REQUIRED:
        if key not in content:
            raise ConfigError(f"table {name}", key, "is missing")
    for key, value in content.items():
        fits_key, wanted = SHAPES[key]
        if not fits_key(value):
            raise ConfigError(f"table {name}: {key}", value, f"must be {wanted}")
    rows = [(dataset, setting) for setting, datasets in content.pop("rows").items() for dataset in datasets]
    metrics = content.pop("metrics")
    metrics = dict(metrics) if isinstance(metrics, Mapping) else {metric: metric for metric in metrics}
    for metric in metrics:
        if not known(metric):
            raise ConfigError(f"table {name}: metrics", metric, f"{suggest(metric, METRICS)}known: {', '.join(METRICS)}")
    table = PaperTable(name=name, rows=rows, metrics=metrics, extra=list(extra), **content)
    if table.paper is not None and not paper_file(table.paper).is_file():
        raise ConfigError(f"table {name}: paper", table.paper, "no such file of printed numbers; null where there are none")
    for dataset, setting in rows:
        table.overrides_of(dataset, setting)
    if extra:
        table.name, table.title = f"{name}+{'+'.join(extra)}", f"{table.title}, with {' '.join(extra)}"
    return table


def paper_file(name: str) -> Path:
    """Where a paper's numbers are."""
    return Path(__file__).parent / "paper" / name


def printed_numbers(table: PaperTable) -> dict[tuple[str, str, str, str], Printed]:
    """A paper's numbers by (data set, setting, method, our name of the metric); some tables' labels are DATASET_N."""
    if table.paper is None:
        return {}
    path = paper_file(table.paper)
    metrics = {theirs: ours for ours, theirs in table.metrics.items()}
    settings = {theirs: ours for ours, theirs in table.settings.items()}
    numbers = {}
    shrink = math.sqrt(table.seeds) if table.errors == "deviation" else 1.0
    with path.open(newline="", encoding="utf-8") as source:
        for row in csv.DictReader(source):
            label = f"{row['dataset']}_{row['n_clients']}"
            dataset = label if label in table.datasets else row["dataset"]
            setting = settings.get(row["setting"], row["setting"])
            value, error = (float(row[name]) if row[name] else None for name in ("value", "error"))
            fitting = [name for name in metrics if fits(name, row["metric"], row["note"])]
            metric = metrics[fitting[0]] if fitting else row["metric"]
            method = row["note"] if row["note"] in table.columns else row["method"]
            numbers[dataset, setting, method, metric] = Printed(
                value, None if error is None else error / shrink, row["note"]
            )
    return numbers


def fits(name: str, metric: str, note: str) -> bool:
    """Whether a table means a printed number: METRIC, or METRIC[PART] where the number's note begins with that part."""
    wanted, _, part = name.removesuffix("]").partition("[")
    return wanted == metric and (not part or f"{note};".startswith(f"{part};"))


Cells = dict[tuple[str, str, str, str], Cell]  # by data set, setting, method, metric


def fill_cells(
    table: PaperTable, index: Index, seeds: int | None = None, only: Mapping[str, Sequence[str]] | None = None
) -> Cells:
    """Every cell of a table with what is stored and what is printed."""
    printed = printed_numbers(table)
    cells: Cells = {}
    for (dataset, setting, method), config in table.configs(only).items():
        found = index.find_seeds(config, range(seeds or table.seeds))
        for metric in table.metrics:
            shown = table.metric_at(dataset, metric)
            paper, unit = printed.get((dataset, setting, method, shown)), table.unit_of(dataset, metric)
            rivals = [printed.get((dataset, setting, other, shown)) for other in table.columns]
            values = [rival.value for rival in rivals if rival is not None and rival.value is not None]
            spread = float(np.std(values)) if table.within_spread and len(values) > 1 else None
            compared = not {dataset, f"{dataset} {method}"} & set(table.uncompared)
            cell = Cell(shown, wanted=len(found), paper=paper, unit=unit, spread=spread, compared=compared)
            for result in found:
                try:
                    value = result.value(shown) if result else None
                except KeyError:  # made before there was such a metric (then it is missing), or without what it needs
                    cell.lacking += result is not None and not outdated(result, [shown])
                    continue
                if result is None:
                    continue
                cell.notes.update(result.summary["notes"])
                if value is None:
                    cell.undefined += 1
                else:
                    cell.ours.append(cell.scale * value)
                    if metric_of(shown).beside:
                        cell.where.append(int(result.value(metric_of(shown).beside)))  # type: ignore[arg-type]
            cells[dataset, setting, method, metric] = cell
    return cells


def best_methods(row: Mapping[str, Cell], paper: bool) -> list[str]:
    """Who is best in a row (by the paper's numbers or by ours), to the printed digits; ties are all best.

    Of ours, nobody is best who has no rival, nor on fewer seeds than others of the row.
    """
    values = {}
    most = max((cell.done for cell in row.values()), default=0)
    for method, cell in row.items():
        if not paper and cell.done < most:
            continue
        value = (cell.paper.value if cell.paper else None) if paper else cell.mean
        if value is not None:
            measure = metric_of(cell.metric)
            values[method] = round(-value if measure.lower_is_better else value, cell.digits)
    if len(values) < 2 and not paper:
        return []
    top = max(values.values(), default=None)
    return [method for method, value in values.items() if value == top]
