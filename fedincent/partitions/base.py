"""What a partition is: a data set, a number of clients and random streams become a deal: who holds what."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

import numpy as np

from fedincent.config import Component, option
from fedincent.datasets import Data
from fedincent.errors import ConfigError, FedincentError

log = logging.getLogger("fedincent")
Shares = list[np.ndarray]  # indices of the samples that each client holds


class Streams(Protocol):
    """Random generators by purpose and client (federation.Streams)."""

    def __call__(self, purpose: str, round: int = 0, client: int = 0) -> np.random.Generator: ...


@dataclass(frozen=True)
class Table:
    """What is dealt out, to how many, and how much of it each sets aside."""

    data: Data
    kept: np.ndarray  # indices of the training samples that are dealt out
    n_clients: int
    streams: Streams
    test_fraction: float = 0.0
    tests: str = "own"  # whether own tests are taken from the client's samples (own) or from the official test set
    validation_fraction: float = 0.0
    n_unseen: int = 0  # how many of the clients, the last ones, only judge


@dataclass(frozen=True)
class Deal:
    """Indices of the samples that each client holds: to train on, to validate on, and for tests of its own."""

    train: Shares
    validation: Shares = field(default_factory=list)  # empty where there are none
    test: Shares = field(default_factory=list)  # of the training set, or of the official test set
    truth: dict[str, np.ndarray] = field(default_factory=dict)  # what is known of each client (N each)
    distributions: dict[str, np.ndarray] = field(default_factory=dict)  # named parts of the official test set
    fresh: Shares = field(default_factory=list)  # of each client's tests, what it may look at
    turns: dict[str, np.ndarray] = field(default_factory=dict)  # of images in "train" and "test": by how many times 90°

    def of(self, clients: slice) -> Deal:
        """Some clients' part of the deal."""
        truth = {name: values[clients] for name, values in self.truth.items()}
        parts = (self.train[clients], self.validation[clients], self.test[clients])
        return Deal(*parts, truth, self.distributions, self.fresh[clients], self.turns)


@dataclass(kw_only=True)
class Partition(Component):
    """Which samples each client holds, and what is done to them."""

    group: ClassVar[str] = "partition"

    by_label: ClassVar[bool] = False  # whether it goes by the samples' labels, which numeric targets are not
    own_tests: ClassVar[bool] = False  # whether it deals every client tests of its own, from the official test set

    min_size: int = option("every client holds at least so many samples", low=1)

    def split(self, labels: np.ndarray, n_classes: int, n_clients: int, rng: np.random.Generator) -> Shares:
        """Disjoint index sets into `labels` (n), one per client."""
        raise NotImplementedError

    def split_groups(self, groups: np.ndarray | None, n_clients: int, rng: np.random.Generator) -> Shares | None:
        """The same by whom each sample is from (n), for partitions that go by that; None: this one does not."""
        return None

    def check(self, kind: str, n_classes: int) -> None:
        """Raise where this partition makes no sense for a kind of data or a number of classes."""

    def deal(self, table: Table) -> Deal:
        """Who holds what: the split, and of each client's samples those to validate and to test on."""
        held = split(self, table)
        train, test = held, Shares()
        if table.test_fraction > 0 and table.tests == "own":
            train, test = set_aside(held, table.test_fraction, "own test", table.streams)
        elif table.test_fraction > 0:
            test = self.official_tests(held, table)
        validation = Shares()
        if table.validation_fraction > 0:
            train, validation = set_aside(train, table.validation_fraction, "own validation", table.streams)
        return Deal(train, validation, test)

    def test_mixture(self, counts: np.ndarray) -> np.ndarray:
        """In which proportions a client's tests are of each class (N×classes), given what it trains on (N×classes)."""
        return counts

    def official_tests(self, held: Shares, table: Table) -> Shares:
        """Tests of each client's own from the official test set, in the mixture of `test_mixture`."""
        labels, tests = np.asarray(table.data.y_train), np.asarray(table.data.y_test)
        n_classes = table.data.n_classes
        if not n_classes:
            wanted = [max(1, round(table.test_fraction * len(share))) for share in held]
            return [
                table.streams("official test", client=i).permutation(len(tests))[:count] for i, count in enumerate(wanted)
            ]
        counts = np.stack([np.bincount(labels[share], minlength=n_classes) for share in held])
        mixture = self.test_mixture(counts)
        by_class = [np.flatnonzero(tests == k) for k in range(n_classes)]
        shares = []
        for client, weights in enumerate(mixture):
            rng = table.streams("official test", client=client)
            total = max(1, round(table.test_fraction * len(held[client])))
            cuts = np.rint(np.cumsum(weights) / weights.sum() * total).astype(int)
            wanted = np.diff(cuts, prepend=0)
            shares.append(np.concatenate([rng.permutation(by_class[k])[: wanted[k]] for k in range(n_classes)]))
        return shares

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


def split(partition: Partition, table: Table) -> Shares:
    """The samples each client holds, as indices of the training set."""
    data, kept = table.data, table.kept
    groups = None if data.groups is None else np.asarray(data.groups)[kept]
    labels, rng = np.asarray(data.y_train)[kept], table.streams("partition")
    return [kept[share] for share in assign(partition, labels, data.n_classes, table.n_clients, rng, groups)]


def set_aside(shares: Shares, fraction: float, purpose: str, streams: Streams) -> tuple[Shares, Shares]:
    """Each client's samples as a part that it keeps and a part set aside at random, at least one of each."""
    kept, aside = [], []
    for client, share in enumerate(shares):
        if len(share) < 2:
            raise ConfigError("partition.min_size", len(share), "a client needs 2 samples to set one aside")
        order = streams(purpose, client=client).permutation(share)
        count = min(max(1, round(fraction * len(order))), len(order) - 1)
        aside.append(order[:count])
        kept.append(order[count:])
    return kept, aside


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
