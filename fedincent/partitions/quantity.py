"""Quantity skew: everybody draws from the same pool, in amounts drawn from a Dirichlet distribution."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedincent.config import option
from fedincent.partitions.base import Partition, Shares, first_fit


@dataclass(kw_only=True)
class Quantity(Partition):
    """One shuffled list; sizes ~ Dir(β·1_N)."""

    tries: ClassVar[int] = 5_000_000

    beta: float = option("concentration β: small is skewed", above=0)

    def split(self, labels: np.ndarray, n_classes: int, n_clients: int, rng: np.random.Generator) -> Shares:
        cuts = first_fit(
            lambda count: self.draw_cuts(len(labels), n_clients, count, rng),
            lambda cuts: np.diff(cuts, axis=1).min(1) >= self.min_size,
            self.tries,
            20_000,
            f"each of {n_clients} clients holds {self.min_size} of {len(labels)} samples; raise "
            f"partition.beta={self.beta:g}, or lower n_clients or partition.min_size",
        )
        return np.split(rng.permutation(len(labels)), cuts[1:-1])

    def draw_cuts(self, total: int, n_clients: int, draws: int, rng: np.random.Generator) -> np.ndarray:
        """Where the list is cut, for many draws at once: draws×(N+1)."""
        share = rng.dirichlet(np.full(n_clients, self.beta), draws)
        cuts = np.zeros((draws, n_clients + 1), dtype=np.int64)
        cuts[:, 1:-1] = np.cumsum(share, axis=1)[:, :-1] * total
        cuts[:, -1] = total
        return cuts
