"""FedALA: each client learns, number by number, how much of the common model's last layer to take (Zhang et al. 2023).

Client i starts from the common model w, but for the last layer: there from θ_i + ω_i∘(w − θ_i), θ_i being what it
trained last. ω_i starts at 1, stays within 0 and 1, and learns on a part of the client's samples:
ω ← ω − η·∇_θF∘(w − θ_i). The models that start a round, mixed but not yet trained, are what is judged.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

import torch

from fedincent.config import option
from fedincent.federation import Federation, Job, LocalTask, Recipe, Round
from fedincent.federation.jobs import Mixing
from fedincent.mechanisms.fedavg import FedAvg


@dataclass(kw_only=True)
class FedALA(FedAvg):
    """FedAvg whose clients mix the common model with their own before they train (Zhang et al. 2023)."""

    saved: ClassVar[tuple[str, ...]] = ("common", "own", "weights_of", "begun")

    rate: float = option("rate η at which the mixture is learned", above=0)
    share: float = option("of a client's samples that the mixture is learned on", above=0, high=1)
    tensors: int = option("how many of the model's last tensors are mixed; 2: weights and biases of the last layer", low=1)
    steady: float = option(
        "the first time, a client learns until the losses of its last ten passes deviate by less", above=0
    )

    def start(self, federation: Federation) -> None:
        super().start(federation)
        columns = list(federation.layout.columns.values())[-self.tensors :]
        self.columns = (columns[0].start, columns[-1].stop)
        self.own = federation.replicas()  # what each trained last (N×D)
        self.weights_of = torch.ones(federation.n, self.columns[1] - self.columns[0])  # ω (N×D_h)
        self.begun = torch.zeros(federation.n, dtype=torch.bool)  # who has learned ω before

    def mixing_jobs(self, task: LocalTask, trains: torch.Tensor) -> tuple[torch.Tensor, list[Job]]:
        """Everybody mixes; some (N, boolean) go on to train from what they have mixed."""
        jobs = []
        for i in range(self.federation.n):
            steady = None if self.begun[i] else self.steady
            mixing = Mixing(1 + i, self.columns, self.weights_of[i].numpy(), self.rate, self.share, steady)
            own_task = dataclasses.replace(task, mixing=mixing)
            jobs.append(Job(i, 0, own_task if trains[i] else dataclasses.replace(own_task, epochs=0, steps=None)))
        return torch.cat([self.common[None], self.own]), jobs

    def jobs(self, round: Round, recipe: Recipe) -> tuple[torch.Tensor, list[Job]]:
        return self.mixing_jobs(LocalTask.of(recipe, round.index), round.joined)

    def receive(self, round: Round, updates: torch.Tensor) -> None:
        self.begun |= (self.common != self.own).any(1).cpu()
        for job, report in zip(round.jobs, round.reports, strict=True):
            self.weights_of[job.client] = torch.from_numpy(report.mixing_weights)
        trained = round.joined.nonzero().flatten()
        self.own[trained] = self.common + updates[trained]  # there is one job for each client, in their order
        updates[~round.joined] = 0
        self.reward(round, updates)

    def personal(self) -> torch.Tensor:
        """The present mixtures; before the end, clients learn once more how to mix (`closing_jobs`)."""
        columns = slice(*self.columns)
        rows = self.common.repeat(self.federation.n, 1)
        mine = self.own[:, columns]
        rows[:, columns] = mine + self.weights_of.to(mine) * (rows[:, columns] - mine)
        return rows

    def closing_jobs(self, recipe: Recipe) -> tuple[torch.Tensor, list[Job]]:
        return self.mixing_jobs(LocalTask.of(recipe, 0), torch.zeros(self.federation.n, dtype=torch.bool))
