"""IAFL's theory on quadratics, where all of it can be computed (Wu et al. 2024, sec. 4 and 5, appendices B to F).

Client m minimises F_m(θ) = ½‖θ − a_m‖² by one noisy gradient step a round, so L = μ = τ = 1. IAFL averages ⌈γ'_i·N⌉
updates for client i, its own among them; theorem 1 bounds how far its model stays from the best common one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from fedincent.mechanisms.iafl import sample_peers, sample_reference

Drawing = Callable[[Any], None]


def induced(rates: np.ndarray) -> np.ndarray:
    """γ' (N): the share of all N updates that a client averages, itself included: γ − (γ − 1)/N."""
    return rates - (rates - 1) / len(rates)


def quality(rate: float, n: int, deviation: float) -> float:
    """1/Var of a rewarded update of N homogeneous clients (appendix C): (1 + γ·(N − 1))/σ²."""
    return (1 + rate * (n - 1)) / deviation**2


def spread_of_rewards(rates: np.ndarray, t: int, alpha: float, client: int) -> float:
    """C_T/H_T of theorem 1 for constant rates: the mean over m of Σ_t ((T+α)/(t+α))²·(1/γ'_m + 1/γ'_i − 2)."""
    share = induced(rates)
    rounds = np.arange(1, t + 1)
    return float(((t + alpha) ** 2 / (rounds + alpha) ** 2).sum() * (np.mean(1 / share) + 1 / share[client] - 2))


@dataclass(frozen=True)
class Quadratic:
    """N clients with optima a_m (N×d) and gradient noise of deviation σ in each of d coordinates."""

    optima: np.ndarray
    noise: float
    start: np.ndarray  # θ_1 (d)

    @property
    def best(self) -> np.ndarray:
        """θ*: the mean of the optima (d)."""
        centre: np.ndarray = self.optima.mean(0)
        return centre

    @property
    def bias(self) -> float:
        """Γ = F* − mean F_m*."""
        return float(0.5 * ((self.optima - self.best) ** 2).sum(1).mean())

    @property
    def noise_power(self) -> float:
        """Σ̃²: the expected squared length of a gradient's noise."""
        return self.noise**2 * self.optima.shape[1]


ALPHA = 8.0  # of theorem 1's rate 1/(t + α): α ≥ 4L(τ + 1)/(μτ)


def trained(world: Quadratic, rates: np.ndarray, rounds: int, q: float, draws: int, seed: int) -> tuple[np.ndarray, float]:
    """E F(θ_i,t) − F* (T×N) of IAFL over draws, and G²: the largest mean squared gradient met on the way.

    rates: γ (N). The rewards are sampled by the mechanism's own functions.
    """
    n, dim = world.optima.shape
    everybody, gaps, largest = np.ones(n, dtype=bool), np.zeros((rounds, n)), 0.0
    for draw in range(draws):
        rng = np.random.default_rng([seed, draw])
        models = np.tile(world.start, (n, 1))
        reference = world.start.copy()
        for t in range(1, rounds + 1):
            models[rng.random(n) < q] = reference
            gaps[t - 1] += 0.5 * ((models - world.best) ** 2).sum(1) / draws
            gradient = models - world.optima + world.noise * rng.standard_normal((n, dim))
            largest = max(largest, float((gradient**2).sum(1).mean()))
            updates = -gradient / (t + ALPHA)
            models += sample_peers(rates, everybody, rng) @ updates
            reference += sample_reference(rates, everybody, "max", rng) @ updates
    return gaps, largest


def first_bound(world: Quadratic, rates: np.ndarray, t: int, client: int, largest: float) -> float:
    """Theorem 1's bound on E F(θ_i,T) − F*, q = 0; largest: G²."""
    step = 1 / (t + ALPHA)
    propagated = (2 - 2 * step) * largest * spread_of_rewards(rates, t, ALPHA, client)
    distance = float(((world.start - world.best) ** 2).sum())
    constant = 10 * world.bias + 2 * largest + world.noise_power + (ALPHA + 1) * distance
    return 0.5 * (constant + propagated) / (ALPHA + t)


def second_bound(world: Quadratic, rates: np.ndarray, rounds: int, client: int, q: float, largest: float) -> np.ndarray:
    """Theorem 2's bound after each round (T), with recovery at rate q: errors older than a recovery are forgotten."""
    share = induced(rates)
    top = share.max()
    constant = 10 * world.bias + 2 * largest + world.noise_power
    excess = (np.mean(1 / share) + 1 / top - 2) + (1 / share[client] + 1 / top - 2)  # D_t and E_t
    distance, found = float(((world.start - world.best) ** 2).sum()), np.zeros(rounds)
    remembered = 0.0  # Σ_z (1 − q)^(t − z + 1)/(z + α)²
    for t in range(1, rounds + 1):
        found[t - 1] = 0.5 * distance
        step = 1 / (t + ALPHA)
        remembered = (1 - q) * (remembered + step**2)
        propagated = (2 - 2 * step) * largest * excess * remembered / step**2
        distance = (1 - 2 * step) * distance + step**2 * (constant + propagated)
    return found


