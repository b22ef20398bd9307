"""The cosine gradient Shapley value as a running importance (Xu et al. 2021, eq. 2–4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fedincent.contributions.base import Baseline, Contribution
from fedincent.federation import Federation, Round
from fedincent.schema import option

FLOOR = 1e-3


def normalised(updates: Tensor, norm: float) -> Tensor:
    """u_i = Γ·g_i/(‖g_i‖ + 1e-7), in place (N×D)."""
    return updates.mul_(norm / (updates.norm(dim=1, keepdim=True) + 1e-7))


def cosines(units: Tensor, aggregate: Tensor) -> Tensor:
    """ψ_i = cos(u_i, u) (N, float64); 0 for a client without an update."""
    lengths = units.norm(dim=1) * aggregate.norm()
    return (units @ aggregate / lengths.clamp(min=1e-12)).double().cpu()


def moving_importance(importance: Tensor, psi: Tensor, alpha: float) -> Tensor:
    """r ← α·r + (1−α)·ψ, floored at 1e-3 and normalised to sum 1 (N)."""
    moved = (alpha * importance + (1 - alpha) * psi).clamp(min=FLOOR)
    return moved / moved.sum()


@dataclass(kw_only=True)
class CosineImportance(Contribution):
    """CGSV's importance r_{i,t}, recomputed each round from the cosine between a client's update and the aggregate."""

    saved: ClassVar[tuple[str, ...]] = ("values",)

    alpha: float = option("weight of the past in the moving average", low=0, below=1)

    def start(self, federation: Federation, baseline: Baseline) -> None:
        self.values = torch.zeros(federation.n, dtype=torch.float64)
        self.data_shares = federation.sizes.double() / federation.sizes.sum()

    def measure(self, round: Round, updates: Tensor) -> Tensor:
        weights = (self.data_shares if round.index == 0 else self.values).to(updates)
        lengths = updates.norm(dim=1) + 1e-7
        aggregate = (weights / lengths) @ updates  # Σ w_i u_i with Γ = 1, which no cosine depends on
        self.values = moving_importance(self.values, cosines(updates, aggregate), self.alpha)
        return self.values
