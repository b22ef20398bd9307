"""Clients spread over worker processes that share Θ, G and the data through shared memory."""

from __future__ import annotations

import os
import sys
import traceback
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

import torch

from fedincent.config import option
from fedincent.errors import WorkerError
from fedincent.federation import Job, Layout, Report
from fedincent.training.executor import Executor, Pair, Tick
from fedincent.training.trainer import Trainer, Workload


@dataclass(frozen=True)
class Errand:
    """Something for a worker to do: a method of its trainer, and what it is called with."""

    kind: str  # train, judge, scores, outputs or gradient
    place: int  # the row of the shared blocks that it reads or writes
    details: tuple[Any, ...]

    def __str__(self) -> str:
        if self.kind == "train":
            return f"training client {self.details[0].client} in round {self.details[1] + 1}"
        return f"judging model {self.place}"

    def carry_out(self, trainer: Trainer, models: torch.Tensor, updates: torch.Tensor) -> Any:
        """Do it; models: P×D, to train from or to judge; updates: J×D, for what is as long as a row."""
        if self.kind == "train":
            job, round_index = self.details
            return trainer.train(job, models, round_index, updates[self.place])
        if self.kind == "gradient":
            data, client = self.details
            return trainer.gradient(models[0], data, client, updates[self.place])
        method: Callable[..., Any] = getattr(trainer, self.kind)
        return method(models[self.place], *self.details)


