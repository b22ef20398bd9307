"""IncFL and the common-model baselines of its paper: weights by hand, limits, and clients with tests of their own."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fedincent.cli import main
from fedincent.config.compose import compose
from fedincent.errors import ConfigError
from fedincent.federation import Recipe
from fedincent.mechanisms.fedavg import FedAvg
from fedincent.mechanisms.incfl import IncFL, undecidedness
from fedincent.mechanisms.mw_fed import MWFed
from fedincent.runs.runner import run
from fedincent.runs.view import View
from tests.conftest import random_updates

RECIPE = Recipe(
    momentum=0.0,
    weight_decay=0.0,
    carry=False,
    optimizer="sgd",
    lr=0.1,
    decay=1.0,
    batch_size=5,
    local_epochs=1,
    local_steps=10,
    augment="none",
)
OWN = ["n_clients=8", "unseen_clients=4", "client_test_fraction=0.4", "solo_steps=30", "per_round=3", "rounds=4"]
OWN += ["training.optimizer=sgd", "training.lr=0.05", "training.local_steps=5", "model=logistic", "partition=clusters"]
OWN += ["tune_steps=3", "executor=serial"]


@given(st.floats(-30, 30))
def test_the_undecided_count_most(gap: float) -> None:
    z = torch.tensor([gap, -gap, 0.0], dtype=torch.float64)
    q = undecidedness(z)
    assert q[2] == 0.25 and q[0] <= 0.25 + 1e-12 and q[0] == pytest.approx(float(q[1]))


def test_nobody_counts_at_the_ends() -> None:
    assert undecidedness(torch.tensor([-200.0, 200.0, math.inf])).max() < 1e-30


def incfl(federation, losses: list[float], solo: list[float], joined: list[bool], make_round, updates, **changes):  # type: ignore[no-untyped-def]
    federation.solo_losses = torch.tensor(solo, dtype=torch.float64)
    mechanism = IncFL(**{"server_rate": 1.0, "epsilon": 1e-3, "tune_before_weight": 0, **changes})
    mechanism.start(federation)
    round = make_round(joined)
    round.incoming_losses = torch.tensor(losses)
    mechanism.reward(round, updates)
    return mechanism.models[0] - federation.initial


def test_a_round_by_hand(make_federation, make_round) -> None:  # type: ignore[no-untyped-def]
    """Gaps 0 and ln 3: q = 1/4 and 3/16; with ε = 1/16 and η_g = 2 the weights are 1 and 3/4."""
    federation = make_federation(3)
    updates = random_updates(3, federation.dim)
    updates[1] = 0
    moved = incfl(
        federation, [1.0, math.nan, 1.0 + math.log(3)], [1.0, 1.0, 1.0], [True, False, True], make_round, updates,
        server_rate=2.0, epsilon=1 / 16,
    )  # fmt: skip
    torch.testing.assert_close(moved, updates[0] + 0.75 * updates[2], rtol=1e-4, atol=1e-5)


def test_equal_gaps_are_fedavg(make_federation, make_round) -> None:  # type: ignore[no-untyped-def]
    federation = make_federation(4)
    updates = random_updates(4, federation.dim)
    moved = incfl(federation, [1, 2, 3, 4], [0.5, 1.5, 2.5, 3.5], [True] * 4, make_round, updates, epsilon=1e-12)
    average = FedAvg(weighting="equal")
    average.start(federation)
    average.reward(make_round([True] * 4), updates)
    torch.testing.assert_close(moved, average.models[0] - federation.initial)


def test_no_undecided_client_is_no_accident(make_federation, make_round) -> None:  # type: ignore[no-untyped-def]
    federation = make_federation(2)
    moved = incfl(federation, [1e4, 0.0], [0.0, 1e4], [True, True], make_round, random_updates(2, federation.dim))
    assert moved.abs().max() == 0


def test_those_served_badly_work_more(make_federation, make_round) -> None:  # type: ignore[no-untyped-def]
    federation = make_federation(3)
    federation.solo_losses = torch.ones(3, dtype=torch.float64)
    mechanism = MWFed(weighting="sizes", rate=0.5, most=2.0)
    mechanism.start(federation)
    for _ in range(3):
        round = make_round([True, True, False])
        round.incoming_losses = torch.tensor([2.0, 0.5, math.nan])
        mechanism.reward(round, torch.zeros(3, federation.dim))
    assert mechanism.effort.tolist() == [2.0, 0.5, 1.0]
    steps = [mechanism.task(RECIPE, make_round([True] * 3), client).steps for client in range(3)]
    assert steps == [20, 5, 10]


@pytest.mark.parametrize("mechanism", ["fedavg", "fedprox", "per_fedavg", "mw_fed", "incfl", "qffl"])
def test_seen_and_unseen_clients_judge_on_their_own(mechanism: str) -> None:
    result = run(compose([*OWN, f"mechanism={mechanism}", "eval_every=2"]))
    for who in ("own", "unseen"):
        for after in ("", "_tuned"):
            assert 0 <= result.summary[f"ipr_{who}{after}"] <= 1 and 0 <= result.summary[f"preferred_{who}{after}"] <= 1
    clients, unseen = result.clients, result.unseen
    assert len(unseen) == 4 and {"own_loss", "standalone_loss", "own_loss_tuned"} <= set(unseen.columns)
    assert (clients.incentive_gap < 0).mean() == result.summary["ipr_own"]
    assert (unseen.own_loss < unseen.standalone_loss).mean() == result.summary["ipr_unseen"]
    assert result.rounds.joined.tolist() == [3] * 4 and result.rounds.ipr_own.notna().sum() == 2


def test_limits_of_the_baselines() -> None:
    """µ = 0 and an inner rate of 0 are FedAvg, to the last bit."""
    plain = run(compose([*OWN, "mechanism=fedavg"])).clients
    for name in ("fedprox mechanism.mu=0", "per_fedavg mechanism.inner_rate=0"):
        assert run(compose([*OWN, *f"mechanism={name}".split()])).clients.loss.tolist() == plain.loss.tolist()
    assert (
        run(compose([*OWN, "mechanism=per_fedavg", "mechanism.inner_rate=0.5"])).clients.loss.tolist() != plain.loss.tolist()
    )


def test_what_does_not_fit_together() -> None:
    for line, words in (
        ("per_round=9", "there are 8 clients"),
        ("client_test_fraction=0", "client_test_fraction"),
        ("solo_steps=0", "solo_steps"),
        ("mechanism=iafl", "no common model"),
        ("partition.clusters=6", "12 labels are wanted, the data set has 10"),
        ("partition=by_user", "does not say whom"),
    ):
        base = [o for o in OWN if o != "partition=clusters"] if line.startswith("partition=") else OWN
        with pytest.raises(ConfigError, match=words):
            run(compose([*base, "mechanism=fedavg", line] if "mechanism" not in line else [*base, line]))


def test_synthetic_users() -> None:
    small = ["dataset=synthetic", "dataset.users=12", "n_clients=8", "unseen_clients=4", "rounds=2", "solo_steps=20"]
    small += [
        "client_test_fraction=0.4",
        "per_round=4",
        "mechanism=incfl",
        "training.local_steps=5",
        "training.optimizer=sgd",
    ]
    result = run(compose(small))
    assert len(result.clients) == 8 and len(result.unseen) == 4
    with pytest.raises(ConfigError, match="only 12 of 12 users"):
        run(compose([*small, "n_clients=10"]))


def test_tuned_before_it_is_weighed(make_federation, make_round) -> None:  # type: ignore[no-untyped-def]
    """z is of the model after the tuning job, on the client's own training data; the other job's update counts."""
    from fedincent.federation.jobs import numbered

    asked = []

    def judge(models, data, own=False):  # type: ignore[no-untyped-def]
        asked.append((models.clone(), data, own))
        return torch.zeros(2), torch.tensor([1.0, 3.0])

    federation = make_federation(2, judge=judge)
    federation.solo_losses = torch.tensor([1.0, 1.0], dtype=torch.float64)
    mechanism = IncFL(server_rate=1.0, epsilon=0.0, tune_before_weight=5)
    mechanism.start(federation)
    round, recipe = make_round([True, True]), compose(["training.lr=0.1"]).training
    _, jobs = mechanism.jobs(round, recipe)
    round.jobs = numbered(jobs)
    assert [(job.client, job.slot, job.task.steps) for job in round.jobs] == [
        (0, 0, None),
        (1, 0, None),
        (0, 1, 5),
        (1, 1, 5),
    ]
    assert not any(job.task.incoming_loss for job in round.jobs)
    updates = random_updates(4, federation.dim)
    start = federation.initial.clone()
    mechanism.receive(round, updates)
    ((models, data, own),) = asked
    assert (data, own) == ("train", True)
    torch.testing.assert_close(models, start + updates[2:])
    q = [0.25, float(torch.sigmoid(torch.tensor(2.0)) * torch.sigmoid(torch.tensor(-2.0)))]  # z = 0 and 2
    wanted = start + (q[0] * updates[0] + q[1] * updates[1]) / sum(q)
    torch.testing.assert_close(mechanism.common, wanted)


def test_unseen_clients_finish_the_model_themselves(tiny: list[str]) -> None:
    """FedAvg-FT's closing epoch is each client's own: unseen ones are not given what client 0 made of the model."""
    words = (
        "partition=clusters partition.clusters=2 partition.labels=5 client_test_fraction=0.4 unseen_clients=3 solo_steps=5"
    )
    line = [*tiny, *words.split(), "solo_steps=5", "mechanism=fedavg_finetune", "mechanism.finetune_epochs="]
    plain, tuned = (run(compose([*line[:-1], f"{line[-1]}{epochs}", f"results_dir=e{epochs}"]), View()) for epochs in (0, 1))
    assert (tuned.unseen.own_loss != plain.unseen.own_loss).all()
    assert tuned.unseen.own_accuracy.mean() > plain.unseen.own_accuracy.mean()


def test_tuning_twice_reads_nothing_overwritten(tiny: list[str]) -> None:
    """A closing epoch and then tune_steps: a few more steps of the same kind change little."""
    line = [*tiny, "mechanism=fedavg_finetune", "tune_steps=2", "rounds=8"]
    for executor in ("serial", "processes"):
        result = run(compose([*line, f"executor={executor}", f"results_dir={executor}"]), View())
        assert abs(result.summary["accuracy_mean_tuned"] - result.summary["accuracy_mean"]) < 0.1


def test_the_margin_and_a_choice_by_validation(capsys: pytest.CaptureFixture[str]) -> None:
    """The margin sums what those that gain gain; a rate is chosen by the clients' own validation samples (app. F.1)."""
    line = [*OWN, "mechanism=incfl", "client_validation_fraction=0.25", "unseen_clients=0"]
    found = run(compose(line), View())
    gap = found.clients.incentive_gap
    assert found.summary["incentive_margin"] == pytest.approx(-gap[gap < 0].sum())
    assert found.summary["validation_accuracy_mean"] == pytest.approx(found.clients.validation_accuracy.mean())
    main(["run", "-m", *line, "training.lr=0.0001,0.05"])
    main(["table", "--sweep", "training.lr", "--metric", "validation_accuracy_mean"])
    assert "validation" in capsys.readouterr().out
