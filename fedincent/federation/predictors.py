"""What a client is given where that is no single row: a mixture of models, or the nearest prototype.

A predictor names the models it is made of (M×D), which of them a client needs, and how their outputs become the client's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch


class Predictor(Protocol):
    """How clients predict with some models (M×D)."""

    features: ClassVar[bool]  # whether it takes what goes into the last layer instead of what comes out of it

    @property
    def models(self) -> torch.Tensor:
        """M×D."""

    def __len__(self) -> int:
        """Number of clients N."""

    def rows_of(self, client: int) -> list[int]:
        """Which of the models the client uses."""

    def outputs(self, parts: list[torch.Tensor], client: int) -> torch.Tensor:
        """The client's outputs (n×classes) from those models' (each n×classes, or n×features)."""


@dataclass(frozen=True)
class Mixture:
    """Client i predicts Σ_k w_ik·softmax(model k): outputs are the logarithm of that."""

    features: ClassVar[bool] = False

    models: torch.Tensor  # K×D
    weights: torch.Tensor  # N×K, rows sum to 1

    def __len__(self) -> int:
        return len(self.weights)

    def rows_of(self, client: int) -> list[int]:
        return list(range(len(self.models)))

    def outputs(self, parts: list[torch.Tensor], client: int) -> torch.Tensor:
        shares = torch.stack([part.softmax(-1) for part in parts])
        mixed = torch.tensordot(self.weights[client].to(shares), shares, dims=1)
        return mixed.clamp(min=1e-30).log()


@dataclass(frozen=True)
class NearestPrototype:
    """Client i predicts the class whose prototype is nearest to its own model's features of the sample."""

    features: ClassVar[bool] = True

    models: torch.Tensor  # N×D
    prototypes: torch.Tensor  # classes×features; a row of nan for a class that has none

    def __len__(self) -> int:
        return len(self.models)

    def rows_of(self, client: int) -> list[int]:
        return [client]

    def outputs(self, parts: list[torch.Tensor], client: int) -> torch.Tensor:
        prototypes = self.prototypes.to(parts[0])
        known = ~prototypes.isnan().any(1)
        distance = torch.cdist(parts[0], prototypes[known]) ** 2
        outputs = distance.new_full((len(distance), len(known)), -torch.inf)
        outputs[:, known] = -distance
        return outputs
