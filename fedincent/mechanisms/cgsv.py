"""Gradient-driven rewards: a client gets the larger a part of the aggregate the better it agrees with it (Xu et al. 2021).

Updates are brought to norm Γ, u = Σ w_i·u_i is their weighted sum (w: data shares in the first round, importance r later),
and client i receives the ⌈q_i·len⌉ entries of each layer of u that are largest in magnitude (eq. 5), where
q_i = tanh(β·r_i)/max_j tanh(β·r_j). It gets nothing of its own update on top.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fedincent.contributions.cgsv import cosines, moving_importance, normalised
from fedincent.federation import Federation, Round
from fedincent.mechanisms.base import Mechanism
from fedincent.schema import option


@dataclass(kw_only=True)
class CGSV(Mechanism):
    """The share of the aggregate that a client's cosine with it has earned (Xu et al. 2021)."""

    saved: ClassVar[tuple[str, ...]] = ("models", "importance")

    alpha: float = option("weight of the past in the moving average of importance", low=0, below=1)
    beta: float = option("altruism β: the larger, the more equal the shares", above=0)
    gamma: float = option("norm Γ to which every update is brought", above=0)
    mask: str = option(
        "keep the largest entries of each layer (⌈q·len⌉), or of the whole vector (⌊q·D⌋)", choices=("layer", "vector")
    )

    def start(self, federation: Federation) -> None:
        super().start(federation)
        self.importance = torch.zeros(federation.n, dtype=torch.float64)

    def reward(self, round: Round, updates: Tensor) -> None:
        sizes = self.federation.sizes.double()
        weights = sizes / sizes.sum() if round.index == 0 else self.importance
        units = normalised(updates, self.gamma)
        aggregate = weights.to(units) @ units
        self.importance.copy_(moving_importance(self.importance, cosines(units, aggregate), self.alpha))
        shares = torch.tanh(self.beta * self.importance)
        by_layer = self.mask == "layer"
        blocks = list(self.federation.layout.columns.values()) if by_layer else [slice(0, self.federation.dim)]
        add_largest(self.models, aggregate, shares / shares.max(), blocks, round_up=by_layer)


def add_largest(models: Tensor, aggregate: Tensor, shares: Tensor, blocks: list[slice], round_up: bool) -> None:
    """Add to each model (N×D) the largest entries of each block of the aggregate (D): its share (N) of them, rounded."""
    for block in blocks:
        part = aggregate[block]
        wanted = shares * len(part)
        counts = torch.ceil(wanted - 1e-9) if round_up else torch.floor(wanted + 1e-9)
        rank = torch.empty_like(part, dtype=torch.int64)
        rank[part.abs().argsort(descending=True, stable=True)] = torch.arange(len(part), device=part.device)
        models[:, block].add_(part * (rank < counts.to(part.device)[:, None]))
