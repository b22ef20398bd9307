"""Clients spread over worker processes that share Θ, G and the data through shared memory."""

from __future__ import annotations

import os
import sys
import traceback
import types
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

import torch
import torch.multiprocessing
from torch import Tensor

from fedincent.config import option
from fedincent.errors import WorkerError
from fedincent.federation import Layout, LocalTask
from fedincent.training.executor import Executor, Tick
from fedincent.training.loop import Report, Trainer, Workload

Job = tuple[str, int, Any, int]  # train or judge, which client or row, the task or the data, the round


@dataclass(kw_only=True)
class Processes(Executor):
    """One process per core, each training one client at a time, the largest first."""

    workers: int | None = option("worker processes; null: one per core", low=1, identity=False)

    def open(self, work: Workload) -> None:
        super().open(work)
        n = len(work.shards.sizes)
        dim = Layout(work.module).dim
        self.incoming = torch.zeros(n, dim).share_memory_()  # Θ as the workers see it, and models to be judged
        self.updates = torch.zeros(n, dim).share_memory_()
        count = min(self.workers or cores(), n)
        self.at_work = torch.zeros(count, dtype=torch.int64).share_memory_()  # the job that each worker is at
        context = torch.multiprocessing.get_context("spawn")
        self.team = []
        with hidden_main():
            for rank in range(count):
                ours, theirs = context.Pipe()
                shared = (work, self.incoming, self.updates, self.at_work)
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

    def train(
        self, round_index: int, incoming: Tensor, tasks: Mapping[int, LocalTask], tick: Tick
    ) -> tuple[Tensor, dict[int, Report]]:
        self.incoming.copy_(incoming)
        absent = [i for i in range(len(self.updates)) if i not in tasks]
        self.updates[absent] = 0
        sizes = self.work.shards.sizes
        longest_first = sorted(tasks, key=lambda client: (-sizes[client], client))
        jobs: list[Job] = [("train", client, tasks[client], round_index) for client in longest_first]
        answers = self.spread(jobs, [sizes[client] for client in longest_first], tick)
        return self.updates, {job[1]: answer for job, answer in zip(jobs, answers, strict=True)}

    def judge_rows(self, models: Tensor, rows: list[int], data: str) -> list[tuple[float, float]]:
        scores = []
        for start in range(0, len(rows), len(self.incoming)):
            piece = rows[start : start + len(self.incoming)]
            for place, row in enumerate(piece):
                self.incoming[place].copy_(models[row])
            jobs: list[Job] = [("judge", place, data, 0) for place in range(len(piece))]
            scores += self.spread(jobs, [1] * len(jobs), lambda: None)
        return scores

    def spread(self, jobs: list[Job], weights: list[int], tick: Tick) -> list[Any]:
        """Hand the jobs out in order, a few at a time, to whoever is free; their answers in the same order.

        weights: how much work each job is, the heaviest first.
        """
        answers: list[Any] = [None] * len(jobs)
        given = 0
        busy: dict[Connection, tuple[int, int]] = {}  # a worker's pipe, and which jobs it has: from, to
        ranks = {pipe: rank for rank, (_, pipe) in enumerate(self.team)}

        def hand_out(pipe: Connection) -> None:
            nonlocal given
            if given < len(jobs):
                stop = given + portion(weights, given, len(self.team))
                busy[pipe] = (given, stop)
                self.at_work[ranks[pipe]] = given
                with suppress(ConnectionError):  # a dead worker is reported, with its job, when its answer is awaited
                    pipe.send((given, jobs[given:stop]))
                given = stop

        for _, pipe in self.team:
            hand_out(pipe)
        while busy:
            ready = wait([*busy, *(self.team[ranks[pipe]][0].sentinel for pipe in busy)])
            for pipe in [p for p in busy if p in ready or self.team[ranks[p]][0].sentinel in ready]:
                start, stop = busy.pop(pipe)
                failure, answers[start:stop] = self.receive(pipe, ranks[pipe], stop - start)
                if failure:
                    job = jobs[int(self.at_work[ranks[pipe]])]
                    raise WorkerError(f"a worker process {failure[0]} while {what(job)}{failure[1]}")
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
    """How many of the jobs left to hand out at once: a quarter of a worker's fair share of the work, at least one."""
    enough = sum(weights[given:]) / (4 * workers)
    count, work = 1, weights[given]
    while given + count < len(weights) and work + weights[given + count] <= enough:
        work += weights[given + count]
        count += 1
    return count


def what(job: Job) -> str:
    """A job in words."""
    kind, number, _, round_index = job
    return f"training client {number} in round {round_index + 1}" if kind == "train" else f"judging model {number}"


def serve(rank: int, pipe: Connection, work: Workload, incoming: Tensor, updates: Tensor, at_work: Tensor) -> None:
    """A worker's life: take some jobs, do them, answer (stack trace, results); end when the pipe is closed."""
    torch.set_num_threads(1)
    trainer: Trainer | None = None
    while True:
        try:
            first, jobs = pipe.recv()
        except (EOFError, ConnectionError, KeyboardInterrupt):
            return
        answers: list[Any] = []
        try:
            trainer = trainer or Trainer(work)
            for place, (kind, number, detail, round_index) in enumerate(jobs, first):
                at_work[rank] = place
                if kind == "train":
                    answers.append(trainer.train(number, incoming[number], detail, round_index, updates[number]))
                else:
                    answers.append(trainer.judge(incoming[number], detail))
            pipe.send(("", answers))
        except (KeyboardInterrupt, BrokenPipeError):
            return
        except Exception:
            pipe.send((traceback.format_exc(), [None] * len(jobs)))


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
