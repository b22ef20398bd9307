"""What is minimised and what is scored: loss, score and targets in one object, so that no loop knows which it is.

Classification: cross-entropy and accuracy. Regression: squared error of the standardised target, and the mean absolute
percentage error (MAPE) of the target itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np
import torch

from fedincent.datasets import Data


class Objective(Protocol):
    """What training minimises and judging reports."""

    score_name: ClassVar[str]  # of the column that holds the score
    higher_is_better: ClassVar[bool]

    def loss(self, outputs: torch.Tensor, targets: torch.Tensor, reduction: str = "mean") -> torch.Tensor:
        """What is minimised, over outputs (n×…) and targets (n): its mean, sum, or one number per sample (none)."""

    def scores(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """The score of each sample (…×n): right or wrong, or by how much; outputs …×n×classes, targets n."""

    def targets_of(self, y: np.ndarray) -> torch.Tensor:
        """Targets as training takes them (n)."""

    def guessing_loss(self, n_classes: int) -> float:
        """The loss of who knows nothing but how often what is right."""


@dataclass(frozen=True)
class Classification:
    """Cross-entropy; the score is whether the largest output is the label's."""

    score_name: ClassVar[str] = "accuracy"
    higher_is_better: ClassVar[bool] = True

    def loss(self, outputs: torch.Tensor, targets: torch.Tensor, reduction: str = "mean") -> torch.Tensor:
        return torch.nn.functional.cross_entropy(outputs, targets, reduction=reduction)

    def scores(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return outputs.argmax(-1) == targets

    def targets_of(self, y: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(np.array(y, dtype=np.int64))

    def guessing_loss(self, n_classes: int) -> float:
        return math.log(n_classes)


@dataclass(frozen=True)
class Regression:
    """Squared error of the standardised target; the score is |prediction − target|/|target| in the target's own unit."""

    score_name: ClassVar[str] = "mape"
    higher_is_better: ClassVar[bool] = False

    mean: float  # of the training targets
    std: float

    def loss(self, outputs: torch.Tensor, targets: torch.Tensor, reduction: str = "mean") -> torch.Tensor:
        return torch.nn.functional.mse_loss(outputs.squeeze(-1), targets.to(outputs), reduction=reduction)

    def scores(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        truth = targets * self.std + self.mean
        return (outputs.squeeze(-1) * self.std + self.mean - truth).abs() / truth.abs().clamp(min=1e-8)

    def targets_of(self, y: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(((np.asarray(y, dtype=np.float64) - self.mean) / self.std).astype(np.float32))

    def guessing_loss(self, n_classes: int) -> float:
        return 1.0


def objective_of(data: Data) -> Objective:
    """Classification where the targets are labels, else regression."""
    if data.n_classes:
        return Classification()
    y = np.asarray(data.y_train, dtype=np.float64)
    return Regression(float(y.mean()), float(y.std()) or 1.0)
