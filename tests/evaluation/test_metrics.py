"""Metrics on numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import pearsonr

from fedincent.evaluation.metrics import participation_rate, pearson, summarise


def test_four_clients_by_hand() -> None:
    alone, final = np.array([0.5, 0.6, 0.7, 0.8]), np.array([0.6, 0.6, 0.65, 0.9])
    alone_loss, final_loss = np.array([1.0, 1.0, 1.0, 1.0]), np.array([0.9, 1.0, 1.1, 0.5])
    summary = summarise(final, final_loss, alone, alone_loss)
    assert summary["ipr_accuracy"] == 0.75
    assert summary["ipr_loss"] == 0.75
    assert summary["accuracy_mean"] == pytest.approx(0.6875)
    assert summary["accuracy_max"] == 0.9
    assert summary["accuracy_gain"] == pytest.approx(0.0375)
    # deviations: alone (−.15, −.05, .05, .15), final (−.0875, −.0875, −.0375, .2125); products sum to .0475
    assert summary["pearson"] == pytest.approx(0.0475 / np.sqrt(0.05 * 0.061875))
    assert summarise(final, final_loss, alone, alone_loss, strict=True)["ipr_accuracy"] == 0.5


def test_strict_counts_only_gains() -> None:
    same = np.array([0.5, 0.5])
    assert participation_rate(same, same) == 1.0
    assert participation_rate(same, same, strict=True) == 0.0


def test_correlation_with_a_constant_is_undefined() -> None:
    assert pearson(np.array([1.0, 1.0, 1.0]), np.array([1.0, 2.0, 3.0])) is None
    assert pearson(np.array([1.0, 2.0]), np.array([3.0, 3.0])) is None
    assert pearson(np.array([1.0]), np.array([2.0])) is None


@given(st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1)), min_size=3, max_size=30))
def test_correlation_is_scipys(pairs: list[tuple[float, float]]) -> None:
    a, b = np.array(pairs).T
    ours = pearson(a, b)
    if ours is not None and np.std(a) > 1e-6 and np.std(b) > 1e-6:
        assert ours == pytest.approx(pearsonr(a, b).statistic, abs=1e-6)
