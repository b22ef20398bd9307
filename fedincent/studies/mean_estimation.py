"""Two or three clients who each estimate a mean (Cho et al. 2022, appendix B): who gains by a common estimate?

Client k's empirical mean is θ̂_k ~ N(θ_k, 1), its own model ŵ_k = θ̂_k, and F_k(w) − F_k(ŵ_k) = (w − θ̂_k)². Federated
averaging takes the mean of the θ̂_k; IncFL minimises Σ_k h((w − θ̂_k)²) with h = σ (eq. 3), or another relaxation of "is
worse than mine". A client gains where (w − θ_k)² < (θ̂_k − θ_k)².

Far from the others a minimum lies some e^−80 from a client's own mean, on the side of the others, and that side decides
who gains. Models are therefore kept as their offsets w − θ̂_k (M×draws), which floating point resolves, never as w alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy.optimize import elementwise
from scipy.special import expit

Drawing = Callable[[Any], None]
EPSILON = 1e-3  # of the server's adaptive rate
FIRST_STEP = 0.1  # of the search for a bracket, in standard deviations of an empirical mean
LEAST_IPR = float(np.exp(-1)) / 16  # theorem B.1 where the empirical means have variance 1
REACH = 1e-3  # how far around the minimiser's answer its stationary point is looked for


def sigmoid_value(x: np.ndarray) -> np.ndarray:
    """σ(x) − 1, which keeps its digits where σ is all but 1."""
    return -expit(-x)


def sigmoid_slope(x: np.ndarray) -> np.ndarray:
    """q = σ(x)·(1 − σ(x)) (eq. 4)."""
    return expit(x) * expit(-x)


def relu_value(x: np.ndarray) -> np.ndarray:
    """max(x, 0): convex, hence no different from averaging (lemma B.2)."""
    return np.maximum(x, 0.0)


def relu_slope(x: np.ndarray) -> np.ndarray:
    """1 at and above 0."""
    return np.where(x >= 0, 1.0, 0.0)


RELAXATIONS = {"IncFL": (sigmoid_value, sigmoid_slope), "IncFL with ReLU": (relu_value, relu_slope)}


def averaged(means: np.ndarray) -> np.ndarray:
    """Offsets (M×draws) of federated averaging's model, the mean of the empirical `means` (M×draws)."""
    return means.mean(0) - means


def relaxed(means: np.ndarray, relaxation: str) -> np.ndarray:
    """Offsets (M×draws) of the lowest minimum of Σ_k h((w − θ̂_k)²) that is found from the clients' own means."""
    value, slope = RELAXATIONS[relaxation]
    best: np.ndarray | None = None
    lowest = np.full(means.shape[1], np.inf)
    for start in means:
        offsets = nearest_minimum(start - means, value, slope)
        height = value(offsets**2).sum(0)
        best = offsets if best is None else np.where(height < lowest, offsets, best)
        lowest = np.minimum(height, lowest)
    assert best is not None
    return best


def nearest_minimum(
    offsets: np.ndarray, value: Callable[[np.ndarray], np.ndarray], slope: Callable[[np.ndarray], np.ndarray]
) -> np.ndarray:
    """Offsets (M×draws) of the minimum downhill of models with the given ones.

    The minimiser gives half of floating point's digits; the root of the gradient, as an offset from the client nearest to
    it, gives the rest.
    """

    def height(step: np.ndarray, *start: np.ndarray) -> np.ndarray:
        return value((np.stack(start) + step) ** 2).sum(0)

    def gradient(step: np.ndarray, *anchored: np.ndarray) -> np.ndarray:
        away = np.stack(anchored) + step
        return (slope(away**2) * away).sum(0)

    zero = np.zeros(offsets.shape[1])
    bracket = elementwise.bracket_minimum(height, zero, xl0=zero - FIRST_STEP, xr0=zero + FIRST_STEP, args=(*offsets,))
    with np.errstate(invalid="ignore"):  # it divides 0 by 0 where the bracket's ends are equally high
        found = elementwise.find_minimum(height, bracket.bracket, args=(*offsets,))
    rough = offsets + found.x
    anchor = np.abs(rough).argmin(0)
    at_anchor = np.take_along_axis(rough, anchor[None], 0)[0]
    anchored = offsets - np.take_along_axis(offsets, anchor[None], 0)
    root = elementwise.find_root(gradient, (at_anchor - REACH, at_anchor + REACH), args=(*anchored,))
    return anchored + np.where(root.success, root.x, at_anchor)


