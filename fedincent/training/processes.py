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

from fedincent.errors import WorkerError
from fedincent.federation import Layout, LocalTask
from fedincent.schema import option
from fedincent.training.executor import Executor, Tick
from fedincent.training.loop import Report, Trainer, Workload


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
        context = torch.multiprocessing.get_context("spawn")
        self.team = []
        with hidden_main():
            for _ in range(min(self.workers or cores(), n)):
                ours, theirs = context.Pipe()
                process = context.Process(target=serve, args=(theirs, work, self.incoming, self.updates), daemon=True)
                process.start()
                theirs.close()
                self.team.append((process, ours))

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
        jobs = [("train", client, tasks[client], round_index) for client in longest_first]
        answers = self.spread(jobs, tick)
        return self.updates, {job[1]: answer for job, answer in zip(jobs, answers, strict=True)}

    def judge_rows(self, models: Tensor, rows: list[int], data: str) -> list[tuple[float, float]]:
        scores = []
        for start in range(0, len(rows), len(self.incoming)):
            piece = rows[start : start + len(self.incoming)]
            for place, row in enumerate(piece):
                self.incoming[place].copy_(models[row])
            scores += self.spread([("judge", place, data, None) for place in range(len(piece))], lambda: None)
        return scores

    def spread(self, jobs: list[tuple[Any, ...]], tick: Tick) -> list[Any]:
        """Hand the jobs out in order to whoever is free; their answers in the same order."""
        answers: list[Any] = [None] * len(jobs)
        waiting = iter(enumerate(jobs))
        busy: dict[Connection, int] = {}
        process_of = {pipe: process for process, pipe in self.team}
        for _, pipe in self.team:
            self.hand_out(pipe, waiting, busy)
        while busy:
            ready = wait([*busy, *(process_of[pipe].sentinel for pipe in busy)])
            for pipe in [p for p in busy if p in ready or process_of[p].sentinel in ready]:
                number = busy.pop(pipe)
                try:
                    failed, answers[number] = pipe.recv()
                except (EOFError, ConnectionError) as error:
                    process_of[pipe].join(timeout=5)
                    code = process_of[pipe].exitcode
                    raise WorkerError(f"a worker process died (exit code {code}) while {what(jobs[number])}") from error
                if failed:
                    raise WorkerError(f"a worker process failed while {what(jobs[number])}:\n{answers[number]}")
                tick()
                self.hand_out(pipe, waiting, busy)
        return answers

    @staticmethod
    def hand_out(pipe: Connection, waiting: Iterator[tuple[int, tuple[Any, ...]]], busy: dict[Connection, int]) -> None:
        """Give a free worker the next job, if there is one."""
        following = next(waiting, None)
        if following is not None:
            busy[pipe] = following[0]
            with suppress(ConnectionError):  # a dead worker is reported, with its job, when its answer is awaited
                pipe.send(following[1])


def what(job: tuple[Any, ...]) -> str:
    """A job in words."""
    kind, number, _, round_index = job
    return f"training client {number} in round {round_index + 1}" if kind == "train" else f"judging model {number}"


def serve(pipe: Connection, work: Workload, incoming: Tensor, updates: Tensor) -> None:
    """A worker's life: take a job, do it, answer (failed, result); end when the pipe is closed."""
    torch.set_num_threads(1)
    trainer = Trainer(work)
    while True:
        try:
            kind, number, detail, round_index = pipe.recv()
        except (EOFError, ConnectionError, KeyboardInterrupt):
            return
        try:
            if kind == "train":
                answer: Any = trainer.train(number, incoming[number], detail, round_index, updates[number])
            else:
                answer = trainer.judge(incoming[number], detail)
            pipe.send((False, answer))
        except KeyboardInterrupt:
            return
        except Exception:
            pipe.send((True, traceback.format_exc()))


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
