"""Clusters share no label, and users keep what is theirs."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from fedincent.partitions import assign
from fedincent.partitions.clusters import ByUser, Clusters


@given(st.integers(1, 5), st.integers(1, 2), st.integers(5, 30), st.integers(0, 20))
@settings(max_examples=30, deadline=None)
def test_clusters(clusters: int, labels: int, n_clients: int, seed: int) -> None:
    y = np.arange(2000) % 10
    shares = assign(Clusters(clusters=clusters, labels=labels, min_size=1), y, 10, n_clients, np.random.default_rng(seed))
    kinds = [frozenset(y[share].tolist()) for share in shares]
    assert len(set(kinds)) == clusters and all(len(kind) == labels for kind in kinds)
    assert sum(len(kind) for kind in set(kinds)) == len(frozenset().union(*kinds))  # no label in two clusters
    assert len(np.unique(np.concatenate(shares))) == sum(map(len, shares)) == 200 * clusters * labels
    sizes = [kinds.count(kind) for kind in set(kinds)]
    assert max(sizes) - min(sizes) <= 1


@given(st.integers(0, 20))
@settings(max_examples=20, deadline=None)
def test_by_user(seed: int) -> None:
    rng = np.random.default_rng(seed)
    users = rng.integers(0, 30, 500)
    counts = np.bincount(users)
    enough = int((counts >= 10).sum())
    shares = assign(ByUser(min_size=10), np.zeros(500, dtype=int), 2, min(5, enough), rng, users)
    for share in shares:
        assert len(set(users[share])) == 1 and len(share) == counts[users[share[0]]] >= 10
    assert len(np.unique(np.concatenate(shares))) == sum(map(len, shares))
