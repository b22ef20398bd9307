"""The effort game: by hand, in closed form, and with two types of clients."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fedincent.studies import game

ONE = np.array([1.0])


def test_a_dilemma_by_hand() -> None:
    """Everybody gains 2 by another's effort and 1 by the own, which costs 1.5: nobody works, and all lose 1.5 by that."""
    reward = np.array([[[0.0, 1.0]], [[2.0, 3.0]]])  # others idle, others work × own effort
    outcome = game.solve(game.payoffs(reward, np.array([0.0, 1.0]), 1.5, ONE))
    assert outcome.equilibrium == (0,) and outcome.optimum == (1,)
    assert (outcome.welfare, outcome.best_welfare, outcome.price, outcome.regret) == (0.0, 1.5, 1.5, 0.0)
    free = game.solve(game.payoffs(reward, np.array([0.0, 1.0]), 0.5, ONE))
    assert free.equilibrium == free.optimum == (1,) and free.price == 0


def test_best_responses_walk_down_to_the_equilibrium() -> None:
    efforts = np.array([0.0, 0.5, 1.0])
    reward = np.zeros((3, 1, 3)) + np.array([0.0, 0.1, 0.2])[:, None, None]  # a public good, one's own effort is nothing
    payoff = game.payoffs(reward, efforts, 0.3, ONE)
    assert game.path(payoff, (2,)) == [(2,), (1,), (0,)]
    assert game.solve(payoff).equilibrium == (0,)


@given(st.floats(0.01, 0.2), st.integers(20, 80))
def test_two_estimators_in_closed_form(cost: float, samples: int) -> None:
    """No client of the closed form gains by moving alone, and no common effort is better for both than the optimum."""

    def payoff(own: float, other: float) -> float:
        return -1 / (samples * (own + other)) - cost * own

    equilibrium, optimum = game.two_estimators(cost, samples)
    tries = np.linspace(0.01, 1, 200)
    assert all(payoff(own, equilibrium) <= payoff(equilibrium, equilibrium) + 1e-9 for own in tries)
    assert all(payoff(e, e) <= payoff(optimum, optimum) + 1e-9 for e in tries)
    assert equilibrium <= optimum


@pytest.mark.parametrize("cost", [0.005, 0.01, 0.05])
def test_the_measured_game_has_the_analytic_equilibrium(cost: float) -> None:
    """Two clients who pool samples for a mean, measured by simulation: within the grid's step of the closed form."""
    samples, efforts = 100, np.linspace(0.05, 1.0, 20)
    reward = game.simulated_estimators(efforts, samples, seeds=3, draws=20_000)
    outcome = game.solve(game.payoffs(reward.mean(0), efforts, cost, ONE))
    equilibrium, optimum = game.two_estimators(cost, samples)
    step = efforts[1] - efforts[0]
    assert abs(efforts[outcome.equilibrium[0]] - equilibrium) <= step + 1e-9
    assert abs(efforts[outcome.optimum[0]] - optimum) <= 2 * step  # flat near the top
    assert outcome.price > 0


def test_work_that_is_dear_to_one_type_is_left_to_the_other() -> None:
    """Reward: the square root of what both types bring; work costs the second type five times as much."""
    efforts, factors = np.array([0.0, 0.5, 1.0]), np.array([1.0, 5.0])
    reward = np.empty((3, 3, 2, 3))
    for first, second, kind, own in np.ndindex(reward.shape):
        brought = efforts[own] + (efforts[second] if kind == 0 else efforts[first])
        reward[first, second, kind, own] = np.sqrt(brought)
    outcome = game.solve(game.payoffs(reward, efforts, 0.4, factors))
    assert efforts[list(outcome.equilibrium)].tolist() == [1.0, 0.0]
    assert outcome.regret == pytest.approx(0)


def test_resampling_shows_how_sure_a_result_is() -> None:
    efforts = np.array([0.0, 1.0])
    worth = np.array([0.0, 0.0, 0.0, 1.0])  # in one seed of four, working pays
    reward = np.zeros((4, 2, 1, 2))
    reward[..., 1] = worth[:, None, None]
    found = game.resampled(reward, efforts, 0.4, ONE, 400, np.random.default_rng(0))
    working = np.mean([outcome.equilibrium == (1,) for outcome in found])
    # by hand: the mean must be above 0.4, so at least two of four drawn seeds are the fourth: 1 − (3/4)⁴ − 4·¼·(3/4)³
    assert working == pytest.approx(1 - 0.75**4 - 0.75**3, abs=0.06)
