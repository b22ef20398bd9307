"""Label skew #C=k: every client holds samples of k classes only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedincent.config import option
from fedincent.errors import ConfigError
from fedincent.partitions.base import Partition, Shares, log, shuffled_classes


@dataclass(kw_only=True)
class Classes(Partition):
    """Client i holds class i mod K and k−1 others at random; a class is split equally among its holders."""

    by_label: ClassVar[bool] = True

    k: int = option("classes per client", low=1)

    def check(self, kind: str, n_classes: int) -> None:
        if self.k > n_classes:
            raise ConfigError("partition.k", self.k, f"must be ≤ {n_classes}, the number of classes of the data set")

    def split(self, labels: np.ndarray, n_classes: int, n_clients: int, rng: np.random.Generator) -> Shares:
        holders: list[list[int]] = [[] for _ in range(n_classes)]
        for i in range(n_clients):
            own = i % n_classes
            others = rng.choice(np.delete(np.arange(n_classes), own), self.k - 1, replace=False)
            for k in (own, *others):
                holders[k].append(i)
        shares: list[list[np.ndarray]] = [[] for _ in range(n_clients)]
        dropped = 0
        for held_by, members in zip(holders, shuffled_classes(labels, n_classes, rng), strict=True):
            if not held_by:
                dropped += len(members)
                continue
            for client, piece in zip(held_by, np.array_split(members, len(held_by)), strict=True):
                shares[client].append(piece)
        if dropped:
            empty = sum(not held_by for held_by in holders)
            log.warning("partition: nobody holds %d of %d classes; %d samples are not used", empty, n_classes, dropped)
        return [np.concatenate(pieces) for pieces in shares]
