"""One common model, and nodes that hold the copy of it that they last trained from: stale unless they were chosen.

In round t the chosen nodes take θ_{t−1}, train it on what has arrived, and send g_i; θ_t = θ_{t−1} + Σ w_i·g_i. A
chosen node then holds θ_{t−1}, all others what they held before. The weights w_i = p_i (shares of the data) do not sum
to 1 over the chosen, unless `normalise` says so (Lin et al. 2023, sec. 2; fewer chosen nodes mean a smaller step).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from fedincent.config import option
from fedincent.federation import Federation, Round
from fedincent.mechanisms.common import CommonModel
from fedincent.mechanisms.qffl import QFFL


@dataclass(kw_only=True)
class Stale(CommonModel):
    """Base: a subclass says who is chosen (`invite`) and what an update weighs (`weights`)."""

    saved: ClassVar[tuple[str, ...]] = ("common", "held", "age", "waited", "syncs", "played")

    def start(self, federation: Federation) -> None:
        super().start(federation)
        self.held = federation.replicas()  # what each node has (N×D)
        self.age = torch.zeros(federation.n, dtype=torch.float64)  # γ_i: rounds since it was chosen
        self.waited = torch.zeros(federation.n, dtype=torch.float64)  # Σ_t γ_i,t
        self.syncs = torch.zeros(federation.n, dtype=torch.float64)  # rounds in which it was chosen
        self.played = torch.zeros((), dtype=torch.float64)  # rounds so far

    def reward(self, round: Round, updates: torch.Tensor) -> None:
        before = self.common.clone()
        super().reward(round, updates)
        self.held[round.joined] = before
        self.age = torch.where(round.joined, 0.0, self.age + 1)
        self.waited += self.age
        self.syncs += round.joined
        self.played += 1

    def personal(self) -> torch.Tensor:
        return self.held

    def outcomes(self) -> dict[str, torch.Tensor]:
        """γ̄_i, the mean over the rounds of how stale a node's model is, and rounds per synchronisation."""
        return {"staleness": self.waited / self.played, "rounds_per_sync": self.played / self.syncs}


@dataclass(kw_only=True)
class StaleFedAvg(Stale):
    """FedAvg with so many nodes a round (per_round); the others hold stale models (baseline of Lin et al. 2023)."""

    normalise: bool = option(
        "weights of the chosen nodes sum to 1, whoever they are; else they are their shares of all data"
    )

    def weights(self, round: Round, updates: torch.Tensor) -> torch.Tensor:
        return of_chosen(round.joined * self.federation.data_shares, self.normalise)


@dataclass(kw_only=True)
class StaleQFFL(Stale, QFFL):
    """q-FFL with nodes drawn by their shares of the data; the others hold stale models (baseline of Lin et al. 2023)."""

    def invite(self, round: Round) -> torch.Tensor:
        count = self.federation.per_round
        if not count:
            return super().invite(round)
        shares = self.federation.data_shares.numpy()
        chosen = round.stream("participation").choice(len(shares), count, replace=False, p=shares / shares.sum())
        joined = torch.zeros(len(shares), dtype=torch.bool)
        joined[torch.from_numpy(chosen)] = True
        return joined


def of_chosen(weights: torch.Tensor, normalise: bool) -> torch.Tensor:
    """Weights (N, zero for who was not chosen) as they are, or brought to sum 1."""
    return weights / weights.sum() if normalise else weights
