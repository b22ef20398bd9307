"""The FYE paper's theory: closed forms, properties, and the process itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedincent.cli import main
from fedincent.errors import FedincentError
from fedincent.studies.staleness import (
    beta_for,
    chances,
    drawn,
    equality_gap,
    mean_staleness,
    printed_staleness,
    simulated_staleness,
)


@pytest.mark.parametrize(
    ("n", "k", "q", "printed", "mean"),
    [(10, 4, 0.3439, 5.548, 1.908), (30, 12, 0.3342, 5.960, 1.992), (5, 2, 0.36, 4.938, 1.778)],
)
def test_equal_chances_in_closed_form(n: int, k: int, q: float, printed: float, mean: float) -> None:
    rho = np.full(n, 1 / n)
    assert drawn(rho, k)[0] == pytest.approx(q, abs=5e-5)
    assert printed_staleness(rho, k)[0] == pytest.approx(printed, abs=5e-4)
    assert mean_staleness(rho, k)[0] == pytest.approx(mean, abs=5e-4)


def test_what_equality_costs_at_most() -> None:
    assert equality_gap(10, 4) == pytest.approx(0.1803, abs=5e-5) and equality_gap(30, 12) == pytest.approx(0.1678, abs=5e-5)


@pytest.mark.parametrize(
    ("beta", "first", "last"),
    [(0.01, 1.46e13, 6.95e-4), (0.05, 438.4, 0.368), (0.1, 40.17, 1.197), (1, 6.625, 4.667), (10, 5.646, 5.451)],
)
def test_figure_4_in_closed_form(beta: float, first: float, last: float) -> None:
    values = printed_staleness(chances(np.arange(1, 11) / 55, beta), 4)
    assert values[0] == pytest.approx(first, rel=4e-3) and values[-1] == pytest.approx(last, rel=2e-3)


def test_the_process_has_the_true_mean() -> None:
    rho = chances(np.arange(1, 11) / 55, 0.1)
    found = simulated_staleness(rho, 4, 200_000, np.random.default_rng(0))
    np.testing.assert_allclose(found, mean_staleness(rho, 4), rtol=0.02)


@given(st.lists(st.floats(0.001, 1), min_size=3, max_size=20), st.floats(1e-3, 10), st.integers(1, 10))
@settings(max_examples=200, deadline=None)
def test_more_contribution_means_fresher_models(values: list[float], beta: float, k: int) -> None:
    """Prop. 2 and 3: equal ψ, equal Γ; larger ψ, smaller Γ; raising ψ_i alone lowers Γ_i; who gives least waits longest."""
    psi = np.array(values)
    psi[1] = psi[0]
    stale = mean_staleness(np.maximum(chances(psi, beta), 1e-12), k)
    assert stale[0] == stale[1] and (stale <= stale[psi.argmin()] * (1 + 1e-12)).all()
    order = psi.argsort()
    assert (np.diff(stale[order]) <= 1e-9 * stale[order][:-1]).all()
    raised = psi.copy()
    raised[0] += 0.1
    assert mean_staleness(np.maximum(chances(raised, beta), 1e-12), k)[0] <= stale[0]


def test_beta_keeps_the_bounds() -> None:
    psi = np.arange(1, 11) / 55
    limit = float(printed_staleness(np.full(1, 0.1), 4)[0])
    low, high = 0.8 * psi.min() * limit, 1.2 * psi.max() * limit
    beta = beta_for(psi, 4, low, high)
    for factor in (1.0, 1.5, 10.0):
        kept = psi * printed_staleness(chances(psi, factor * beta), 4)
        assert (kept >= low * (1 - 1e-9)).all() and (kept <= high * (1 + 1e-9)).all()
    for bounds in ((psi.min() * limit, high), (low, psi.max() * limit)):
        with pytest.raises(FedincentError, match="cannot be kept"):
            beta_for(psi, 4, *bounds)


def test_figure_4(own_results: Path) -> None:
    main(["figure", "fye-4"])
    table = pd.read_csv(own_results / "figures" / "fye-4.csv")
    assert len(table) == 50 and table[table.beta == 1].printed.iloc[0] == pytest.approx(6.625, rel=1e-3)
