"""Metrics on numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import pearsonr

from fedincent.evaluation.formulas import participation_rate, pearson
from fedincent.evaluation.metrics import METRICS, summarise


def test_four_clients_by_hand() -> None:
    alone, final = np.array([0.5, 0.6, 0.7, 0.8]), np.array([0.6, 0.6, 0.65, 0.9])
    alone_loss, final_loss = np.array([1.0, 1.0, 1.0, 1.0]), np.array([0.9, 1.0, 1.1, 0.5])
    columns = {"accuracy": final, "loss": final_loss, "reference_accuracy": alone, "reference_loss": alone_loss}
    summary = summarise({**columns, "strict": False})
    assert summary["ipr_accuracy"] == 0.75
    assert summary["ipr_loss"] == 0.75
    assert summary["accuracy_mean"] == pytest.approx(0.6875)
    assert summary["accuracy_max"] == 0.9
    assert summary["accuracy_gain"] == pytest.approx(0.0375)
    # deviations: alone (−.15, −.05, .05, .15), final (−.0875, −.0875, −.0375, .2125); products sum to .0475
    assert summary["pearson"] == pytest.approx(0.0475 / np.sqrt(0.05 * 0.061875))
    assert summarise({**columns, "strict": True})["ipr_accuracy"] == 0.5


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


def test_own_tests_by_hand() -> None:
    """Two of three clients gain in accuracy, one by loss; equal is not better."""
    columns = {
        "own_loss": np.array([1.0, 2.0, 3.0]),
        "own_accuracy": np.array([0.9, 0.8, 0.1]),
        "reference_own_loss": np.array([2.0, 2.0, 1.0]),
        "reference_own_accuracy": np.array([0.5, 0.6, 0.7]),
    }
    found = summarise(columns)
    assert found["ipr_own"] == pytest.approx(1 / 3) and found["preferred_own"] == pytest.approx((0.9 + 0.6 + 0.7) / 3)
    assert found["opt_outs"] == pytest.approx(1 / 3) and found["own_accuracy_gain"] == pytest.approx(0.0)


def test_online_numbers_and_the_truth_by_hand() -> None:
    loss, zeta = np.array([1.0, 2.0, 4.0]), np.array([0.0, 0.3, 0.9])
    found = summarise({"online_loss": loss, "online_accuracy": 1 / loss, "zeta": zeta})
    assert found["pearson_online_loss"] == pytest.approx(1.0) and found["online_loss_mean"] == pytest.approx(7 / 3)
    assert found["std_online_loss"] == pytest.approx(np.sqrt(14 / 9)) and found["online_accuracy_min"] == 0.25


def test_a_metric_without_its_columns_is_not_there() -> None:
    assert summarise({}) == {}
    assert set(summarise({"accuracy": np.array([0.5])})) == {"accuracy_mean", "accuracy_max"}


def test_every_entry_can_be_shown() -> None:
    for name, metric in METRICS.items():
        assert (
            metric.name == name and metric.label and metric.meaning and metric.show(0.5) and metric.show(None) == "undefined"
        )
