"""IncFL: a common model for as many clients as possible to prefer to their own (Cho et al. 2022).

The share of clients with F_k(w) < F_k(ŵ_k) is relaxed to σ(F_k(w) − F_k(ŵ_k)); its gradient weights client k's update by
q_k = σ(z)·(1 − σ(z)), z = F_k(w) − F_k(ŵ_k) at the incoming model (eq. 4): much for those who are undecided, little for
those who are won or lost anyway. θ ← θ + η_g·Σ q_k·Δ_k/(Σ q_k + ε) (eq. 7).
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

import torch

from fedincent.config import option
from fedincent.federation import Federation, Job, LocalTask, Recipe, Round
from fedincent.mechanisms.common import CommonModel


def undecidedness(gap: torch.Tensor) -> torch.Tensor:
    """q = σ(z)·(1 − σ(z)): ¼ at z = 0, the same at z and −z, 0 at both ends (eq. 4)."""
    return torch.sigmoid(gap) * torch.sigmoid(-gap)


def gaps(round: Round, federation: Federation) -> torch.Tensor:
    """z = F_k(w) − F_k(ŵ_k) (N): how much worse the incoming model is than one's own, on one's training data."""
    assert federation.solo_losses is not None
    return round.incoming_losses.double() - federation.solo_losses


@dataclass(kw_only=True)
class IncFL(CommonModel):
    """One common model that as many clients as possible prefer to their own (Cho et al. 2022)."""

    needs_solo_losses: ClassVar[bool] = True

    server_rate: float = option("learning rate η_g of the server", above=0)
    epsilon: float = option("keeps the step finite where nobody is undecided", above=0)
    tune_before_weight: int = option(
        "steps by which a client tunes the incoming model before it compares it with its own; 0: as it is", low=0, neutral=0
    )

    def task(self, recipe: Recipe, round: Round, client: int) -> LocalTask:
        return dataclasses.replace(super().task(recipe, round, client), incoming_loss=not self.tune_before_weight)

    def jobs(self, round: Round, recipe: Recipe) -> tuple[torch.Tensor, list[Job]]:
        pool, jobs = super().jobs(round, recipe)
        if not self.tune_before_weight:
            return pool, jobs
        tuning = LocalTask(lr=recipe.rate(round.index), steps=self.tune_before_weight)
        return pool, [*jobs, *(Job(job.client, job.row, tuning) for job in jobs)]

    def receive(self, round: Round, updates: torch.Tensor) -> None:
        if self.tune_before_weight:
            tuned = [place for place, job in enumerate(round.jobs) if job.slot == 1]
            clients = [round.jobs[place].client for place in tuned]
            rows = self.models.clone()
            rows[clients] += updates[tuned]
            losses = self.federation.judge(rows, "train", True)[1]  # each on its own training data
            round.incoming_losses[clients] = losses[clients].to(round.incoming_losses)
        super().receive(round, updates)

    def weights(self, round: Round, updates: torch.Tensor) -> torch.Tensor:
        q = torch.where(round.joined, undecidedness(gaps(round, self.federation)), 0.0)
        round.note("undecidedness", lambda: q)
        return self.server_rate * q / (q.sum() + self.epsilon)
