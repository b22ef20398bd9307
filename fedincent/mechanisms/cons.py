"""Consistency regularisation: losses of the chosen nodes are pulled together (baseline of Lin et al. 2023).

With L_j the loss of the common model on node j's samples, the step is that of Σ p_j L_j + λ·Σ_j Σ_k (L_j − L_k)². Its
gradient is Σ_j (p_j + 4λn·(L_j − L̄))·∇L_j for the n chosen nodes; over the mean of pairs instead of their sum the
factor is 4λ/n.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import torch

from fedincent.config import option
from fedincent.federation import LocalTask, Recipe, Round
from fedincent.mechanisms.stale import Stale


@dataclass(kw_only=True)
class Cons(Stale):
    """One common model; nodes with a larger loss than the mean weigh more (Lin et al. 2023, app. C)."""

    strength: float = option("λ, how much different losses cost", low=0)
    pairs: str = option("whether the differences of all pairs are averaged or summed up", choices=("mean", "sum"))

    def task(self, recipe: Recipe, round: Round, client: int) -> LocalTask:
        return dataclasses.replace(super().task(recipe, round, client), incoming_loss=True)

    def weights(self, round: Round, updates: torch.Tensor) -> torch.Tensor:
        joined, shares = round.joined, self.federation.data_shares
        count = int(joined.sum())
        losses = round.incoming_losses.double()[joined]
        factor = 4 * self.strength * (count if self.pairs == "sum" else 1 / count)
        weights = torch.zeros_like(shares)
        weights[joined] = shares[joined] + factor * (losses - losses.mean())
        return weights
