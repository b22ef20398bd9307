"""FedFomo: each client downloads the models that promise most and mixes in what helps it (Zhang et al. 2021).

Client i gets the M models of the last round with the largest P_ij. Each is worth u_ij = (L_i(θ_i) − L_i(θ_j)) /
‖θ_j − θ_i‖ to it, by loss on its validation samples, θ_i being where it started last time; it starts from Σ_j w_ij θ_j
with w = max(u, 0), normalised, and P_ij grows by u_ij.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from fedincent.config import option
from fedincent.federation import Federation, Job, LocalTask, Recipe, Round
from fedincent.mechanisms.base import Mechanism

TINY = 1e-5  # added to distances


@dataclass(kw_only=True)
class FedFomo(Mechanism):
    """Each client mixes those of the others' models that help it most (Zhang et al. 2021)."""

    saved: ClassVar[tuple[str, ...]] = ("models", "begun", "promise", "sent")

    downloads: int = option("models M that a client may download in a round", low=1)

    def needs_validation(self) -> bool:
        return True

    def start(self, federation: Federation) -> None:
        super().start(federation)
        self.begun = federation.replicas()  # where each client's last training began (N×D)
        self.promise = torch.eye(federation.n, dtype=torch.float64)  # P (N×N)
        self.sent = torch.zeros(federation.n, dtype=torch.bool)  # who sent a model in the last round

    def shares(self, clients: list[int]) -> torch.Tensor:
        """W (clients×N): how much of each model each of some clients takes; a row of zeros: it goes on with its own."""
        offered = self.sent.nonzero().flatten()
        found = torch.zeros(len(clients), self.federation.n, dtype=torch.float64)
        if not len(offered):
            return found
        asked: list[tuple[int, list[int]]] = []  # a client, and the models it downloads
        for i in clients:
            order = (-self.promise[i, offered]).argsort(stable=True)[: self.downloads]
            asked.append((i, offered[order].tolist()))
        n = self.federation.n
        pairs = [pair for i, models in asked for pair in ((n + i, i), *((j, i) for j in models))]
        losses = iter(
            [loss for _, loss in self.federation.judge_pairs(torch.cat([self.models, self.begun]), pairs, "validation")]
        )
        for place, (i, models) in enumerate(asked):
            mine = next(losses)
            worth = torch.tensor([mine - next(losses) for _ in models], dtype=torch.float64)
            worth /= torch.stack([(self.models[j] - self.begun[i]).norm().double().cpu() for j in models]) + TINY
            self.promise[i, models] += worth
            good = worth.clamp(min=0)
            if good.sum() > 0:
                found[place, models] = good / good.sum()
        return found

    def jobs(self, round: Round, recipe: Recipe) -> tuple[torch.Tensor, list[Job]]:
        clients, task = round.joined.nonzero().flatten().tolist(), LocalTask.of(recipe, round.index)
        shares = self.shares(clients)
        mixed = torch.where(shares.sum(1, keepdim=True) > 0, 1.0, 0.0).to(self.models)
        pool = shares.to(self.models) @ self.models + (1 - mixed) * self.models[clients]
        self.begun[clients] = pool
        return pool, [Job(i, place, task) for place, i in enumerate(clients)]

    def receive(self, round: Round, updates: torch.Tensor) -> None:
        clients = [job.client for job in round.jobs]
        self.models[clients] = self.begun[clients] + updates
        self.sent.zero_()
        self.sent[clients] = True
