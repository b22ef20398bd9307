"""Figures 4 to 6 of the IncFL paper: minima by hand, the lemmas of appendix B, the pictures' numbers."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from fedincent.cli import main
from fedincent.studies import mean_estimation as study

APART = st.lists(st.floats(-8, 8), min_size=2, max_size=3)


def column(*means: float) -> np.ndarray:
    """Empirical means of one draw (M×1)."""
    return np.array(means)[:, None]


def test_who_gains_by_hand() -> None:
    """Own mean 1, truth 0: a model in (−1, 1) is better; at 1 and −1 it is not strictly so."""
    for w, better in ((0.5, True), (-0.9, True), (1.0, False), (-1.0, False), (1.1, False)):
        assert study.gains(column(w - 1.0), column(1.0), np.array([0.0])).item() is better


def test_a_pull_too_small_for_the_model_still_decides() -> None:
    """Means 0 and 9: the minimum is some e^−81 above 0, which helps a client whose truth is above its mean, and no other."""
    offsets = study.relaxed(column(0.0, 9.0), "IncFL")
    assert 0 < offsets[0, 0] < 1e-30
    slope = 9 * study.sigmoid_slope(np.array(81.0)) / 0.25  # where q(δ²)·δ = q(81)·9
    assert offsets[0, 0] == pytest.approx(float(slope), rel=1e-6)
    assert study.gains(offsets, column(0.0, 9.0), np.array([0.1, 9.0])).tolist() == [[True], [False]]
    assert study.gains(offsets, column(0.0, 9.0), np.array([-0.1, 9.0])).tolist() == [[False], [False]]


@settings(deadline=None, max_examples=40)
@given(APART)
def test_minima_are_stationary_and_no_worse_than_any_client(means: list[float]) -> None:
    offsets = study.relaxed(column(*means), "IncFL")
    gradient = (study.sigmoid_slope(offsets**2) * offsets).sum(0)
    assert abs(gradient[0]) < 1e-9
    heights = [study.objective(np.array([w]), np.array(means))[0] for w in means]
    assert expit(offsets**2).mean() <= min(heights) + 1e-12


@settings(deadline=None, max_examples=40)
@given(APART)
def test_relu_is_averaging(means: list[float]) -> None:
    """Lemma B.2."""
    np.testing.assert_allclose(study.relaxed(column(*means), "IncFL with ReLU"), study.averaged(column(*means)), atol=1e-9)


def test_alike_clients_meet_in_the_middle_and_far_ones_do_not() -> None:
    """Section B.1: γ̂_G² < 1 gives the mean, γ̂_G² > 2 a model beside one of the two (lemmas B.3, B.4)."""
    np.testing.assert_allclose(study.relaxed(column(-0.9, 0.9), "IncFL")[:, 0], [0.9, -0.9], atol=1e-7)
    assert np.abs(study.relaxed(column(-2.0, 2.0), "IncFL")).min() < 0.01


def test_what_figure_4_shows(own_results: Path) -> None:
    """FedAvg under its bound and falling, IncFL away from 0, ReLU as FedAvg, over 10,000 draws a point."""
    main(["figure", "incfl-4"])
    table = pd.read_csv(own_results / "figures" / "incfl-4.csv")
    assert len(table) == 21 and table.heterogeneity.max() == 20
    assert (table["FedAvg"] <= table.bound).all()
    assert (np.diff(table["FedAvg"]) < 0.003).all() and table["FedAvg"].iloc[-1] < 0.01
    assert (table["IncFL"] > 0.2).all() and table["IncFL"].iloc[-1] == pytest.approx(0.25, abs=0.02)
    np.testing.assert_allclose(table["IncFL with ReLU"], table["FedAvg"], atol=2e-4)
    assert (own_results / "figures" / "incfl-4.png").stat().st_size > 20_000


def test_what_figures_5_and_6_show(own_results: Path) -> None:
    main(["figure", "incfl-5"])
    cases = pd.read_csv(own_results / "figures" / "incfl-5.csv").set_index("case")
    assert cases.IncFL_w["all alike"] == pytest.approx(cases.FedAvg_w["all alike"], abs=1e-6)
    assert cases.IncFL_w["two alike"] == pytest.approx(0, abs=1e-6) and cases.FedAvg_w["two alike"] == 2
    assert cases.IncFL["two alike"] > 0.3 > 0.1 > cases.FedAvg["two alike"]
    assert cases.IncFL["all different"] > 0.1 > cases.FedAvg["all different"]
    main(["figure", "incfl-6"])
    rates = pd.read_csv(own_results / "figures" / "incfl-6.csv").set_index("w")
    by_hand = 1 / (2 * expit(6.0) * expit(-6.0) + 0.001)  # at w = 0, both means √6 away
    assert np.interp(0, rates.index, rates["6"]) == pytest.approx(by_hand, rel=0.01)
    assert rates["6"].iloc[200] > 10 * rates["0.5"].iloc[200]


def test_theorem_b1s_bound_is_below_and_theorem_c1s_gradient_falls() -> None:
    table, _ = study.two_clients(8.0, 5, 2000, [0.5], 0)
    assert (table["IncFL"] >= table.least).all() and table.least.iloc[0] == pytest.approx(np.exp(-1) / 16)
    norms, _ = study.gradient_norms([10, 100, 1000], 6, 3, 4, 1.0, 1.0, 10, 0)
    slope = np.diff(np.log(norms.gradient)) / np.diff(np.log(norms.rounds))
    assert (slope <= -0.5).all()  # at least as fast as 1/√T
