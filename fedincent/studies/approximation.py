"""How well, and how fast, the cosine gradient Shapley value is approximated (Xu et al. 2021, figure 1).

N random vectors of D standard normal numbers stand for normalised updates. The exact values of the cosine game, its
(ε, δ) sampling estimate and the cosine approximation are each brought to sum 1; the judge is the exact one.
"""

from __future__ import annotations

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
