"""Rewards that are a part of the aggregate: its largest entries, as many as a client's contribution has earned.

This is the reward rule of Xu et al. 2021 (eq. 5). Which measure of contribution decides is open: any one in contributions/.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from fedincent.config import option
from fedincent.contributions.cgsv import lengths_of
from fedincent.federation import Federation, Round
from fedincent.mechanisms.base import Mechanism


@dataclass(kw_only=True)
class SparseReward(Mechanism):
    """The largest entries of the aggregate, as many as one's contribution has earned (Xu et al. 2021, eq. 5)."""

    saved: ClassVar[tuple[str, ...]] = ("models", "importance", "server")
    uses_contribution: ClassVar[bool] = True

    beta: float | None = option(
        "altruism β: shares go by tanh(β·r), the larger the more equal; null: in proportion to r", above=0
    )
    gamma: float | None = option("norm Γ to which every update is brought; null: updates stay as they are", above=0)
    weights: str = option(
        "what updates are weighted by after the first round, always by data size in it",
        choices=("importance", "sizes"),
        neutral="importance",
    )
    mask: str = option(
        "keep the largest entries of each layer (⌈q·len⌉), or of the whole vector (⌊q·D⌋)", choices=("layer", "vector")
    )

    def start(self, federation: Federation) -> None:
        super().start(federation)
        self.importance = torch.zeros(federation.n, dtype=torch.float64)
        self.server = federation.initial.clone()  # the model of one who always gets everything

    def value(self, round: Round, updates: torch.Tensor, aggregate: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """The importance r (N) that this round leaves the clients with, from their updates as they were sent (N×D)."""
        return self.federation.contribution.measure(round, updates)

    def reward(self, round: Round, updates: torch.Tensor) -> None:
        by_size = round.index == 0 or self.weights == "sizes"
        weights = (self.federation.data_shares if by_size else self.importance).to(updates)
        lengths = lengths_of(updates)
        aggregate = (weights if self.gamma is None else weights * self.gamma / lengths) @ updates  # eq. 1
        importance = self.value(round, updates, aggregate, lengths).clamp(min=0)
        total = importance.sum()
        self.importance.copy_(importance / total if total > 0 else torch.full_like(importance, 1 / len(importance)))
        shares = self.importance if self.beta is None else torch.tanh(self.beta * self.importance)
        shares = shares / shares.max()
        by_layer = self.mask == "layer"
        blocks = list(self.federation.layout.columns.values()) if by_layer else [slice(0, self.federation.dim)]
        before = round.aside(self.models.clone)
        kept = add_largest(self.models, aggregate, shares, blocks, round_up=by_layer)
        self.server.add_(aggregate)
        round.note("share", lambda: shares)
        round.note("kept", lambda: kept / self.federation.dim)
        if before is not None:
            layout = self.federation.layout
            last = layout.columns_of(layout.linear[-1:])
            round.note("reward_distance", lambda: (self.models - before - aggregate).norm(dim=1))
            moved = (self.server - self.federation.initial).norm()
            round.note("server_from_start", lambda: moved.expand(len(shares)))
            round.note("server_distance", lambda: (self.models - self.server).norm(dim=1))
            round.note("last_layer_distance", lambda: (self.models - self.server)[:, last].norm(dim=1))


def add_largest(
    models: torch.Tensor, aggregate: torch.Tensor, shares: torch.Tensor, blocks: list[slice], round_up: bool
) -> torch.Tensor:
    """Add to each model (N×D) the largest entries of each block of the aggregate (D): its share (N) of them, rounded.

    Gives how many entries each client got (N).
    """
    kept = torch.zeros(len(shares), dtype=torch.float64)
    for block in blocks:
        part = aggregate[block]
        wanted = shares * len(part)
        counts = torch.ceil(wanted - 1e-9) if round_up else torch.floor(wanted + 1e-9)
        rank = torch.empty_like(part, dtype=torch.int64)
        rank[part.abs().argsort(descending=True, stable=True)] = torch.arange(len(part), device=part.device)
        models[:, block].add_(part * (rank < counts.to(part.device)[:, None]))
        kept += counts
    return kept
