"""IAFL on the N×D algebra: by hand, by invariant, and at its limits."""

from __future__ import annotations

import logging

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedincent.mechanisms.fedavg_finetune import FedAvgFinetune
from fedincent.mechanisms.iafl import IAFL, reward_rates, sample_peers, sample_reference, whole
from tests.conftest import random_updates


def iafl(**changes) -> IAFL:  # type: ignore[no-untyped-def]
    return IAFL(**{"kappa": 0.0, "q": 0.0, "ceiling": None, "reference": "max", **changes})


def test_reward_rates_by_hand() -> None:
    p = np.array([0.2, 0.4, 0.8])
    np.testing.assert_allclose(reward_rates(p, None, 0.0), [0.25, 0.5, 1.0])
    np.testing.assert_allclose(reward_rates(p, None, 0.5), [0.5, np.sqrt(0.5), 1.0])
    np.testing.assert_allclose(reward_rates(p, None, 1.0), [1, 1, 1])
    np.testing.assert_allclose(reward_rates(p, 0.4, 0.0), [0.5, 1.0, 1.0])
    np.testing.assert_allclose(reward_rates(np.array([0.0, 1.0]), None, 1.0), [1, 1])


def test_nobody_contributes_anything(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert reward_rates(np.zeros(3), None, 0.3).tolist() == [1, 1, 1]
    assert "every contribution is 0" in caplog.text


def test_ceilings_forgive_rounding() -> None:
    assert whole(np.array([0.1 * 3 * 10, 2.0000000001, 2.1, 0.0])).tolist() == [3, 2, 3, 0]


def test_reward_of_four_clients_by_hand(make_federation, make_round) -> None:  # type: ignore[no-untyped-def]
    """γ = (1/3, 2/3, 1, 1) of 3 peers: 1, 2, 3, 3 of them beside oneself; which ones is read off S."""
    federation = make_federation(4, [0.2, 0.4, 0.6, 0.6])
    mechanism = iafl()
    mechanism.start(federation)
    round = make_round([True] * 4)
    updates = random_updates(4, federation.dim)
    peers = sample_peers(np.array([1 / 3, 2 / 3, 1, 1]), np.ones(4, bool), round.stream("peers"))
    assert (peers > 0).sum(1).tolist() == [2, 3, 4, 4]
    mechanism.reward(round, updates.clone())
    for i in range(4):
        members = np.flatnonzero(peers[i])
        assert i in members
        expected = federation.initial + updates[members].mean(0)
        torch.testing.assert_close(mechanism.models[i], expected)
    torch.testing.assert_close(mechanism.reference_model, federation.initial + updates.mean(0))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.data())
def test_rows_of_s_are_stochastic_and_of_the_right_size(rates: list[float], data: st.DataObject) -> None:
    n = len(rates)
    joined = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    gamma = np.array(rates)
    s = sample_peers(gamma, joined, np.random.default_rng(data.draw(st.integers(0, 99))))
    assert (s[:, ~joined] == 0).all()
    n_joined = int(joined.sum())
    for i in range(n):
        size = int((s[i] > 0).sum())
        others = int(whole(gamma[i] * (n_joined - 1))) if n_joined else 0
        assert size == max(others, 0) + joined[i]
        assert s[i].sum() == pytest.approx(1 if size else 0)
        if size:
            assert np.ptp(s[i][s[i] > 0]) == pytest.approx(0)


def test_peers_are_drawn_uniformly() -> None:
    rng = np.random.default_rng(0)
    counts = sum((sample_peers(np.full(5, 0.5), np.ones(5, bool), rng) > 0).astype(int) for _ in range(2000))
    off_diagonal = counts[~np.eye(5, dtype=bool)] / 2000
    np.testing.assert_allclose(off_diagonal, 0.5, atol=0.05)


