"""Clients that send something else than what their training found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fedincent.behaviours.base import Dishonest
from fedincent.config import option
from fedincent.federation import Federation, Round


@dataclass(kw_only=True)
class Zeros(Dishonest):
    """Sends nothing: the plainest free rider, saves its work and hopes to be rewarded all the same."""

    def upload(self, round: Round, client: int, update: Tensor) -> Tensor:
        return torch.zeros_like(update)


@dataclass(kw_only=True)
class Stops(Dishonest):
    """Honest for some rounds, then sends nothing: it has earned a good name and lives on it."""

    after: int = option("rounds in which it is honest, or that it would guess", low=0)
    guess: str = option(
        "whether that number holds, or is a guess at when contributions are known: uniform up to it, or Poisson around what "
        "the honest run shows (needs a mechanism that says stopping_round)",
        choices=("none", "uniform", "poisson"),
        neutral="none",
    )

    @property
    def asks_honest_run(self) -> bool:
        return super().asks_honest_run or self.guess == "poisson"

    def start(self, federation: Federation, contribution: Tensor | None) -> None:
        super().start(federation, contribution)
        self.last, rng = self.after, federation.streams("guess")
        if self.guess == "uniform":
            self.last = int(rng.integers(0, self.after + 1))
        elif self.guess == "poisson":
            stop = federation.found["honest"].summary.get("stopping_round")
            self.last = int(rng.poisson(self.after if stop is None else stop))

    def facts(self) -> dict[str, Any]:
        return {} if self.guess == "none" else {"honest_rounds": self.last}

    def upload(self, round: Round, client: int, update: Tensor) -> Tensor:
        return update if round.index < self.last else torch.zeros_like(update)


@dataclass(kw_only=True)
class Noise(Dishonest):
    """Sends Gaussian noise as long as its update: looks like work, holds no information."""

    def upload(self, round: Round, client: int, update: Tensor) -> Tensor:
        rng = round.streams("upload noise", round.index, client)
        noise = torch.from_numpy(rng.standard_normal(len(update), dtype=np.float32)).to(update)
        return noise * (update.norm() / noise.norm())


@dataclass(kw_only=True)
class SignFlip(Dishonest):
    """Sends the opposite of its update: would rather that the others do badly."""

    def upload(self, round: Round, client: int, update: Tensor) -> Tensor:
        return -update


@dataclass(kw_only=True)
class Scaled(Dishonest):
    """Sends its update times a factor: wants to count for more than it is."""

    factor: float = option("by which the update is multiplied")

    def upload(self, round: Round, client: int, update: Tensor) -> Tensor:
        return self.factor * update
