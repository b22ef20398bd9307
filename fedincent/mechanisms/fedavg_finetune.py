"""FedAvg with one local epoch at the end (McMahan et al. 2017; a baseline of Wu et al. 2024)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from fedincent.federation import Federation, LocalTask, Round
from fedincent.mechanisms.base import Mechanism
from fedincent.schema import Recipe, option


@dataclass(kw_only=True)
class FedAvgFinetune(Mechanism):
    """One common model moves by the uniform mean of the joined updates: θ ← θ + mean g_i; then each client fine-tunes it."""

    saved: ClassVar[tuple[str, ...]] = ("common",)

    finetune_epochs: int = option("local epochs on the final model, at the first round's rate; 0 for none", low=0)

    def start(self, federation: Federation) -> None:
        self.federation = federation
        self.common = federation.initial.clone()
        self.models = self.common.expand(federation.n, -1)  # N×D, one row in memory

    def reward(self, round: Round, updates: Tensor) -> None:
        if round.joined.any():
            self.common.add_(updates.sum(0) / round.joined.sum())

    def closing_task(self, recipe: Recipe) -> LocalTask | None:
        return LocalTask(lr=recipe.lr, epochs=self.finetune_epochs) if self.finetune_epochs else None