@dataclass(kw_only=True)
class Processes(Executor):
    """One process per core, each training one client at a time, the largest first."""

    workers: int | None = option("worker processes; null: one per core", low=1, identity=False)

    def open(self, work: Workload) -> None:
        super().open(work)
        n, self.dim = len(work.shards.sizes), Layout(work.module).dim
        if work.memory is not None:
            work.memory.state.share_memory_()
            work.memory.steps.share_memory_()
        self.models = torch.zeros(n, self.dim).share_memory_()  # as the workers see them: the pool, or models to be judged
        self.updates = torch.zeros(n, self.dim).share_memory_()
        count = min(self.workers or cores(), n)
        self.at_work = torch.zeros(count, dtype=torch.int64).share_memory_()  # the errand that each worker is at
        context = torch.multiprocessing.get_context("spawn")
        self.team = []
        with hidden_main():
            for rank in range(count):
                ours, theirs = context.Pipe()
                shared = (work, self.models, self.updates, self.at_work)
                process = context.Process(target=serve, args=(rank, theirs, *shared), daemon=True)
                process.start()
                theirs.close()
                self.team.append((process, ours))

    @property
    def parallel(self) -> int:
        return len(self.team)

    def close(self) -> None:
        for process, pipe in self.team:
            pipe.close()  # a worker that finds its pipe closed ends by itself
            process.join(timeout=5)
            if process.is_alive():
                process.kill()
        super().close()

    def make_room(self, models: int, updates: int) -> None:
        """Blocks of so many rows at least, known to all workers."""
        if models <= len(self.models) and updates <= len(self.updates):
            return
        self.models = torch.zeros(max(models, len(self.models)), self.dim).share_memory_()
        self.updates = torch.zeros(max(updates, len(self.updates)), self.dim).share_memory_()
        for _, pipe in self.team:
            with suppress(ConnectionError):  # a dead worker is reported when its answer is awaited
                pipe.send((self.models, self.updates))

    def train_jobs(
        self, round_index: int, pool: torch.Tensor, jobs: Sequence[Job], tick: Tick
    ) -> tuple[torch.Tensor, list[Report]]:
        self.make_room(len(pool), len(jobs))
        self.models[: len(pool)].copy_(pool)
        sizes = [self.work.shards.count(job.client, round_index) for job in jobs]
        longest_first = sorted(range(len(jobs)), key=lambda place: (-sizes[place], place))
        errands = [Errand("train", place, (jobs[place], round_index)) for place in longest_first]
        answers = self.spread(errands, [sizes[place] for place in longest_first], tick)
        reports = dict(zip(longest_first, answers, strict=True))
        return self.updates[: len(jobs)], [reports[place] for place in range(len(jobs))]

    def ask(self, kind: str, models: torch.Tensor, pairs: list[Pair], details: Callable[[int | None], tuple]) -> list[Any]:
        """Something about some rows of models, each for the whole of a judged set or for somebody's part."""
        answers: list[Any] = [None] * len(pairs)
        rows = list(dict.fromkeys(row for row, _ in pairs))
        for start in range(0, len(rows), len(self.models)):
            piece = {row: place for place, row in enumerate(rows[start : start + len(self.models)])}
            for row, place in piece.items():
                self.models[place].copy_(models[row])
            places = [place for place, (row, _) in enumerate(pairs) if row in piece]
            errands = [Errand(kind, piece[pairs[place][0]], details(pairs[place][1])) for place in places]
            for place, answer in zip(places, self.spread(errands, [1] * len(errands), lambda: None), strict=True):
                answers[place] = answer
        return answers

    def judge_pairs(self, models: torch.Tensor, pairs: list[Pair], data: str, round_index: int) -> list[tuple[float, float]]:
        return self.ask("judge", models, pairs, lambda client: (data, round_index, client))

    def scores(
        self, models: torch.Tensor, data: str, round_index: int = 0, clients: Sequence[int] | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        pairs: list[Pair] = [(row, None) for row in range(len(models))]
        each = self.ask("scores", models, pairs, lambda _: (data, round_index, clients))
        scores, losses = (torch.stack([torch.from_numpy(answer[k]) for answer in each]) for k in (0, 1))
        return scores, losses

    def outputs(
        self, models: torch.Tensor, pairs: list[Pair], data: str, round_index: int, features: bool
    ) -> list[torch.Tensor]:
        found = self.ask("outputs", models, pairs, lambda client: (data, round_index, client, features))
        return [torch.from_numpy(outputs) for outputs in found]

    def gradients(self, model: torch.Tensor, data: str, clients: Sequence[int]) -> torch.Tensor:
        self.make_room(1, len(clients))
        self.models[0].copy_(model)
        errands = [Errand("gradient", place, (data, client)) for place, client in enumerate(clients)]
        self.spread(errands, [1] * len(errands), lambda: None)
        return self.updates[: len(clients)].clone()

    def spread(self, errands: list[Errand], weights: list[int], tick: Tick) -> list[Any]:
        """Hand the errands out in order, a few at a time, to whoever is free; their answers in the same order.

        weights: how much work each is, the heaviest first.
        """
        answers: list[Any] = [None] * len(errands)
        given = 0
        busy: dict[Connection, tuple[int, int]] = {}  # a worker's pipe, and which it has: from, to
        ranks = {pipe: rank for rank, (_, pipe) in enumerate(self.team)}

        def hand_out(pipe: Connection) -> None:
            nonlocal given
            if given < len(errands):
                stop = given + portion(weights, given, len(self.team))
                busy[pipe] = (given, stop)
                self.at_work[ranks[pipe]] = given
                with suppress(ConnectionError):  # a dead worker is reported, with its errand, when its answer is awaited
                    pipe.send((given, errands[given:stop]))
                given = stop

        for _, pipe in self.team:
            hand_out(pipe)
        while busy:
            ready = wait([*busy, *(self.team[ranks[pipe]][0].sentinel for pipe in busy)])
            for pipe in [p for p in busy if p in ready or self.team[ranks[p]][0].sentinel in ready]:
                start, stop = busy.pop(pipe)
                failure, answers[start:stop] = self.receive(pipe, ranks[pipe], stop - start)
                if failure:
                    errand = errands[int(self.at_work[ranks[pipe]])]
                    raise WorkerError(f"a worker process {failure[0]} while {errand}{failure[1]}")
                for _ in range(start, stop):
                    tick()
                hand_out(pipe)
        return answers

    def receive(self, pipe: Connection, rank: int, count: int) -> tuple[tuple[str, str] | None, list[Any]]:
        """A worker's answers, or what became of it."""
        try:
            trace, answers = pipe.recv()
        except (EOFError, ConnectionError):
            process = self.team[rank][0]
            process.join(timeout=5)
            return (f"died (exit code {process.exitcode})", ""), [None] * count
        return (("failed", f":\n{trace}") if trace else None), answers


def portion(weights: list[int], given: int, workers: int) -> int:
    """How many of the errands left to hand out at once: a quarter of a worker's fair share of the work, at least one."""
    enough = sum(weights[given:]) / (4 * workers)
    count, work = 1, weights[given]
    while given + count < len(weights) and work + weights[given + count] <= enough:
        work += weights[given + count]
        count += 1
    return count


def serve(
    rank: int, pipe: Connection, work: Workload, models: torch.Tensor, updates: torch.Tensor, at_work: torch.Tensor
) -> None:
    """A worker's life: take some errands, do them, answer (stack trace, results); end when the pipe is closed."""
    torch.set_num_threads(1)
    trainer: Trainer | None = None
    while True:
        try:
            first, errands = pipe.recv()
        except (EOFError, ConnectionError, KeyboardInterrupt):
            return
        if isinstance(first, torch.Tensor):  # larger blocks than before
            models, updates = first, errands
            continue
        answers: list[Any] = []
        try:
            trainer = trainer or work.make_trainer(work)
            for place, errand in enumerate(errands, first):
                at_work[rank] = place
                answers.append(as_plain(errand.carry_out(trainer, models, updates)))
            pipe.send(("", answers))
        except (KeyboardInterrupt, BrokenPipeError):
            return
        except Exception:
            pipe.send((traceback.format_exc(), [None] * len(errands)))


def as_plain(answer: Any) -> Any:
    """An answer that can be sent: tensors as NumPy arrays, which need no shared memory of their own."""
    if isinstance(answer, tuple):
        return tuple(as_plain(part) for part in answer)
    return answer.numpy() if isinstance(answer, torch.Tensor) else answer


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def hidden_main() -> Iterator[None]:
    """Keep new processes from importing the caller's script, which need not have an `if __name__ == "__main__"`."""
    main = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main
