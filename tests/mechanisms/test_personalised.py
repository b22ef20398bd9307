"""IP-FL's rivals: one round by hand, and the limits in which each is FedAvg or training alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from fedincent.config.compose import compose
from fedincent.federation import Job, LocalTask, Recipe, Report, Round
from fedincent.mechanisms.clustered import FedEM, FedSoft
from fedincent.mechanisms.fedala import FedALA
from fedincent.mechanisms.fedfomo import FedFomo
from fedincent.mechanisms.fedproto import FedProto
from fedincent.runs.runner import run
from fedincent.runs.view import View
from fedincent.store.result import Result
from tests.conftest import random_updates

RECIPE = Recipe(
    momentum=0.0, weight_decay=0.0, carry=False, optimizer="sgd", lr=0.1, decay=1.0, batch_size=5, local_epochs=1,
    local_steps=0, augment="none",
)  # fmt: skip
STAGE = [
    "partition=mixture", "model=mlp", "client_validation_fraction=0.2", "n_clients=8", "training.optimizer=sgd",
    "training.lr=0.1", "training.decay=1", "executor=serial", "reference=none", "rounds=4",
]  # fmt: skip
ALONE = ["mechanism=ifca", "mechanism.n_clusters=1"]
RIVALS = ["ditto", "fedsoft", "ifca", "fedem", "fedala", "fedfomo", "fedproto", "per_fedavg", "fedprox", "ipfl"]


def go(*overrides: str) -> Result:
    return run(compose([*STAGE, *overrides]), View())


def same_models(ours: Result, theirs: Result, tolerance: float = 1e-4) -> None:
    np.testing.assert_allclose(ours.clients.own_loss, theirs.clients.own_loss, rtol=tolerance)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (["mechanism=fedem", "mechanism.n_clusters=1"], ["mechanism=fedavg"]),
        ([*ALONE, "mechanism.redraws=0"], ["mechanism=fedavg", "mechanism.weighting=equal"]),
        (ALONE, ["mechanism=fedavg", "mechanism.weighting=equal"]),
        (["mechanism=ditto", "mechanism.mu=0"], ["mechanism=standalone"]),
        (["mechanism=fedala", "mechanism.rate=1e-30"], ["mechanism=fedavg"]),  # ω stays 1: all of the common model
        (["mechanism=per_fedavg", "mechanism.inner_rate=0"], ["mechanism=fedavg"]),
        (["mechanism=fedprox", "mechanism.mu=0"], ["mechanism=fedavg"]),
    ],
)  # fmt: skip
def test_limits(ours: list[str], theirs: list[str]) -> None:
    same_models(go(*ours), go(*theirs))


def test_fedproto_without_attraction_trains_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = {}

    def keep(self: FedProto) -> torch.Tensor:
        kept["models"] = self.models
        return self.models

    monkeypatch.setattr(FedProto, "personal", keep)
    ours = go("mechanism=fedproto", "mechanism.attraction=0")
    same_models(ours, go("mechanism=standalone"))
    assert kept["models"].shape[0] == 8


@pytest.mark.parametrize("mechanism", RIVALS)
def test_all_of_them_run_stop_and_go_on_and_agree_between_executors(mechanism: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With some clients a round; stopped in round 3; the same numbers from two processes."""
    line = [f"mechanism={mechanism}", "per_round=5", "checkpoint_every=0"]
    whole = go(*line, "results_dir=whole", "eval_every=2")
    assert whole.clients.own_accuracy.mean() > 0.1
    kind = type(compose([*STAGE, *line]).mechanism)
    real = kind.receive

    def stop(self, round: Round, updates: torch.Tensor) -> None:  # type: ignore[no-untyped-def]
        if round.index == 2:
            raise KeyboardInterrupt
        real(self, round, updates)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(kind, "receive", stop)
        go(*line, "results_dir=parts", "eval_every=2")
    parts = go(*line, "results_dir=parts", "eval_every=2", "executor=processes", "executor.workers=2")
    for name in ("clients.csv", "rounds.csv"):
        assert (whole.path / name).read_bytes() == (parts.path / name).read_bytes(), name


def test_ditto_trains_the_common_model_as_fedavg_does() -> None:
    """Its own models differ, so does nothing of w: the pull goes one way."""
    ours = go("mechanism=ditto", "mechanism.mu=0.5")
    alone = go("mechanism=ditto", "mechanism.mu=0")
    assert not np.allclose(ours.clients.own_loss, alone.clients.own_loss)


def test_fedem_by_hand(make_federation, make_round) -> None:  # type: ignore[no-untyped-def]
    """Losses ln 1 and ln 3 under π = ½, ½: the sample belongs to them by ¾ and ¼."""
    federation = make_federation(2)
    federation.fresh = lambda number: federation.initial + number
    federation.by_client = lambda models, data, clients: (  # type: ignore[method-assign]
        [torch.zeros(2, 1)] * len(clients), [torch.tensor([[0.0], [np.log(3)]])] * len(clients)
    )  # fmt: skip
    mechanism = FedEM(n_clusters=2)
    mechanism.start(federation)
    round = make_round([True, False])
    _, jobs = mechanism.jobs(round, RECIPE)
    assert [(job.client, job.row) for job in jobs] == [(0, 0), (0, 1)]
    assert [job.task.weights.tolist() for job in jobs] == [[0.75], [0.25]]
    torch.testing.assert_close(mechanism.mixture, torch.tensor([[0.75, 0.25], [0.5, 0.5]], dtype=torch.float64))
    round.jobs = jobs
    updates, before = random_updates(2, federation.dim), mechanism.clusters.clone()
    mechanism.receive(round, updates)
    torch.testing.assert_close(mechanism.clusters - before, 0.5 * updates)  # n_0/n = ½: who is absent stays at M_k


