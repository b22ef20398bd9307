"""The cosine gradient Shapley value as a running importance (Xu et al. 2021, eq. 2–4), and its Euclidean rival."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fedincent.contributions.base import Running
from fedincent.federation import Round


def lengths_of(updates: torch.Tensor) -> torch.Tensor:
    """‖g_i‖ + 1e-7 (N), by which an update is divided to bring it to norm 1."""
    return updates.norm(dim=1) + 1e-7


def cosines(updates: torch.Tensor, aggregate: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
    """ψ_i = cos(g_i, u) (N, float64), eq. 3; 0 for a client without an update."""
    return (updates @ aggregate / (lengths * aggregate.norm()).clamp(min=1e-12)).double().cpu()


@dataclass(kw_only=True)
class CosineImportance(Running):
    """CGSV's importance r_{i,t}, recomputed each round from the cosine between a client's update and the aggregate."""

    def quality(self, round: Round, updates: torch.Tensor) -> torch.Tensor:
        weights = self.federation.data_shares if round.index == 0 else self.values
        lengths = lengths_of(updates)
        aggregate = (weights.to(updates) / lengths) @ updates  # Σ w_i u_i with Γ = 1, which no cosine depends on
        return cosines(updates, aggregate, lengths)


@dataclass(kw_only=True)
class EuclideanCloseness(Running):
    """How near a client's update is to the mean update: 1 − distance / largest distance, so that the farthest has 0."""

    def quality(self, round: Round, updates: torch.Tensor) -> torch.Tensor:
        mean = self.federation.data_shares.to(updates) @ updates
        squared = (updates**2).sum(1) - 2 * (updates @ mean) + mean @ mean  # no second N×D matrix of differences
        distance = squared.double().clamp(min=0).sqrt().cpu()
        top = distance.max()
        return 1 - distance / top if top > 0 else torch.ones_like(distance)