@pytest.mark.parametrize("changes", [{"kappa": 1.0}, {"ceiling": 0.1}])
def test_full_sharing_is_fedavg(changes, make_federation, make_round) -> None:  # type: ignore[no-untyped-def]
    federation = make_federation(5, [0.1, 0.2, 0.3, 0.4, 0.5])
    ours, fedavg = iafl(**changes), FedAvgFinetune(finetune_epochs=0)
    ours.start(federation)
    fedavg.start(federation)
    for index in range(3):
        updates = random_updates(5, federation.dim, seed=index)
        round = make_round([True] * 5, index)
        ours.reward(round, updates.clone())
        fedavg.reward(round, updates.clone())
    torch.testing.assert_close(ours.models, fedavg.models)
    torch.testing.assert_close(ours.reference_model, fedavg.common)


def test_recovery_with_certainty_hands_everybody_the_reference(make_federation, make_round) -> None:  # type: ignore[no-untyped-def]
    federation = make_federation(4, [0.1, 0.2, 0.3, 0.4])
    mechanism = iafl(q=1.0)
    mechanism.start(federation)
    mechanism.reward(make_round([True] * 4), random_updates(4, federation.dim))
    assert not torch.equal(mechanism.models[0], mechanism.reference_model)
    incoming = mechanism.incoming(make_round([False, True, True, True], 1))
    for i in (1, 2, 3):
        assert torch.equal(incoming[i], mechanism.reference_model)
    assert not torch.equal(incoming[0], mechanism.reference_model)


def test_recovery_happens_as_often_as_q_says(make_federation, make_round) -> None:  # type: ignore[no-untyped-def]
    federation = make_federation(20, [1.0] * 20)
    mechanism = iafl(q=0.3)
    mechanism.start(federation)
    mechanism.reference_model += 1
    recovered = 0
    for index in range(200):
        mechanism.models[:] = federation.initial
        incoming = mechanism.incoming(make_round([True] * 20, index))
        recovered += int((incoming == mechanism.reference_model).all(1).sum())
    assert recovered / 4000 == pytest.approx(0.3, abs=0.03)


def test_absentees_contribute_nothing_but_are_rewarded(make_federation, make_round) -> None:  # type: ignore[no-untyped-def]
    federation = make_federation(4, [1.0] * 4)
    mechanism = iafl(kappa=1.0)
    mechanism.start(federation)
    updates = random_updates(4, federation.dim)
    updates[3] = 0
    mechanism.reward(make_round([True, True, True, False]), updates.clone())
    torch.testing.assert_close(mechanism.models[0], federation.initial + updates[:3].mean(0))
    reward = mechanism.models[3] - federation.initial  # the mean of two of the three that joined
    pairs = [updates[[a, b]].mean(0) for a, b in ((0, 1), (0, 2), (1, 2))]
    assert min(float((reward - pair).norm()) for pair in pairs) < 1e-5


def test_nobody_joined(make_federation, make_round) -> None:  # type: ignore[no-untyped-def]
    federation = make_federation(3)
    mechanism = iafl()
    mechanism.start(federation)
    mechanism.reward(make_round([False] * 3), torch.zeros(3, federation.dim))
    assert torch.equal(mechanism.models, federation.replicas())
    assert not sample_peers(np.ones(3), np.zeros(3, bool), np.random.default_rng(0)).any()


def test_reference_rules_by_hand() -> None:
    """n = 5, γ = (0, .25, .5, .75, 1): γ' = (.2, .4, .6, .8, 1); the maximum averages 5 updates, the median 3."""
    rates, everybody = np.array([0, 0.25, 0.5, 0.75, 1]), np.ones(5, bool)
    for rule, count in (("max", 5), ("median", 3)):
        weights = sample_reference(rates, everybody, rule, np.random.default_rng(0))
        assert (weights > 0).sum() == count
        assert weights.sum() == pytest.approx(1)
    absent = sample_reference(rates, np.array([True, False, True, False, False]), "max", np.random.default_rng(0))
    assert set(np.flatnonzero(absent)) == {0, 2}
