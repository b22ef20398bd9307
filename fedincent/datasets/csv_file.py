"""One's own table of numbers with a column of labels or of numbers to predict."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fedincent.config import option
from fedincent.datasets.base import Dataset
from fedincent.errors import DataError

if TYPE_CHECKING:
    import pandas as pd


@dataclass(kw_only=True)
class CsvFile(Dataset):
    """One's own data: a CSV file with a header, a line for each sample, numbers in all columns but that of the target."""

    name: ClassVar[str] = "csv"

    file: str | None = option("path of the .csv file", identity=False)
    target: str | None = option("column that is to be predicted; null: the last")
    task: str = option(
        "whether that is a class (texts or whole numbers) or a number; auto: a number where any has a fraction",
        choices=("auto", "classes", "numbers"),
    )
    test_fraction: float = option("share of the lines that is the common test set, drawn once", above=0, below=1)

    def find(self, root: Path) -> list[Path]:
        if not self.file:
            raise DataError("dataset.file=null: say which file, e.g. dataset=csv dataset.file=my_data.csv")
        path = Path(self.file).expanduser()
        if not path.is_file():
            raise DataError(f"dataset.file={self.file}: no such file")
        return [path]

    def read(self, paths: list[Path]) -> dict[str, Any]:
        try:
            return self.arrays(paths[0])
        except ValueError as error:
            why = str(error).strip().splitlines()[-1]
            raise DataError(f"dataset.file={self.file}: {why}") from error

    def arrays(self, path: Path) -> dict[str, Any]:
        """The four arrays; ValueError that says why there are none."""
        import pandas as pd

        frame = pd.read_csv(path, skipinitialspace=True)
        if all(is_number(str(name)) for name in frame.columns):
            raise ValueError("its first line must name the columns, it holds numbers")
        if frame.shape[1] == 1 and ";" in str(frame.columns[0]):
            raise ValueError("columns must be separated by commas, these are by semicolons")
        if frame.shape[1] < 2 or len(frame) < 2:
            raise ValueError(
                f"{len(frame)} lines of {frame.shape[1]} columns: there must be a header, features and a target"
            )
        target = self.target or str(frame.columns[-1])
        if target not in frame:
            raise ValueError(f"no column {target!r} (dataset.target); there are: {', '.join(map(str, frame.columns))}")
        features = frame.drop(columns=target)
        words = [str(name) for name in features if not pd.api.types.is_numeric_dtype(features[name])]
        if words:
            raise ValueError(f"column {words[0]!r} holds texts; features must be numbers")
        for name in frame:
            gaps = frame[name].isna()
            if gaps.any():
                raise ValueError(f"column {str(name)!r} is empty in line {int(gaps.to_numpy().argmax()) + 2}")
        y = self.targets(frame[target])
        with np.errstate(over="ignore"):
            x = features.to_numpy(dtype=np.float32)
        if not np.isfinite(x).all():
            raise ValueError("a feature is infinite, or too large for a number of 32 bits")
        order = np.random.default_rng(0).permutation(len(y))
        count = min(max(1, round(self.test_fraction * len(y))), len(y) - 1)
        test, train = order[:count], order[count:]
        if y.dtype == np.int64 and len(np.unique(y[train])) < int(y.max()) + 1:
            raise ValueError("a class is so rare that the training samples have none of it; lower dataset.test_fraction")
        if len(np.unique(y)) < 2:
            raise ValueError(f"column {target!r} has the same value in every line: there is nothing to learn")
        return {"x_train": x[train], "y_train": y[train], "x_test": x[test], "y_test": y[test]}

    def targets(self, column: pd.Series) -> np.ndarray:
        """Class numbers in the order of their names (int64), or numbers (float64)."""
        import pandas as pd

        numeric = pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)
        fractions = numeric and bool((column.to_numpy(dtype=float) % 1 != 0).any())
        if self.task == "numbers" or (self.task == "auto" and fractions):
            if not numeric:
                raise ValueError(f"column {column.name!r} holds texts, no numbers to predict (dataset.task)")
            return column.to_numpy(dtype=np.float64)
        return np.unique(column.to_numpy() if numeric else column.astype(str).to_numpy(), return_inverse=True)[1].astype(
            np.int64
        )


def is_number(text: str) -> bool:
    """Whether a text says a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True
