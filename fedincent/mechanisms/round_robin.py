"""Round robin: one client at a time takes the server's model, trains it and hands it back (Shokri & Shmatikov 2015)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fedincent.federation import Federation, Round
from fedincent.mechanisms.base import Mechanism


@dataclass(kw_only=True)
class RoundRobin(Mechanism):
    """In round t client t mod N alone trains the server's model and keeps the result; the others wait for their turn."""

    version: ClassVar[int] = 2
    saved: ClassVar[tuple[str, ...]] = ("models", "server")

    def start(self, federation: Federation) -> None:
        super().start(federation)
        self.server = federation.initial.clone()

    def invite(self, round: Round) -> Tensor:
        turn = torch.arange(self.federation.n) == round.index % self.federation.n
        return turn & super().invite(round)

    def incoming(self, round: Round) -> Tensor:
        self.models[round.joined] = self.server
        return self.models

    def reward(self, round: Round, updates: Tensor) -> None:
        self.server.add_(updates.sum(0))  # of the one that joined
        self.models[round.joined] = self.server
