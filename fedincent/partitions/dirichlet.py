"""Label skew: every class is dealt out in proportions drawn from a Dirichlet distribution (as in NIID-Bench)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedincent.config import option
from fedincent.partitions.base import Partition, Shares, first_fit, shuffled_classes


@dataclass(kw_only=True)
class Dirichlet(Partition):
    """Per class k, proportions ~ Dir(β·1_N); a client that holds its fair share already gets none of the next class."""

    by_label: ClassVar[bool] = True
    tries: ClassVar[int] = 20_000

    beta: float = option("concentration β: small is skewed", above=0)

    def split(self, labels: np.ndarray, n_classes: int, n_clients: int, rng: np.random.Generator) -> Shares:
        counts = np.bincount(labels, minlength=n_classes)
        cuts = first_fit(
            lambda count: self.draw_cuts(counts, n_clients, count, rng),
            lambda cuts: np.diff(cuts, axis=2).sum(1).min(1) >= self.min_size,
            self.tries,
            64,
            f"each of {n_clients} clients holds {self.min_size} samples; raise partition.beta={self.beta:g}, "
            "or lower n_clients or partition.min_size",
        )
        members = shuffled_classes(labels, n_classes, rng)
        pieces = [np.split(member, cut[1:-1]) for member, cut in zip(members, cuts, strict=True)]
        return [np.concatenate([piece[i] for piece in pieces]) for i in range(n_clients)]

    def draw_cuts(self, counts: np.ndarray, n_clients: int, draws: int, rng: np.random.Generator) -> np.ndarray:
        """Where each class is cut among the clients, for many draws at once: draws×classes×(N+1)."""
        fair = counts.sum() / n_clients
        held = np.zeros((draws, n_clients))
        cuts = np.zeros((draws, len(counts), n_clients + 1), dtype=np.int64)
        for k, count in enumerate(counts):
            share = rng.dirichlet(np.full(n_clients, self.beta), draws) * (held < fair)
            total = share.sum(1, keepdims=True)
            share = np.divide(share, total, out=np.full_like(share, 1 / n_clients), where=total > 0)
            cuts[:, k, 1:-1] = (np.cumsum(share, axis=1)[:, :-1] * count).astype(np.int64)
            cuts[:, k, -1] = count
            held += np.diff(cuts[:, k], axis=1)
        return cuts
