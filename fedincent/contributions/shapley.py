"""Shapley values of any game, exactly and by sampling, and two cheaper stand-ins.

A game is its utility: a function from coalitions (M×N, boolean: who is in) to what each is worth (M). Every estimator
asks it for many coalitions at once, and never twice for the same one.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from fedincent.errors import FedincentError

Utility = Callable[[np.ndarray], np.ndarray]  # coalitions (M×N, boolean) → worth (M)
MOST_EXACT = 12  # clients: 2^12 coalitions


def exact(utility: Utility, n: int) -> np.ndarray:
    """φ (N) from all 2^N coalitions: the mean of i's marginal worth over all orders of arrival."""
    if n > MOST_EXACT:
        raise FedincentError(f"exact Shapley values need 2^N coalitions: N = {n} is more than {MOST_EXACT}; sample instead")
    codes = np.arange(2**n)
    members = (codes[:, None] >> np.arange(n) & 1).astype(bool)
    worth = utility(members)
    weight = np.array([1 / (n * math.comb(n - 1, size)) for size in range(n)])
    values = np.zeros(n)
    for i in range(n):
        without = codes[~members[:, i]]
        marginal = worth[without | 1 << i] - worth[without]
        values[i] = marginal @ weight[members[without].sum(1)]
    return values


def sampled(utility: Utility, n: int, permutations: int, rng: np.random.Generator) -> np.ndarray:
    """The mean marginal worth (N) over random orders of arrival; it sums to the worth of all less that of none."""
    orders = rng.permuted(np.tile(np.arange(n), (permutations, 1)), axis=1)
    arrived = orders.argsort(1)[:, None, :] < np.arange(n + 1)[:, None]  # orders×(N+1)×N: who is there after k arrivals
    worth = once_each(utility, arrived.reshape(-1, n)).reshape(permutations, n + 1)
    marginal = np.diff(worth, axis=1)
    return np.bincount(orders.ravel(), weights=marginal.ravel(), minlength=n) / permutations


def permutations_for(epsilon: float, delta: float, n: int, width: float = 2.0) -> int:
    """How many orders make every estimate wrong by more than ε with probability at most δ (Hoeffding, union over N).

    width: of the interval in which marginal worths lie: 2 for a utility between 0 and 1, 4 for one between −1 and 1.
    """
    return math.ceil(width**2 / (2 * epsilon**2) * math.log(2 * n / delta))


def linear(utility: Utility, n: int, rng: np.random.Generator) -> np.ndarray:
    """The mean (N) of i's marginal worth to one random coalition of each size 0…N−1 of the others: unbiased."""
    keys = rng.random((n, n, n))  # client × size × others
    keys[np.arange(n), :, np.arange(n)] = np.inf
    without = keys.argsort(2).argsort(2) < np.arange(n)[None, :, None]
    joined = without.copy()
    joined[np.arange(n), :, np.arange(n)] = True
    worth = once_each(utility, np.concatenate([without, joined]).reshape(-1, n)).reshape(2, n, n)
    return (worth[1] - worth[0]).mean(1)


def leave_one_out(utility: Utility, n: int) -> np.ndarray:
    """What each client adds to all the others (N)."""
    worth = utility(np.concatenate([np.ones((1, n), dtype=bool), ~np.eye(n, dtype=bool)]))
    return worth[0] - worth[1:]


def once_each(utility: Utility, coalitions: np.ndarray) -> np.ndarray:
    """The worth (M) of coalitions (M×N), equal ones asked for once."""
    _, first, place = np.unique(np.packbits(coalitions, axis=1), axis=0, return_index=True, return_inverse=True)
    return utility(coalitions[first])[place.ravel()]


def cosine_game(vectors: np.ndarray) -> Utility:
    """ν(S) = cos(Σ_S v_i, Σ_N v_i) for weighted updates v (N×D) (Xu et al. 2021, sec. 3.2); 0 where nothing is left.

    All that is asked of the vectors is their N×N products, so a coalition costs N² however long they are.
    """
    products = vectors @ vectors.T
    return agreement_game(products, products.sum(1), math.sqrt(max(products.sum(), 0.0)))


def agreement_game(products: np.ndarray, with_reference: np.ndarray, length: float | None) -> Utility:
    """ν(S) = cos(Σ_S v_i, u) from the products of the vectors (N×N), those with the reference u (N) and the length of u.

    length None: their inner product instead. 0 where nothing is left.
    """

    def worth(coalitions: np.ndarray) -> np.ndarray:
        chosen = coalitions.astype(products.dtype)
        if length is None:
            return chosen @ with_reference
        lengths = np.sqrt(np.maximum(np.einsum("mi,mi->m", chosen @ products, chosen), 0)) * length
        return np.divide(chosen @ with_reference, lengths, out=np.zeros(len(chosen)), where=lengths > 1e-12)

    return worth
