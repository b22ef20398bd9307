"""Clients that bring other data than they hold, or come under another name."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch

from fedincent.behaviours.base import Settled, chosen_share
from fedincent.config import option
from fedincent.errors import ConfigError
from fedincent.federation import Shards
from fedincent.federation.round import Found
from fedincent.partitions import Deal
from fedincent.partitions.base import Streams


@dataclass(kw_only=True)
class OfData(Settled):
    """Base of those: they change what the clients bring."""

    of_data: ClassVar[bool] = True

    def bring(self, deal: Deal, streams: Streams) -> Deal:
        self.settle(np.array([len(share) for share in deal.train]), streams)
        return self.brought(deal, self.settled.numpy(), streams)

    def brought(self, deal: Deal, chosen: np.ndarray, streams: Streams) -> Deal:
        """What the clients bring; chosen: which of them behave so (N)."""
        return deal


@dataclass(kw_only=True)
class Withholds(OfData):
    """Brings a share of its samples, saves the work of the rest: gains where reward does not follow contribution."""

    keep: float = option("share of its samples that it brings, at least one sample", low=0, high=1)

    def brought(self, deal: Deal, chosen: np.ndarray, streams: Streams) -> Deal:
        efforts = np.where(chosen, self.keep, 1.0)
        return dataclasses.replace(deal, train=kept(deal.train, efforts, streams))

    def saving(self, honest: Found) -> torch.Tensor:
        theirs = torch.from_numpy(np.array(honest.clients["n_samples"], dtype=np.float64))
        return 1 - self.sizes.double() / theirs


@dataclass(kw_only=True)
class Effort(OfData):
    """Everybody brings a share of its samples: those chosen `own`, all others what is common to clients of their type.

    This is how the effort game is measured (docs/audit.md). Client i is of type i mod the number of types.
    """

    common: tuple[float, ...] = option("shares that the others bring, one for each type of client", low=0, high=1)
    own: float = option("share that the chosen ones bring", low=0, high=1)

    def brought(self, deal: Deal, chosen: np.ndarray, streams: Streams) -> Deal:
        others = np.resize(np.array(self.common), len(chosen))
        return dataclasses.replace(deal, train=kept(deal.train, np.where(chosen, self.own, others), streams))

    def facts(self) -> dict[str, Any]:
        return {"effort": {"common": list(self.common), "own": self.own}}


def kept(shares: list[np.ndarray], efforts: np.ndarray, streams: Streams) -> list[np.ndarray]:
    """The given share of each client's samples, at least one, in their order; a larger share holds a smaller one."""
    parts = []
    for client, (share, effort) in enumerate(zip(shares, efforts.tolist(), strict=True)):
        order = streams("effort", client=client).permutation(len(share))
        count = max(1, round(effort * len(share)))
        parts.append(share[np.sort(order[:count])])
    return parts


@dataclass(kw_only=True)
class WrongLabels(OfData):
    """Gives a share of its samples wrong labels: gains where quantity counts, and careful labelling is work."""

    wrong: float = option("share of its samples that are labelled wrongly", low=0, high=1)

    def spoil(self, shards: Shards, n_classes: int, streams: Streams) -> None:
        if not n_classes:
            raise ConfigError("behaviour", "wrong_labels", "the data set has numbers as targets, no labels")
        for client in self.settled.nonzero().flatten().tolist():
            _, y = shards.of(client)
            rng = streams("wrong labels", client=client)
            wrong = torch.from_numpy(rng.permutation(len(y))[: round(self.wrong * len(y))])
            y[wrong] = (y[wrong] + torch.from_numpy(rng.integers(1, n_classes, len(wrong))).to(y)) % n_classes


@dataclass(kw_only=True)
class Sybils(OfData):
    """Comes as two clients, each with half of its samples, and takes the better reward: gains where heads are counted."""

    def seats(self, n_clients: int) -> int:
        return n_clients + len(self.clients or range(chosen_share(self.share, n_clients)))

    def persons_of(self, seats: int) -> torch.Tensor:
        return self.holders

    def brought(self, deal: Deal, chosen: np.ndarray, streams: Streams) -> Deal:
        doubled = np.flatnonzero(chosen)
        persons = np.concatenate([np.arange(len(chosen)), doubled])
        self.holders = torch.from_numpy(persons)
        train = list(deal.train)
        for client in doubled.tolist():
            if len(train[client]) < 2:
                raise ConfigError("behaviour", "sybils", f"client {client} holds one sample, which cannot be split in two")
            mine = np.zeros(len(train[client]), dtype=bool)
            mine[streams("sybils", client=client).permutation(len(mine))[: len(mine) // 2]] = True
            train.append(train[client][mine])
            train[client] = train[client][~mine]

        def again(shares: list[np.ndarray]) -> list[np.ndarray]:
            return [shares[person] for person in persons] if shares else []

        truth = {name: values[persons] for name, values in deal.truth.items()}
        kept_aside = {"validation": again(deal.validation), "test": again(deal.test), "fresh": again(deal.fresh)}
        return Deal(train, **kept_aside, truth=truth, distributions=deal.distributions, turns=deal.turns)