def test_fedsoft_by_hand(make_federation, make_round) -> None:  # type: ignore[no-untyped-def]
    """Client 0 likes cluster 0 on ¾ of its samples: it starts from its own row and is pulled to ¾M_0 + ¼M_1."""
    federation = make_federation(2)
    federation.fresh = lambda number: federation.initial + number
    loss = torch.tensor([[0.0, 0.0, 0.0, 1.0], [1.0, 1.0, 1.0, 0.0]])
    federation.by_client = lambda models, data, clients=None: ([loss] * 2, [loss, 1 - loss])  # type: ignore[method-assign]
    mechanism = FedSoft(n_clusters=2, per_cluster=2, look_every=2, pull=0.1)
    mechanism.start(federation)
    round = make_round([True, True])
    round.joined = mechanism.invite(round)
    assert mechanism.belongs.tolist() == [[0.75, 0.25], [0.25, 0.75]]
    pool, round.jobs = mechanism.jobs(round, RECIPE)
    torch.testing.assert_close(pool[:2], mechanism.own)
    torch.testing.assert_close(pool[2], federation.initial + 0.75 * 1 + 0.25 * 2)
    assert [job.task.anchor for job in round.jobs] == [2, 3] and round.jobs[0].task.proximal == pytest.approx(0.1)
    updates = random_updates(2, federation.dim)
    mechanism.receive(round, updates)
    torch.testing.assert_close(mechanism.clusters[0], mechanism.own.mean(0))


def test_fedfomo_by_hand(make_federation, make_round) -> None:  # type: ignore[no-untyped-def]
    """Losses: mine 2; others' 1, 3, 1.5 at distances 1, 1, ½: worth 1, −1, 1, so half of the first and half of the third."""
    federation = make_federation(4)
    mechanism = FedFomo(downloads=3)
    mechanism.start(federation)
    step = torch.zeros(federation.dim)
    step[0] = 1.0
    for i, far in enumerate((0.0, 1.0, -1.0, 0.5)):
        mechanism.models[i] += far * step
    mechanism.sent = torch.tensor([False, True, True, True])
    loss = {4: 2.0, 1: 1.0, 2: 3.0, 3: 1.5}
    federation.judge_pairs = lambda models, pairs, data: [(0.0, loss[row]) for row, client in pairs]
    round = make_round([True, False, False, False])
    pool, round.jobs = mechanism.jobs(round, RECIPE)
    torch.testing.assert_close(pool[0], federation.initial + 0.75 * step, rtol=1e-4, atol=1e-4)
    assert mechanism.promise[0].tolist() == pytest.approx([1.0, 1.0, -1.0, 1.0], abs=1e-4)
    update = random_updates(1, federation.dim)
    mechanism.receive(round, update)
    torch.testing.assert_close(mechanism.models[0], pool[0] + update[0])
    assert mechanism.sent.tolist() == [True, False, False, False]


def test_prototypes_are_means_over_those_that_hold_a_class(make_federation, make_round) -> None:  # type: ignore[no-untyped-def]
    federation = make_federation(2)  # the last layer takes 3 features and tells 2 classes
    mechanism = FedProto(attraction=1.0)
    mechanism.start(federation)
    round = make_round([True, True])
    task = LocalTask(lr=0.1)
    round.jobs = [Job(0, 0, task), Job(1, 1, task)]
    sums = np.array([[4.0, 8.0, 0.0], [0.0, 0.0, 0.0]]), np.array([[1.0, 1.0, 1.0], [3.0, 3.0, 3.0]])
    counts = np.array([4.0, 0.0]), np.array([1.0, 3.0])
    round.reports = [Report(0.0, feature_sums=s, feature_counts=c) for s, c in zip(sums, counts, strict=True)]
    mechanism.receive(round, torch.zeros(2, federation.dim))
    assert mechanism.prototypes.tolist() == [[1.0, 1.5, 0.5], [1.0, 1.0, 1.0]]


def test_what_fedala_gives_is_a_mixture_of_the_last_layer(make_federation) -> None:  # type: ignore[no-untyped-def]
    federation = make_federation(3)
    mechanism = FedALA(weighting="sizes", rate=1.0, share=0.8, tensors=2, steady=0.1)
    mechanism.start(federation)
    assert mechanism.columns == (9, 17)  # 3×2 and 2 of 17 numbers
    mechanism.common = federation.initial + 1
    mechanism.weights_of[1] = 0.25
    given = mechanism.personal() - federation.initial
    torch.testing.assert_close(given[:, :9], torch.ones(3, 9))
    torch.testing.assert_close(given[[0, 2], 9:], torch.ones(2, 8))
    torch.testing.assert_close(given[1, 9:], torch.full((8,), 0.25))
