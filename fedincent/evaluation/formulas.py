"""What metrics are made of: formulas over clients, by the methods of the arrays they are given; nothing is imported."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray

Columns = Mapping[str, Any]  # arrays over clients (N) by name


def participation_rate(reward: Array, alone: Array, *, lower_is_better: bool = False, strict: bool = False) -> float:
    """IPR: the share of clients whose reward is not worse (strict: better) than what they reach alone."""
    gain = alone - reward if lower_is_better else reward - alone
    return float((gain > 0 if strict else gain >= 0).mean())


def pearson(a: Array, b: Array) -> float | None:
    """Pearson's ρ; None where it is undefined because either side is constant."""
    a, b = a.astype(float), b.astype(float)
    if len(a) < 2 or a.max() == a.min() or b.max() == b.min():
        return None
    a, b = a - a.mean(), b - b.mean()
    scale = math.sqrt((a**2).sum() * (b**2).sum())
    return min(max(float((a * b).sum() / scale), -1.0), 1.0) if scale > 0 else None


def preferred(accuracy: Array, loss: Array, alone_accuracy: Array, alone_loss: Array) -> float:
    """Mean accuracy of the model that each client prefers: the one with the lower loss on its tests (Cho et al. 2022)."""
    prefers = loss < alone_loss
    return float((prefers * accuracy + ~prefers * alone_accuracy).mean())


@dataclass(frozen=True)
class Metric:
    """What a metric is made of, how it is shown and compared, and which way is better."""

    name: str
    label: str  # in tables
    meaning: str
    needs: tuple[str, ...]  # columns
    function: Callable[[Columns], float | None]
    tolerance: float | None = None  # how far ours may be from a printed value without an error; None: not compared
    scale: float = 1.0  # 100 for what is shown in percent
    digits: int = 2  # printed in tables
    lower_is_better: bool = False
    title: str = ""  # in the terminal and the report; empty: not shown there
    unit: str = ""  # behind the number in the terminal
    scientific: bool = False  # whether tables show it as 1.2e-03
    signed: bool = False  # whether a gain shows its plus
    beside: str = ""  # another number of the summary that tables show in brackets

    def of_clusters(self, beside: str) -> Metric:
        """The same as an accuracy."""
        return dataclasses.replace(self, tolerance=0.04, scale=100, digits=1, beside=beside)

    def show(self, value: float | None) -> str:
        """The value as people read it."""
        if value is None:
            return "undefined"
        digits = 2 if self.scale == 1 else 1
        return f"{self.scale * value:{'+' if self.signed else ''}.{digits}f}{self.unit}"


Formula = Callable[[Columns], "float | None"]


def mean(column: str) -> Formula:
    """The mean over the clients."""
    return lambda c: float(c[column].mean())


def largest(column: str) -> Formula:
    """The largest value of any client."""
    return lambda c: float(c[column].max())


def smallest(column: str) -> Formula:
    """The smallest value of any client."""
    return lambda c: float(c[column].min())


def spread(column: str) -> Formula:
    """The standard deviation over the clients."""
    return lambda c: float(c[column].std())


def gain(first: str, second: str) -> Formula:
    """By how much the first column is larger, on average."""
    return lambda c: float((c[first] - c[second]).mean())


# what a client is given, and which way is better: the first that there is
REWARDS = {"online_accuracy": 1, "online_mape": -1, "accuracy": 1, "mape": -1, "own_accuracy": 1}


def gains_by_cheating(c: Columns, of_cheats: bool) -> float | None:
    """By how much clients are rewarded better than in the honest run, on average: those who cheat, or all others.

    Who came under several names has the best of their rewards.
    """
    name = next((name for name in REWARDS if name in c and f"honest_{name}" in c), None)
    if name is None:
        return None
    gains = REWARDS[name] * (c[name] - c[f"honest_{name}"])
    best: dict[int, float] = {}
    for person, cheats, gained in zip(c["person"].tolist(), c["cheats"].tolist(), gains.tolist(), strict=True):
        if bool(cheats) == of_cheats:
            best[int(person)] = max(gained, best.get(int(person), -math.inf))
    return sum(best.values()) / len(best) if best else None


def reward_of_cheats(c: Columns) -> float | None:
    """The mean reward of those who behave otherwise than honest."""
    name = next((name for name in REWARDS if name in c), None)
    chosen = c["cheats"].astype(bool)
    return float(c[name][chosen].mean()) if name is not None and chosen.any() else None


def moved_shares(c: Columns, of_cheats: bool) -> float | None:
    """How the shares of all contributions moved against the honest run: of those who cheat in sum, or most of any other."""
    theirs = [c[name] / c[name].sum() for name in ("contribution", "honest_contribution")]
    if len(set(c["person"].tolist())) < len(theirs[0]):  # who has two names counts once in the honest run
        return None
    moved, cheats = theirs[0] - theirs[1], c["cheats"].astype(bool)
    if of_cheats:
        return float(moved[cheats].sum()) if cheats.any() else None
    return float(moved[~cheats][abs(moved[~cheats]).argmax()]) if (~cheats).any() else None


def opt_outs(reward: str, alone: str) -> Formula:
    """The share of clients that would rather leave: they do not gain."""
    return lambda c: 1 - participation_rate(c[reward], c[alone], strict=True)


def correlation(first: str, second: str, sign: int = 1) -> Formula:
    """ρ of two columns, the second with a sign."""
    return lambda c: pearson(c[first], sign * c[second])


def rate(reward: str, alone: str, lower_is_better: bool = False, strict: bool | None = None) -> Formula:
    """IPR of two columns; strict as the run says where it is not stated."""
    return lambda c: participation_rate(
        c[reward], c[alone], lower_is_better=lower_is_better, strict=c["strict"] if strict is None else strict
    )


def preference(whose: str) -> Formula:
    """The accuracy of the preferred model on somebody's tests."""
    names = (f"{whose}_accuracy", f"{whose}_loss", f"reference_{whose}_accuracy", f"reference_{whose}_loss")
    return lambda c: preferred(*(c[name] for name in names))


def margin(reward: str, alone: str) -> Formula:
    """How much lower the first loss is, in sum over the clients that gain."""
    return lambda c: float((c[alone] - c[reward]).clip(min=0).sum())


def told(name: str, label: str, meaning: str, digits: int = 2) -> Metric:
    """A number that a mechanism itself puts into the summary."""
    return Metric(name, label, meaning, ("told by the mechanism",), lambda columns: None, digits=digits)
