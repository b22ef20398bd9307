"""When an evaluation of contributions may stop: Hotelling's test of whether the last rounds still say something new.

Lin et al. 2023, prop. 1: φ_1 … φ_t of M nodes (t×M), µ0 = mean of all but the last τ rounds, T² = t·(φ̄ − µ0)ᵀ S⁻¹ (φ̄
− µ0) with the sample covariance S; F = (t − M)/(M(t − 1))·T² is compared with F_{M, t−M}. The evaluation stops when p >
α. µ0 is part of the same sample, so T² shrinks like τ/(t − τ): for independent rounds the rule stops sooner or later
whatever happens (at about round 27 for M = 10, τ = 15, α = 0.7).
"""

from __future__ import annotations

import numpy as np


def hotelling_p(values: np.ndarray, window: int) -> float:
    """p, that the mean of t rounds (t×M) differs from that of all but the last `window` by chance alone; t > M."""
    from scipy.stats import f

    t, m = values.shape
    gap = values.mean(0) - values[: t - window].mean(0)
    spread = np.atleast_2d(np.cov(values, rowvar=False))
    squared = t * float(gap @ np.linalg.pinv(spread) @ gap)  # a node that no longer sends has no variance
    return float(f.sf((t - m) / (m * (t - 1)) * squared, m, t - m))
