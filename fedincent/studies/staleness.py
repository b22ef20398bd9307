"""How stale the nodes' models are when k of N are drawn by ϱ in every round (Lin et al. 2023, sec. 3 and appendix A).

q_i = 1 − (1 − ϱ_i)^k is node i's chance of being drawn in a round, with replacement. The paper prints its expected
staleness as Γ_i = (1 − q_i)/q_i²; the mean of the process itself is (1 − q_i)/q_i (a factor q_i is lost on the way
there). Both order the nodes alike.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

from fedincent.errors import FedincentError

LARGEST = 1e6  # β, for all that matters infinite


def chances(psi: np.ndarray, beta: float) -> np.ndarray:
    """ϱ (N, sums to 1): softmax of ψ/β (eq. 2)."""
    weights = np.exp((psi - psi.max()) / beta)
    return weights / weights.sum()


def drawn(rho: np.ndarray, k: int) -> np.ndarray:
    """q (N): the chance of being among k draws with replacement."""
    with np.errstate(divide="ignore"):  # of who is always drawn
        return -np.expm1(k * np.log1p(-rho))


def printed_staleness(rho: np.ndarray, k: int) -> np.ndarray:
    """Γ (N) as the paper prints it: (1 − q)/q²."""
    q = drawn(rho, k)
    return (1 - q) / q**2


def mean_staleness(rho: np.ndarray, k: int) -> np.ndarray:
    """The mean (N) of rounds since a node was last drawn: (1 − q)/q."""
    q = drawn(rho, k)
    return (1 - q) / q


def simulated_staleness(rho: np.ndarray, k: int, rounds: int, rng: np.random.Generator) -> np.ndarray:
    """The same (N) by drawing."""
    draws = rng.choice(len(rho), size=(rounds, k), p=rho)
    chosen = np.zeros((rounds, len(rho)), dtype=bool)
    chosen[np.arange(rounds)[:, None], draws] = True
    age, total = np.zeros(len(rho)), np.zeros(len(rho))
    for who in chosen:
        age = np.where(who, 0, age + 1)
        total += age
    return total / rounds


def equality_gap(n: int, k: int) -> float:
    """What prop. 2's ε is at most for N nodes and k draws: (1 − 1/N)^−k + (1 − 1/N)^k − 2."""
    stay = (1 - 1 / n) ** k
    return 1 / stay + stay - 2


def beta_for(psi: np.ndarray, k: int, low: float, high: float) -> float:
    """The smallest β that keeps every ψ_i·Γ_i between two bounds (lemma 1), by bisection.

    With M1 ≤ ψ ≤ M2 and f(ϱ) = (1 − ϱ)^k/(1 − (1 − ϱ)^k)²: M1·f(e^((M2−M1)/β)/N) rises with β from 0, at
    β₀ = (M2 − M1)/ln N, to M1·Γ∞, and M2·f(e^(−(M2−M1)/β)/N) falls to M2·Γ∞. Bounds beyond those limits cannot be kept.
    """
    n, least, most = len(psi), float(psi.min()), float(psi.max())
    if least <= 0:
        raise FedincentError("the bounds are for positive contributions")
    limit = float(printed_staleness(np.full(1, 1 / n), k)[0])
    if low >= least * limit or high <= most * limit:
        raise FedincentError(
            f"bounds {low:g} and {high:g} cannot be kept: they must leave room for {least * limit:g} and {most * limit:g}"
        )
    if least == most:
        return 0.0
    start = (most - least) / np.log(n)

    def smallest(value: Callable[[float], float], enough: Callable[[float], bool]) -> float:
        below, above = start, LARGEST
        for _ in range(200):
            middle = np.sqrt(below * above)
            below, above = (below, middle) if enough(value(middle)) else (middle, above)
        return float(above)

    def at(sign: int, worth: float) -> Callable[[float], float]:
        return lambda beta: worth * float(printed_staleness(np.array([np.exp(sign * (most - least) / beta) / n]), k)[0])

    return max(
        smallest(at(1, least), lambda value: value >= low),
        smallest(at(-1, most), lambda value: value <= high),
    )


def staleness_by_beta(n: int, k: int, betas: list[float]) -> tuple[pd.DataFrame, Callable[[Any], None]]:
    """Γ of the nodes with ψ_i = i/Σj, from fair to equal: the paper's figure 4."""
    psi = np.arange(1, n + 1) / (n * (n + 1) / 2)
    rows = []
    for beta in betas:
        rho = chances(psi, beta)
        values = zip(range(1, n + 1), psi, rho, printed_staleness(rho, k), mean_staleness(rho, k), strict=True)
        rows += [(beta, node, *numbers) for node, *numbers in values]
    table = pd.DataFrame(rows, columns=["beta", "node", "psi", "chance", "printed", "mean"])

    def draw(picture: Any) -> None:
        from fedincent.results.panels import styles

        for axis, column, title in zip(
            picture.subplots(1, 2),
            ("printed", "mean"),
            ("Γ as printed, (1 − q)/q²", "mean staleness, (1 − q)/q"),
            strict=True,
        ):
            for beta, style in zip(betas, styles(len(betas)), strict=True):
                part = table[table.beta == beta]
                axis.plot(part.node, part[column], marker="o", markersize=3, label=f"β = {beta:g}", **style)
            axis.set(yscale="log", xlabel="node i, ψ = i/Σ", title=title)
            axis.grid(True, color="0.9")
            axis.spines[["top", "right"]].set_visible(False)
        axis.legend(fontsize=8)

    return table, draw


def models_sent(n: int, rounds: int, chosen: int, stop: int) -> dict[str, int]:
    """Models sent both ways in a run (table 7): a chosen node gets one and sends one; FYE explores with all nodes."""
    each = {"fedavg": chosen * rounds, "qffl": chosen * rounds, "gog": chosen * rounds, "fgfl": n * rounds}
    each["fye"] = n * stop + chosen * (rounds - stop)
    return {method: 2 * count for method, count in each.items()}


def communication(n: int, rounds: int, chosen: int, stops: list[int]) -> tuple[pd.DataFrame, Callable[[Any], None]]:
    """The paper's table 7 in numbers, for rounds T_α after which exploring ends."""
    sent = {f"FYE, T_α = {stop}": models_sent(n, rounds, chosen, stop)["fye"] for stop in stops}
    others = models_sent(n, rounds, chosen, rounds)
    sent = {"FedAvg, q-FFL, GoG": others["fedavg"], **sent, "FGFL": others["fgfl"]}
    table = pd.DataFrame({"method": list(sent), "models_sent": list(sent.values())})

    def draw(picture: Any) -> None:
        axis = picture.subplots()
        bars = axis.barh(table.method[::-1], table.models_sent[::-1], color="0.6")
        axis.bar_label(bars, padding=3, fontsize=9)
        axis.set_xlabel("models sent in both directions")
        axis.margins(x=0.12)
        axis.spines[["top", "right"]].set_visible(False)

    return table, draw
