"""Clusters of alike clients, and clients that are given with the data (Cho et al. 2022)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedincent.config import option
from fedincent.errors import ConfigError
from fedincent.partitions.base import Partition, Shares


@dataclass(kw_only=True)
class Clusters(Partition):
    """K clusters with L labels each that no other has; clients join clusters at random and share theirs equally."""

    by_label: ClassVar[bool] = True

    clusters: int = option("number of clusters K", low=1)
    labels: int = option("labels of each cluster L", low=1)

    def check(self, kind: str, n_classes: int) -> None:
        if self.clusters * self.labels > n_classes:
            wanted = self.clusters * self.labels
            raise ConfigError(
                "partition.clusters", self.clusters, f"{wanted} labels are wanted, the data set has {n_classes}"
            )

    def split(self, labels: np.ndarray, n_classes: int, n_clients: int, rng: np.random.Generator) -> Shares:
        order = rng.permutation(n_classes)
        cluster_of = rng.permutation(np.arange(n_clients) % self.clusters)  # as many clients in each, give or take one
        shares: Shares = [np.zeros(0, dtype=np.int64)] * n_clients
        for cluster in range(self.clusters):
            own = order[cluster * self.labels : (cluster + 1) * self.labels]
            members = np.flatnonzero(cluster_of == cluster)
            samples = rng.permutation(np.flatnonzero(np.isin(labels, own)))
            for client, piece in zip(members, np.array_split(samples, max(1, len(members))), strict=False):
                shares[client] = piece
        return shares


@dataclass(kw_only=True)
class ByUser(Partition):
    """Every client is one of those the data come from: a user, a writer; at random among those with enough samples."""

    def split_groups(self, groups: np.ndarray | None, n_clients: int, rng: np.random.Generator) -> Shares:
        if groups is None:
            raise ConfigError("partition", "by_user", "the data set does not say whom its samples are from")
        users, counts = np.unique(groups, return_counts=True)
        enough = users[counts >= self.min_size]
        if len(enough) < n_clients:
            raise ConfigError(
                "n_clients",
                n_clients,
                f"with the unseen ones; only {len(enough)} of {len(users)} users have {self.min_size} samples "
                "(partition.min_size)",
            )
        chosen = rng.permutation(enough)[:n_clients]
        order = np.argsort(groups, kind="stable")
        starts = np.searchsorted(groups[order], chosen)
        sizes = dict(zip(users.tolist(), counts.tolist(), strict=True))
        return [order[start : start + sizes[int(user)]] for start, user in zip(starts, chosen, strict=True)]
