"""FedProx: local training is pulled towards the model it began with (Li et al. 2020)."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from fedincent.config import option
from fedincent.federation import LocalTask, Recipe, Round
from fedincent.mechanisms.fedavg import FedAvg


@dataclass(kw_only=True)
class FedProx(FedAvg):
    """FedAvg whose clients minimise F_k(θ) + µ/2·‖θ − common‖² (Li et al. 2020)."""

    mu: float = option("strength µ of the pull; 0 is FedAvg", low=0)

    def task(self, recipe: Recipe, round: Round, client: int) -> LocalTask:
        return dataclasses.replace(super().task(recipe, round, client), proximal=self.mu)
