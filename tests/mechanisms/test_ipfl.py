"""IP-FL: tokens, bids, ranks and contributions by hand; what can never be lost; its limits; kills."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedincent.config.compose import compose
from fedincent.errors import ConfigError
from fedincent.federation import Federation, Layout, Recipe, Round, Streams
from fedincent.mechanisms.ipfl import IPFL, contributions, ranks
from fedincent.runs.runner import run
from fedincent.runs.view import View
from fedincent.store.result import Result

RECIPE = Recipe(
    momentum=0.0, weight_decay=0.0, carry=False, optimizer="sgd", lr=0.1, decay=1.0, batch_size=5, local_epochs=1,
    local_steps=0, augment="none",
)  # fmt: skip
PLAIN: dict[str, Any] = {
    "n_clusters": 2, "incentive": True, "threshold": 1.0, "price": 1.0, "purse": 100.0, "best": 2, "explore_most": 0.2,
    "explore_least": 0.05, "explore": "bidders", "empty": "random", "importance": "accuracy", "weigh_on": "validation",
    "bid_every": 1, "eta": 1.0, "gamma": 1.0, "by_participation": 0.0,
}  # fmt: skip
STAGE = [
    "partition=mixture", "model=logistic", "client_validation_fraction=0.2", "n_clients=10", "checkpoint_every=0",
    "training.optimizer=sgd", "training.lr=0.05", "training.decay=1", "executor=serial", "reference=none",
]  # fmt: skip


def go(*overrides: str) -> Result:
    return run(compose([*STAGE, *overrides]), View())


class World:
    """A federation whose clients judge as a test says: accuracies (N×K) drawn anew in every round, a slope for ψ."""

    def __init__(self, n: int, k: int, seed: int) -> None:
        torch.manual_seed(seed)
        module = torch.nn.Linear(2, 2)
        self.rng, self.n, self.k = np.random.default_rng(seed), n, k
        layout = Layout(module)
        self.slope = torch.from_numpy(self.rng.standard_normal(layout.dim).astype(np.float32))
        self.right = torch.from_numpy(self.rng.random((k, n * 4)) < self.rng.random())
        self.federation = Federation(
            initial=layout.flatten(module), layout=layout, sizes=torch.from_numpy(self.rng.integers(1, 50, n)),
            participation=torch.ones(n, dtype=torch.float64), streams=Streams(seed), contribution=None, judge=None,
            scores=self.scores, gradient=lambda model, data, clients: self.slope,
            segments=lambda data: list(range(0, 4 * n + 1, 4)),
        )  # type: ignore[arg-type]  # fmt: skip

    def scores(self, models: torch.Tensor, data: str, clients: list[int] | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        self.right = torch.from_numpy(self.rng.random((self.k, self.n * 4)) < self.rng.random())
        right = self.right if clients is None else torch.cat([self.right[:, 4 * i : 4 * i + 4] for i in clients], 1)
        return right, torch.from_numpy(self.rng.random(tuple(right.shape)))

    def play(self, mechanism: IPFL, index: int) -> Round:
        losses = torch.zeros(self.n)
        round = Round(index, 0.1, self.federation.streams, torch.zeros(self.n, dtype=torch.bool), losses, losses.clone())
        round.joined = mechanism.invite(round)
        _, round.jobs = mechanism.jobs(round, RECIPE)
        updates = torch.from_numpy(self.rng.standard_normal((len(round.jobs), self.federation.dim)).astype(np.float32))
        mechanism.receive(round, updates)
        return round


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10**6), st.sampled_from([0.5, 1.0, 3.0]), st.sampled_from([0.0, 2.0, 7.5]), st.sampled_from([0.3, 1.0]),
    st.sampled_from([0.0, 0.5]), st.sampled_from(["bidders", "all"]), st.sampled_from(["random", "idle"]), st.integers(1, 3),
    st.sampled_from(["accuracy", "lowest_loss"]),
)  # fmt: skip
def test_tokens_are_neither_made_nor_lost(
    seed: int, price: float, purse: float, threshold: float, often: float, explore: str, empty: str, every: int, what: str
) -> None:
    """20 clients, 3 clusters, purses small enough for many to go broke; ψ of who trained a cluster sums to 0."""
    changes = {"price": price, "purse": purse, "threshold": threshold, "by_participation": often, "eta": 0.8, "gamma": 0.3}
    mechanism = IPFL(
        **{**PLAIN, **changes, "n_clusters": 3, "explore": explore, "empty": empty, "bid_every": every, "importance": what}
    )
    world = World(20, 3, seed)
    mechanism.start(world.federation)
    for index in range(12):
        round = world.play(mechanism, index)
        assert float(mechanism.tokens.sum()) == pytest.approx(20 * purse, rel=1e-9)
        assert (mechanism.tokens >= -1e-12).all()
        for k in range(3):
            trained = [job.client for job in round.jobs if job.row == k]
            total = float(mechanism.contribution[k, trained].sum())
            assert abs(total) <= 1e-9 * max(1.0, float(mechanism.contribution[k].abs().sum()))
    weights = mechanism.weights(mechanism.fit)
    torch.testing.assert_close(weights.sum(1), torch.ones(20, dtype=torch.float64))
    if every == 1:  # else personal() looks anew, and this world is never twice the same
        torch.testing.assert_close(mechanism.personal(), weights.float() @ mechanism.clusters)


def test_pay_back_and_reward_by_hand() -> None:
    """15 pay a token each, the cluster goes from .50 to .55: U = 1 − 0.1 = .9; 13.5 go back, 1.5 by rank, best 1.5/8."""
    world = World(20, 2, 0)
    mechanism = IPFL(**PLAIN)
    mechanism.start(world.federation)
    assert mechanism.utility(0, 0.50) == 0.0  # the first time: all of it is paid out
    assert mechanism.utility(0, 0.55) == pytest.approx(0.9)
    assert mechanism.utility(0, 0.40) == pytest.approx(1.0) and float(mechanism.peak[0]) == 0.55
    mechanism.peak[0] = 0.50
    clients = list(range(15))
    mechanism.providers, mechanism.payers = [clients, []], [mechanism.charged(clients), []]
    assert (mechanism.tokens[:15] == 99).all()
    losses = torch.zeros(20)
    round = Round(1, 0.1, Streams(0), torch.ones(20, dtype=torch.bool), losses, losses.clone())
    updates = torch.from_numpy(np.random.default_rng(1).standard_normal((15, world.federation.dim)).astype(np.float32))
    shares = torch.full((15,), 1 / 15, dtype=torch.float64)
    mechanism.settle(round, 0, clients, shares, updates, 0.55)
    best = int(mechanism.contribution[0, :15].argmax())
    assert float(mechanism.tokens[best]) == pytest.approx(99 + 0.9 + 0.1875)
    worst = int(mechanism.contribution[0, :15].argmin())
    assert float(mechanism.tokens[worst]) == pytest.approx(99 + 0.9 + 1.5 / 120)
    assert float(mechanism.tokens.sum()) == pytest.approx(2000)


def test_contributions_by_hand() -> None:
    """λ = ¼, ¾; slope (1, 0); updates 2 and −2 along it: mean −1, so ψ = −¼·3 and −¾·(−1)."""
    updates = torch.tensor([[2.0, 5.0], [-2.0, 7.0]])
    found = contributions(torch.tensor([1.0, 0.0]), torch.tensor([0.25, 0.75], dtype=torch.float64), updates)
    assert found.tolist() == [-0.75, 0.75]


def test_ranks_by_hand() -> None:
    """Ties in the first array go by the second, then the earlier client is the better; places 1 … 4 of 10."""
    assert ranks(np.array([0.5, 0.1, 0.5, 0.5]), np.array([1, 9, 3, 1])).tolist() == pytest.approx([0.3, 0.1, 0.4, 0.2])


def test_bids_and_schedule_by_hand(make_round) -> None:  # type: ignore[no-untyped-def]
    world = World(6, 3, 0)
    mechanism = IPFL(**{**PLAIN, "n_clusters": 3, "threshold": 0.5, "best": 1, "explore_most": 0.0, "explore_least": 0.0})
    mechanism.start(world.federation)
    mechanism.fit = torch.tensor(
        [[0.9, 0.8, 0.7], [0.2, 0.6, 0.1], [0.1, 0.3, 0.3], [0.6, 0.9, 0.8], [0.6, 0.7, 0.9], [0.9, 0.9, 0.9]],
        dtype=torch.float64,
    )
    mechanism.tokens = torch.tensor([9.0, 9.0, 9.0, 2.9, 1.0, 0.5], dtype=torch.float64)
    there = np.ones(6, dtype=bool)
    bidders = mechanism.bids(make_round([True] * 6, 1), there)
    # 0 wants all three; 1 and 2 one each (2 its best, the lower of a tie); 3 can pay two, 4 one, 5 none
    assert [found.tolist() for found in bidders] == [[0], [0, 1, 2, 3], [0, 3, 4]]
    mechanism.contribution[1] = torch.tensor([0.0, -1.0, 0.0, 0.3, 0, 0])
    assert mechanism.schedule(make_round([True] * 6, 1), 1, bidders[1], there) == [3]
    mechanism.contribution[1, 3] = -0.3
    assert mechanism.schedule(make_round([True] * 6, 1), 1, bidders[1], there) == [0]  # never measured counts as 0
    nobody = np.zeros(0, dtype=int)
    assert len(mechanism.schedule(make_round([True] * 6, 1), 1, nobody, there)) == 1
    mechanism.empty = "idle"
    assert mechanism.schedule(make_round([True] * 6, 1), 1, nobody, there) == []
    there[0] = False
    assert mechanism.bids(make_round([True] * 6, 1), there)[0].tolist() == []


def test_one_cluster_that_everybody_trains_is_fedavg() -> None:
    ours = go("mechanism=ipfl", "mechanism.n_clusters=1", "mechanism.best=10", "rounds=4")
    theirs = go("mechanism=fedavg", "rounds=4")
    np.testing.assert_allclose(ours.clients.own_loss, theirs.clients.own_loss, rtol=1e-5)
    assert "accuracy" not in ours.clients  # there is no common test set that anybody asked for


def test_clients_find_their_clusters_and_gains_add_up() -> None:
    ours = go("mechanism=ipfl", "mechanism.best=2", "rounds=10", "reference=fedavg", "eval_every=5")
    clients = ours.clients
    right = (clients.group == clients.cluster).mean()
    assert max(right, 1 - right) >= 0.9
    pma = clients.own_accuracy - clients.fedavg_own_accuracy
    gain = clients.own_accuracy.mean() - clients.fedavg_own_accuracy.mean()
    assert ours.summary["own_accuracy_gain"] == pytest.approx(gain, abs=1e-12)
    assert ours.summary["opt_outs"] == pytest.approx((pma <= 0).mean())
    assert ours.summary["participation"] == pytest.approx(1 - ours.summary["opt_outs"])
    found = ours.summary["clusters"]
    assert found["c0_theta_0"] > found["c0_theta_1"] + 0.1 and found["c1_at"] == 1
    last = ours.clusters[ours.clusters["round"] == 10].set_index("cluster")
    assert last.theta_0[found["order"][0]] == found["c0_theta_0"] and len(ours.clusters) == 4
    assert ours.rounds.own_accuracy_mean.notna().sum() == 2


def test_unseen_clients_are_given_a_mixture_by_their_own_validation() -> None:
    ours = go("mechanism=ipfl", "rounds=6", "unseen_clients=4", "solo_steps=5", "mechanism.best=3")
    assert len(ours.unseen) == 4 and ours.unseen.own_accuracy.mean() > 0.2
    with pytest.raises(ConfigError, match="has no common model"):
        go("mechanism=ditto", "rounds=2", "unseen_clients=4", "solo_steps=5")


def test_stopped_and_resumed_it_gives_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    line = ["mechanism=ipfl", "mechanism.purse=2", "rounds=6", "mechanism.bid_every=2", "mechanism.best=2"]
    whole = go(*line, "results_dir=whole")
    real = IPFL.receive

    def stop(self: IPFL, round: Round, updates: torch.Tensor) -> None:
        if round.index == 4:
            raise KeyboardInterrupt
        real(self, round, updates)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(IPFL, "receive", stop)
        go(*line, "results_dir=parts")
    again = go(*line, "results_dir=parts")
    for name in ("clients.csv", "rounds.csv", "clusters.csv"):
        assert (whole.path / name).read_bytes() == (again.path / name).read_bytes()
    assert whole.clients.tokens.sum() == pytest.approx(20)


def test_without_incentive_nobody_pays() -> None:
    ours = go("mechanism=ipfl", "mechanism.incentive=false", "rounds=4")
    assert (ours.clients.tokens == 100).all() and (ours.rounds.bought_0 == 0).all()


def test_it_asks_for_validation_samples() -> None:
    with pytest.raises(ConfigError, match="client_validation_fraction=0: mechanism=ipfl asks clients to validate"):
        go("mechanism=ipfl", "client_validation_fraction=0")


def test_tokens_are_a_story_of_groups() -> None:
    traced = go("mechanism=ipfl", "rounds=5", "trace=true").trace
    assert {"tokens", "paid", "bid_0", "bid_1"} <= set(traced.columns)
    np.testing.assert_allclose(traced.groupby("round").tokens.sum(), 1000)


@pytest.mark.slow
def test_clients_find_their_kind_on_real_data(real_data: Path) -> None:
    """10:90 on Fashion-MNIST: after ten rounds 95 of 100 clients prefer their majority's cluster, in 4 of 5 seeds."""
    line = [
        "dataset=fmnist", f"dataset.root={real_data}", "experiment=ipfl_letters", "model=cnn", "rounds=10", "reference=none",
        "partition.label_groups=[[0,1,2,5,8],[3,4,6,7,9]]", "eval_every=0", "mechanism=ipfl",
    ]  # fmt: skip
    right = []
    for seed in range(5):
        clients = run(compose([*line, f"seed={seed}"]), View()).clients
        agree = int((clients.group == clients.cluster).sum())
        right.append(max(agree, 100 - agree))
    assert sum(count >= 95 for count in right) >= 4, right
