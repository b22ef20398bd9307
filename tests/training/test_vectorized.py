"""The vectorized executor against the serial one: the same round, client by client, within rounding."""

from __future__ import annotations

import dataclasses
import logging

import numpy as np
import pytest
import torch

from fedincent.config.compose import compose
from fedincent.datasets import Data
from fedincent.federation import Job, Judged, Layout, LocalTask, Round, Shards, Streams
from fedincent.mechanisms.cgsv import CGSV
from fedincent.mechanisms.iafl import IAFL
from fedincent.mechanisms.lg_fedavg import LGFedAvg
from fedincent.objectives import Classification, Regression
from fedincent.training import Workload
from fedincent.training.loop import Supervised
from fedincent.training.serial import Serial
from fedincent.training.vectorized import Vectorized

SHAPES = {"cnn": (1, 16, 16), "mlp": (20,), "logistic": (20,), "resnet18": (3, 16, 16)}


def workload(model: str, sizes: list[int], dtype: torch.dtype, optimizer: str = "adam", augment: str = "none") -> Workload:
    rng = np.random.default_rng(0)
    total, shape = sum(sizes), SHAPES[model]
    x = torch.from_numpy(rng.standard_normal((total, *shape))).to(dtype)
    y = torch.from_numpy(rng.integers(0, 4, total))
    like = np.zeros((1, *shape[1:], shape[0]) if len(shape) == 3 else (1, *shape), np.float32)
    data = Data("d", like, np.zeros(1, int), like, np.zeros(1, int), "image" if len(shape) == 3 else "features", 4)
    torch.manual_seed(0)
    module = compose([f"model={model}"]).model.build(data).to(dtype)
    recipe = compose([f"training.optimizer={optimizer}", "training.batch_size=8", f"training.augment={augment}"]).training
    shards = Shards(x, y, [0, *np.cumsum(sizes).tolist()], black=torch.zeros(shape[0]))
    return Workload(module, shards, {"test": Judged(x, y)}, recipe, Streams(1), Classification(), Supervised)


def one_round(executor: Serial | Vectorized, work: Workload, tasks: dict[int, LocalTask]):  # type: ignore[no-untyped-def]
    models = Layout(work.module).flatten(work.module).repeat(len(work.shards.sizes), 1)
    executor.open(work)
    try:
        jobs = [Job(client, client, task) for client, task in tasks.items()]
        rows, told = executor.train(2, models, jobs, lambda: None)
        updates = torch.zeros_like(models)
        updates[list(tasks)] = rows
        models = models + updates
        return updates, models, dict(zip(tasks, told, strict=True)), executor.judge(models, "test")
    finally:
        executor.close()


def assert_close(tasks: dict[int, LocalTask], bound: float, *spec: object, chunk: int | None = None) -> None:
    """The two executors' models agree per client, ‖ΔΘ_i‖/‖Θ_i‖, and so do losses and judgements."""
    _, serial, reports, judged = one_round(Serial(), workload(*spec), tasks)  # type: ignore[arg-type]
    updates, ours, own_reports, own_judged = one_round(Vectorized(chunk=chunk), workload(*spec), tasks)  # type: ignore[arg-type]
    gap = (serial - ours).norm(dim=1) / serial.norm(dim=1)
    assert float(gap.max()) <= bound, gap
    for client in range(len(serial)):
        if client not in tasks:
            assert updates[client].abs().sum() == 0
        else:
            assert own_reports[client].loss == pytest.approx(reports[client].loss, rel=1e-3)
    assert (judged[0] - own_judged[0]).abs().max() <= 0.05 and torch.allclose(judged[1], own_judged[1], rtol=1e-2)


RAGGED = [21, 3, 8, 40, 16]
ALL = {client: LocalTask(lr=0.001) for client in range(5)}


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, 1e-4), (torch.float64, 1e-8)])
@pytest.mark.parametrize("model", ["cnn", "mlp", "logistic"])
@pytest.mark.parametrize("chunk", [None, 2])
def test_equal_to_serial(model: str, dtype: torch.dtype, bound: float, chunk: int | None) -> None:
    assert_close(ALL, bound, model, RAGGED, dtype, chunk=chunk)


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, 1e-4), (torch.float64, 1e-8)])
def test_resnet18_of_three_clients(dtype: torch.dtype, bound: float) -> None:
    assert_close(
        {0: LocalTask(lr=0.001), 1: LocalTask(lr=0.001), 2: LocalTask(lr=0.001)}, bound, "resnet18", [9, 4, 12], dtype
    )


