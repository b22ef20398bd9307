"""Local training against torch's own optimizers, and executors against each other."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from fedincent.errors import WorkerError
from fedincent.federation import Layout, LocalTask, Recipe, Shards, Streams
from fedincent.training.augment import crop_and_flip
from fedincent.training.executor import Executor, distinct_rows
from fedincent.training.loop import Trainer, Workload, epoch_of
from fedincent.training.processes import Processes
from fedincent.training.serial import Serial

SIZES = [37, 5, 64, 20]


def recipe(**changes) -> Recipe:  # type: ignore[no-untyped-def]
    fields = {"optimizer": "adam", "lr": 0.01, "decay": 1.0, "batch_size": 16, "local_epochs": 1, "local_steps": 0}
    fields |= {"augment": "none"}
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
    return Workload(model or module(), shards, {"test": (x, y)}, recipe(**changes), Streams(5))


def rows_of(work: Workload) -> torch.Tensor:
    return Layout(work.module).flatten(work.module).repeat(len(SIZES), 1)


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_the_loop_is_the_textbook_loop(optimizer: str) -> None:
    work = workload(optimizer=optimizer)
    reference = copy.deepcopy(work.module)
    start = Layout(reference).flatten(reference)
    theirs = {"adam": torch.optim.Adam, "sgd": torch.optim.SGD}[optimizer](reference.parameters(), lr=0.01)
    for epoch in range(2):
        x, y = epoch_of(work.shards, 0, work.recipe, work.streams, 3, epoch)
        for xb, yb in zip(x.split(16), y.split(16), strict=True):
            theirs.zero_grad()
            F.cross_entropy(reference(xb), yb).backward()
            theirs.step()
    update = torch.empty_like(start)
    Trainer(work).train(0, start, LocalTask(lr=0.01, epochs=2), 3, update)
    torch.testing.assert_close(start + update, Layout(reference).flatten(reference), rtol=1e-4, atol=1e-6)


def test_an_epoch_sees_every_sample_once_and_its_order_changes() -> None:
    work = workload()
    _, own = work.shards.of(2)
    _, first = epoch_of(work.shards, 2, work.recipe, work.streams, 0, 0)
    _, second = epoch_of(work.shards, 2, work.recipe, work.streams, 1, 0)
    assert sorted(first.tolist()) == sorted(own.tolist()) == sorted(second.tolist())
    assert first.tolist() != second.tolist()


def test_tasks_in_steps_go_on_from_pass_to_pass() -> None:
    work = workload()
    trainer = Trainer(work)
    batches = list(trainer.batches(0, LocalTask(lr=0.1, steps=7), 0))  # 37 samples: 16, 16, 5 to a pass
    assert [len(y) for _, y in batches] == [16, 16, 5, 16, 16, 5, 16]
    assert len(list(trainer.batches(0, LocalTask(lr=0.1, steps=0), 0))) == 0
    assert [len(y) for _, y in trainer.batches(1, LocalTask(lr=0.1, epochs=2), 0)] == [5, 5]


def test_the_proximal_term_holds_the_model_back() -> None:
    work = workload(optimizer="sgd")
    trainer, start = Trainer(work), rows_of(workload())[0]
    updates = [torch.empty_like(start) for _ in range(2)]
    for update, mu in zip(updates, (0.0, 5.0), strict=True):
        trainer.train(0, start, LocalTask(lr=0.05, epochs=5, proximal=mu), 0, update)
    assert updates[1].norm() < 0.8 * updates[0].norm()


def test_frozen_columns_stay() -> None:
    work = workload()
    start, update = rows_of(work)[0].clone(), torch.empty(Layout(work.module).dim)
    Trainer(work).train(0, start, LocalTask(lr=0.05, frozen=((0, 10), (20, 22))), 0, update)
    assert update[:10].abs().max() == 0 and update[20:22].abs().max() == 0
    assert (update[10:20] != 0).any()


def test_the_loss_of_the_incoming_model_is_reported_when_asked_for() -> None:
    work = workload()
    start, update = rows_of(work)[0].clone(), torch.empty(Layout(work.module).dim)
    trainer = Trainer(work)
    asked = trainer.train(1, start, LocalTask(lr=0.05, incoming_loss=True), 0, update)
    x, y = work.shards.of(1)
    trainer.row.copy_(start)
    assert asked.incoming_loss == pytest.approx(F.cross_entropy(work.module(x), y).item(), rel=1e-5)
    assert np.isnan(trainer.train(1, start, LocalTask(lr=0.05), 0, update).incoming_loss)


def test_dropout_follows_the_streams() -> None:
    def train() -> torch.Tensor:
        torch.manual_seed(0)
        work = workload(nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.5), nn.Linear(8, 3)))
        start = rows_of(work)[0].clone()
        update = torch.empty_like(start)
        torch.rand(int(torch.randint(1, 9, ()).item()))  # whatever happened before
        Trainer(work).train(0, start, LocalTask(lr=0.05), 4, update)
        return update

    assert torch.equal(train(), train())


def test_redrawn_noise_differs_from_pass_to_pass() -> None:
    work = workload()
    work.shards.noise = [0.5] * 4
    x0, _ = epoch_of(work.shards, 2, work.recipe, work.streams, 0, 0)
    x1, _ = epoch_of(work.shards, 2, work.recipe, work.streams, 1, 0)
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
            tasks = {client: LocalTask(lr=0.01) for client in (0, 2, 3)}
            updates, reports = executor.train(index, models, tasks, lambda: None)
            assert set(reports) == {0, 2, 3} and updates[1].abs().sum() == 0
            models = models + updates
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
    x, y = work.judged["test"]
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
        tasks = {1: LocalTask(lr=0.01), 2: LocalTask(lr=0.01)}
        with pytest.raises(WorkerError, match="training client 1 in round 7") as caught:
            executor.train(6, rows_of(work), tasks, lambda: None)
        assert words in str(caught.value)
    finally:
        executor.close()
