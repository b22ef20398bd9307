"""What a partition is: labels, a number of clients and a random stream become index sets, one per client."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedincent.config import Component, option
from fedincent.errors import ConfigError, FedincentError

log = logging.getLogger("fedincent")
Shares = list[np.ndarray]  # indices of the samples that each client holds


@dataclass(kw_only=True)
class Partition(Component):
    """Which samples each client holds, and what is done to them."""

    group: ClassVar[str] = "partition"

    min_size: int = option("every client holds at least so many samples", low=1)

    def split(self, labels: np.ndarray, n_classes: int, n_clients: int, rng: np.random.Generator) -> Shares:
        """Disjoint index sets into `labels` (n), one per client."""
        raise NotImplementedError

    def split_groups(self, groups: np.ndarray | None, n_clients: int, rng: np.random.Generator) -> Shares | None:
        """The same by whom each sample is from (n), for partitions that go by that; None: this one does not."""
        return None

    def check(self, kind: str, n_classes: int) -> None:
        """Raise where this partition makes no sense for a kind of data or a number of classes."""

    def noise(self, n_clients: int) -> np.ndarray:
        """Standard deviation of the Gaussian noise on each client's training features (N); 0 for none."""
        return np.zeros(n_clients)

    def label_noise(self, n_clients: int) -> np.ndarray:
        """Which share of each client's training labels is wrong (N); 0 for none."""
        return np.zeros(n_clients)

    @property
    def redraws_noise(self) -> bool:
        """Whether the noise is drawn anew at every pass instead of once."""
        return False


def assign(
    partition: Partition,
    labels: np.ndarray,
    n_classes: int,
    n_clients: int,
    rng: np.random.Generator,
    groups: np.ndarray | None = None,
) -> Shares:
    """Carry out a partition and check that there is enough for everybody."""
    if n_clients * partition.min_size > len(labels):
        raise ConfigError(
            "n_clients", n_clients, f"at least {partition.min_size} samples each (partition.min_size), of {len(labels)}"
        )
    shares = partition.split_groups(groups, n_clients, rng)
    if shares is None:
        shares = partition.split(labels, n_classes, n_clients, rng)
    smallest = min(range(n_clients), key=lambda i: len(shares[i]))
    if len(shares[smallest]) < partition.min_size:
        raise FedincentError(
            f"partition: client {smallest} would hold {len(shares[smallest])} samples, fewer than "
            f"partition.min_size={partition.min_size}; use fewer clients or lower partition.min_size"
        )
    return [np.sort(share) for share in shares]


def first_fit(
    draw: Callable[[int], np.ndarray], fits: Callable[[np.ndarray], np.ndarray], tries: int, batch: int, failure: str
) -> np.ndarray:
    """The first of at most `tries` draws that fits, drawn `batch` at a time; an error that ends with `failure` otherwise.

    draw: count → count×… candidates; fits: candidates → boolean (count).
    """
    for done in range(0, tries, batch):
        candidates = draw(min(batch, tries - done))
        good = np.flatnonzero(fits(candidates))
        if good.size:
            return candidates[good[0]]
    raise FedincentError(f"partition: {tries:,} draws gave no split in which {failure}")


def shuffled_classes(labels: np.ndarray, n_classes: int, rng: np.random.Generator) -> list[np.ndarray]:
    """The indices of each class's samples, in random order."""
    return [rng.permutation(np.flatnonzero(labels == k)) for k in range(n_classes)]
