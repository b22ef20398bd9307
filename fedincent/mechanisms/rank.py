"""Rewards by rank: the better a client's own model, the more of the others' updates it receives (Kong et al. 2022).

The joined clients are put in order of the accuracy of their freshly trained local models, the worst first; the client at
place r receives the mean of the updates of places 1…r, itself included. In that order S is lower triangular. Who did not
join a round has no place in it and receives nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fedincent.config import option
from fedincent.federation import Round
from fedincent.mechanisms.base import Mechanism


@dataclass(kw_only=True)
class Rank(Mechanism):
    """The client at place r gets the mean of the updates of places 1…r, the worst being first (Kong et al. 2022)."""

    validation: str = option("which data put the clients in order", choices=("test", "held_out"))

    ties: str = option(
        "who comes first of equally accurate clients: drawn in each round, or by number",
        choices=("drawn", "number"),
        neutral="number",
    )

    def reads_test(self) -> str:
        return "Rank orders the clients by accuracy on the test set in every round" if self.validation == "test" else ""

    def needs_held_out(self) -> bool:
        return self.validation == "held_out"

    def reward(self, round: Round, updates: torch.Tensor) -> None:
        joined = round.joined.nonzero().flatten()
        trained = self.models + updates if round.joined.all() else self.models[joined].add_(updates[joined])
        accuracy, _ = self.federation.judge(trained, self.validation)
        if not self.federation.higher_is_better:
            accuracy = -accuracy
        if self.ties == "drawn":
            drawn = torch.from_numpy(round.stream("ties").permutation(len(joined)))
            order = joined[drawn[accuracy[drawn].argsort(stable=True)]]
        else:
            order = joined[accuracy.argsort(stable=True)]
        shares = torch.zeros(self.federation.n, self.federation.n, dtype=torch.float64)
        shares[order[:, None], order] = (
            torch.ones(len(order), len(order)).tril().double() / torch.arange(1, len(order) + 1)[:, None]
        )
        self.federation.add_product(self.models, shares, updates)
