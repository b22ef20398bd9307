"""FedProto: clients share what the classes look like to them, not their models (Tan et al. 2022).

A prototype is the mean of what goes into a model's last layer, over a class's samples. The server averages the clients'
prototypes of each class; in training, features are drawn to them: the loss is CE + λ·mean (features − C_y)². A client
predicts the class whose prototype is nearest. λ = 0 is standalone training.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from fedincent.config import option
from fedincent.errors import ConfigError
from fedincent.federation import Federation, LocalTask, Recipe, Round
from fedincent.federation.predictors import NearestPrototype
from fedincent.mechanisms.base import Mechanism


@dataclass(kw_only=True)
class FedProto(Mechanism):
    """Models of one's own, drawn together by common prototypes of the classes (Tan et al. 2022)."""

    saved: ClassVar[tuple[str, ...]] = ("models", "prototypes")

    attraction: float = option("strength λ with which features are drawn to their class's prototype", low=0)

    def start(self, federation: Federation) -> None:
        super().start(federation)
        layout = federation.layout
        if not layout.linear:
            raise ConfigError("mechanism", "fedproto", "needs a model whose last layer is fully connected")
        outputs, features = layout.shapes[f"{layout.linear[-1]}.weight"]
        self.prototypes = torch.full((outputs, features), torch.nan, dtype=torch.float64)  # C; nan: nobody had any

    def task(self, recipe: Recipe, round: Round, client: int) -> LocalTask:
        aims = self.prototypes.float().numpy() if self.attraction else None
        plain = super().task(recipe, round, client)
        return dataclasses.replace(plain, prototypes=aims, attraction=self.attraction, features=True)

    def reward(self, round: Round, updates: torch.Tensor) -> None:
        self.models += updates
        total, holders = torch.zeros_like(self.prototypes), torch.zeros(len(self.prototypes), 1, dtype=torch.float64)
        for job, report in zip(round.jobs, round.reports, strict=True):
            if report.feature_sums is not None and round.joined[job.client]:
                counts = torch.from_numpy(np.asarray(report.feature_counts))[:, None]
                total += torch.where(counts > 0, torch.from_numpy(report.feature_sums) / counts.clamp(min=1), 0.0)
                holders += counts > 0
        self.prototypes = torch.where(holders > 0, total / holders.clamp(min=1), self.prototypes)

    def personal(self) -> NearestPrototype:
        return NearestPrototype(self.models, self.prototypes)