def test_tasks_of_all_kinds_at_once() -> None:
    tasks = {
        0: LocalTask(lr=0.002, epochs=3),
        1: LocalTask(lr=0.001, steps=7),
        2: LocalTask(lr=0.004, proximal=0.5),
        4: LocalTask(lr=0.001, frozen=((0, 100), (150, 160)), incoming_loss=True),
    }
    for optimizer in ("adam", "sgd"):
        assert_close(tasks, 1e-8, "mlp", RAGGED, torch.float64, optimizer)
    _, _, reports, _ = one_round(Vectorized(chunk=None), workload("mlp", RAGGED, torch.float64), tasks)
    assert reports[4].incoming_loss > 0 and np.isnan(reports[0].incoming_loss)


def test_trial_steps_of_per_fedavg() -> None:
    """Pairs of batches, an odd one left over, one batch in all (client 1), steps that go on from pass to pass; and others
    beside them."""
    tasks = {
        0: LocalTask(lr=0.002, inner_rate=0.05),  # 21 samples: batches of 8, 8, 5
        1: LocalTask(lr=0.002, inner_rate=0.05),  # 3 samples: one batch, used for both
        2: LocalTask(lr=0.002, inner_rate=0.02, steps=3, proximal=0.3),
        3: LocalTask(lr=0.002, inner_rate=0.05, epochs=2),
        4: LocalTask(lr=0.001, epochs=2),
    }
    for optimizer in ("adam", "sgd"):
        assert_close(tasks, 1e-8, "mlp", RAGGED, torch.float64, optimizer)
        assert_close(tasks, 1e-8, "mlp", RAGGED, torch.float64, optimizer, chunk=2)


def test_augmented_images() -> None:
    assert_close(ALL, 1e-8, "cnn", RAGGED, torch.float64, "adam", "crop_flip")


@pytest.mark.parametrize("mechanism", ["iafl", "cgsv", "lg_fedavg"])
def test_mechanisms_see_the_same_round(mechanism: str, make_federation) -> None:  # type: ignore[no-untyped-def]
    """Two rounds of each mechanism on either executor; rewards feed back into training."""
    made = {
        "iafl": lambda: IAFL(kappa=0.5, q=0.2, ceiling=None, reference="max"),
        "cgsv": lambda: CGSV(alpha=0.95, beta=1.0, gamma=0.5, weights="importance", mask="layer"),
        "lg_fedavg": lambda: LGFedAvg(shared_layers=3),
    }
    finals = []
    for executor in (Serial(), Vectorized(chunk=None)):
        work = workload("cnn", RAGGED, torch.float64)
        federation = make_federation(5, [0.1, 0.2, 0.3, 0.4, 0.5], module=work.module, sizes=RAGGED)
        own = made[mechanism]()
        own.start(federation)
        executor.open(work)
        for index in range(2):
            round = Round(index, 0.001, Streams(0), torch.ones(5, dtype=torch.bool), torch.zeros(5), torch.zeros(5))
            round.jobs = [Job(client, client, task) for client, task in ALL.items()]
            updates, _ = executor.train(index, own.incoming(round), round.jobs, lambda: None)
            own.receive(round, updates)
        executor.close()
        finals.append(own.models.clone())
    gap = (finals[0] - finals[1]).norm(dim=1) / finals[0].norm(dim=1)
    assert float(gap.max()) <= 1e-8


def test_what_cannot_be_batched_goes_one_by_one_with_a_message(caplog: pytest.LogCaptureFixture) -> None:
    work = workload("mlp", RAGGED, torch.float32)
    work.module = torch.nn.Sequential(torch.nn.Linear(20, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 4))
    executor = Vectorized(chunk=None)
    with caplog.at_level(logging.WARNING):
        updates, *_ = one_round(executor, work, ALL)
    assert "one after the other" in caplog.text
    expected, *_ = one_round(Serial(), work, ALL)
    assert updates.shape == expected.shape


