"""MW-Fed: clients that the common model serves worse than their own do more local steps, by multiplicative weights.

Client k does ⌈effort_k·τ⌉ steps. Whenever it joins and finds the incoming model worse on its training data than its own
model ŵ_k, its effort grows by the factor 1 + rate; where the incoming model is better it shrinks by the same factor.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import ClassVar

import torch

from fedincent.config import option
from fedincent.federation import Federation, LocalTask, Recipe, Round
from fedincent.mechanisms.fedavg import FedAvg
from fedincent.mechanisms.incfl import gaps


@dataclass(kw_only=True)
class MWFed(FedAvg):
    """FedAvg in which those who are served badly work more (after Blum et al. 2021)."""

    saved: ClassVar[tuple[str, ...]] = ("common", "effort")
    needs_solo_losses: ClassVar[bool] = True

    rate: float = option("by how much the effort grows or shrinks at a time", above=0)
    most: float = option("largest effort, and the inverse of the smallest", low=1)

    def start(self, federation: Federation) -> None:
        super().start(federation)
        self.effort = torch.ones(federation.n, dtype=torch.float64)

    def task(self, recipe: Recipe, round: Round, client: int) -> LocalTask:
        plain = super().task(recipe, round, client)
        per_pass = math.ceil(int(self.federation.sizes[client]) / recipe.batch_size)
        steps = plain.steps or per_pass * plain.epochs
        return dataclasses.replace(plain, steps=math.ceil(float(self.effort[client]) * steps - 1e-9), incoming_loss=True)

    def reward(self, round: Round, updates: torch.Tensor) -> None:
        worse = gaps(round, self.federation) > 0
        factor = torch.where(worse, 1 + self.rate, 1 / (1 + self.rate)).double()
        changed = (self.effort * factor).clamp(1 / self.most, self.most)
        self.effort.copy_(torch.where(round.joined, changed, self.effort))
        round.note("effort", lambda: self.effort)
        super().reward(round, updates)
