"""What a behaviour is: whether clients bring, say and send what they really have.

A client can cheat at five places, in the order of a run: with the data it brings (`bring`, `spoil`, `seats`), with the
number of samples that it reports (`report`), by staying away (`come`), and with what it sends (`send`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch

from fedincent.config import option
from fedincent.config.groups import read_group
from fedincent.config.schema import Stateful
from fedincent.errors import ConfigError
from fedincent.federation import Federation, Round, Shards
from fedincent.federation.round import Found
from fedincent.partitions import Deal
from fedincent.partitions.base import Streams

REWARDS = ("online_accuracy", "online_mape", "accuracy", "mape", "own_accuracy")  # the first there is is what one is given


@dataclass(kw_only=True)
class Behaviour(Stateful):
    """Base of all behaviours; this one is honest: every client sends the update that its training gave."""

    group: ClassVar[str] = "behaviour"
    of_data: ClassVar[bool] = False  # whether it changes what clients bring: what a stage's runs share is then not honest

    def neutral(self) -> bool:
        return type(self) is Behaviour

    def start(self, federation: Federation, contribution: torch.Tensor | None) -> None:
        """Before the first round; contribution: what is known of the clients by then (N), if anything."""

    def outcomes(self) -> dict[str, torch.Tensor]:
        """What is to be known of each client at the end (N each), for clients.csv."""
        return {}

    def facts(self) -> dict[str, Any]:
        """What is to be known of the whole run, for its summary."""
        return {}

    def seats(self, n_clients: int) -> int:
        """How many take part, where so many clients are real: more if some come under several names."""
        return n_clients

    def bring(self, deal: Deal, streams: Streams) -> Deal:
        """What the clients bring of what they hold."""
        return deal

    def spoil(self, shards: Shards, n_classes: int, streams: Streams) -> None:
        """Change the training samples in place."""

    def report(self, sizes: torch.Tensor, streams: Streams) -> torch.Tensor:
        """How many samples the clients say they have (N), in place of how many they do."""
        return sizes

    def come(self, round: Round) -> None:
        """Who of those invited comes: change round.joined in place."""

    def send(self, round: Round, updates: torch.Tensor, pool: torch.Tensor) -> None:
        """What the clients send, in place of what they found: updates J×D, in the order of the round's jobs.

        pool: the models that they trained from (P×D).
        """


@dataclass(kw_only=True)
class Dishonest(Behaviour):
    """Base of those that not all clients share: some are chosen, and send something else."""

    saved: ClassVar[tuple[str, ...]] = ("chosen",)
    works: ClassVar[bool] = True  # whether those who behave so train honestly first, and so save no work

    clients: tuple[int, ...] = option("which clients behave so; empty: a share of them", low=0)
    share: float = option("share of the clients that behave so, where they are not named", low=0, high=1)
    pick: str = option(
        "how a share is chosen: at random, the best or worst by contributions known before, or those whom the honest run of "
        "the same configuration finds best or worst",
        choices=("random", "best", "worst", "found_best", "found_worst"),
    )
    paired: bool = option(
        "first do the honest run of the same configuration, and tell what those who behave so gain against it", neutral=False
    )

    @property
    def asks_honest_run(self) -> bool:
        """Whether the honest run of the same configuration must be there first."""
        return self.pick.startswith("found_")

    def builds_on(self) -> dict[str, dict[str, Any]]:
        return {"honest": read_group("behaviour", "honest")} if self.asks_honest_run or self.paired else {}

    def start(self, federation: Federation, contribution: torch.Tensor | None) -> None:
        self.persons = self.persons_of(federation.n)
        self.honest = federation.found.get("honest")
        self.chosen = self.choose(federation, contribution)[self.persons]
        self.sizes = federation.sizes

    def persons_of(self, seats: int) -> torch.Tensor:
        """Which client takes each seat (N)."""
        return torch.arange(seats)

    def choose(self, federation: Federation, contribution: torch.Tensor | None) -> torch.Tensor:
        """Which clients behave so (boolean)."""
        n = int(self.persons.max()) + 1
        return self.named(n) if self.clients else marked(self.pick_share(federation, contribution), n)

    def named(self, n_clients: int) -> torch.Tensor:
        """Those whom the configuration names (boolean)."""
        if any(client >= n_clients for client in self.clients):
            raise ConfigError("behaviour.clients", list(self.clients), f"there are {n_clients} clients, 0 the first")
        return marked(list(self.clients), n_clients)

    def pick_share(self, federation: Federation, contribution: torch.Tensor | None) -> list[int]:
        """So large a share of the clients, by the rule."""
        n = int(self.persons.max()) + 1
        count = chosen_share(self.share, n)
        if self.asks_honest_run:
            clients = federation.found["honest"].clients
            worth = next((clients[name] for name in ("psi", "importance", "contribution") if name in clients), None)
            if worth is None:
                raise ConfigError("behaviour.pick", self.pick, "the mechanism finds no contributions; name clients")
            self.worth = torch.as_tensor(np.array(worth, dtype=np.float64))
            contribution = self.worth
        if self.pick == "random":
            return federation.streams("behaviour").permutation(n)[:count].tolist()
        if contribution is None or float(contribution.max()) == float(contribution.min()):
            raise ConfigError("behaviour.pick", self.pick, "no contributions are known before the first round; name clients")
        return contribution.argsort(descending=self.pick.endswith("best"), stable=True)[:count].tolist()

    def send(self, round: Round, updates: torch.Tensor, pool: torch.Tensor) -> None:
        for job, update in zip(round.jobs, updates, strict=True):
            if self.chosen[job.client]:
                update.copy_(self.upload(round, job.client, update))

    def outcomes(self) -> dict[str, torch.Tensor]:
        told = {"cheats": self.chosen}
        if self.asks_honest_run:
            told["honest_worth"] = self.worth
        if self.paired:
            assert self.honest is not None
            told |= {"person": self.persons, "saving": self.saving(self.honest) * self.chosen}
            for name in (*REWARDS, "contribution"):
                if name in self.honest.clients:
                    theirs = np.array(self.honest.clients[name], dtype=np.float64)
                    told[f"honest_{name}"] = torch.from_numpy(theirs)[self.persons]
        return told

    def saving(self, honest: Found) -> torch.Tensor:
        """Which share of an honest client's work one that behaves so is spared (N, or a number)."""
        return torch.tensor(0.0 if self.works else 1.0)

    def upload(self, round: Round, client: int, update: torch.Tensor) -> torch.Tensor:
        """What a chosen client sends instead of its update (D); by default the update."""
        return update


