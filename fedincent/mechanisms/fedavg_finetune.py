"""FedAvg with one local epoch at the end (McMahan et al. 2017; a baseline of Wu et al. 2024)."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fedincent.config import option
from fedincent.federation import LocalTask, Recipe, Round
from fedincent.mechanisms.common import CommonModel


@dataclass(kw_only=True)
class FedAvgFinetune(CommonModel):
    """One common model moves by the uniform mean of the joined updates: θ ← θ + mean g_i; then each client fine-tunes it."""

    finetune_epochs: int = option("local epochs on the final model, at the first round's rate; 0 for none", low=0)

    def weights(self, round: Round, updates: torch.Tensor) -> torch.Tensor:
        return round.joined.double() / round.joined.sum()

    def closing_task(self, recipe: Recipe) -> LocalTask | None:
        return LocalTask(lr=recipe.lr, epochs=self.finetune_epochs) if self.finetune_epochs else None
