"""The effort game: clients choose how much of their data to bring, where work costs and accuracy is worth something.

Clients are of K types. All of a type bring the same, but for one client, the deviator, whose payoff is measured:

    u_t(own | e) = A_t(own | e) − c·f_t·own

A is the reward (S×E×…×E×K×E: seeds, what each type brings, the deviator's type, what it brings itself), c the cost of all
one's data, f_t what work costs type t beside others. Efforts are taken from a grid (E).

Two clients who estimate a mean have a closed form (`two_estimators`), and the same game can be measured by simulation.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

Profile = tuple[int, ...]  # what each type brings, as places in the grid


@dataclass(frozen=True)
class Outcome:
    """What a game comes to at one cost."""

    equilibrium: Profile
    regret: float  # what a client would gain at most by leaving it; 0: nobody would
    optimum: Profile
    welfare: float  # mean payoff over the types in equilibrium
    best_welfare: float

    @property
    def price(self) -> float:
        """Of free riding: what all lose, on average, because each thinks of itself."""
        return self.best_welfare - self.welfare


def payoffs(reward: np.ndarray, efforts: np.ndarray, cost: float, factors: np.ndarray) -> np.ndarray:
    """u (E×…×E×K×E) from the mean reward (of the same shape)."""
    paid: np.ndarray = reward - cost * factors[:, None] * efforts
    return paid


def profiles(payoff: np.ndarray) -> list[Profile]:
    """All profiles of a game, the laziest first."""
    kinds, grid = payoff.shape[-2:]
    return list(itertools.product(range(grid), repeat=kinds))


def regret_of(payoff: np.ndarray, profile: Profile) -> float:
    """What a client of any type would gain at most by bringing something else than its like."""
    own = payoff[profile]
    return float(max(row.max() - row[place] for row, place in zip(own, profile, strict=True)))


def welfare_of(payoff: np.ndarray, profile: Profile) -> float:
    """Mean payoff over the types, where nobody deviates."""
    return float(np.mean([row[place] for row, place in zip(payoff[profile], profile, strict=True)]))


def solve(payoff: np.ndarray) -> Outcome:
    """The profile that clients have the least reason to leave (of equals the laziest), and the one that is best for all."""
    known = profiles(payoff)
    equilibrium = min(known, key=lambda profile: regret_of(payoff, profile))
    optimum = max(known, key=lambda profile: welfare_of(payoff, profile))
    told = (welfare_of(payoff, equilibrium), welfare_of(payoff, optimum))
    return Outcome(equilibrium, regret_of(payoff, equilibrium), optimum, *told)


def path(payoff: np.ndarray, start: Profile) -> list[Profile]:
    """Best-response dynamics: every type moves one step of the grid towards its best answer, until nothing is new."""
    gone = [start]
    while True:
        answers = payoff[gone[-1]].argmax(1)
        moved = tuple(int(place + np.sign(best - place)) for place, best in zip(gone[-1], answers, strict=True))
        if moved in gone:
            return gone
        gone.append(moved)


def resampled(
    reward: np.ndarray, efforts: np.ndarray, cost: float, factors: np.ndarray, draws: int, rng: np.random.Generator
) -> list[Outcome]:
    """Outcomes of the game on seeds drawn anew with replacement: how sure a result is."""
    seeds = len(reward)
    chosen = rng.integers(seeds, size=(draws, seeds))
    return [solve(payoffs(reward[places].mean(0), efforts, cost, factors)) for places in chosen]


def two_estimators(cost: float, samples: int) -> tuple[float, float]:
    """Effort in the symmetric equilibrium and in the optimum of two clients who pool samples of variance 1.

    Client i's payoff is −1/(n·(e_1 + e_2)) − c·e_i, so that e_1 + e_2 = 1/√(cn) in equilibrium, and in the optimum
    each brings 1/√(2cn); nobody brings more than it has.
    """
    equilibrium, optimum = 0.5 / np.sqrt(cost * samples), 1 / np.sqrt(2 * cost * samples)
    return min(1.0, float(equilibrium)), min(1.0, float(optimum))


def simulated_estimators(efforts: np.ndarray, samples: int, seeds: int, draws: int) -> np.ndarray:
    """The reward (S×E×1×E) of the same two clients by simulation: minus the squared error of the pooled mean."""
    reward = np.empty((seeds, len(efforts), 1, len(efforts)))
    brought = np.maximum(1, np.rint(efforts * samples)).astype(int)
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        sums = [rng.standard_normal((draws, samples)).cumsum(1) for _ in range(2)]
        for other, own in itertools.product(range(len(efforts)), repeat=2):
            pooled = sums[0][:, brought[own] - 1] + sums[1][:, brought[other] - 1]
            reward[seed, other, 0, own] = -np.mean((pooled / (brought[own] + brought[other])) ** 2)
    return reward
