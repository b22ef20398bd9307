"""IAFL's theory: what it says of variance, distance, more clients and equilibria, against simulation and by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedincent.cli import main
from fedincent.mechanisms.iafl import IAFL
from fedincent.studies import rewards


def test_the_variance_of_a_reward_by_the_mechanism_itself(make_federation, make_round) -> None:  # type: ignore[no-untyped-def]
    """Appendix C: 1/Var = (1 + γ(N − 1))/σ², from IAFL's own rewards of random updates; κ = 0, so γ = p/max p."""
    n, deviation, moved = 9, 2.0, []
    contributions = [1.0, 0.5, 0.25, 0.125, 1.0, 1.0, 0.5, 0.5, 0.25]
    federation = make_federation(n, contributions)
    rng = np.random.default_rng(0)
    for index in range(600):
        mechanism = IAFL(kappa=0.0, q=0.0, ceiling=None, reference="max")
        mechanism.start(federation)
        updates = torch.from_numpy(deviation * rng.standard_normal((n, federation.dim)).astype(np.float32))
        mechanism.reward(make_round([True] * n, index), updates)
        moved.append((mechanism.models - federation.initial).numpy())
    found = 1 / np.var(np.stack(moved), axis=(0, 2))
    wanted = [rewards.quality(rate, n, deviation) for rate in contributions]
    np.testing.assert_allclose(found, wanted, rtol=0.07)
    assert rewards.quality(1.0, n, 1.0) == 9 and rewards.quality(0.0, n, 1.0) == 1


def test_theorem_1_by_hand_and_corollary_1() -> None:
    """Two clients, γ = 1 and 0 (γ' = 1 and ½), T = 1: mean of 1/γ' = 1.5; all at the ceiling: C_T = 0."""
    rates = np.array([1.0, 0.0])
    assert rewards.induced(rates).tolist() == [1.0, 0.5]
    assert rewards.spread_of_rewards(rates, 1, 8.0, 0) == pytest.approx(0.5)
    assert rewards.spread_of_rewards(rates, 1, 8.0, 1) == pytest.approx(1.5)
    assert rewards.spread_of_rewards(np.ones(5), 100, 8.0, 2) == 0


@given(st.lists(st.floats(0.05, 1.0), min_size=1, max_size=20), st.floats(0.05, 1.0))
def test_more_clients_help_where_they_contribute_the_average(shares: list[float], added: float) -> None:
    """Appendix F: a client of at least the average γ' never raises the mean of 1/γ'; one below the harmonic mean does."""
    before, after = np.mean(1 / np.array(shares)), np.mean(1 / np.array([*shares, added]))
    if added >= np.mean(shares):
        assert after <= before + 1e-9
    if 1 / added > before:
        assert after > before - 1e-12


def test_the_theorems_hold_on_quadratics_and_recovery_ends_the_errors(own_results: Path) -> None:
    table, _ = rewards.bounds([0.1, 0.5, 1.0] * 2, 400, 4, 0.5, [0.0, 0.1], 15, 0)
    assert (table.gap <= table.bound).all()
    last = table[table["round"] == 400].set_index(["q", "rate"]).gap
    assert last[0.0, 0.1] > 3 * last[0.0, 1.0]  # who contributes more is nearer to the best model
    assert last[0.1, 0.1] < 0.1 * last[0.0, 0.1]  # errors pile up without recovery (sec. 5), and are forgotten with it
    everybody, _ = rewards.bounds([1.0, 1.0, 0.999], 400, 4, 0.5, [0.0], 10, 0)
    assert everybody.gap.min() < 0.01  # corollary 1
    without, _ = rewards.trained(
        rewards.Quadratic(np.zeros((3, 2)), 0.0, np.ones(2)), np.ones(3), 3, 0.0, 1, 0
    )  # no noise, one optimum: θ ← θ·(1 − 1/(t + 8))
    assert without[:, 0].tolist() == pytest.approx([1.0, (8 / 9) ** 2, (8 / 10) ** 2])


def test_propositions_1_and_3(own_results: Path) -> None:
    """g = ln(1 + p), cost ¼: alone one gives 3. Relative rewards and standard FL: ten give 3 together; IAFL: the ceiling."""
    main(["figure", "iafl-incentives"])
    table = pd.read_csv(own_results / "figures" / "iafl-incentives.csv")
    each = table.groupby("mechanism").equilibrium.first()
    assert each["relative"] == pytest.approx(0.3, abs=2e-3) and each["standard FL"] == pytest.approx(0.3, abs=2e-3)
    assert each["IAFL"] == pytest.approx(1.0, abs=1e-3)
    slopes = table[table.contribution < 0.99].groupby("mechanism").reward.apply(lambda r: np.diff(r).min())
    assert slopes["IAFL"] > slopes["standard FL"] > 0  # proposition 1: the reward grows faster with one's contribution
