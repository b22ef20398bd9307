"""What a contribution measure is: a number p_i ≥ 0 for each client, fixed or anew each round."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from fedincent.federation import Federation, Round
from fedincent.schema import Stateful


@dataclass(frozen=True)
class Baseline:
    """How well each client does alone (N each): on the test set, and on the held-out set where there is one."""

    accuracy: Tensor
    loss: Tensor
    held_out_accuracy: Tensor  # empty where nothing is held out


@dataclass(kw_only=True)
class Contribution(Stateful):
    """Base of all measures; a fixed one sets `values` in `start` and is done."""

    def start(self, federation: Federation, baseline: Baseline) -> None:
        """Set what is known before the first round: `values` (N), the contributions as they stand."""
        self.values = baseline.accuracy.new_zeros(federation.n)

    def measure(self, round: Round, updates: Tensor) -> Tensor:
        """Contributions p (N) in this round, from the updates G (N×D) where the measure needs them."""
        return self.values
