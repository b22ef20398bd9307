"""Local and global parts: the last fully connected layers are averaged, all others stay one's own (Liang et al. 2020)."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fedincent.config import option
from fedincent.federation import Federation, Round
from fedincent.mechanisms.base import Mechanism


@dataclass(kw_only=True)
class LGFedAvg(Mechanism):
    """Clients share the last fully connected layers and keep their own feature layers."""

    shared_layers: int = option("how many of the last fully connected layers are shared", low=1)

    def start(self, federation: Federation) -> None:
        super().start(federation)
        layers = federation.layout.linear[-self.shared_layers :]
        self.shared = federation.layout.columns_of(layers).to(federation.initial.device)

    def reward(self, round: Round, updates: torch.Tensor) -> None:
        if round.joined.any():
            updates[:, self.shared] = updates[:, self.shared].sum(0) / round.joined.sum()
            self.models.add_(updates)
