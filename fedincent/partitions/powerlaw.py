"""Sizes by a power law (Lin et al. 2023): more from client to client, the same mixture for all."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np

from fedincent.config import option
from fedincent.partitions.base import Deal, Partition, Shares, Table


@dataclass(kw_only=True)
class PowerLaw(Partition):
    """Client i holds samples in proportion to evenly spaced values between two quantiles of F(x) = x^a; ζ_i = −its share."""

    exponent: float = option("a of the power law F(x) = x^a", above=0)
    lowest: float = option("quantile of the first client", low=0, high=1)
    highest: float = option("quantile of the last client", low=0, high=1)

    def proportions(self, n_clients: int) -> np.ndarray:
        """Each client's share of all samples (N, sums to 1): F⁻¹ at the two quantiles, and evenly spaced values between."""
        first, last = (quantile ** (1 / self.exponent) for quantile in (self.lowest, self.highest))
        values = np.linspace(first, last, n_clients)
        return values / values.sum()

    def split(self, labels: np.ndarray, n_classes: int, n_clients: int, rng: np.random.Generator) -> Shares:
        cuts = np.rint(np.cumsum(self.proportions(n_clients)) * len(labels)).astype(int)[:-1]
        return np.split(rng.permutation(len(labels)), cuts)

    def deal(self, table: Table) -> Deal:
        dealt = super().deal(table)
        return dataclasses.replace(dealt, truth={**dealt.truth, "zeta": -self.proportions(table.n_clients)})
