"""Fair yet asymptotically equal: first find out what each node is worth, then serve the worthy more often (Lin et al.
2023).

Exploring, everybody trains θ_{t−1} in every round; φ_{i,t} is node i's Shapley value in the game U(S) = cos(Σ_S p_j
g_j, Σ_N p_j g_j), by the linear estimator (eq. 3), and ψ_i its mean over the rounds (eq. 1). Exploring ends after round
T_α, when Hotelling's test finds nothing new (prop. 1). Then k nodes a round are drawn with probabilities ϱ_i =
exp(ψ_i/β)/Σ_j exp(ψ_j/β) (eq. 2): a large β gives everybody the same chance, so that all models are equal in the end; a
small one is fair.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch

from fedincent.config import option
from fedincent.contributions import shapley
from fedincent.contributions.coalitions import judge_moved
from fedincent.contributions.stopping import henze_zirkler_p, hotelling_p
from fedincent.errors import ConfigError
from fedincent.federation import Federation, Round
from fedincent.mechanisms.stale import Stale, of_chosen

LEAST = 1e-3  # ψ below which a node's chance does not fall in concurrent evaluation
EARLIER = 5  # rounds before the stop from which nodes are absent, where `present` is below 1
WINDOW = 50  # rounds over which φ is tested for normality


def round_half_up(value: float) -> int:
    """The nearest whole number, at least 1."""
    return max(1, int(value + 0.5))


@dataclass(kw_only=True)
class FYE(Stale):
    """Everybody trains until contributions are known; then nodes are drawn by them (Lin et al. 2023)."""

    beta: float = option("β, how equal the chances are: small is fair, large is equal", above=0)
    alpha: float = option("exploring ends when Hotelling's p is above this; 1: never", above=0, high=1)
    window: int = option("τ, the last rounds that Hotelling's test compares with those before", low=1)
    watched: int = option("M, nodes drawn once whose contributions are tested", low=1)
    replacement: bool = option("a node may be drawn twice in a round: it then trains once and counts twice")
    normalise: bool = option(
        "weights of the chosen nodes sum to 1, whoever they are; else they are their shares of all data"
    )
    utility: str = option(
        "what a coalition of updates is worth: its cosine or inner product with all, or minus the loss of its model on "
        "held-out data",
        choices=("cosine", "inner_product", "negative_loss"),
    )
    coalition_weights: str = option(
        "how often an update's share p_i counts in a coalition: once, or twice as in the published code",
        choices=("once", "twice"),
    )
    score: str = option(
        "whom large contributions favour: proportion (their owners), reverse (those at the other end), uniform (nobody)",
        choices=("proportion", "reverse", "uniform"),
    )

    present: float = option(
        "share of nodes that train in a round while exploring, from five rounds before it would end with all of them",
        above=0,
        high=1,
        neutral=1.0,
    )

    concurrent: bool = option(
        "no exploring by all: from the beginning nodes are drawn in proportion to ψ, and ψ is updated for the drawn alone",
        neutral=False,
    )

    saved: ClassVar[tuple[str, ...]] = (*Stale.saved, "exploring")

    def builds_on(self) -> dict[str, dict[str, Any]]:
        return {"everybody": {"present": 1.0}} if self.present < 1 else {}

    def needs_held_out(self) -> bool:
        return self.utility == "negative_loss"

    def check(self, n_clients: int, per_round: int) -> None:
        if not per_round:
            raise ConfigError("per_round", 0, "mechanism=fye draws so many nodes a round after exploring: per_round=12")
        if self.watched > n_clients:
            raise ConfigError("mechanism.watched", self.watched, f"there are {n_clients} nodes (n_clients)")
        if self.window < self.watched:
            raise ConfigError("mechanism.window", self.window, f"must be ≥ mechanism.watched={self.watched}")

    def start(self, federation: Federation) -> None:
        super().start(federation)
        n = federation.n
        self.panel = np.sort(federation.streams("watched").permutation(n)[: self.watched])
        self.values: list[torch.Tensor] = []  # φ_t (N) of the rounds that explored
        self.exploring = torch.ones((), dtype=torch.bool)
        self.drawn = torch.ones(n, dtype=torch.float64)
        self.thinned_from: int | None = None  # the first round in which not all are present
        if self.present < 1:
            stop = federation.found["everybody"].summary["stopping_round"]
            self.thinned_from = None if stop is None else max(0, stop - EARLIER)

    @property
    def contributions(self) -> torch.Tensor:
        """ψ (N): the mean of φ over the rounds that explored (eq. 1)."""
        n = self.federation.n
        if self.concurrent:  # of the rounds in which a node was drawn; 1/N as long as it never was
            known = torch.stack([torch.full((n,), torch.nan, dtype=torch.float64), *self.values]).nanmean(0)
            return known.nan_to_num(1 / n)
        return torch.stack(self.values).mean(0) if self.values else torch.zeros(n, dtype=torch.float64)

    def chances(self) -> torch.Tensor:
        """ϱ (N, sums to 1), by which nodes are drawn after exploring (eq. 2)."""
        worth = self.contributions
        if self.concurrent:
            return worth.clamp(min=LEAST) / worth.clamp(min=LEAST).sum()
        if self.score == "uniform":
            return torch.full_like(worth, 1 / len(worth))
        if self.score == "reverse":  # the best gets what the worst would, and so on
            order = worth.argsort(stable=True)
            worth = torch.empty_like(worth).scatter_(0, order, worth[order.flip(0)])
        return torch.softmax(worth / self.beta, 0)

    def invite(self, round: Round) -> torch.Tensor:
        n = self.federation.n
        if self.exploring and not self.concurrent:
            self.drawn = torch.ones(n, dtype=torch.float64)
            if self.thinned_from is not None and round.index >= self.thinned_from:
                there = round.stream("present").permutation(n) < round_half_up(self.present * n)
                self.drawn = torch.from_numpy(there.astype(np.float64))
        else:
            stream, count = round.stream("draws"), self.federation.per_round
            drawn = stream.choice(n, count, replace=self.replacement, p=self.chances().numpy())
            self.drawn = torch.from_numpy(np.bincount(drawn, minlength=n).astype(np.float64))
        round.note("drawn", lambda: self.drawn)
        return self.drawn > 0

    def weights(self, round: Round, updates: torch.Tensor) -> torch.Tensor:
        return of_chosen(self.drawn * self.federation.data_shares, self.normalise)

    def reward(self, round: Round, updates: torch.Tensor) -> None:
        round.tell("exploring", bool(self.exploring))
        if self.exploring:
            game = self.game(updates)
            found = shapley.linear(game, self.federation.n, round.stream("coalitions"))
            absent = torch.nan if self.concurrent else 0.0
            self.values.append(torch.where(round.joined, torch.from_numpy(found), absent))
            round.note("phi", lambda: self.values[-1])
            round.note("psi", lambda: self.contributions)
            if len(self.values) > self.window and not self.concurrent:
                p = hotelling_p(torch.stack(self.values).numpy()[:, self.panel], self.window)
                round.tell("p_value", p)
                if p > self.alpha:
                    self.exploring = torch.zeros((), dtype=torch.bool)
        super().reward(round, updates)

    def game(self, updates: torch.Tensor) -> shapley.Utility:
        """What coalitions of this round's updates are worth (updates: N×D)."""
        shares = self.federation.data_shares.numpy()
        if self.utility == "negative_loss":
            return self.loss_game(updates)
        products = (updates @ updates.T).double().cpu().numpy()
        weights = shares if self.coalition_weights == "once" else shares**2
        length = 1.0 if self.utility == "cosine" else None
        if self.utility == "cosine":  # in units of the length of all together
            products /= max(shares @ products @ shares, np.finfo(float).tiny)
        return shapley.agreement_game(products * np.outer(weights, weights), weights * (products @ shares), length)

    def loss_game(self, updates: torch.Tensor) -> shapley.Utility:
        """U(S) = −loss of θ_{t−1} + Σ_S p_i g_i on held-out samples."""
        shares = self.federation.data_shares.numpy()

        def utility(coalitions: np.ndarray) -> np.ndarray:
            return -judge_moved(self.federation, self.common, updates, coalitions * shares, "held_out")[1]

        return utility

    def facts(self) -> dict[str, Any]:
        """T_α, the last round that explored (none if exploring never ended), and whether φ looks normal over 50 rounds."""
        told = {"stopping_round": None if self.exploring else len(self.values)}
        if len(self.values) < WINDOW or self.concurrent:
            return told
        values = torch.stack(self.values).numpy()[:, self.panel]
        found = [henze_zirkler_p(values[k : k + WINDOW]) for k in range(len(values) - WINDOW + 1)]
        return {**told, "normality": {"share": float(np.mean(np.array(found) >= 0.05)), "p": float(np.mean(found))}}

    def outcomes(self) -> dict[str, torch.Tensor]:
        return {**super().outcomes(), "psi": self.contributions, "chance": self.chances()}

    def state_dict(self) -> dict[str, torch.Tensor]:
        values = {"values": torch.stack(self.values)} if self.values else {}
        return {**super().state_dict(), **values}

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        super().load_state_dict(state)
        self.values = list(state["values"]) if "values" in state else []
