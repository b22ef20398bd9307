"""Clients whose data are mixtures of a few distributions: groups of labels, or images upright and turned.

Client i trains on a mixture p_i of the groups (10:90: nine tenths of one's own group) and has validation and test
samples of its own; its tests may have the mixture swapped. Nobody shares a sample, and no image is in two groups
(Ruan & Joe-Wong 2022; Khan et al. 2024, app. D).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedincent.config import option
from fedincent.errors import ConfigError
from fedincent.partitions.base import Deal, Partition, Shares, Table, set_aside

TURNS = 4  # quarter turns in a circle


@dataclass(kw_only=True)
class Mixture(Partition):
    """Each client holds samples of G groups in a mixture of its own, and tests of its own."""

    own_tests: ClassVar[bool] = True

    by: str = option(
        "what the groups are: labels, or the same images turned by 90° from group to group", choices=("labels", "rotation")
    )
    groups: int = option("number of groups G", low=2)
    label_groups: tuple[tuple[int, ...], ...] = option(
        "which labels make a group, as lists; none: so many consecutive labels each"
    )
    mix: str = option(
        "share of group 0: fixed (`share` of one's own group), linear from client to client, or random",
        choices=("fixed", "linear", "random"),
    )
    share: float = option("of a client's samples that are of its own group, where mix is fixed", low=0, high=1)
    shuffled: bool = option("clients are dealt to groups at random; else the first are of group 0, and so on")
    samples: int = option("training and validation samples of each client; 0: the groups' are shared out equally", low=0)
    test_samples: int = option("test samples of each client; 0: the groups' are shared out equally", low=0)
    swapped: bool = option("tests have the mixture the other way round: what one trained on least, one is tested on most")
    fresh: float = option("share of the tests that the client may look at, instead of being tested on it", low=0, below=1)

    def check(self, kind: str, n_classes: int) -> None:
        if self.by == "rotation" and kind != "image":
            raise ConfigError("partition.by", self.by, f"turns images, the data set holds {kind}")
        if self.by == "rotation" and self.groups > TURNS:
            raise ConfigError("partition.groups", self.groups, f"there are {TURNS} ways to turn an image")
        if self.by == "labels" and not n_classes:
            raise ConfigError("partition.by", self.by, "the data set has numbers as targets")
        if self.by == "labels" and self.groups > n_classes:
            raise ConfigError("partition.groups", self.groups, f"must be ≤ {n_classes}, the number of classes")
        if self.label_groups and len(self.label_groups) != self.groups:
            raise ConfigError("partition.label_groups", self.label_groups, f"must be {self.groups} lists (partition.groups)")
        named = [label for labels in self.label_groups for label in labels]
        if len(set(named)) != len(named) or any(label not in range(n_classes) for label in named):
            raise ConfigError("partition.label_groups", self.label_groups, f"each of 0 … {n_classes - 1} at most once")
        if self.groups > 2 and self.mix != "fixed":
            raise ConfigError("partition.mix", self.mix, f"is for two groups, there are {self.groups} (partition.groups)")

    def labels_of(self, n_classes: int) -> list[list[int]]:
        """The labels of each group."""
        if self.label_groups:
            return [list(labels) for labels in self.label_groups]
        return [part.tolist() for part in np.array_split(np.arange(n_classes), self.groups)]

    def mixtures(self, n_seen: int, n_unseen: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Each client's own group (N) and what it trains on (N×G, rows sum to 1); those who only judge are made alike."""
        places = np.concatenate([np.arange(n) / max(n, 1) for n in (n_seen, n_unseen)])
        group = (places * self.groups).astype(int)
        if self.shuffled:
            group = rng.permutation(np.arange(len(places)) % self.groups)
        if self.mix == "fixed":
            rows = np.full((len(places), self.groups), (1 - self.share) / (self.groups - 1))
            rows[np.arange(len(places)), group] = self.share
            return group, rows
        first = rng.random(len(places))
        if self.mix == "linear":
            first = np.concatenate([(0.5 + np.arange(n)) / max(n, 1) for n in (n_seen, n_unseen)])
        rows = np.stack([first, 1 - first], axis=1)
        return rows.argmax(1), rows

    def tested_on(self, group: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """The mixtures that clients are tested on (N×G)."""
        if not self.swapped:
            return rows
        if self.groups == 2:
            return rows[:, ::-1]
        swapped = np.full_like(rows, self.share / (self.groups - 1))
        swapped[np.arange(len(rows)), group] = 1 - self.share
        return swapped

    def deal(self, table: Table) -> Deal:
        data, rng = table.data, table.streams("partition")
        group, rows = self.mixtures(table.n_clients - table.n_unseen, table.n_unseen, rng)
        turns: dict[str, np.ndarray] = {}
        pools = {}
        for part, labels, kept in (
            ("train", np.asarray(data.y_train), table.kept),
            ("test", np.asarray(data.y_test), np.arange(len(data.y_test))),
        ):
            order = rng.permutation(kept)
            if self.by == "rotation":
                pools[part] = np.array_split(order, self.groups)
                turns[part] = np.zeros(len(labels), dtype=np.int64)
                for turn, pool in enumerate(pools[part]):
                    turns[part][pool] = turn
            else:
                pools[part] = [order[np.isin(labels[order], own)] for own in self.labels_of(data.n_classes)]
        held = shared_out(pools["train"], rows, self.samples)
        test = shared_out(pools["test"], self.tested_on(group, rows), self.test_samples)
        smallest = min(range(len(held)), key=lambda i: len(held[i]))
        if len(held[smallest]) < self.min_size or not all(len(share) for share in test):
            raise ConfigError(
                "n_clients", table.n_clients, f"client {smallest} would hold {len(held[smallest])} samples to train on; "
                f"at least {self.min_size} (partition.min_size), and one to test on",
            )  # fmt: skip
        fresh = Shares()
        if self.fresh > 0:
            test, fresh = set_aside(test, self.fresh, "fresh", table.streams)
        validation = Shares()
        if table.validation_fraction > 0:
            held, validation = set_aside(held, table.validation_fraction, "own validation", table.streams)
        return Deal(
            held, validation, test,
            truth={"group": group, "share_of_group_0": rows[:, 0]},
            distributions={f"theta_{k}": np.sort(pool) for k, pool in enumerate(pools["test"])},
            fresh=fresh,
            turns=turns,
        )  # fmt: skip


def shared_out(pools: list[np.ndarray], rows: np.ndarray, samples: int) -> Shares:
    """Samples of some pools (G) dealt in each client's mixture (N×G), so many each, or fewer alike if a pool is too small.

    samples = 0: each pool is shared out in proportion to what the clients want of it.
    """
    sizes = np.array([len(pool) for pool in pools])
    wanted = rows.sum(0)
    if samples:
        needed = samples * wanted
        samples = int(samples * min(1.0, float((sizes / np.maximum(needed, 1e-9)).min())) + 1e-9)
        bounds = np.rint(np.cumsum(rows, axis=1) * samples).astype(int)
        counts = np.diff(bounds, axis=1, prepend=0)
        cuts = np.minimum(counts.cumsum(0), sizes)
    else:
        cuts = np.rint(rows.cumsum(0) / np.maximum(wanted, 1e-12) * sizes).astype(int)
    pieces = [np.split(pool, cuts[:-1, k]) for k, pool in enumerate(pools)]
    last = cuts[-1] - (cuts[-2] if len(cuts) > 1 else 0)
    for k, piece in enumerate(pieces):
        piece[-1] = piece[-1][: last[k]]
    return [np.concatenate([piece[i] for piece in pieces]) for i in range(len(rows))]
