"""FedAvg, q-FFL, round robin and the sparse reward with any measure: by hand, in the limit, and on real training."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedincent.cli import main
from fedincent.config.compose import compose
from fedincent.contributions.cgsv import CosineImportance, EuclideanCloseness
from fedincent.contributions.coalitions import LeaveOneOut, Shapley
from fedincent.errors import ConfigError
from fedincent.mechanisms.cgsv import CGSV
from fedincent.mechanisms.fedavg import FedAvg
from fedincent.mechanisms.qffl import QFFL
from fedincent.mechanisms.round_robin import RoundRobin
from fedincent.mechanisms.sparse import SparseReward
from fedincent.runs.runner import run
from tests.conftest import baseline, random_updates


def sparse(**changes) -> SparseReward:  # type: ignore[no-untyped-def]
    return SparseReward(**{"beta": None, "gamma": None, "weights": "sizes", "mask": "vector", **changes})


def test_fedavg_counts_by_size_or_equally(make_federation, make_round) -> None:  # type: ignore[no-untyped-def]
    for weighting, shares in (("sizes", [0.75, 0.25]), ("equal", [0.5, 0.5])):
        federation = make_federation(3, sizes=[30, 50, 10])
        mechanism = FedAvg(weighting=weighting)
        mechanism.start(federation)
        updates = random_updates(3, federation.dim)
        updates[1] = 0
        mechanism.reward(make_round([True, False, True]), updates)
        moved = mechanism.models[2] - federation.initial
        torch.testing.assert_close(moved, shares[0] * updates[0] + shares[1] * updates[2])


def test_qffl_by_hand(make_federation, make_round) -> None:  # type: ignore[no-untyped-def]
    """q = 1, lr 0.1, losses 2 and 1, updates of norm 3 and 4: h = 900 + 20 and 1600 + 10; weights F/lr/Σh."""
    federation = make_federation(2)
    mechanism = QFFL(q=1.0)
    mechanism.start(federation)
    updates = torch.zeros(2, federation.dim)
    updates[0, 0], updates[1, 1] = 3.0, 4.0
    round = make_round([True, True])
    round.incoming_losses = torch.tensor([2.0, 1.0])
    mechanism.reward(round, updates)
    moved = mechanism.models[0] - federation.initial
    torch.testing.assert_close(moved[:2], torch.tensor([3 * 20 / 2530, 4 * 10 / 2530]), rtol=1e-4, atol=1e-5)


def test_qffl_without_q_is_fedavg(make_federation, make_round) -> None:  # type: ignore[no-untyped-def]
    federation = make_federation(3)
    mechanism = QFFL(q=0.0)
    mechanism.start(federation)
    round = make_round([True, True, True])
    round.incoming_losses = torch.tensor([0.0, 1.0, 5.0])  # a loss of 0 does no harm
    updates = random_updates(3, federation.dim)
    mechanism.reward(round, updates)
    torch.testing.assert_close(mechanism.models[0], federation.initial + updates.mean(0))


def test_one_client_a_round_in_turn(make_federation, make_round) -> None:  # type: ignore[no-untyped-def]
    federation = make_federation(3)
    mechanism = RoundRobin(turns="one", share="sizes")
    mechanism.start(federation)
    moves = random_updates(2, federation.dim)
    for index in (0, 1):
        round = make_round([True] * 3, index=index)
        round.joined = mechanism.invite(round)
        assert round.joined.tolist() == [index == 0, index == 1, False]
        start = mechanism.incoming(round)[index]
        torch.testing.assert_close(start, federation.initial + moves[:index].sum(0))  # what the one before has left
        updates = torch.zeros(3, federation.dim)
        updates[index] = moves[index]
        mechanism.reward(round, updates)
    moved = mechanism.models - federation.initial
    torch.testing.assert_close(moved[0], moves[0], atol=1e-6, rtol=1e-5)
    torch.testing.assert_close(moved[1], moves.sum(0), atol=1e-6, rtol=1e-5)
    assert moved[2].abs().sum() == 0


def test_shares_in_proportion_to_the_contribution(make_federation, make_round) -> None:  # type: ignore[no-untyped-def]
    """Contributions 1, 2, 4 of D = 17: 4, 8 and 17 entries, the largest of the mean update by size."""
    federation = make_federation(3, contribution=[1.0, 2.0, 4.0], sizes=[10, 10, 20])
    mechanism = sparse()
    mechanism.start(federation)
    updates = random_updates(3, federation.dim)
    mechanism.reward(make_round([True] * 3), updates)
    moved = mechanism.models - federation.initial
    aggregate = updates[0] / 4 + updates[1] / 4 + updates[2] / 2
    torch.testing.assert_close(moved[2], aggregate)
    for client, count in ((0, 4), (1, 8)):
        kept = torch.zeros(17, dtype=torch.bool)
        kept[aggregate.abs().argsort(descending=True)[:count]] = True
        torch.testing.assert_close(moved[client], torch.where(kept, aggregate, torch.zeros(17)), atol=1e-6, rtol=1e-5)


@given(st.integers(2, 6), st.integers(0, 50))
@settings(max_examples=20, deadline=None)
def test_boundless_altruism_is_vanilla_federated_learning(n: int, seed: int) -> None:
    """β → ∞: every agent gets the same update, whatever it is worth."""
    from fedincent.federation import Federation, Layout, Round, Streams

    module = torch.nn.Linear(4, 3)
    layout = Layout(module)
    federation = Federation(
        layout.flatten(module), layout, torch.full((n,), 5), torch.ones(n), Streams(0), CosineImportance(alpha=0.5), None
    )  # type: ignore[arg-type]
    mechanism = CGSV(alpha=0.95, beta=math.inf, gamma=0.5, weights="importance", mask="layer")
    mechanism.start(federation)
    for index in range(3):
        updates = random_updates(n, layout.dim, seed + index)
        updates[0] = -updates[0]
        zeros = torch.zeros(n)
        mechanism.reward(Round(index, 0.1, Streams(0), torch.ones(n, dtype=torch.bool), zeros, zeros), updates)
        assert all(torch.equal(mechanism.models[0], model) for model in mechanism.models)


def test_euclidean_closeness_by_hand(make_federation, make_round) -> None:  # type: ignore[no-untyped-def]
    """Updates 0, 0, 3 in one place: the mean is 1, distances 1, 1, 2, closeness ½, ½, 0."""
    federation = make_federation(3)
    measure = EuclideanCloseness(alpha=0.0)
    measure.start(federation, baseline([0.5] * 3))
    updates = torch.zeros(3, federation.dim)
    updates[2, 0] = 3.0
    np.testing.assert_allclose(measure.quality(make_round([True] * 3), updates), [0.5, 0.5, 0.0], atol=1e-6)
    same = torch.ones(3, federation.dim)
    np.testing.assert_allclose(measure.quality(make_round([True] * 3), same), [1, 1, 1], atol=1e-3)


def additive_judge(values: list[float], initial: torch.Tensor):  # type: ignore[no-untyped-def]
    """Accuracy is read off the model's first number; update i moves it by values[i]·(number of clients)."""
    return lambda models, data: ((models[:, 0] - initial[0]).double(), torch.zeros(len(models)))


