"""Local training against torch's own optimizers, and executors against each other."""

from __future__ import annotations

import copy
import itertools

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fedincent.errors import ConfigError, WorkerError
from fedincent.federation import Job, Judged, Layout, LocalTask, Recipe, Shards, Streams
from fedincent.federation.jobs import Mixing, numbered
from fedincent.federation.predictors import Mixture, NearestPrototype
from fedincent.objectives import Classification
from fedincent.training import Workload
from fedincent.training.augment import crop_and_flip
from fedincent.training.executor import Executor, Pair, distinct_rows
from fedincent.training.loop import Supervised, epoch_of
from fedincent.training.processes import Processes
from fedincent.training.serial import Serial

SIZES = [37, 5, 64, 20]


def recipe(**changes) -> Recipe:  # type: ignore[no-untyped-def]
    fields = {"optimizer": "adam", "lr": 0.01, "decay": 1.0, "batch_size": 16, "local_epochs": 1, "local_steps": 0}
    fields |= {"augment": "none", "momentum": 0.0, "weight_decay": 0.0, "carry": False}
    return Recipe(**{**fields, **changes})


def module() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))


def workload(model: nn.Module | None = None, **changes) -> Workload:  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(0)
    total = sum(SIZES)
    x = torch.from_numpy(rng.standard_normal((total, 6)).astype(np.float32))
    y = torch.from_numpy(rng.integers(0, 3, total))
    shards = Shards(x, y, [0, *np.cumsum(SIZES).tolist()])
    judged = {"test": Judged(x, y), "train": Judged(x, y, clients=shards.bounds)}
    return Workload(model or module(), shards, judged, recipe(**changes), Streams(5), Classification(), Supervised)


def rows_of(work: Workload) -> torch.Tensor:
    return Layout(work.module).flatten(work.module).repeat(len(SIZES), 1)


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_the_loop_is_the_textbook_loop(optimizer: str) -> None:
    work = workload(optimizer=optimizer)
    reference = copy.deepcopy(work.module)
    start = Layout(reference).flatten(reference)
    theirs = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}[optimizer](reference.parameters(), lr=0.01)
    for epoch in range(2):
        x, y = epoch_of(work, Job(0, 0, LocalTask(lr=0.1)), 3, epoch)
        for xb, yb in zip(x.split(16), y.split(16), strict=True):
            theirs.zero_grad()
            F.cross_entropy(reference(xb), yb).backward()
            theirs.step()
    update = torch.empty_like(start)
    Supervised(work).train(Job(0, 0, LocalTask(lr=0.01, epochs=2)), start[None], 3, update)
    torch.testing.assert_close(start + update, Layout(reference).flatten(reference), rtol=1e-4, atol=1e-6)


def test_an_epoch_sees_every_sample_once_and_its_order_changes() -> None:
    work = workload()
    _, own = work.shards.of(2)
    _, first = epoch_of(work, Job(2, 0, LocalTask(lr=0.1)), 0, 0)
    _, second = epoch_of(work, Job(2, 0, LocalTask(lr=0.1)), 1, 0)
    assert sorted(first.tolist()) == sorted(own.tolist()) == sorted(second.tolist())
    assert first.tolist() != second.tolist()


def test_tasks_in_steps_go_on_from_pass_to_pass() -> None:
    work = workload()
    trainer = Supervised(work)
    batches = list(trainer.batches(Job(0, 0, LocalTask(lr=0.1, steps=7)), 0))  # 37 samples: 16, 16, 5 to a pass
    assert [len(y) for _, y, _ in batches] == [16, 16, 5, 16, 16, 5, 16]
    assert len(list(trainer.batches(Job(0, 0, LocalTask(lr=0.1, steps=0)), 0))) == 0
    assert [len(y) for _, y, _ in trainer.batches(Job(1, 0, LocalTask(lr=0.1, epochs=2)), 0)] == [5, 5]


def test_the_proximal_term_holds_the_model_back() -> None:
    work = workload(optimizer="sgd")
    trainer, start = Supervised(work), rows_of(workload())[0]
    updates = [torch.empty_like(start) for _ in range(2)]
    for update, mu in zip(updates, (0.0, 5.0), strict=True):
        trainer.train(Job(0, 0, LocalTask(lr=0.05, epochs=5, proximal=mu)), start[None], 0, update)
    assert updates[1].norm() < 0.8 * updates[0].norm()


