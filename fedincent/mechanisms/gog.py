"""S-FedAvg: nodes are drawn by what their updates were worth before (Nagalapatti & Narayanam 2021; GoG in Lin et al.
2023).

k nodes are drawn without replacement with probabilities softmax(φ); θ moves by the mean of their updates. Their Shapley
values SV in the game v(S) = accuracy of θ + mean of S's updates on held-out samples move φ_i ← 0.75·φ_i + 0.25·SV_i.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from fedincent.config import option
from fedincent.contributions import shapley
from fedincent.contributions.coalitions import judge_moved
from fedincent.federation import Federation, Round
from fedincent.mechanisms.stale import Stale


@dataclass(kw_only=True)
class GoG(Stale):
    """Nodes are drawn by the worth of their earlier updates to the common model (Nagalapatti & Narayanam 2021)."""

    saved: ClassVar[tuple[str, ...]] = (*Stale.saved, "worth")

    permutations: int = option("random orders of the chosen nodes by which their Shapley values are found", low=1)
    past: float = option("weight of what a node was worth before", low=0, high=1)
    validation: str = option("which data judge a coalition's model", choices=("held_out", "test"))

    def reads_test(self) -> str:
        return "judges coalitions of updates on the test set in every round" if self.validation == "test" else ""

    def needs_held_out(self) -> bool:
        return self.validation == "held_out"

    def start(self, federation: Federation) -> None:
        super().start(federation)
        self.worth = torch.full((federation.n,), 1 / federation.n, dtype=torch.float64)

    def invite(self, round: Round) -> torch.Tensor:
        n, count = self.federation.n, self.federation.per_round or self.federation.n
        rates = torch.softmax(self.worth, 0).numpy()
        joined = torch.zeros(n, dtype=torch.bool)
        joined[torch.from_numpy(round.stream("participation").choice(n, count, replace=False, p=rates))] = True
        return joined

    def weights(self, round: Round, updates: torch.Tensor) -> torch.Tensor:
        return round.joined.double() / round.joined.sum()

    def reward(self, round: Round, updates: torch.Tensor) -> None:
        joined = round.joined.nonzero().flatten()
        game = self.accuracy_game(updates[joined])
        values = shapley.sampled(game, len(joined), self.permutations, round.stream("coalitions"))
        self.worth[joined] = self.past * self.worth[joined] + (1 - self.past) * torch.from_numpy(values)
        super().reward(round, updates)

    def accuracy_game(self, updates: torch.Tensor) -> shapley.Utility:
        """v(S), for S among the chosen nodes (updates: k×D)."""

        def utility(coalitions: np.ndarray) -> np.ndarray:
            shares = coalitions / np.maximum(coalitions.sum(1, keepdims=True), 1)
            return judge_moved(self.federation, self.common, updates, shares, self.validation)[0]

        return utility

    def outcomes(self) -> dict[str, torch.Tensor]:
        return {**super().outcomes(), "psi": self.worth}