@pytest.mark.parametrize("method", ["exact", "sampled", "linear"])
def test_coalitions_are_judged_from_the_common_model(method: str, make_federation, make_round) -> None:  # type: ignore[no-untyped-def]
    """The mean of {i} has worth a_i: with two clients φ_i = a_i/2 + (mean − a_j)/2."""
    federation = make_federation(2)
    federation.judge = additive_judge([], federation.initial)
    measure = Shapley(alpha=0.0, average="moving", data="held_out", method=method, permutations=400, epsilon=0.1, delta=0.1)
    measure.start(federation, baseline([0.5] * 2))
    updates = torch.zeros(2, federation.dim)
    updates[0, 0], updates[1, 0] = 0.8, 0.2
    values = measure.quality(make_round([True, True]), updates)
    np.testing.assert_allclose(
        values, [0.55, -0.05], atol=0.05 if method == "sampled" else 0.31 if method == "linear" else 1e-6
    )
    torch.testing.assert_close(measure.common[0] - federation.initial[0], torch.tensor(0.5))  # moved by the mean
    lone = LeaveOneOut(alpha=0.0, average="moving", data="held_out")
    lone.start(federation, baseline([0.5] * 2))
    np.testing.assert_allclose(lone.quality(make_round([True, True]), updates), [0.5 - 0.2, 0.5 - 0.8], atol=1e-6)


def test_absentees_are_no_players(make_federation, make_round) -> None:  # type: ignore[no-untyped-def]
    federation = make_federation(3)
    federation.judge = additive_judge([], federation.initial)
    measure = LeaveOneOut(alpha=0.0, average="moving", data="held_out")
    measure.start(federation, baseline([0.5] * 3))
    updates = torch.zeros(3, federation.dim)
    updates[0, 0] = 0.4
    values = measure.measure(make_round([True, False, True]), updates)
    assert values.sum() == pytest.approx(1) and (values > 0).all() and values[1] == values[2]


AGENTS = [
    "n_clients=5",
    "rounds=3",
    "model=logistic",
    "executor=serial",
    "partition=uni",
    "partition.size=60",
    "held_out=0.1",
]


@pytest.mark.parametrize(
    "name", ["fedavg", "qffl", "cffl", "eci", "dw", "rr", "cgsv_eu", "cgsv", "iafl contribution=shapley"]
)
def test_every_method_runs_and_traces(name: str) -> None:
    result = run(compose([*AGENTS, *f"mechanism={name}".split(), "trace=true", "tune_epochs=1"]))
    assert {"pearson_importance", "pearson_importance_loss", "accuracy_mean_tuned"} <= set(result.summary)
    assert {"importance", "train_loss", "accuracy_tuned"} <= set(result.clients.columns)
    trace = result.trace
    assert len(trace) == 15 and np.allclose(trace.groupby("round").importance.sum(), 1)
    if name in ("cffl", "eci", "dw", "cgsv_eu", "cgsv"):
        assert trace.share.between(0, 1).all() and (trace.groupby("round").share.max() == 1).all()
        assert (trace.reward_distance >= 0).all() and np.isclose(trace.kept.max(), 1)