def test_lstm_goes_one_by_one(caplog: pytest.LogCaptureFixture) -> None:
    data = Data(
        "d", np.zeros((1, 6), np.int32), np.zeros(1, int), np.zeros((1, 6), np.int32), np.zeros(1, int), "text", 4, 30
    )
    tokens = torch.from_numpy(np.random.default_rng(0).integers(0, 30, (sum(RAGGED), 6)))
    torch.manual_seed(0)
    base = workload("mlp", RAGGED, torch.float32)
    shards = Shards(tokens, base.shards.y, base.shards.bounds)
    overrides = ["model=lstm", "model.embedding=8", "model.hidden=4"]
    finals = []
    for executor in (Serial(), Vectorized(chunk=None)):
        torch.manual_seed(0)
        judged = {"test": Judged(tokens, base.shards.y)}
        module = compose(overrides).model.build(data)
        work = Workload(module, shards, judged, base.recipe, Streams(1), Classification(), Supervised)
        finals.append(one_round(executor, work, ALL)[1])
    assert torch.equal(*finals) and "recurrent" in caplog.text


def test_a_run_has_an_identity_of_its_own() -> None:
    import fedincent

    small = ["n_clients=5", "rounds=2", "mechanism=fedavg_finetune"]
    exact, ours = fedincent.run(small), fedincent.run([*small, "executor=vectorized"])
    assert exact.path != ours.path and ours.summary["identity"]["numerics"] == "vectorized"
    assert ours.summary["accuracy_mean"] == pytest.approx(exact.summary["accuracy_mean"], abs=0.05)


def several_rounds(executor: Serial, work: Workload, rounds: int = 3) -> torch.Tensor:
    """Everybody trains for some rounds, each on its own model (N×D)."""
    models = Layout(work.module).flatten(work.module).repeat(len(work.shards.sizes), 1)
    executor.open(work)
    for index in range(rounds):
        jobs = [Job(client, client, LocalTask(lr=0.01)) for client in range(len(models))]
        models = models + executor.train(index, models, jobs, lambda: None)[0]
    executor.close()
    return models


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, 1e-4), (torch.float64, 1e-8)])
@pytest.mark.parametrize(("optimizer", "momentum"), [("adam", 0.0), ("sgd", 0.9)])
def test_carried_state_and_arrivals(optimizer: str, momentum: float, dtype: torch.dtype, bound: float) -> None:
    """Ragged arrivals, optimizers that remember: those who are done with a round remember nothing of the padding."""
    finals = []
    for executor in (Serial(), Vectorized(chunk=3)):
        work = workload("mlp", RAGGED, dtype, optimizer)
        changed = {"carry": True, "momentum": momentum, "weight_decay": 0.01}
        work.recipe = dataclasses.replace(work.recipe, **changed)
        work.shards.arrivals = [[0, size // 3, size // 2, size] for size in RAGGED]
        finals.append(several_rounds(executor, work))
    gap = (finals[0] - finals[1]).norm(dim=1) / finals[0].norm(dim=1)
    assert float(gap.max()) <= bound, gap


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, 1e-4), (torch.float64, 1e-8)])
def test_regression(dtype: torch.dtype, bound: float) -> None:
    finals, judged = [], []
    for executor in (Serial(), Vectorized(chunk=None)):
        work = workload("mlp", RAGGED, dtype)
        torch.manual_seed(0)
        work.module = torch.nn.Sequential(torch.nn.Linear(20, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1)).to(dtype)
        work.objective = Regression(mean=50.0, std=2.0)
        work.shards.y = work.shards.x[:, 0].clone()
        work.judged = {"test": Judged(work.shards.x, work.shards.y)}
        finals.append(several_rounds(executor, work))
        executor.open(work)
        judged.append(torch.stack(executor.judge(finals[-1], "test")))
        executor.close()
    gap = (finals[0] - finals[1]).norm(dim=1) / finals[0].norm(dim=1)
    assert float(gap.max()) <= bound, gap
    torch.testing.assert_close(judged[0], judged[1], rtol=1e-3, atol=1e-5)
