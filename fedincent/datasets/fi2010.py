"""FI-2010: limit order books of five Finnish shares, and which way their mid-price will go (Ntakaris et al. 2018)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from fedincent.config import option
from fedincent.datasets.base import Dataset

FEATURES = 144
HORIZONS = (10, 20, 30, 50, 100)  # events ahead; a row of labels for each


@dataclass(kw_only=True)
class FI2010(Dataset):
    """Order books, z-scored, no auctions, days 1 to 3 (106,444 moments in the order of time): up, still or down."""

    name: ClassVar[str] = "fi2010"
    files: ClassVar[tuple[str, ...]] = ("Train_Dst_NoAuction_ZScore_CF_3.txt",)
    hint: ClassVar[str] = (
        "Get BenchmarkDatasets.zip of FI-2010 (etsin.fairdata.fi), and put NoAuction/1.NoAuction_Zscore/"
        "NoAuction_Zscore_Training/Train_Dst_NoAuction_ZScore_CF_3.txt there."
    )

    horizon: int = option("how many events ahead the price is looked at (10, 20, 30, 50, 100)", low=10, high=100)
    test_fraction: float = option("share of the moments, the last ones, that is for tests", above=0, below=1)

    def find(self, root: Path) -> list[Path]:
        inner = Path("NoAuction/1.NoAuction_Zscore/NoAuction_Zscore_Training")
        for folder in (root, root / "fi2010", root / inner, root / "BenchmarkDatasets" / inner):
            path = folder / self.files[0]
            if path.is_file():
                return [path]
        return []

    def read(self, paths: list[Path]) -> dict[str, Any]:
        if self.horizon not in HORIZONS:
            raise ValueError(f"there are no labels for dataset.horizon={self.horizon}, only for {HORIZONS}")
        table = np.loadtxt(paths[0], dtype=np.float64, ndmin=2)
        if len(table) != FEATURES + len(HORIZONS):
            raise ValueError(f"has {len(table)} rows, not {FEATURES + len(HORIZONS)}")
        x = table[:FEATURES].T.astype(np.float32)
        y = table[FEATURES + HORIZONS.index(self.horizon)].astype(np.int64) - 1
        cut = round(len(y) * (1 - self.test_fraction))
        return {"x_train": x[:cut], "y_train": y[:cut], "x_test": x[cut:], "y_test": y[cut:]}
