"""Round robin: the server's model moves by everybody's updates, and the clients take turns in downloading it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from fedincent.federation import Federation, Round
from fedincent.mechanisms.base import Mechanism


@dataclass(kw_only=True)
class RoundRobin(Mechanism):
    """In round t client t mod N downloads the server's model; the others wait with the one they have."""

    saved: ClassVar[tuple[str, ...]] = ("models", "server")

    def start(self, federation: Federation) -> None:
        super().start(federation)
        self.server = federation.initial.clone()

    def reward(self, round: Round, updates: Tensor) -> None:
        counts = self.federation.data_shares * round.joined
        if counts.sum() > 0:
            self.server.add_((counts / counts.sum()).to(updates) @ updates)
        self.models[round.index % self.federation.n] = self.server
