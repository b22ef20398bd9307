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


def henze_zirkler_p(values: np.ndarray) -> float:
    """p of the Henze–Zirkler test (1990) that rows (n×d) are normal: the statistic is then nearly log-normal."""
    from scipy.stats import lognorm

    n, d = values.shape
    centred = values - values.mean(0)
    spread = centred.T @ centred / n
    if np.linalg.matrix_rank(spread) < d:
        return 0.0
    products = centred @ np.linalg.solve(spread, centred.T)
    own = np.diag(products)
    apart = own[:, None] + own[None, :] - 2 * products
    b = (n * (2 * d + 1) / 4) ** (1 / (d + 4)) / np.sqrt(2)
    statistic = n * (
        np.exp(-(b**2) / 2 * apart).sum() / n**2
        - 2 * (1 + b**2) ** (-d / 2) * np.exp(-(b**2) / (2 * (1 + b**2)) * own).mean()
        + (1 + 2 * b**2) ** (-d / 2)
    )
    a = 1 + 2 * b**2
    w = (1 + b**2) * (1 + 3 * b**2)
    mean = 1 - a ** (-d / 2) * (1 + d * b**2 / a + d * (d + 2) * b**4 / (2 * a**2))
    variance = (
        2 * (1 + 4 * b**2) ** (-d / 2)
        + 2 * a**-d * (1 + 2 * d * b**4 / a**2 + 3 * d * (d + 2) * b**8 / (4 * a**4))
        - 4 * w ** (-d / 2) * (1 + 3 * d * b**4 / (2 * w) + d * (d + 2) * b**8 / (2 * w**2))
    )
    scale, shape = mean**2 / np.sqrt(variance + mean**2), np.sqrt(np.log1p(variance / mean**2))
    return float(lognorm.sf(statistic, shape, scale=scale))