def test_held_out_data_are_asked_for() -> None:
    with pytest.raises(ConfigError, match="held_out"):
        run(compose(["n_clients=5", "rounds=1", "model=logistic", "mechanism=eci", "partition=uni", "partition.size=60"]))
    with pytest.raises(SystemExit):
        main(["run", "mechanism=eci", "n_clients=5", "partition=uni", "partition.size=60"])


@pytest.mark.parametrize("cheat", ["zeros", "noise"])
def test_a_free_rider_earns_less_than_every_honest_agent(cheat: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """UNI, ten rounds of real training; the last agent uploads nothing, or noise."""
    reward = CGSV.reward

    def cheated(self, round, updates):  # type: ignore[no-untyped-def]
        rng = round.stream("cheat")
        updates[-1] = 0 if cheat == "zeros" else torch.from_numpy(rng.standard_normal(updates.shape[1])).to(updates)
        reward(self, round, updates)

    monkeypatch.setattr(CGSV, "reward", cheated)
    result = run(compose([*AGENTS, "rounds=10", "mechanism=cgsv", "trace=true"]))
    last = result.trace[result.trace["round"] == 10].share.to_numpy()
    assert last[-1] < last[:-1].min() and np.isfinite(last).all() and (last > 0).all()


@pytest.mark.parametrize("share", ["sizes", "full"])
def test_everybody_in_turn_within_a_round(share: str, make_federation, make_round) -> None:  # type: ignore[no-untyped-def]
    """In an order drawn anew: θ ← θ + p_i·g_i, θ_i ← θ; who is absent keeps what it has."""
    federation = make_federation(4, sizes=[1, 2, 3, 4])
    mechanism = RoundRobin(turns="all", share=share)
    mechanism.start(federation)
    orders, server = [], federation.initial.clone()
    before = mechanism.models.clone()
    for index in range(6):
        round = make_round([True, True, True, index > 0], index=index)
        updates = random_updates(4, federation.dim, seed=index) * round.joined[:, None]
        order = round.stream("turns").permutation(4).tolist()
        orders.append(tuple(order))
        torch.testing.assert_close(mechanism.incoming(round), before)  # everybody trains its own model
        mechanism.reward(round, updates.clone())
        for client in order:
            if round.joined[client]:
                server = server + (updates[client] * (federation.data_shares[client] if share == "sizes" else 1)).to(server)
                torch.testing.assert_close(mechanism.models[client], server, atol=1e-5, rtol=1e-5)
        if index == 0:
            torch.testing.assert_close(mechanism.models[3], federation.initial)
        before = mechanism.models.clone()
    assert len(set(orders)) > 1 and len({order[-1] for order in orders}) > 1  # nobody is always last


@pytest.mark.parametrize("average", ["mean", "moving"])
def test_worths_that_reverse_reverse_the_shares(average: str, make_federation, make_round) -> None:  # type: ignore[no-untyped-def]
    """Five rounds of worths 3, 2, 1 (thousandths), then 1, 2, 3: the order turns round after five more (mean), or within
    14 (moving, α = 0.95), however small the worths are."""
    measure = LeaveOneOut(alpha=0.95, average=average, data="held_out")
    federation = make_federation(3)
    measure.start(federation, None)
    worths = torch.tensor([0.003, 0.002, 0.001], dtype=torch.float64)
    measure.quality = lambda round, updates: worths if round.index < 5 else worths.flip(0)  # type: ignore[method-assign]
    turned = None
    for index in range(40):
        shares = measure.measure(make_round([True] * 3, index=index), torch.zeros(3, federation.dim))
        assert float(shares.sum()) == pytest.approx(1)
        if index == 2:
            assert shares.tolist() == pytest.approx([1 / 2, 1 / 3, 1 / 6], abs=1e-9)
        if turned is None and shares[2] > shares[0]:
            turned = index
    assert turned is not None and 10 <= turned <= (10 if average == "mean" else 19)
    if average == "mean":  # after 40 rounds: 5 of the first kind and 35 of the other, by hand
        total = 5 * worths + 35 * worths.flip(0)
        torch.testing.assert_close(shares, total / total.sum())


def test_nobody_is_worth_less_than_nothing(make_federation, make_round) -> None:  # type: ignore[no-untyped-def]
    measure = LeaveOneOut(alpha=0.95, average="mean", data="held_out")
    measure.start(make_federation(3), None)
    for worths, wanted in (([-1.0, 0.0, 1.0], [0, 0, 1]), ([0.0, 0.0, -1.0], [1 / 3] * 3)):
        measure.quality = lambda round, updates, worths=worths: torch.tensor(worths, dtype=torch.float64)  # type: ignore[method-assign]
        assert measure.measure(make_round([True] * 3), torch.zeros(3, 1)).tolist() == pytest.approx(wanted)
