"""Shapley values against games worked out by hand, the axioms, and the exact value on random games."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedincent.contributions import shapley
from fedincent.errors import FedincentError


def table_game(worth: np.ndarray) -> shapley.Utility:
    """A game from the worth of every coalition, the empty one first, client 0 in the lowest bit."""
    n = int(math.log2(len(worth)))
    return lambda coalitions: worth[coalitions @ (1 << np.arange(n))]


def random_game(n: int, seed: int) -> shapley.Utility:
    return table_game(np.random.default_rng(seed).random(2**n))


def by_definition(utility: shapley.Utility, n: int) -> np.ndarray:
    """Equation 2 of Xu et al. 2021, letter by letter."""
    values = np.zeros(n)
    for order in itertools.permutations(range(n)):
        here = np.zeros((1, n), dtype=bool)
        for i in order:
            before = utility(here)[0]
            here[0, i] = True
            values[i] += utility(here)[0] - before
    return values / math.factorial(n)


def test_the_glove_game_by_hand() -> None:
    """Clients 0 and 1 have a left glove each, client 2 a right one; a pair is worth 1: φ = 1/6, 1/6, 2/3."""
    game = table_game(np.array([0, 0, 0, 0, 0, 1, 1, 1.0]))
    np.testing.assert_allclose(shapley.exact(game, 3), [1 / 6, 1 / 6, 2 / 3])
    np.testing.assert_allclose(shapley.leave_one_out(game, 3), [0, 0, 1])


@given(st.integers(1, 5), st.integers(0, 1000))
@settings(max_examples=25, deadline=None)
def test_exact_is_the_definition(n: int, seed: int) -> None:
    game = random_game(n, seed)
    np.testing.assert_allclose(shapley.exact(game, n), by_definition(game, n), atol=1e-12)


ESTIMATORS = {
    "exact": lambda game, n: shapley.exact(game, n),
    "sampled": lambda game, n: shapley.sampled(game, n, 40, np.random.default_rng(1)),
    "linear": lambda game, n: shapley.linear(game, n, np.random.default_rng(1)),
    "leave_one_out": lambda game, n: shapley.leave_one_out(game, n),
}


@pytest.mark.parametrize("name", ESTIMATORS)
@given(st.integers(2, 6), st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_null_player(name: str, n: int, seed: int) -> None:
    """A client that adds nothing to any coalition is worth nothing, by every estimator."""
    others = random_game(n - 1, seed)
    value = ESTIMATORS[name](lambda coalitions: others(coalitions[:, 1:]), n)
    assert value[0] == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("name", ["exact", "leave_one_out"])
@given(st.integers(2, 6), st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_symmetry(name: str, n: int, seed: int) -> None:
    """Clients that can stand for each other are worth the same."""
    plain = random_game(n, seed)

    def game(coalitions: np.ndarray) -> np.ndarray:
        swapped = coalitions.copy()
        swapped[:, [0, 1]] = coalitions[:, [1, 0]]
        return (plain(coalitions) + plain(swapped)) / 2

    value = ESTIMATORS[name](game, n)
    assert value[0] == pytest.approx(value[1], abs=1e-12)


@pytest.mark.parametrize("name", ["exact", "sampled"])
@given(st.integers(1, 6), st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_efficiency(name: str, n: int, seed: int) -> None:
    """The values sum to the worth of all less that of nobody."""
    game = random_game(n, seed)
    total = game(np.ones((1, n), dtype=bool))[0] - game(np.zeros((1, n), dtype=bool))[0]
    assert ESTIMATORS[name](game, n).sum() == pytest.approx(total, abs=1e-12)


def test_sampling_keeps_its_promise() -> None:
    """(0.1, 0.1): at most one draw in ten has an error above 0.1 anywhere; here none of 20 has."""
    n, game = 6, random_game(6, 3)
    count = shapley.permutations_for(0.1, 0.1, n)
    assert count == math.ceil(200 * math.log(120))
    right = shapley.exact(game, n)
    errors = [np.abs(shapley.sampled(game, n, count, np.random.default_rng(s)) - right).max() for s in range(20)]
    assert max(errors) <= 0.1


def test_linear_estimator_is_unbiased() -> None:
    n, game = 5, random_game(5, 4)
    draws = np.array([shapley.linear(game, n, np.random.default_rng(s)) for s in range(3000)])
    error = draws.std(0) / math.sqrt(len(draws))
    assert (np.abs(draws.mean(0) - shapley.exact(game, n)) < 4.5 * error).all()


def test_no_coalition_is_asked_for_twice() -> None:
    asked: list[tuple[bool, ...]] = []
    game = random_game(4, 0)

    def watched(coalitions: np.ndarray) -> np.ndarray:
        asked.extend(tuple(row) for row in coalitions)
        return game(coalitions)

    shapley.sampled(watched, 4, 50, np.random.default_rng(0))
    assert len(asked) == len(set(asked)) <= 16


def test_exact_refuses_too_many_clients() -> None:
    with pytest.raises(FedincentError, match="N = 13 is more than 12"):
        shapley.exact(random_game(2, 0), 13)


@given(st.integers(2, 6), st.integers(0, 100))
@settings(max_examples=20, deadline=None)
def test_cosine_game_is_the_cosine(n: int, seed: int) -> None:
    vectors = np.random.default_rng(seed).standard_normal((n, 9))
    game = shapley.cosine_game(vectors)
    for size in range(1, n + 1):
        chosen = np.arange(n) < size
        a, b = vectors[chosen].sum(0), vectors.sum(0)
        assert game(chosen[None])[0] == pytest.approx(a @ b / np.linalg.norm(a) / np.linalg.norm(b), abs=1e-9)
    assert game(np.zeros((1, n), dtype=bool))[0] == 0
    np.testing.assert_allclose(shapley.exact(game, n), by_definition(game, n), atol=1e-9)


def test_linear_is_exact_for_two() -> None:
    """Each of two has one coalition of each size of the other: nothing is left to chance."""
    worth = {(False, False): 0.0, (True, False): 1.0, (False, True): 3.0, (True, True): 5.0}
    utility = lambda coalitions: np.array([worth[tuple(map(bool, row))] for row in coalitions])  # noqa: E731
    for seed in range(3):
        np.testing.assert_allclose(shapley.linear(utility, 2, np.random.default_rng(seed)), [1.5, 3.5])
    np.testing.assert_allclose(shapley.exact(utility, 2), [1.5, 3.5])


def test_orders_for_a_cosine_are_four_times_as_many() -> None:
    assert shapley.permutations_for(0.1, 0.1, 10) == 1060 and shapley.permutations_for(0.1, 0.1, 10, width=4.0) == 4239


@given(st.integers(2, 5), st.integers(0, 1000), st.integers(0, 31))
@settings(max_examples=60, deadline=None)
def test_properties_3_to_5(n: int, seed: int, raised: int) -> None:
    """Xu et al. 2021, A.1: who adds more everywhere gets more; nobody of a coalition loses when it alone is worth more;
    nor does i when every coalition with i is."""
    rng = np.random.default_rng(seed)
    worth = rng.random(2**n)
    values = shapley.exact(table_game(worth), n)
    codes = np.arange(2**n)
    members = (codes[:, None] >> np.arange(n) & 1).astype(bool)
    coalition = raised % 2**n
    more = worth.copy()
    more[coalition] += rng.random()
    lifted = shapley.exact(table_game(more), n)
    assert (lifted[members[coalition]] >= values[members[coalition]] - 1e-12).all()  # P4
    with_first = np.where(members[:, 0], worth + rng.random(2**n), worth)
    assert shapley.exact(table_game(with_first), n)[0] >= values[0] - 1e-12  # P5
    both = members[:, 0] == members[:, 1]
    swapped = worth[np.where(both, codes, codes ^ 3)]  # the game in which 0 and 1 have changed places
    stronger = np.where(members[:, 0] & ~members[:, 1], np.maximum(worth, swapped) + 0.01, worth)
    stronger = np.where(members[:, 1] & ~members[:, 0], np.minimum(worth, swapped), stronger)
    ranked = shapley.exact(table_game(stronger), n)
    assert ranked[0] > ranked[1]  # P3