def gradient_at(work: Workload, row: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Of the mean loss, by autograd alone."""
    module = copy.deepcopy(work.module)
    torch.nn.utils.vector_to_parameters(row.clone(), module.parameters())
    module.zero_grad()
    F.cross_entropy(module(x), y).backward()
    return torch.cat([p.grad.reshape(-1) for p in module.parameters()])  # type: ignore[union-attr]


def test_fedprox_by_hand() -> None:
    """θ ← θ − lr·(∇f(θ) + µ·(θ − θ_0)), two steps."""
    work = workload(optimizer="sgd")
    start, update = rows_of(workload())[0].clone(), torch.empty(Layout(work.module).dim)
    x, y = epoch_of(work, Job(1, 0, LocalTask(lr=0.1)), 2, 0)
    one = start - 0.1 * gradient_at(work, start, x, y)
    x, y = epoch_of(work, Job(1, 0, LocalTask(lr=0.1)), 2, 1)
    two = one - 0.1 * (gradient_at(work, one, x, y) + 0.7 * (one - start))
    Supervised(work).train(Job(1, 0, LocalTask(lr=0.1, epochs=2, proximal=0.7)), start[None], 2, update)
    torch.testing.assert_close(start + update, two, atol=1e-6, rtol=1e-5)


def test_per_fedavg_by_hand() -> None:
    """Client 0 has three batches: a trial step on the first, the gradient there on the second; the third is left over.

    Client 1 has one batch in all: it serves for both.
    """
    work = workload(optimizer="sgd")
    start, update = rows_of(workload())[0].clone(), torch.empty(Layout(work.module).dim)
    x, y = epoch_of(work, Job(0, 0, LocalTask(lr=0.1)), 0, 0)
    trial = start - 0.3 * gradient_at(work, start, x[:16], y[:16])
    wanted = start - 0.1 * gradient_at(work, trial, x[16:32], y[16:32])
    Supervised(work).train(Job(0, 0, LocalTask(lr=0.1, inner_rate=0.3)), start[None], 0, update)
    torch.testing.assert_close(start + update, wanted, atol=1e-6, rtol=1e-5)
    x, y = epoch_of(work, Job(1, 0, LocalTask(lr=0.1)), 0, 0)
    trial = start - 0.3 * gradient_at(work, start, x, y)
    wanted = start - 0.1 * gradient_at(work, trial, x, y)
    Supervised(work).train(Job(1, 0, LocalTask(lr=0.1, inner_rate=0.3)), start[None], 0, update)
    torch.testing.assert_close(start + update, wanted, atol=1e-6, rtol=1e-5)


def test_frozen_columns_stay() -> None:
    work = workload()
    start, update = rows_of(work)[0].clone(), torch.empty(Layout(work.module).dim)
    Supervised(work).train(Job(0, 0, LocalTask(lr=0.05, frozen=((0, 10), (20, 22)))), start[None], 0, update)
    assert update[:10].abs().max() == 0 and update[20:22].abs().max() == 0
    assert (update[10:20] != 0).any()


def test_the_loss_of_the_incoming_model_is_reported_when_asked_for() -> None:
    work = workload()
    start, update = rows_of(work)[0].clone(), torch.empty(Layout(work.module).dim)
    trainer = Supervised(work)
    asked = trainer.train(Job(1, 0, LocalTask(lr=0.05, incoming_loss=True)), start[None], 0, update)
    x, y = work.shards.of(1)
    trainer.row.copy_(start)
    assert asked.incoming_loss == pytest.approx(F.cross_entropy(work.module(x), y).item(), rel=1e-5)
    assert np.isnan(trainer.train(Job(1, 0, LocalTask(lr=0.05)), start[None], 0, update).incoming_loss)


def test_dropout_follows_the_streams() -> None:
    def train() -> torch.Tensor:
        torch.manual_seed(0)
        work = workload(nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.5), nn.Linear(8, 3)))
        start = rows_of(work)[0].clone()
        update = torch.empty_like(start)
        torch.rand(int(torch.randint(1, 9, ()).item()))  # whatever happened before
        Supervised(work).train(Job(0, 0, LocalTask(lr=0.05)), start[None], 4, update)
        return update

    assert torch.equal(train(), train())


def test_redrawn_noise_differs_from_pass_to_pass() -> None:
    work = workload()
    work.shards.noise = [0.5] * 4
    x0, _ = epoch_of(work, Job(2, 0, LocalTask(lr=0.1)), 0, 0)
    x1, _ = epoch_of(work, Job(2, 0, LocalTask(lr=0.1)), 1, 0)
    clean = work.shards.of(2)[0]
    assert not torch.equal(x0.sort(0).values, x1.sort(0).values)
    assert float(x0.var()) == pytest.approx(float(clean.var()) + 0.25, rel=0.2)


def test_crops_and_flips() -> None:
    x = torch.arange(2 * 3 * 6 * 6, dtype=torch.float32).view(2, 3, 6, 6) + 1
    order, black = torch.tensor([1, 0, 1, 0] * 40), torch.tensor([-1.0, -2.0, -3.0])
    out = crop_and_flip(x, order, black, np.random.default_rng(0))
    padded = torch.nn.functional.pad(x, (4, 4, 4, 4), value=0.0)
    for channel in range(3):
        padded[:, channel][padded[:, channel] == 0] = black[channel]
    seen = set()
    for image, source in zip(out, order, strict=True):
        matches = [
            (dy, dx, flip)
            for dy in range(9)
            for dx in range(9)
            for flip in (False, True)
            if torch.equal(image, crop(padded[source], dy, dx, flip))
        ]
        assert matches
        seen.update(matches)
    assert len(seen) > 60


def crop(image: torch.Tensor, dy: int, dx: int, flip: bool) -> torch.Tensor:
    part = image[:, dy : dy + 6, dx : dx + 6]
    return part.flip(-1) if flip else part


def test_equal_rows_are_found() -> None:
    rows = torch.tensor([[1.0, 2.0], [3.0, 4.0], [1.0, 2.0]])
    assert distinct_rows(rows) == ([0, 1], [0, 1, 0])
    assert distinct_rows(torch.ones(2).expand(5, -1)) == ([0], [0] * 5)


def play(executor: Executor, work: Workload, rounds: int = 2) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    executor.open(work)
    try:
        models = rows_of(work)
        for index in range(rounds):
            jobs = [Job(client, client, LocalTask(lr=0.01)) for client in (0, 2, 3)]
            updates, reports = executor.train(index, models, jobs, lambda: None)
            assert len(reports) == len(updates) == 3
            models = models.index_add(0, torch.tensor([0, 2, 3]), updates)
        return models, *executor.judge(models, "test")
    finally:
        executor.close()


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_processes_equal_serial_bit_for_bit(workers: int) -> None:
    for ours, theirs in zip(play(Serial(), workload()), play(Processes(workers=workers), workload()), strict=True):
        assert torch.equal(ours, theirs)


def test_judging_is_textbook_judging() -> None:
    work = workload()
    models, accuracy, loss = play(Serial(), work)
    x, y = work.judged["test"].of()
    Layout(work.module).bind(work.module, models[0].clone(), torch.zeros_like(models[0]))
    scores = work.module(x)
    assert accuracy[0] == pytest.approx(float((scores.argmax(1) == y).double().mean()))
    assert loss[0] == pytest.approx(F.cross_entropy(scores, y).item(), rel=1e-5)


class Deadly(nn.Linear):
    """A model that ends its process, or raises, when it trains on client 1's five samples."""

    how = "die"

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.training and len(x) == 5 and torch.is_grad_enabled():
            if self.how == "die":
                import os
                import signal

                os.kill(os.getpid(), signal.SIGKILL)
            raise ValueError("five is too few")
        return super().forward(x)


class Raising(Deadly):
    how = "raise"


@pytest.mark.parametrize(("kind", "words"), [(Deadly, "exit code -9"), (Raising, "five is too few")])
def test_a_worker_that_fails_is_reported_with_client_and_round(kind: type[nn.Linear], words: str) -> None:
    work = workload(kind(6, 3))
    executor = Processes(workers=2)
    executor.open(work)
    try:
        jobs = [Job(client, client, LocalTask(lr=0.01)) for client in (1, 2)]
        with pytest.raises(WorkerError, match="training client 1 in round 7") as caught:
            executor.train(6, rows_of(work), jobs, lambda: None)
        assert words in str(caught.value)
    finally:
        executor.close()


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_carried_optimizers_are_torchs_that_live_on(optimizer: str, momentum: float) -> None:
    """Three rounds of two clients, weight decay and all, against optimizers that are never made anew."""
    work = workload(optimizer=optimizer, carry=True, weight_decay=0.01, momentum=momentum)
    executor = Serial()
    executor.open(work)
    more = {"momentum": momentum} if optimizer == "sgd" else {}
    theirs = [copy.deepcopy(module()) for _ in range(2)]
    kind = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}[optimizer]
    steppers = [kind(model.parameters(), lr=0.01, weight_decay=0.01, **more) for model in theirs]
    models = rows_of(workload())[:2]
    for index in range(3):
        jobs = [Job(client, client, LocalTask(lr=0.01)) for client in range(2)]
        updates, _ = executor.train(index, models, jobs, lambda: None)
        models = models + updates
        for client, (model, stepper) in enumerate(zip(theirs, steppers, strict=True)):
            x, y = epoch_of(work, jobs[client], index, 0)
            for xb, yb in zip(x.split(16), y.split(16), strict=True):
                stepper.zero_grad()
                F.cross_entropy(model(xb), yb).backward()
                stepper.step()
    executor.close()
    for row, model in zip(models, theirs, strict=True):
        torch.testing.assert_close(row, Layout(model).flatten(model), rtol=1e-4, atol=1e-6)


