"""The homogeneous partition, plain or with Gaussian feature noise that grows from client to client."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from fedincent.config import option
from fedincent.errors import ConfigError
from fedincent.partitions.base import Partition, Shares, shuffled_classes


@dataclass(kw_only=True)
class Iid(Partition):
    """One shuffled list cut into equal parts, or each class cut so."""

    stratified: bool = option("split each class equally instead of the whole list")

    def check(self, kind: str, n_classes: int) -> None:
        if self.stratified and not n_classes:
            raise ConfigError("partition.stratified", True, "goes by label, the data set has numbers as targets")

    def split(self, labels: np.ndarray, n_classes: int, n_clients: int, rng: np.random.Generator) -> Shares:
        if not self.stratified:
            return np.array_split(rng.permutation(len(labels)), n_clients)
        by_class = np.concatenate(shuffled_classes(labels, n_classes, rng))
        return [by_class[i::n_clients] for i in range(n_clients)]  # dealt like cards: classes and sizes differ by at most 1


@dataclass(kw_only=True)
class Noise(Iid):
    """IID, with noise of standard deviation σ·i/N on the standardised training features of client i = 1…N."""

    sigma: float = option("standard deviation σ of the last client's noise", low=0)
    redraw: bool = option("draw the noise anew at every pass over the data, as the paper's code does, instead of once")

    def check(self, kind: str, n_classes: int) -> None:
        super().check(kind, n_classes)
        if kind == "text":
            raise ConfigError("partition", "noise", "Gaussian noise needs numbers, not text; use another partition")

    def noise(self, n_clients: int) -> np.ndarray:
        return self.sigma * np.arange(1, n_clients + 1) / n_clients

    @property
    def redraws_noise(self) -> bool:
        return self.redraw
