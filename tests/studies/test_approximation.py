"""Figure 1 of the CGSV paper: what is compared, and its finding."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedincent.cli import main
from fedincent.contributions import shapley
from fedincent.mechanisms.sparse import add_largest
from fedincent.studies.approximation import (
    altruism,
    bounded,
    compare,
    cosine_approximation,
    split_values,
    study,
    summing_to_one,
)


def test_cosine_approximation_by_hand() -> None:
    vectors = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])  # sum (2, 2)
    np.testing.assert_allclose(cosine_approximation(vectors), [1 / np.sqrt(2), 1 / np.sqrt(2), 1])


def test_equal_vectors_leave_no_error() -> None:
    vectors = np.tile(np.random.default_rng(0).standard_normal(50), (4, 1))
    right = summing_to_one(shapley.exact(shapley.cosine_game(vectors), 4))
    np.testing.assert_allclose(summing_to_one(cosine_approximation(vectors)), right, atol=1e-9)


def test_the_papers_finding_at_1024_numbers() -> None:
    """The cosine approximation is nearer to the exact values than (0.1, 0.1) sampling, on average over ten draws."""
    for n in (2, 5, 10):
        draws = pd.DataFrame([compare(n, 1024, seed, 0.1, 0.1) for seed in range(10)]).mean()
        assert draws.cosine_l1 < draws.sampling_l1 and draws.cosine_l2 < draws.sampling_l2


def test_the_figure_and_its_numbers(own_results: Path) -> None:
    table, _ = study([2, 3], [64], 32, 3, 0.5, 0.5, 2)
    assert list(table.varied) == ["N", "N", "D"] and (table[["cosine_l1", "sampling_l2"]] >= 0).all().all()
    main(["figure", "cgsv-1"])
    stored = pd.read_csv(own_results / "figures" / "cgsv-1.csv")
    assert len(stored) == 15 and (own_results / "figures" / "cgsv-1.png").stat().st_size > 20_000
    with pytest.raises(SystemExit):
        main(["figure", "cgsv-1", "seed=1"])


def test_the_values_are_a_multiple_of_the_cosines_and_an_error() -> None:
    """Two orthogonal updates of one length, equal weights: ν is 0, 1/√2, 1/√2, 1, so φ = ½; ψ = 1/√2.

    L = ½·(1 + 1/√2): alone ‖r u‖/‖r u‖ = 1, joining the other 1/√2. φ − L·ψ = ½ − (1 + 1/√2)/(2√2) = ¼ − 1/(2√2).
    """
    phi, psi, factor = split_values(np.eye(2), np.array([0.5, 0.5]))
    np.testing.assert_allclose(phi, 0.5)
    np.testing.assert_allclose(psi, 1 / np.sqrt(2))
    np.testing.assert_allclose(factor, 0.5 * (1 + 1 / np.sqrt(2)))
    error, most = bounded(np.eye(2), np.array([0.5, 0.5]))
    assert error == pytest.approx(0.25 - 0.5 / np.sqrt(2)) and most == pytest.approx(4)


@given(st.integers(2, 6), st.integers(0, 200), st.floats(0.05, 5.0))
@settings(max_examples=40, deadline=None)
def test_theorem_1_holds_and_does_not_know_the_length(n: int, seed: int, length: float) -> None:
    vectors = np.random.default_rng(seed).standard_normal((n, 30)) + 0.3
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    weights = np.full(n, 1 / n)
    error, most = bounded(vectors, weights)
    assert error <= most
    assert bounded(length * vectors, weights) == pytest.approx((error, most))


@given(st.floats(0.05, 0.99), st.lists(st.floats(0.01, 1.0), min_size=2, max_size=10))
def test_altruism_keeps_everybody_above_a_share(least: float, raw: list[float]) -> None:
    """Section 3.4: β = ln((1 + c)/(1 − c))/(2r) gives everybody at least ⌊c·D⌋ entries, by the mechanism's own rule."""
    importance = torch.tensor(raw, dtype=torch.float64) / sum(raw)
    shares = torch.tanh(altruism(least, float(importance.min())) * importance)
    dim = 1000
    models, aggregate = torch.zeros(len(raw), dim), torch.arange(1.0, dim + 1)
    kept = add_largest(models, aggregate, shares / shares.max(), [slice(0, dim)], round_up=False)
    assert (kept >= math.floor(dim * least) - 1e-9).all()
