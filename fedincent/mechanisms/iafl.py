"""Incentive-aware federated learning with training-time model rewards (Wu et al. 2024).

A client is rewarded the mean of as many updates as its contribution earns. As algebra: Θ ← Θ + S·G, where row i of the
random row-stochastic matrix S averages client i's own update and those of ⌈γ_i·(n−1)⌉ of its peers, n clients having
joined and γ_i = min((p_i/p_ceil)^(1−κ), 1) (eq. 1). Now and then (with probability q) a client is handed the reference
model instead, which moves by the mean of ⌈γ'_ref·n⌉ updates (sec. 5).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from fedincent.config import option
from fedincent.federation import Federation, Round
from fedincent.mechanisms.base import Mechanism

log = logging.getLogger("fedincent")


@dataclass(kw_only=True)
class IAFL(Mechanism):
    """A client is rewarded the mean of as many updates as its contribution earns (Wu et al. 2024, alg. 1)."""

    saved: ClassVar[tuple[str, ...]] = ("models", "reference_model")
    uses_contribution: ClassVar[bool] = True

    kappa: float = option("sharing coefficient κ: 0 rewards by contribution, 1 shares everything", low=0, high=1)
    q: float = option("probability that a client is handed the reference model in a round", low=0, high=1)
    ceiling: float | None = option("contribution that earns everything; null: the largest among the clients", above=0)
    reference: str = option("how much the reference model averages", choices=("max", "median"))

    def start(self, federation: Federation) -> None:
        super().start(federation)
        self.reference_model = federation.initial.clone()

    def incoming(self, round: Round) -> torch.Tensor:
        lucky = torch.from_numpy(round.stream("recovery").random(self.federation.n) < self.q) & round.joined
        self.models[lucky] = self.reference_model
        return self.models

    def reward(self, round: Round, updates: torch.Tensor) -> None:
        if not round.joined.any():
            return
        joined = round.joined.numpy()
        rates = reward_rates(self.federation.contribution.measure(round, updates).numpy(), self.ceiling, self.kappa)
        self.federation.add_product(self.models, sample_peers(rates, joined, round.stream("peers")), updates)
        sample = sample_reference(rates, joined, self.reference, round.stream("reference"))
        self.reference_model.add_(torch.from_numpy(sample).to(updates) @ updates)


def reward_rates(contribution: np.ndarray, ceiling: float | None, kappa: float) -> np.ndarray:
    """γ (N), eq. 1: min((p/p_ceil)^(1−κ), 1); all ones where nobody contributes anything."""
    top = ceiling if ceiling is not None else contribution.max()
    if contribution.max() <= 0:
        log.warning("every contribution is 0: everybody is rewarded everything")
        return np.ones(len(contribution))
    return np.minimum((np.maximum(contribution, 0) / top) ** (1 - kappa), 1.0)


def whole(x: np.ndarray | float) -> np.ndarray:
    """⌈x⌉, forgiving the rounding error of a product that should be a whole number."""
    return np.ceil(np.asarray(x) - 1e-9).astype(np.int64)


def sample_peers(rates: np.ndarray, joined: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """S (N×N): row i averages ⌈γ_i·(n−1)⌉ other joined clients, drawn without replacement, and i itself if it joined.

    A row with nothing to average is zero; every other row sums to 1.
    """
    n_clients, n_joined = len(rates), int(joined.sum())
    keys = rng.random((n_clients, n_clients))
    keys[:, ~joined] = np.inf
    np.fill_diagonal(keys, np.inf)
    available = n_joined - joined  # of each client's peers
    counts = np.minimum(whole(rates * (n_joined - 1)), available)
    chosen = np.zeros((n_clients, n_clients))
    np.put_along_axis(chosen, keys.argsort(1), (np.arange(n_clients) < counts[:, None]).astype(float), axis=1)
    chosen[np.diag_indices(n_clients)] = joined
    return chosen / np.maximum(chosen.sum(1, keepdims=True), 1)


def sample_reference(rates: np.ndarray, joined: np.ndarray, rule: str, rng: np.random.Generator) -> np.ndarray:
    """The reference model's weights on the updates (N): the mean of ⌈γ'_ref·n⌉ random joined clients.

    γ'_i = γ_i − (γ_i − 1)/n is the share of all joined updates that client i averages; γ'_ref their maximum or median.
    """
    members = np.flatnonzero(joined)
    induced = rates - (rates - 1) / len(members)
    share = induced.max() if rule == "max" else np.median(induced)
    chosen = rng.permutation(members)[: max(1, int(whole(share * len(members))))]
    weights = np.zeros(len(rates))
    weights[chosen] = 1 / len(chosen)
    return weights
