"""What a client's update is worth to the others': games in which a coalition of updates is judged.

The common model that coalitions move is the measure's own: in every round it takes the mean of all updates, by data size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from fedincent.config import option
from fedincent.contributions import shapley
from fedincent.contributions.base import Baseline, Running, moving_importance
from fedincent.federation import Federation, Round

AT_ONCE = 64  # coalition models in memory


@dataclass(kw_only=True)
class CoalitionValue(Running):
    """Base: the game of this round, handed to an estimator."""

    version: ClassVar[int] = 2
    saved: ClassVar[tuple[str, ...]] = ("values", "common", "total")

    average: str = option(
        "over the rounds: the plain mean of the values, or a moving average of the shares that each round gives",
        choices=("mean", "moving"),
    )
    data: str = option("which data judge a coalition's model", choices=("held_out", "test"))

    def reads_test(self) -> str:
        return "contributions judge coalitions of updates on the test set in every round" if self.data == "test" else ""

    def needs_held_out(self) -> bool:
        return self.data == "held_out"

    def start(self, federation: Federation, baseline: Baseline | None) -> None:
        super().start(federation, baseline)
        self.common = federation.initial.clone()
        self.total = torch.zeros(federation.n, dtype=torch.float64)  # of all rounds

    def measure(self, round: Round, updates: torch.Tensor) -> torch.Tensor:
        quality = self.quality(round, updates)
        if self.average == "moving":
            self.values = moving_importance(self.values, shares_of(quality), self.alpha)
        else:
            self.total += quality
            self.values = shares_of(self.total)
        return self.values

    def estimate(self, utility: shapley.Utility, n: int, rng: np.random.Generator) -> np.ndarray:
        """The value of each of the n players of a game."""
        raise NotImplementedError

    def quality(self, round: Round, updates: torch.Tensor) -> torch.Tensor:
        joined = round.joined.nonzero().flatten()
        values = torch.zeros(self.federation.n, dtype=torch.float64)
        if len(joined):
            game = self.accuracy_game(updates, joined)
            values[joined] = torch.from_numpy(self.estimate(game, len(joined), round.stream("coalitions")))
            self.common.add_(mean_weights(self.federation, joined).to(updates) @ updates[joined])
        return values

    def accuracy_game(self, updates: torch.Tensor, joined: torch.Tensor) -> shapley.Utility:
        """U(S): accuracy of the common model moved by the mean of the updates of S; of the model as it is for nobody."""
        weights = mean_weights(self.federation, joined).numpy()

        def worth(coalitions: np.ndarray) -> np.ndarray:
            shares = coalitions * weights
            shares /= np.maximum(shares.sum(1, keepdims=True), 1e-12)
            return judge_moved(self.federation, self.common, updates[joined], shares, self.data)[0]

        return worth


def judge_moved(
    federation: Federation, common: torch.Tensor, updates: torch.Tensor, weights: np.ndarray, data: str
) -> tuple[np.ndarray, np.ndarray]:
    """Quality (larger is better) and loss (M each) of the models θ + W·G (updates k×D, weights M×k), a few at once."""
    judged = []
    for start in range(0, len(weights), AT_ONCE):
        part = torch.from_numpy(weights[start : start + AT_ONCE]).to(updates)
        judged.append(federation.judge(common + part @ updates, data))
    sign = 1 if federation.higher_is_better else -1
    return sign * np.concatenate([s.numpy() for s, _ in judged]), np.concatenate([loss.numpy() for _, loss in judged])


def shares_of(values: torch.Tensor) -> torch.Tensor:
    """Values (N) as shares that sum to 1, negative ones as nothing; equal shares where nobody is worth anything."""
    positive = values.clamp(min=0)
    total = positive.sum()
    return positive / total if total > 0 else torch.full_like(values, 1 / len(values))


def mean_weights(federation: Federation, joined: torch.Tensor) -> torch.Tensor:
    """The joined clients' shares of their data."""
    shares = federation.data_shares[joined]
    return shares / shares.sum()


@dataclass(kw_only=True)
class Shapley(CoalitionValue):
    """The Shapley value of a client's update: what it adds, on average over all orders in which updates are taken up."""

    method: str = option(
        "how to find it; auto: exact for up to 6 clients, else sampled", choices=("auto", "exact", "sampled", "linear")
    )
    permutations: int | None = option("orders sampled in a round; null: as many as epsilon and delta ask for", low=1)
    epsilon: float = option("error that an estimate may have, of an accuracy between 0 and 1", above=0)
    delta: float = option("probability of a larger error", above=0, below=1)

    def estimate(self, utility: shapley.Utility, n: int, rng: np.random.Generator) -> np.ndarray:
        if self.method == "exact" or (self.method == "auto" and n <= 6):
            return shapley.exact(utility, n)
        if self.method == "linear":
            return shapley.linear(utility, n, rng)
        count = self.permutations or shapley.permutations_for(self.epsilon, self.delta, n)
        return shapley.sampled(utility, n, count, rng)


@dataclass(kw_only=True)
class LeaveOneOut(CoalitionValue):
    """What the model of all loses without a client's update."""

    def estimate(self, utility: Callable[[np.ndarray], np.ndarray], n: int, rng: np.random.Generator) -> np.ndarray:
        return shapley.leave_one_out(utility, n)
