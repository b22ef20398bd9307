"""Germany's electricity load, to be predicted from the quarter hours before, from the same time of earlier days and a
year ago.

At i the target is column 0; what goes in are the rows of the same moment a calendar year ago, one to seven days ago,
and of the five quarter hours before: 13 rows, each column z-scored over the whole series. Samples are in the order of
time.
"""

from __future__ import annotations

import csv
import datetime
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from fedincent.config import option
from fedincent.datasets.base import Dataset

DAY = 96  # quarter hours
FIRST = 35041  # the first target: a year and a day after the series begins
STEP = 3  # targets are every so many quarter hours


def supervised(series: np.ndarray, moments: list[datetime.datetime], test_fraction: float) -> dict[str, np.ndarray]:
    """Inputs (n×13·columns) and targets in their own unit of a series (quarter hours×columns); the last are for tests."""
    scaled = (series - series.mean(0)) / np.where(series.std(0) > 0, series.std(0), 1.0)
    place = {moment: k for k, moment in enumerate(moments)}
    x, y = [], []
    for i in range(FIRST, len(series), STEP):
        year_ago = place.get(a_year_before(moments[i]))
        if year_ago is None:
            continue
        rows = [year_ago, *(i - day * DAY for day in range(1, 8)), *range(i - 5, i)]
        x.append(scaled[rows].ravel())
        y.append(series[i, 0])
    samples, targets = np.asarray(x, dtype=np.float32), np.asarray(y, dtype=np.float64)
    cut = round(len(targets) * (1 - test_fraction))
    return {"x_train": samples[:cut], "y_train": targets[:cut], "x_test": samples[cut:], "y_test": targets[cut:]}


def a_year_before(moment: datetime.datetime) -> datetime.datetime:
    """The same moment of the calendar year before; of 29 February, the day before."""
    try:
        return moment.replace(year=moment.year - 1)
    except ValueError:
        return moment.replace(year=moment.year - 1, day=28)


@dataclass(kw_only=True)
class Electricity(Dataset):
    """Open Power System Data, time series 2020-10-06: the 40 German columns, a quarter of an hour each."""

    name: ClassVar[str] = "electricity"
    files: ClassVar[tuple[str, ...]] = ("time_series_15min_singleindex.csv",)
    hint: ClassVar[str] = (
        "Download time_series_15min_singleindex.csv, version 2020-10-06, from data.open-power-system-data.org/time_series; "
        "or use dataset=electricity_load."
    )

    test_fraction: float = option("share of the samples, the last ones, that is for tests", above=0, below=1)

    def find(self, root: Path) -> list[Path]:
        for folder in (root, root / "electricity"):
            path = folder / "time_series_15min_singleindex.csv"
            if path.is_file():
                return [path]
        return []

    def read(self, paths: list[Path]) -> dict[str, Any]:
        with paths[0].open(newline="", encoding="utf-8") as file:
            reader = csv.reader(file)
            header = next(reader)
            columns = [k for k, name in enumerate(header) if "DE" in name]
            moments, rows = [], []
            for line in reader:
                moments.append(datetime.datetime.fromisoformat(line[0].replace("Z", "+00:00")).replace(tzinfo=None))
                rows.append([float(line[k] or 0) for k in columns])
        if not columns:
            raise ValueError("has no column with DE in its name")
        return supervised(np.array(rows[100:]), moments[100:], self.test_fraction)  # the first rows are mostly empty


@dataclass(kw_only=True)
class ElectricityLoad(Dataset):
    """Germany's load alone (SMARD), from smard_de_load_15min.npz: utc0 and step in seconds, load_mw."""

    name: ClassVar[str] = "electricity_load"
    reads_npz: ClassVar[bool] = True
    files: ClassVar[tuple[str, ...]] = ("electricity/smard_de_load_15min.npz",)
    hint: ClassVar[str] = "Get the quarter-hourly load of Germany from smard.de, and store it as that file."

    test_fraction: float = option("share of the samples, the last ones, that is for tests", above=0, below=1)

    def find(self, root: Path) -> list[Path]:
        for folder in (root / "electricity", root):
            path = folder / "smard_de_load_15min.npz"
            if path.is_file():
                return [path]
        return []

    def read(self, paths: list[Path]) -> dict[str, Any]:
        with np.load(paths[0], allow_pickle=False) as archive:
            start, step, load = int(archive["utc0"]), int(archive["step"]), archive["load_mw"]
        begin = datetime.datetime.fromtimestamp(start, datetime.timezone.utc).replace(tzinfo=None)
        moments = [begin + datetime.timedelta(seconds=step * k) for k in range(len(load))]
        return supervised(load.astype(np.float64)[:, None], moments, self.test_fraction)