def test_carried_memory_is_saved_and_put_back() -> None:
    jobs = [Job(client, client, LocalTask(lr=0.01)) for client in range(4)]
    whole, halves = workload(carry=True), workload(carry=True)
    models = rows_of(whole)
    finals = []
    for work, broken in ((whole, False), (halves, True)):
        executor = Serial()
        executor.open(work)
        first = models + executor.train(0, models, jobs, lambda: None)[0]
        if broken:
            state = {name: value.clone() for name, value in executor.state_dict().items()}
            executor.close()
            executor = Processes(workers=2)
            executor.open(workload(carry=True))
            executor.load_state_dict(state)
        finals.append(first + executor.train(1, first, jobs, lambda: None)[0])
        executor.close()
    assert torch.equal(*finals)
    with pytest.raises(ConfigError, match=r"training\.carry.*several jobs"):
        Serial.train(executor, 0, models, [*jobs, Job(0, 1, LocalTask(lr=0.01), slot=1)], lambda: None)


def test_two_jobs_of_a_client_draw_their_own_batches_and_grow_the_blocks() -> None:
    """Nine jobs of four clients from a pool of seven models: serial and processes bit for bit."""
    rows = rows_of(workload())
    pool = torch.cat([rows, rows[:3] + 0.1])
    jobs = numbered([Job(place % 4, place % 7, LocalTask(lr=0.01, proximal=0.1, anchor=5)) for place in range(9)])
    assert [job.slot for job in jobs] == [0, 0, 0, 0, 1, 1, 1, 1, 2]
    found = []
    for executor in (Serial(), Processes(workers=2)):
        executor.open(workload())
        updates, reports = executor.train(0, pool, jobs, lambda: None)
        found.append((updates.clone(), [report.loss for report in reports]))
        executor.close()
    assert torch.equal(found[0][0], found[1][0]) and found[0][1] == found[1][1]
    again = numbered([Job(1, 1, LocalTask(lr=0.01)), Job(1, 1, LocalTask(lr=0.01))])
    work = workload()
    x0, x1 = (epoch_of(work, job, 0, 0)[0] for job in again)
    assert not torch.equal(x0, x1) and torch.equal(x0.sort(0).values, x1.sort(0).values)


