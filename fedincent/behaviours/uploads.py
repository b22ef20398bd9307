"""Clients that send something else than what their training found."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fedincent.behaviours.base import Dishonest
from fedincent.config import option
from fedincent.federation import Round


@dataclass(kw_only=True)
class Zeros(Dishonest):
    """Sends nothing: the plainest free rider, saves its work and hopes to be rewarded all the same."""

    def upload(self, round: Round, client: int, update: Tensor) -> Tensor:
        return torch.zeros_like(update)


@dataclass(kw_only=True)
class Stops(Dishonest):
    """Honest for some rounds, then sends nothing: it has earned a good name and lives on it."""

    after: int = option("rounds in which it is honest", low=0)

    def upload(self, round: Round, client: int, update: Tensor) -> Tensor:
        return update if round.index < self.after else torch.zeros_like(update)


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