def gains(offsets: np.ndarray, means: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Which clients (M×draws) the model is strictly better for than their own: (w − θ_k)² < (θ̂_k − θ_k)²."""
    return offsets * (offsets + 2 * (means - truth[:, None])) < 0


def participation(truth: Sequence[float], draws: int, seed: Sequence[int]) -> dict[str, float]:
    """The mean IPR of federated averaging and of IncFL's relaxations, over draws of the empirical means."""
    centre = np.asarray(truth, dtype=float)
    means = centre[:, None] + np.random.default_rng([*seed]).standard_normal((len(centre), draws))
    models = {"FedAvg": averaged(means)} | {name: relaxed(means, name) for name in RELAXATIONS}
    return {name: float(gains(offsets, means, centre).mean()) for name, offsets in models.items()}


def two_clients(largest: float, points: int, draws: int, shown: Sequence[float], seed: int) -> tuple[pd.DataFrame, Drawing]:
    """Figure 4: IPR against heterogeneity γ_G² = ((θ_2 − θ_1)/2)² with the bounds; IncFL's objective at some γ_G².

    Lemma B.1: FedAvg's is at most 2·exp(−γ_G²/(5γ²)); theorem B.1: IncFL's at least exp(−1/γ²)/16; γ² = 1 here.
    """
    rows = []
    for place, spread in enumerate(np.linspace(0, largest, points)):
        ipr = participation([0.0, 2 * float(np.sqrt(spread))], draws, [seed, place])
        rows.append({"heterogeneity": spread, "bound": 2 * np.exp(-spread / 5), "least": LEAST_IPR, **ipr})
    table = pd.DataFrame(rows)

    def draw(picture: Any) -> None:
        left, right = picture.subplots(1, 2)
        left.plot(table.heterogeneity, table["IncFL"], "-o", color="0.1", markersize=4, label="IncFL")
        left.plot(table.heterogeneity, table["FedAvg"], "--s", color="0.45", markersize=6, fillstyle="none", label="FedAvg")
        left.plot(table.heterogeneity, table["IncFL with ReLU"], ":x", color="0.25", markersize=5, label="IncFL with ReLU")
        left.plot(table.heterogeneity, table.bound, "-.", color="0.6", label="bound on FedAvg, 2·exp(−γ_G²/5)")
        left.plot(table.heterogeneity, table.least, "--", color="0.6", linewidth=1, label="IncFL's least, exp(−1)/16")
        left.set(xlabel="heterogeneity γ_G²", ylabel="IPR", ylim=(0, 1))
        along = np.linspace(-2 - np.sqrt(max(shown)), 2 + np.sqrt(max(shown)), 400)
        for spread, style in zip(shown, ("-", "--", ":", "-."), strict=False):
            means = np.sqrt(spread) * np.array([-1.0, 1.0])
            right.plot(along, objective(along, means), style, color="0.2", label=f"γ_G² = {spread:g}")
        right.set(xlabel="w (the two empirical means at ±γ_G)", ylabel="IncFL's objective")
        finish(left, right)

    return table, draw


def three_clients(cases: Mapping[str, Sequence[float]], draws: int, seed: int) -> tuple[pd.DataFrame, Drawing]:
    """Figure 5: IncFL's objective for three clients in some cases of true means, with what both methods choose."""
    rows = []
    for place, (name, truth) in enumerate(cases.items()):
        means = np.array(truth, dtype=float)[:, None]
        models = {"FedAvg_w": averaged(means)[0, 0] + means[0, 0], "IncFL_w": relaxed(means, "IncFL")[0, 0] + means[0, 0]}
        rows.append({"case": name, **models, **participation(truth, draws, [seed, place])})
    table = pd.DataFrame(rows)

    def draw(picture: Any) -> None:
        axes = picture.subplots(1, len(cases), sharey=True)
        for axis, (name, truth), (_, row) in zip(axes, cases.items(), table.iterrows(), strict=True):
            along = np.linspace(min(truth) - 2, max(truth) + 2, 400)
            axis.plot(along, objective(along, np.array(truth)), color="0.2")
            axis.plot(truth, np.full(len(truth), 0.49), "|", color="0.2", markersize=12, label="the clients' means")
            for method, marker in (("IncFL", "o"), ("FedAvg", "s")):
                w = np.array([row[f"{method}_w"]])
                label = f"{method}, IPR {row[method]:.2f}"
                axis.plot(w, objective(w, np.array(truth)), marker, color="0.3", markersize=9, fillstyle="none", label=label)
            axis.set_title(name, fontsize=10)
            axis.set(xlabel="w", ylim=(0.45, 1.02))
        axes[0].set_ylabel("IncFL's objective")
        finish(*axes)

    return table, draw


def learning_rate(shown: Sequence[float], epsilon: float, points: int) -> tuple[pd.DataFrame, Drawing]:
    """Figure 6: the server's rate 1/(Σ q_k(w) + ε) along w, for two clients with empirical means ±γ_G."""
    along = np.linspace(-2 - np.sqrt(max(shown)), 2 + np.sqrt(max(shown)), points)
    table = pd.DataFrame({"w": along})
    for spread in shown:
        means = np.sqrt(spread) * np.array([[-1.0], [1.0]])
        table[f"{spread:g}"] = 1 / (sigmoid_slope((along - means) ** 2).sum(0) + epsilon)

    def draw(picture: Any) -> None:
        axis = picture.subplots()
        for spread, style in zip(shown, ("-", "--", ":", "-."), strict=False):
            axis.plot(table.w, table[f"{spread:g}"], style, color="0.2", label=f"γ_G² = {spread:g}")
        axis.set(xlabel="w (the two empirical means at ±γ_G)", ylabel="1 / (Σ q(w) + ε)", yscale="log")
        finish(axis)

    return table, draw


def gradient_norms(
    horizons: Sequence[int], clients: int, per_round: int, steps: int, spread: float, noise: float, draws: int, seed: int
) -> tuple[pd.DataFrame, Drawing]:
    """Theorem C.1: how small the gradient of IncFL's objective gets within T rounds of algorithm 1, for some T.

    M clients estimate means, F_k(w) = (w − θ̂_k)²; m train a round, τ noisy steps of rate 1/(√T·τ) each, the server's rate
    is √(τm) over Σ q + ε. The bound falls as 1/√T.
    """
    rows = []
    for horizon in horizons:
        smallest = []
        for draw in range(draws):
            rng = np.random.default_rng([seed, draw])
            means = spread * rng.standard_normal(clients)
            w, best = spread * 2.0, np.inf
            rate = 1 / (np.sqrt(horizon) * steps)
            for _ in range(horizon):
                best = min(best, float(np.mean(sigmoid_slope((w - means) ** 2) * 2 * (w - means)) ** 2))
                chosen = rng.permutation(clients)[:per_round]
                local = np.full(per_round, w)
                for _ in range(steps):
                    local -= rate * (2 * (local - means[chosen]) + noise * rng.standard_normal(per_round))
                q = sigmoid_slope((w - means[chosen]) ** 2)
                w += np.sqrt(steps * per_round) * float(q @ (local - w)) / (q.sum() + EPSILON)
            smallest.append(best)
        rows.append({"rounds": horizon, "gradient": float(np.mean(smallest))})
    table = pd.DataFrame(rows)

    def draw_norms(picture: Any) -> None:
        axis = picture.subplots()
        axis.plot(table.rounds, table.gradient, "-o", color="0.2", label="smallest ‖∇F̃‖² within T rounds, mean over draws")
        line = table.gradient.iloc[0] * np.sqrt(table.rounds.iloc[0] / table.rounds)
        axis.plot(table.rounds, line, ":", color="0.5", label="1/√T through the first")
        axis.set(xlabel="rounds T", ylabel="‖∇F̃‖²", xscale="log", yscale="log")
        finish(axis)

    return table, draw_norms


def objective(along: np.ndarray, means: np.ndarray) -> np.ndarray:
    """IncFL's objective, the mean of σ((w − θ̂_k)²), at points w (P), for empirical means (M) (eq. 3)."""
    result: np.ndarray = expit((along - means[:, None]) ** 2).mean(0)
    return result


def finish(*axes: Any) -> None:
    """What every panel has: a grid, a legend, no box."""
    for axis in axes:
        axis.grid(True, color="0.9")
        axis.spines[["top", "right"]].set_visible(False)
        axis.legend(fontsize=7.5)
