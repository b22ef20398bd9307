"""What a behaviour is: between training and reward, each client's update passes through it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from fedincent.config import option
from fedincent.config.groups import read_group
from fedincent.config.schema import Stateful
from fedincent.errors import ConfigError
from fedincent.federation import Federation, Round


@dataclass(kw_only=True)
class Behaviour(Stateful):
    """Base of all behaviours; this one is honest: every client sends the update that its training gave."""

    group: ClassVar[str] = "behaviour"

    def neutral(self) -> bool:
        return type(self) is Behaviour

    def start(self, federation: Federation, contribution: Tensor | None) -> None:
        """Before the first round; contribution: what is known of the clients by then (N), if anything."""

    def outcomes(self) -> dict[str, Tensor]:
        """What is to be known of each client at the end (N each), for clients.csv."""
        return {}

    def facts(self) -> dict[str, Any]:
        """What is to be known of the whole run, for its summary."""
        return {}

    def send(self, round: Round, updates: Tensor) -> None:
        """What the clients send, in place of what they found: updates J×D, in the order of the round's jobs."""


@dataclass(kw_only=True)
class Dishonest(Behaviour):
    """Base of those that not all clients share: some are chosen, and send something else."""

    saved: ClassVar[tuple[str, ...]] = ("chosen",)

    clients: tuple[int, ...] = option("which clients behave so; empty: a share of them", low=0)
    share: float = option("share of the clients that behave so, where they are not named", low=0, high=1)
    pick: str = option(
        "how a share is chosen: at random, the best or worst by contributions known before, or those whom the honest run of "
        "the same configuration finds best or worst",
        choices=("random", "best", "worst", "found_best", "found_worst"),
    )

    @property
    def asks_honest_run(self) -> bool:
        """Whether the honest run of the same configuration must be there first."""
        return self.pick.startswith("found_")

    def builds_on(self) -> dict[str, dict[str, Any]]:
        return {"honest": read_group("behaviour", "honest")} if self.asks_honest_run else {}

    def start(self, federation: Federation, contribution: Tensor | None) -> None:
        self.chosen = torch.zeros(federation.n, dtype=torch.bool)
        if any(client >= federation.n for client in self.clients):
            raise ConfigError("behaviour.clients", list(self.clients), f"there are {federation.n} clients, 0 the first")
        self.chosen[self.pick_share(federation, contribution) if not self.clients else list(self.clients)] = True

    def pick_share(self, federation: Federation, contribution: Tensor | None) -> list[int]:
        """So large a share of the clients, by the rule."""
        count = int(np.ceil(self.share * federation.n - 1e-9))
        if self.asks_honest_run:
            clients = federation.found["honest"].clients
            worth = next((clients[name] for name in ("psi", "importance", "contribution") if name in clients), None)
            if worth is None:
                raise ConfigError("behaviour.pick", self.pick, "the mechanism finds no contributions; name clients")
            self.worth = torch.as_tensor(np.array(worth, dtype=np.float64))
            contribution = self.worth
        if self.pick == "random":
            return federation.streams("behaviour").permutation(federation.n)[:count].tolist()
        if contribution is None or float(contribution.max()) == float(contribution.min()):
            raise ConfigError("behaviour.pick", self.pick, "no contributions are known before the first round; name clients")
        return contribution.argsort(descending=self.pick.endswith("best"), stable=True)[:count].tolist()

    def send(self, round: Round, updates: Tensor) -> None:
        for job, update in zip(round.jobs, updates, strict=True):
            if self.chosen[job.client]:
                update.copy_(self.upload(round, job.client, update))

    def outcomes(self) -> dict[str, Tensor]:
        told = {"cheats": self.chosen}
        return {**told, "honest_worth": self.worth} if self.asks_honest_run else told

    def upload(self, round: Round, client: int, update: Tensor) -> Tensor:
        """What a chosen client sends instead of its update (D)."""
        raise NotImplementedError
