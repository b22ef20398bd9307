"""Clients that are there, or say what they have, otherwise than it is expected of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from fedincent.behaviours.base import Dishonest, Settled
from fedincent.config import option
from fedincent.federation import Round
from fedincent.federation.round import Found
from fedincent.partitions.base import Streams


@dataclass(kw_only=True)
class Absent(Dishonest):
    """Comes to a share of the rounds that it is invited to: gains where who was away is rewarded all the same."""

    comes: float = option("probability with which it comes", low=0, high=1)

    def come(self, round: Round) -> None:
        here = torch.from_numpy(round.stream("absent").random(len(self.chosen)) < self.comes)
        round.joined &= ~self.chosen | here

    def saving(self, honest: Found) -> torch.Tensor:
        return torch.tensor(1 - self.comes)


@dataclass(kw_only=True)
class Inflates(Settled):
    """Says it has more samples than it has: gains where the mechanism believes it and weighs or pays by size."""

    factor: float = option("how many times as many it says", above=0)

    def report(self, sizes: torch.Tensor, streams: Streams) -> torch.Tensor:
        self.settle(sizes.numpy(), streams)
        told = sizes.clone()
        told[self.settled] = torch.from_numpy(np.maximum(1, np.rint(self.factor * sizes[self.settled].numpy()))).to(sizes)
        return told
