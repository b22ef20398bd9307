"""Base of mechanisms that train one model for everybody."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from fedincent.federation import Federation, Round
from fedincent.mechanisms.base import Mechanism


@dataclass(kw_only=True)
class CommonModel(Mechanism):
    """One model θ that everybody trains from: θ ← θ + w·G with weights w that a subclass finds."""

    saved: ClassVar[tuple[str, ...]] = ("common",)

    def start(self, federation: Federation) -> None:
        self.federation = federation
        self.common = federation.initial.clone()
        self.models = self.common.expand(federation.n, -1)  # N×D, one row in memory

    def weights(self, round: Round, updates: torch.Tensor) -> torch.Tensor:
        """What each client's update counts (N); rows of those who did not join are zero anyway."""
        raise NotImplementedError

    def reward(self, round: Round, updates: torch.Tensor) -> None:
        if round.joined.any():
            self.common.add_(self.weights(round, updates).to(updates) @ updates)
