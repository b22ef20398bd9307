"""q-FFL: clients that do badly with the common model count more, for equal losses (Li et al. 2020, q-FedAvg).

With F_k the loss of the incoming model on client k's training data and Δ_k its update over the learning rate,
θ ← θ + Σ F_k^q·Δ_k / Σ h_k, where h_k = q·F_k^(q−1)·‖Δ_k‖² + F_k^q/lr. At q = 0 this is FedAvg with equal weights.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import torch

from fedincent.config import option
from fedincent.federation import LocalTask, Recipe, Round
from fedincent.mechanisms.common import CommonModel


@dataclass(kw_only=True)
class QFFL(CommonModel):
    """One common model for equal losses: those who do badly with it count more (Li et al. 2020)."""

    q: float = option("how much bad losses count: 0 is FedAvg, large is the worst client alone", low=0)

    def task(self, recipe: Recipe, round: Round, client: int) -> LocalTask:
        return dataclasses.replace(super().task(recipe, round, client), incoming_loss=True)

    def weights(self, round: Round, updates: torch.Tensor) -> torch.Tensor:
        joined = round.joined
        losses = round.incoming_losses.double()[joined].clamp(min=1e-10)
        squares = (updates.norm(dim=1).double().cpu()[joined] / round.lr) ** 2
        steepness = self.q * losses ** (self.q - 1) * squares + losses**self.q / round.lr
        weights = round.losses.new_zeros(len(joined)).double()
        weights[joined] = losses**self.q / round.lr / steepness.sum()
        return weights
