"""The incentive metrics: pure functions of arrays over clients (N)."""

from __future__ import annotations

import numpy as np


def participation_rate(
    reward: np.ndarray, alone: np.ndarray, *, lower_is_better: bool = False, strict: bool = False
) -> float:
    """IPR: the share of clients whose reward is not worse (strict: better) than what they reach alone."""
    gain = alone - reward if lower_is_better else reward - alone
    return float(np.mean(gain > 0 if strict else gain >= 0))


def pearson(a: np.ndarray, b: np.ndarray) -> float | None:
    """Pearson's ρ; None where it is undefined because either side is constant."""
    a, b = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    if len(a) < 2 or np.ptp(a) == 0 or np.ptp(b) == 0:
        return None
    a, b = a - a.mean(), b - b.mean()
    scale = np.sqrt((a**2).sum() * (b**2).sum())
    return float(np.clip((a * b).sum() / scale, -1, 1)) if scale > 0 else None


def summarise(
    accuracy: np.ndarray, loss: np.ndarray, alone_accuracy: np.ndarray, alone_loss: np.ndarray, *, strict: bool = False
) -> dict[str, float | None]:
    """All metrics of a run, as fractions: IPR by accuracy and by loss, ρ, mean and best accuracy, mean gain."""
    return {
        "ipr_accuracy": participation_rate(accuracy, alone_accuracy, strict=strict),
        "ipr_loss": participation_rate(loss, alone_loss, lower_is_better=True, strict=strict),
        "pearson": pearson(accuracy, alone_accuracy),
        "accuracy_mean": float(np.mean(accuracy)),
        "accuracy_max": float(np.max(accuracy)),
        "accuracy_gain": float(np.mean(accuracy - alone_accuracy)),
    }


def correlations(importance: np.ndarray, accuracy: np.ndarray, train_loss: np.ndarray) -> dict[str, float | None]:
    """ρ of the clients' importance r_{i,T} with what they get: accuracy, or negative training loss (Xu et al., app. B.3)."""
    return {"pearson_importance": pearson(importance, accuracy), "pearson_importance_loss": pearson(importance, -train_loss)}


def own_metrics(
    loss: np.ndarray, accuracy: np.ndarray, alone_loss: np.ndarray, alone_accuracy: np.ndarray
) -> dict[str, float | None]:
    """On the clients' own tests (Cho et al. 2022): IPR by loss, strictly better, and the accuracy of the preferred model.

    A client prefers whichever of the two models has the lower loss on its tests.
    """
    prefers = loss < alone_loss
    return {"ipr": float(np.mean(prefers)), "preferred": float(np.mean(np.where(prefers, accuracy, alone_accuracy)))}
