"""Synthetic(α, β): every user has its own linear model and its own distribution of features (Li et al. 2020, FedProx)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from fedincent.config import option
from fedincent.datasets.base import Dataset

FEATURES, CLASSES = 60, 10


@dataclass(kw_only=True)
class Synthetic(Dataset):
    """y = argmax(W_k·x + b_k) with W_k, b_k ~ N(u_k, 1), u_k ~ N(0, α); x ~ N(v_k, Σ), v_k ~ N(B_k, 1), B_k ~ N(0, β)."""

    name: ClassVar[str] = "synthetic"
    arrays_alone: ClassVar[bool] = True

    alpha: float = option("how much the users' models differ: variance α of their means", low=0)
    beta: float = option("how much the users' features differ: variance β of their means", low=0)
    users: int = option("number of users; sizes follow a power law", low=1)
    draw: int = option("which draw of the users; a run's seed does not change it", low=0)
    most: int = option("samples that a user has at most; 0: as many as are drawn", low=0, neutral=2000)
    common_test: bool = option("whether the common test set, a tenth of everybody's, is kept from training", neutral=True)
    raw: bool = option("features as they are drawn, not standardised", neutral=False)

    def find(self, root: Path) -> list[Path]:
        return [Path(__file__)]

    def read(self, paths: list[Path]) -> dict[str, Any]:
        rng = np.random.default_rng([self.draw, self.users])
        sizes = rng.lognormal(4, 2, self.users).astype(int) + 50  # heavy-tailed
        if self.most:
            sizes = np.minimum(sizes, self.most)
        deviation = np.sqrt(np.arange(1, FEATURES + 1) ** -1.2)
        x, y, users = [], [], []
        for user, size in enumerate(sizes):
            mean, shift = rng.normal(0, np.sqrt(self.alpha)), rng.normal(0, np.sqrt(self.beta))
            weights = rng.normal(mean, 1, (FEATURES, CLASSES))
            bias = rng.normal(mean, 1, CLASSES)
            centre = rng.normal(shift, 1, FEATURES)
            features = centre + deviation * rng.standard_normal((size, FEATURES))
            x.append(features.astype(np.float32))
            y.append((features @ weights + bias).argmax(1))
            users.append(np.full(size, user))
        samples, labels, groups = np.concatenate(x), np.concatenate(y), np.concatenate(users)
        test = np.zeros(len(labels), dtype=bool)
        test[::10] = True  # a common test set too, one sample in ten of everybody
        kept = ~test if self.common_test else np.ones(len(labels), dtype=bool)
        return {
            "x_train": samples[kept],
            "y_train": labels[kept],
            "x_test": samples[test],
            "y_test": labels[test],
            "groups": groups[kept],
            "standardised": not self.raw,
        }