@dataclass(kw_only=True)
class Settled(Dishonest):
    """Base of those who behave so from the beginning: who they are is settled by how much each holds, or at random."""

    def settle(self, sizes: np.ndarray, streams: Streams) -> None:
        """Choose them, knowing how many samples each holds (N)."""
        n = len(sizes)
        self.settled = self.named(n) if self.clients else marked(self.by_size(sizes, streams), n)

    def by_size(self, sizes: np.ndarray, streams: Streams) -> list[int]:
        """A share of the clients: at random, or those who hold most or least."""
        count = chosen_share(self.share, len(sizes))
        if self.pick == "random":
            return streams("behaviour").permutation(len(sizes))[:count].tolist()
        if self.pick not in ("best", "worst"):
            why = "begins before anything can be found; random, or best and worst by number of samples"
            raise ConfigError("behaviour.pick", self.pick, f"{type(self).__name__} {why}")
        return np.argsort(-sizes if self.pick == "best" else sizes, kind="stable")[:count].tolist()

    def choose(self, federation: Federation, contribution: torch.Tensor | None) -> torch.Tensor:
        return self.settled


def marked(places: list[int], n: int) -> torch.Tensor:
    """True at some of n places."""
    found = torch.zeros(n, dtype=torch.bool)
    found[places] = True
    return found


def chosen_share(share: float, n: int) -> int:
    """How many of n clients a share is, at least one unless it is 0."""
    return int(np.ceil(share * n - 1e-9))