def test_an_anchor_is_what_the_proximal_term_pulls_to() -> None:
    work = workload(optimizer="sgd")
    trainer = Supervised(work)
    start = rows_of(workload())[0]
    pool = torch.stack([start, start + 1.0])
    update = torch.empty_like(start)
    trainer.train(Job(0, 0, LocalTask(lr=0.1, steps=1, proximal=1.0, anchor=1)), pool, 0, update)
    plain = torch.empty_like(start)
    trainer.train(Job(0, 0, LocalTask(lr=0.1, steps=1)), pool, 0, plain)
    torch.testing.assert_close(update - plain, torch.full_like(start, 0.1))  # −lr·µ·(θ − anchor)


@pytest.mark.parametrize("executor", [Serial(), Processes(workers=2)], ids=["serial", "processes"])
def test_scores_and_gradients_by_sample_and_client(executor: Executor) -> None:
    work = workload()
    reference = module()
    models = rows_of(work)[:2] + torch.tensor([[0.0], [0.05]])
    executor.open(work)
    try:
        right, loss = executor.scores(models, "train")
        gradient = executor.gradient(models[0], "train", [1, 3])
        own = executor.judge(rows_of(work), "train", own=True)
    finally:
        executor.close()
    x, y = work.shards.x, work.shards.y
    outputs = reference(x)
    assert right.shape == loss.shape == (2, sum(SIZES))
    assert torch.equal(right[0], outputs.argmax(1) == y)
    torch.testing.assert_close(loss[0], F.cross_entropy(outputs, y, reduction="none"))
    chosen = torch.cat([torch.arange(37, 42), torch.arange(106, 126)])  # clients 1 and 3
    F.cross_entropy(reference(x[chosen]), y[chosen]).backward()
    wanted = torch.cat([p.grad.flatten() for p in reference.parameters()])
    torch.testing.assert_close(gradient, wanted, rtol=1e-4, atol=1e-6)
    means = [float(loss[0][a:b].mean()) for a, b in itertools.pairwise(work.shards.bounds)]
    assert own[1].tolist() == pytest.approx(means, rel=1e-5)


