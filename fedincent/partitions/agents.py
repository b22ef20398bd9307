"""The three partitions of Xu et al. 2021: a few agents with so many samples each on average, taken from a larger pool."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedincent.config import option
from fedincent.errors import ConfigError
from fedincent.partitions.base import Partition, Shares, shuffled_classes


@dataclass(kw_only=True)
class Uniform(Partition):
    """UNI: everybody holds the same number of random samples; the labels of the first may be partly wrong."""

    size: int | None = option("samples per client on average; null: the whole training set is dealt out", low=1)
    wrong_labels: tuple[float, ...] = option(
        "share of wrong labels of the first client, the second, …; those not named have none", low=0, high=1
    )

    def proportions(self, n_clients: int) -> np.ndarray:
        """How much each client holds, relative to the others (N)."""
        return np.ones(n_clients)

    def split(self, labels: np.ndarray, n_classes: int, n_clients: int, rng: np.random.Generator) -> Shares:
        total = self.size * n_clients if self.size else len(labels)
        if total > len(labels):
            raise ConfigError(
                "partition.size", self.size, f"{n_clients} clients would hold {total} samples, there are {len(labels)}"
            )
        share = self.proportions(n_clients)
        cuts = np.rint(np.cumsum(share)[:-1] / share.sum() * total).astype(np.int64)
        return np.split(rng.permutation(len(labels))[:total], cuts)

    def label_noise(self, n_clients: int) -> np.ndarray:
        if len(self.wrong_labels) > n_clients:
            raise ConfigError("partition.wrong_labels", list(self.wrong_labels), f"names more than {n_clients} clients")
        return np.pad(np.array(self.wrong_labels, dtype=float), (0, n_clients - len(self.wrong_labels)))


@dataclass(kw_only=True)
class PowerLaw(Uniform):
    """POW: random samples, client i = 1…N holding a number in proportion to i^exponent."""

    exponent: float = option("how steeply the sizes grow: 0 is equal, 1 linear", low=0)

    def proportions(self, n_clients: int) -> np.ndarray:
        return np.arange(1, n_clients + 1) ** self.exponent


@dataclass(kw_only=True)
class ClassCounts(Partition):
    """CLA: equal sizes, but client 1 holds one class and client N all of them, in equal steps between (truncated)."""

    by_label: ClassVar[bool] = True

    size: int = option("samples per client", low=1)

    def split(self, labels: np.ndarray, n_classes: int, n_clients: int, rng: np.random.Generator) -> Shares:
        counts = np.linspace(1, n_classes, n_clients).astype(np.int64)
        left = shuffled_classes(labels, n_classes, rng)
        shares: Shares = []
        for client, count in enumerate(counts):
            chosen = rng.choice(n_classes, count, replace=False)
            wanted = np.full(count, self.size // count)
            wanted[: self.size % count] += 1
            pieces = []
            for k, number in zip(chosen, wanted, strict=True):
                if number > len(left[k]):
                    raise ConfigError(
                        "partition.size",
                        self.size,
                        f"client {client} needs {number} samples of class {k}, of which {len(left[k])} are left "
                        f"({(labels == k).sum()} in the training set)",
                    )
                pieces.append(left[k][:number])
                left[k] = left[k][number:]
            shares.append(np.concatenate(pieces))
        return shares