def bounds(
    contributions: Sequence[float], rounds: int, dim: int, noise: float, recovery: Sequence[float], draws: int, seed: int
) -> tuple[pd.DataFrame, Drawing]:
    """Theorems 1 and 2: measured gaps of the least and the most rewarded client, and their bounds, over the rounds."""
    rates = np.asarray(contributions, dtype=float)
    rng = np.random.default_rng(seed)
    world = Quadratic(rng.standard_normal((len(rates), dim)) * 0.5, noise, np.full(dim, 3.0))
    at = np.unique(np.geomspace(1, rounds, 40).astype(int))
    rows = []
    for q in recovery:
        gaps, largest = trained(world, rates, rounds, q, draws, seed)
        for client in (int(rates.argmin()), int(rates.argmax())):
            recovering = second_bound(world, rates, rounds, client, q, largest)
            for t in at:
                bound = first_bound(world, rates, int(t), client, largest) if q == 0 else recovering[t - 1]
                rows.append({"q": q, "rate": rates[client], "round": t, "gap": gaps[t - 1, client], "bound": bound})
    table = pd.DataFrame(rows)

    def draw(picture: Any) -> None:
        axes = picture.subplots(1, len(recovery), sharey=True, squeeze=False)[0]
        for axis, q in zip(axes, recovery, strict=True):
            for rate, style in zip(sorted(table.rate.unique()), ("0.55", "0.1"), strict=True):
                part = table[(table.q == q) & (table.rate == rate)]
                axis.plot(part["round"], part.gap, color=style, label=f"γ = {rate:g}")
                axis.plot(part["round"], part.bound, ":", color=style, label=f"γ = {rate:g}, bound")
            axis.set(xscale="log", yscale="log", xlabel="round", title=f"q = {q:g}")
            tidy(axis)
        axes[0].set_ylabel("E F(θ_i) − F*")

    return table, draw


def gain_of(total: np.ndarray | float) -> np.ndarray | float:
    """g: what a client makes of so much data in sum: concave, g'(0) = 1."""
    return np.log1p(total)


MECHANISMS = ("standard FL", "relative", "IAFL")


def reward_of(mechanism: str, own: np.ndarray, others: float, most: float, ceiling: float, kappa: float) -> np.ndarray:
    """ν(p_i, h̃) = g(p_i + h̃) for each own contribution (P), the others adding up to `others`, `most` the largest of them.

    standard FL: all of the others' (h̃ = h); relative: in proportion to p_i/max p; IAFL: min((p_i/p_ceil)^(1−κ), 1) of it.
    """
    if mechanism == "standard FL":
        share = np.ones_like(own)
    elif mechanism == "relative":
        share = own / np.maximum(np.maximum(own, most), 1e-12)
    else:
        share = np.minimum((own / ceiling) ** (1 - kappa), 1.0)
    return np.asarray(gain_of(own + share * others))


def best_response(mechanism: str, others: float, most: float, cost: float, ceiling: float, kappa: float) -> float:
    """The contribution that is worth most to a client at a cost per unit, from a fine grid."""
    own = np.linspace(0, max(2 * ceiling, 1 / cost), 20001)
    return float(own[(reward_of(mechanism, own, others, most, ceiling, kappa) - cost * own).argmax()])


def equilibrium(mechanism: str, n: int, start: float, cost: float, ceiling: float, kappa: float) -> float:
    """What each of N identical clients contributes when nobody gains by another contribution, found from a start."""
    each = start
    for _ in range(500):
        wanted = best_response(mechanism, (n - 1) * each, each, cost, ceiling, kappa)
        if abs(wanted - each) < 1e-6:
            break
        each += (wanted - each) / (2 * n)  # the more there are, the more they would overshoot
    return each


def incentives(clients: int, cost: float, ceiling: float, kappa: float, start: float) -> tuple[pd.DataFrame, Drawing]:
    """Propositions 1 and 3: the reward of one client by its own contribution, and what clients give in equilibrium."""
    alone = 1 / cost - 1  # p*: g'(p*) = c
    low = alone / clients  # proposition 3: all together give what one would give alone
    own = np.linspace(0, 1.5 * ceiling, 61)
    rows = []
    for name in MECHANISMS:
        each = equilibrium(name, clients, low if name == "relative" else start, cost, ceiling, kappa)
        rewards = reward_of(name, own, (clients - 1) * ceiling / 2, ceiling / 2, ceiling, kappa)
        rows += [
            {"mechanism": name, "contribution": p, "reward": r, "equilibrium": each, "alone": alone}
            for p, r in zip(own, rewards, strict=True)
        ]
    table = pd.DataFrame(rows)

    def draw(picture: Any) -> None:
        left, right = picture.subplots(1, 2)
        for name, style in zip(MECHANISMS, ("--", ":", "-"), strict=True):
            part = table[table.mechanism == name]
            left.plot(part.contribution, part.reward, style, color="0.2", label=name)
        left.set(xlabel="own contribution, others at half the ceiling", ylabel="reward")
        totals = table.groupby("mechanism", sort=False).equilibrium.first() * clients
        bars = right.bar(range(len(totals)), totals, color=["0.75", "0.5", "0.25"])
        right.bar_label(bars, fmt="%.2f", fontsize=8)
        right.axhline(alone, color="0.4", linestyle=":", label="one client alone")
        right.set_xticks(range(len(totals)), list(totals.index), fontsize=8)
        right.set_ylabel("contributions of all in equilibrium")
        tidy(left, right)

    return table, draw


def tidy(*axes: Any) -> None:
    """A grid, a legend, no box."""
    for axis in axes:
        axis.set_axisbelow(True)
        axis.grid(True, color="0.9")
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(fontsize=7.5)