@pytest.mark.parametrize("executor", [Serial(), Processes(workers=2)], ids=["serial", "processes"])
def test_predictors_that_are_no_single_row(executor: Executor) -> None:
    work = workload()
    x, y = work.shards.x, work.shards.y
    models = rows_of(work)[:2] + torch.tensor([[0.0], [0.3]])
    weights = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5], [0.2, 0.8]])
    prototypes = torch.randn(3, 8, generator=torch.Generator().manual_seed(0))
    nets = [module().requires_grad_(False) for _ in range(2)]
    for net, row in zip(nets, models, strict=True):
        Layout(net).bind(net, row.clone(), torch.zeros_like(row))
    executor.open(work)
    try:
        accuracy, loss = executor.judge(Mixture(models, weights), "test")
        own_accuracy, _ = executor.judge(Mixture(models, weights), "train", own=True)
        nearest, _ = executor.judge(NearestPrototype(rows_of(work), prototypes), "test")
        plain = executor.judge(models, "test")
    finally:
        executor.close()
    assert accuracy[:2].tolist() == plain[0].tolist() and loss[:2].tolist() == pytest.approx(plain[1].tolist(), rel=1e-5)
    mixed = 0.5 * nets[0](x).softmax(1) + 0.5 * nets[1](x).softmax(1)
    assert float(accuracy[2]) == pytest.approx(float((mixed.argmax(1) == y).double().mean()))
    assert float(loss[2]) == pytest.approx(float(F.nll_loss(mixed.log(), y)), rel=1e-5)
    part = slice(42, 106)  # client 2
    assert float(own_accuracy[2]) == pytest.approx(float((mixed[part].argmax(1) == y[part]).double().mean()))
    features = torch.relu(nets[0][0](x))
    wanted = (torch.cdist(features, prototypes).argmin(1) == y).double().mean()
    assert float(nearest[0]) == pytest.approx(float(wanted))


@pytest.mark.parametrize("executor", [Serial(), Processes(workers=2)])
def test_pairs_of_models_and_clients_come_back_in_their_order(executor: Executor) -> None:
    """More models than the shared block has rows, in a mixed order."""
    work = workload()
    rows = Layout(work.module).flatten(work.module) + torch.arange(9)[:, None] * 0.1
    work.judged["own"] = Judged(work.shards.x, work.shards.y, clients=work.shards.bounds)
    pairs: list[Pair] = [(8, 1), (0, 0), (5, 2), (8, 0), (1, None), (0, 2)]
    trainer = Supervised(work)
    wanted = [trainer.judge(rows[row], "own", 0, client) for row, client in pairs]
    executor.open(work)
    try:
        assert executor.judge_pairs(rows, pairs, "own", 0) == wanted
        some = executor.scores(rows[:2], "own", 0, [2, 0])
        whole = executor.scores(rows[:2], "own", 0)
        bounds = work.shards.bounds
        order = [*range(bounds[2], bounds[3]), *range(bounds[0], bounds[1])]
        for part, everything in zip(some, whole, strict=True):
            torch.testing.assert_close(part, everything[:, order])
    finally:
        executor.close()


