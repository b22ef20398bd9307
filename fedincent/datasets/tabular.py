"""Embedded data with numbers as targets."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from fedincent.datasets.base import Dataset


@dataclass(kw_only=True)
class Diabetes(Dataset):
    """scikit-learn's diabetes data: ten measurements of a patient, and how far the disease has gone a year later."""

    name: ClassVar[str] = "diabetes"

    def find(self, root: Path) -> list[Path]:
        spec = importlib.util.find_spec("sklearn")  # its import takes a second, and the cache may have all we need
        assert spec is not None and spec.origin is not None
        return [Path(spec.origin).parent / "datasets" / "data" / "diabetes_data_raw.csv.gz"]

    def read(self, paths: list[Path]) -> dict[str, Any]:
        from sklearn.datasets import load_diabetes

        x, y = load_diabetes(return_X_y=True, scaled=False)
        order = np.random.default_rng(0).permutation(len(y))
        test, train = order[:89], order[89:]
        samples = x.astype(np.float32)
        return {"x_train": samples[train], "y_train": y[train], "x_test": samples[test], "y_test": y[test]}
