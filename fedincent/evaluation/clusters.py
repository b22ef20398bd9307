"""How good each cluster's model is on each distribution of the data; which cluster belongs to which distribution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from scipy.optimize import linear_sum_assignment


def cluster_scores(
    models: torch.Tensor, distributions: Sequence[str], judge: Callable[..., tuple[torch.Tensor, torch.Tensor]]
) -> np.ndarray:
    """The scores (G×K) of K×D models on all test samples of each of G distributions."""
    return np.stack([judge(models, name)[0].numpy() for name in distributions])


def alignment(scores: np.ndarray) -> list[int]:
    """Which cluster belongs to which distribution: the assignment with the largest sum of scores (G×K).

    The cluster of distribution 0 first; clusters that are left over follow.
    """
    _, chosen = linear_sum_assignment(scores, maximize=True)
    order = chosen.tolist()
    return order + [k for k in range(scores.shape[1]) if k not in order]


def cluster_summary(scores: np.ndarray, distributions: Sequence[str]) -> dict[str, Any]:
    """Scores by aligned cluster and distribution (c0_theta_0), and each cluster's best with the number of where."""
    order = alignment(scores)
    found: dict[str, Any] = {"order": order}
    for place, cluster in enumerate(order):
        for row, name in enumerate(distributions):
            found[f"c{place}_{name}"] = float(scores[row, cluster])
        found[f"c{place}_best"] = float(scores[:, cluster].max())
        found[f"c{place}_at"] = int(scores[:, cluster].argmax())
    return {"clusters": found}


def cluster_lines(round_number: int, scores: np.ndarray, distributions: Sequence[str]) -> list[dict[str, Any]]:
    """The same as lines of clusters.csv, one for each cluster, by the mechanism's own numbers."""
    return [
        {"round": round_number, "cluster": cluster, **dict(zip(distributions, scores[:, cluster].tolist(), strict=True))}
        for cluster in range(scores.shape[1])
    ]