def test_weights_of_samples_by_hand() -> None:
    """Weights of 1 change nothing; weights of 2 are twice the rate."""
    work = workload(optimizer="sgd")
    start = Layout(work.module).flatten(work.module)[None]
    count = work.shards.count(1)
    moved = []
    for weights, lr in ((None, 0.2), (np.ones(count, np.float32), 0.2), (np.full(count, 2, np.float32), 0.1)):
        update = torch.zeros_like(start[0])
        Supervised(work).train(Job(1, 0, LocalTask(lr=lr, epochs=2, weights=weights)), start, 0, update)
        moved.append(update)
    torch.testing.assert_close(moved[1], moved[0])
    torch.testing.assert_close(moved[2], moved[0])


def test_prototypes_draw_features_and_features_are_reported() -> None:
    """One step by hand: CE + λ·mean (features − C_y)², a class without a prototype adds nothing."""
    work = workload(optimizer="sgd")
    layout, module = Layout(work.module), work.module
    start = layout.flatten(module)[None]
    outputs, features = layout.shapes[f"{layout.linear[-1]}.weight"]
    aims = np.random.default_rng(0).standard_normal((outputs, features)).astype(np.float32)
    aims[0] = np.nan
    update, x, y = torch.zeros_like(start[0]), *work.shards.of(1)
    task = LocalTask(lr=0.1, prototypes=aims, attraction=0.7, features=True)
    report = Supervised(work).train(Job(1, 0, task), start, 0, update)
    seen: list[torch.Tensor] = []
    module.get_submodule(layout.linear[-1]).register_forward_pre_hook(lambda m, inputs: seen.append(inputs[0]))
    layout.bind(module, start[0].clone(), torch.zeros_like(start[0]))
    loss = torch.nn.functional.cross_entropy(module(x), y)
    gap = torch.where(y[:, None] > 0, seen[0] - torch.from_numpy(aims)[y].nan_to_num(), torch.zeros(()))
    loss = loss + 0.7 * (gap**2).mean()
    gradient = torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(module.parameters()))])
    torch.testing.assert_close(update, -0.1 * gradient, rtol=1e-4, atol=1e-6)
    assert report.feature_counts.tolist() == np.bincount(y, minlength=outputs).tolist()
    wanted = torch.zeros(outputs, features).index_add_(0, y, seen[0].detach())
    np.testing.assert_allclose(report.feature_sums, wanted, rtol=1e-4, atol=1e-5)


def test_learning_to_mix_by_hand() -> None:
    """One batch: ω = 1 − η·∇F∘(w − θ_i), at the common model; then the last layer is θ_i + ω∘(w − θ_i)."""
    work = workload(optimizer="sgd", batch_size=100)
    layout = Layout(work.module)
    common = layout.flatten(work.module)
    own = common + 0.3
    columns = (list(layout.columns.values())[-2].start, layout.dim)
    mixing = Mixing(1, columns, np.ones(columns[1] - columns[0], np.float32), rate=2.0, share=1.0)
    trainer, update = Supervised(work), torch.zeros_like(common)
    task = LocalTask(lr=0.1, epochs=0, mixing=mixing)
    report = trainer.train(Job(1, 0, task), torch.stack([common, own]), 0, update)
    part = slice(*columns)
    slope = torch.zeros_like(common)
    work.judged["train"] = Judged(work.shards.x, work.shards.y, clients=work.shards.bounds)
    trainer.gradient(common, "train", 1, slope)
    slope /= work.shards.count(1)
    wanted = (1 - 2.0 * slope[part] * (common - own)[part]).clamp(0, 1)
    np.testing.assert_allclose(report.mixing_weights, wanted, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(update[part], (wanted - 1) * (common - own)[part], rtol=1e-3, atol=1e-6)
    assert not update[: columns[0]].any()
    again = trainer.train(Job(1, 0, task), torch.stack([common, common]), 0, update)
    assert again.mixing_weights is mixing.weights and not update.any()  # nothing to mix
