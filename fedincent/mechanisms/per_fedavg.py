"""Per-FedAvg: a common model that is good after a step of local tuning (Fallah et al. 2020, first order).

A local step tries a step of the inner rate on one batch, takes the gradient there on a second batch, and applies that
gradient to where it began.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

from fedincent.config import option
from fedincent.federation import LocalTask, Recipe, Round
from fedincent.mechanisms.fedavg import FedAvg


@dataclass(kw_only=True)
class PerFedAvg(FedAvg):
    """FedAvg on the losses that clients have after a step of tuning (Fallah et al. 2020, first order)."""

    version: ClassVar[int] = 2

    inner_rate: float = option("rate of the step that is tried; 0 is FedAvg", low=0)
    adapt_steps: int = option("steps at that rate by which each client adapts the model that it is given", low=0, neutral=0)

    def task(self, recipe: Recipe, round: Round, client: int) -> LocalTask:
        return dataclasses.replace(super().task(recipe, round, client), inner_rate=self.inner_rate)

    def closing_task(self, recipe: Recipe) -> LocalTask | None:
        return LocalTask(lr=self.inner_rate, steps=self.adapt_steps) if self.adapt_steps else None
