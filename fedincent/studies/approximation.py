"""How well, and how fast, the cosine gradient Shapley value is approximated (Xu et al. 2021, figure 1).

N random vectors of D standard normal numbers stand for normalised updates. The exact values of the cosine game, its
(ε, δ) sampling estimate and the cosine approximation are each brought to sum 1; the judge is the exact one.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from fedincent.contributions import shapley


def cosine_approximation(vectors: np.ndarray) -> np.ndarray:
    """ψ_i = cos(u_i, Σ u_j) (N), eq. 3."""
    total = vectors.sum(0)
    return vectors @ total / (np.linalg.norm(vectors, axis=1) * np.linalg.norm(total))


def summing_to_one(values: np.ndarray) -> np.ndarray:
    """Values divided by their sum."""
    return values / values.sum()


def timed(estimate: Callable[[], np.ndarray]) -> tuple[np.ndarray, float]:
    """What an estimator gives, and the seconds it takes."""
    begun = time.perf_counter()
    values = estimate()
    return values, time.perf_counter() - begun


def compare(n: int, dim: int, seed: int, epsilon: float, delta: float) -> dict[str, float]:
    """Errors and seconds of both estimates for one draw of N vectors of length D."""
    vectors = np.random.default_rng([seed, n, dim]).standard_normal((n, dim))
    count = shapley.permutations_for(epsilon, delta, n)
    rng = np.random.default_rng([seed, n, dim, 1])
    right, right_seconds = timed(lambda: shapley.exact(shapley.cosine_game(vectors), n))
    sampled, sampled_seconds = timed(lambda: shapley.sampled(shapley.cosine_game(vectors), n, count, rng))
    cosine, cosine_seconds = timed(lambda: cosine_approximation(vectors))
    truth = summing_to_one(right)
    row = {"N": n, "D": dim, "seed": seed, "permutations": count, "exact_seconds": right_seconds}
    for name, values, seconds in (("cosine", cosine, cosine_seconds), ("sampling", sampled, sampled_seconds)):
        gap = summing_to_one(values) - truth
        row |= {f"{name}_l1": float(np.abs(gap).sum()), f"{name}_l2": float(np.linalg.norm(gap)), f"{name}_seconds": seconds}
    return row


def split_values(vectors: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """φ, ψ and L (N each) of φ_i = Σ_S A_S·ν(S) + L_i·ψ_i (eq. 6): the cosine game's values as a multiple of the cosines.

    vectors: u (N×D); weights: r (N). L_i = Σ_S r_i‖u_i‖/‖u_{S∪i}‖ over the coalitions without i, by Shapley's weights: the
    paper's B_S with the length of u_i, which cos(u_i, u_N) takes out of the product.
    """
    weighted = vectors * weights[:, None]
    n, total = len(vectors), weighted.sum(0)
    phi = shapley.exact(shapley.cosine_game(weighted), n)
    psi = vectors @ total / (np.linalg.norm(vectors, axis=1) * np.linalg.norm(total))
    factor = np.zeros(n)
    for code in range(2**n):
        inside = np.array([code >> i & 1 for i in range(n)], dtype=bool)
        for i in np.flatnonzero(~inside):
            grown = inside.copy()
            grown[i] = True
            share = 1 / (n * math.comb(n - 1, int(inside.sum())))
            factor[i] += share * np.linalg.norm(weighted[i]) / np.linalg.norm(weighted[grown].sum(0))
    return phi, psi, factor


def bounded(vectors: np.ndarray, weights: np.ndarray) -> tuple[float, float]:
    """The largest error φ_i − L_i·ψ_i of some updates of one length Γ, and theorem 1's bound I·Γ² on it.

    1/I is the least of |⟨r_i·u_i, u_N⟩|, r_i in it as the proof takes it. Twice as long updates make I a quarter: neither
    error nor bound depends on Γ.
    """
    phi, psi, factor = split_values(vectors, weights)
    weighted = vectors * weights[:, None]
    least = np.abs(weighted @ weighted.sum(0)).min()
    return float((phi - factor * psi).max()), float(np.linalg.norm(vectors[0]) ** 2 / least)


def bound(
    clients: int, dim: int, common: Sequence[float], draws: int, seed: int
) -> tuple[pd.DataFrame, Callable[[Any], None]]:
    """Theorem 1: error and bound for random updates of length 1 to which something in common is added, more and more."""
    rows = []
    for shift in common:
        for draw in range(draws):
            vectors = np.random.default_rng([seed, draw]).standard_normal((clients, dim)) + shift
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
            error, most = bounded(vectors, np.full(clients, 1 / clients))
            rows.append({"common": shift, "error": error, "bound": most})
    table = pd.DataFrame(rows).groupby("common", as_index=False).mean()

    def draw_bound(picture: Any) -> None:
        axis = picture.subplots()
        axis.plot(table.common, table.error, "-o", color="0.2", label="largest φ_i − L_i·ψ_i")
        axis.plot(table.common, table.bound, ":s", color="0.5", label="bound I·Γ²")
        axis.set(
            xlabel="what the updates have in common, in deviations of what they have not", ylabel="error", yscale="symlog"
        )
        axis.grid(True, color="0.9")
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(fontsize=8)

    return table, draw_bound


def altruism(least_kept: float, least_importance: float) -> float:
    """The smallest β by which everybody keeps at least so large a share of the aggregate's entries (sec. 3.4).

    ln((1 + c)/(1 − c))/(2r), where nobody's importance is below r.
    """
    return math.log((1 + least_kept) / (1 - least_kept)) / (2 * least_importance)


def study(
    clients: Sequence[int], dims: Sequence[int], fixed_dim: int, fixed_clients: int, epsilon: float, delta: float, runs: int
) -> tuple[pd.DataFrame, Callable[[Any], None]]:
    """The numbers of the figure, averaged over runs, and what draws them."""
    pairs = [("N", n, fixed_dim) for n in clients] + [("D", fixed_clients, dim) for dim in dims]
    rows = []
    for varied, n, dim in pairs:
        draws = pd.DataFrame([compare(n, dim, seed, epsilon, delta) for seed in range(runs)])
        rows.append({"varied": varied, **draws.drop(columns="seed").mean().to_dict()})
    table = pd.DataFrame(rows).astype({"N": int, "D": int, "permutations": int})

    def draw(picture: Any) -> None:
        axes = picture.subplots(2, 2, sharex="col")
        for column, varied in enumerate(("N", "D")):
            part = table[table.varied == varied]
            title = f"D = {fixed_dim}" if varied == "N" else f"N = {fixed_clients}"
            for name, style in (("cosine", "-"), ("sampling", "--")):
                axes[0][column].plot(part[varied], part[f"{name}_l1"], style, color="0.1", marker="o", label=f"{name}, ℓ1")
                axes[0][column].plot(part[varied], part[f"{name}_l2"], style, color="0.5", marker="s", label=f"{name}, ℓ2")
                axes[1][column].plot(part[varied], part[f"{name}_seconds"], style, color="0.3", marker="^", label=name)
            axes[1][column].plot(part[varied], part["exact_seconds"], ":", color="0.3", marker="x", label="exact")
            axes[0][column].set_title(title, fontsize=10)
            axes[1][column].set_xlabel(varied)
            for axis in (axes[0][column], axes[1][column]):
                axis.set_yscale("log")
                if varied == "D":
                    axis.set_xscale("log", base=2)
                axis.grid(True, color="0.9")
                axis.spines[["top", "right"]].set_visible(False)
        axes[0][0].set_ylabel("error (values sum to 1)")
        axes[1][0].set_ylabel("seconds")
        for row in axes:
            row[1].legend(fontsize=7, loc="center left", bbox_to_anchor=(1.0, 0.5))

    return table, draw
