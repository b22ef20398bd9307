"""Ditto: beside FedAvg's model each client trains one of its own, pulled towards the common one (Li et al. 2021).

v_i ← v_i − η(∇F_i(v_i) + µ(v_i − w)), w as received in this round. µ = 0 is standalone training.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

import torch

from fedincent.config import option
from fedincent.federation import Federation, Job, LocalTask, Recipe, Round
from fedincent.mechanisms.fedavg import FedAvg


@dataclass(kw_only=True)
class Ditto(FedAvg):
    """A model of one's own beside the common one, pulled towards it (Li et al. 2021)."""

    saved: ClassVar[tuple[str, ...]] = ("common", "own")

    mu: float = option("strength µ of the pull to the common model; 0 is training alone", low=0)
    own_epochs: int = option("passes by which a client trains its own model in a round", low=1)

    def start(self, federation: Federation) -> None:
        super().start(federation)
        self.own = federation.replicas()  # V (N×D)

    def jobs(self, round: Round, recipe: Recipe) -> tuple[torch.Tensor, list[Job]]:
        clients = round.joined.nonzero().flatten().tolist()
        common = LocalTask.of(recipe, round.index)
        own = dataclasses.replace(common, epochs=self.own_epochs, proximal=self.mu, anchor=0)
        pool = torch.cat([self.common[None], self.own[clients]])
        first = [Job(i, 1 + place, own) for place, i in enumerate(clients)]
        return pool, [*first, *(Job(i, 0, common) for i in clients)]

    def receive(self, round: Round, updates: torch.Tensor) -> None:
        half = len(round.jobs) // 2
        clients = [job.client for job in round.jobs[:half]]
        self.own[clients] += updates[:half]
        common = updates.new_zeros(self.federation.n, updates.shape[1])
        common[clients] = updates[half:]
        self.reward(round, common)

    def personal(self) -> torch.Tensor:
        return self.own
