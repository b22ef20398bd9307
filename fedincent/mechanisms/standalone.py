"""Training alone: the baseline of every incentive metric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from fedincent.federation import Round
from fedincent.mechanisms.base import Mechanism


@dataclass(kw_only=True)
class Standalone(Mechanism):
    """Every client keeps its own update and gets nobody else's: Θ ← Θ + G."""

    alone: ClassVar[bool] = True

    def invite(self, round: Round) -> torch.Tensor:
        return torch.ones(self.federation.n, dtype=torch.bool)

    def reward(self, round: Round, updates: torch.Tensor) -> None:
        self.models.add_(updates)
