"""Round robin: the clients take and give the server's model in turn (Shokri & Shmatikov 2015).

In every round each client trains its own model; then, one after the other in an order drawn anew, each adds its update to
the server's model and takes that model: the later in the round, the more of the others' work it gets. Over the rounds
nobody has a better turn than others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from fedincent.config import option
from fedincent.federation import Federation, Round
from fedincent.mechanisms.base import Mechanism


@dataclass(kw_only=True)
class RoundRobin(Mechanism):
    """Everybody in turn within a round adds its update to the server's model and takes it; or one client a round."""

    version: ClassVar[int] = 3
    saved: ClassVar[tuple[str, ...]] = ("models", "server")

    turns: str = option(
        "all: everybody in turn in every round; one: in round t client t mod N alone",
        choices=("all", "one"),
    )
    share: str = option(
        "what an update counts when it is added: its client's share of the data, or all of it", choices=("sizes", "full")
    )

    def start(self, federation: Federation) -> None:
        super().start(federation)
        self.server = federation.initial.clone()

    def invite(self, round: Round) -> torch.Tensor:
        if self.turns == "all":
            return super().invite(round)
        turn = torch.arange(self.federation.n) == round.index % self.federation.n
        return turn & super().invite(round)

    def incoming(self, round: Round) -> torch.Tensor:
        if self.turns == "one":
            self.models[round.joined] = self.server
        return self.models

    def reward(self, round: Round, updates: torch.Tensor) -> None:
        everything = self.turns == "one" or self.share == "full"
        shares = torch.ones(self.federation.n) if everything else self.federation.data_shares
        for client in round.stream("turns").permutation(self.federation.n).tolist():
            if round.joined[client]:
                self.server.add_(updates[client], alpha=float(shares[client]))
                self.models[client] = self.server
