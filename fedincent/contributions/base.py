"""What a contribution measure is: a number p_i ≥ 0 for each client, fixed or anew each round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from fedincent.config.schema import Stateful, option
from fedincent.federation import Federation, Round

FLOOR = 1e-3


@dataclass(frozen=True)
class Baseline:
    """How well each client does alone (N each): on the test set, and on the held-out set where there is one."""

    accuracy: torch.Tensor
    loss: torch.Tensor
    held_out_accuracy: torch.Tensor  # empty where nothing is held out


@dataclass(kw_only=True)
class Contribution(Stateful):
    """Base of all measures; a fixed one sets `values` in `start` and is done."""

    group: ClassVar[str] = "contribution"
    needs_standalone: ClassVar[bool] = False  # whether it asks what the clients reach alone

    def start(self, federation: Federation, baseline: Baseline | None) -> None:
        """Set what is known before the first round: `values` (N), the contributions as they stand."""
        self.values = torch.zeros(federation.n, dtype=torch.float64)

    def measure(self, round: Round, updates: torch.Tensor) -> torch.Tensor:
        """Contributions p (N) in this round, from the updates G (N×D) where the measure needs them."""
        return self.values


def moving_importance(importance: torch.Tensor, quality: torch.Tensor, alpha: float) -> torch.Tensor:
    """r ← α·r + (1−α)·quality, floored at 1e-3 and normalised to sum 1 (N) (Xu et al. 2021, eq. 4)."""
    moved = (alpha * importance + (1 - alpha) * quality).clamp(min=FLOOR)
    return moved / moved.sum()


@dataclass(kw_only=True)
class Running(Contribution):
    """Base of measures that find a quality anew each round and keep its moving average: p sums to 1, none below a floor."""

    saved: ClassVar[tuple[str, ...]] = ("values",)

    alpha: float = option("weight of the past in the moving average", low=0, below=1)

    def start(self, federation: Federation, baseline: Baseline | None) -> None:
        self.federation = federation
        self.values = torch.zeros(federation.n, dtype=torch.float64)

    def quality(self, round: Round, updates: torch.Tensor) -> torch.Tensor:
        """How good each client's update is in this round (N, float64); it may be negative."""
        raise NotImplementedError

    def measure(self, round: Round, updates: torch.Tensor) -> torch.Tensor:
        self.values = moving_importance(self.values, self.quality(round, updates), self.alpha)
        return self.values
