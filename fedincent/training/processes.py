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

MODELS, COPIES, UPDATES = "models", "copies", "updates"  # shared blocks: a mechanism's own, copied rows, what was found
COPIED = 64 * 2**20  # bytes of models that are copied at once to be judged


@dataclass(frozen=True)
class Errand:
    """Something for a worker to do: a method of its trainer, and what it is called with."""

    kind: str  # train, judge, scores, outputs or gradient
    place: int  # the row of the shared blocks that it reads or writes
    details: tuple[Any, ...]
    block: str  # the shared block that holds the models

    def __str__(self) -> str:
        if self.kind == "train":
            return f"training client {self.details[0].client} in round {self.details[1] + 1}"
        return f"judging model {self.place}"

    def carry_out(self, trainer: Trainer, blocks: dict[str, torch.Tensor]) -> Any:
        """Do it; blocks: models (P×D), to train from or to judge, and updates (J×D), for what is as long as a row."""
        models = blocks[self.block]
        if self.kind == "train":
            job, round_index = self.details
            return trainer.train(job, models, round_index, blocks[UPDATES][self.place])
        if self.kind == "gradient":
            data, client = self.details
            return trainer.gradient(models[0], data, client, blocks[UPDATES][self.place])
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
        self.blocks: dict[str, torch.Tensor] = {}
        count = min(self.workers or cores(), n)
        self.at_work = torch.zeros(count, dtype=torch.int64).share_memory_()  # the errand that each worker is at
        context = torch.multiprocessing.get_context("spawn")
        self.team = []
        with hidden_main():
            for rank in range(count):
                ours, theirs = context.Pipe()
                process = context.Process(target=serve, args=(rank, theirs, work, self.at_work), daemon=True)
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

    def share(self, models: torch.Tensor) -> None:
        models.share_memory_()

    def tell(self, name: str, block: torch.Tensor) -> None:
        """Let the workers know a shared block by a name, unless they do."""
        known = self.blocks.get(name)
        if known is not None and known.data_ptr() == block.data_ptr() and known.shape == block.shape:
            return
        self.blocks[name] = block
        for _, pipe in self.team:
            with suppress(ConnectionError):  # a dead worker is reported when its answer is awaited
                pipe.send((name, block))

    def room(self, name: str, rows: int) -> torch.Tensor:
        """A shared block of so many rows at least, known to all workers."""
        block = self.blocks.get(name)
        if block is None or len(block) < rows:
            self.tell(name, torch.empty(rows, self.dim).share_memory_())
        return self.blocks[name]

    def known(self, models: torch.Tensor) -> bool:
        """Whether workers can read models where they are; if so, they know them from now on."""
        if not (models.is_shared() and models.is_contiguous() and models.dtype == torch.float32):
            return False
        self.tell(MODELS, models)
        return True

    def train_jobs(
        self, round_index: int, pool: torch.Tensor, jobs: Sequence[Job], tick: Tick
    ) -> tuple[torch.Tensor, list[Report]]:
        name = MODELS if self.known(pool) else COPIES
        if name == COPIES:
            self.room(COPIES, len(pool))[: len(pool)].copy_(pool)
        updates = self.room(UPDATES, len(jobs))
        sizes = [self.work.shards.count(job.client, round_index) for job in jobs]
        longest_first = sorted(range(len(jobs)), key=lambda place: (-sizes[place], place))
        errands = [Errand("train", place, (jobs[place], round_index), name) for place in longest_first]
        answers = self.spread(errands, [sizes[place] for place in longest_first], tick)
        reports = dict(zip(longest_first, answers, strict=True))
        return updates[: len(jobs)], [reports[place] for place in range(len(jobs))]

    def ask(self, kind: str, models: torch.Tensor, pairs: list[Pair], details: Callable[[int | None], tuple]) -> list[Any]:
        """Something about some rows of models, each for the whole of a judged set or for somebody's part."""
        if self.known(models):
            errands = [Errand(kind, row, details(client), MODELS) for row, client in pairs]
            return self.spread(errands, [1] * len(errands), lambda: None)
        answers: list[Any] = [None] * len(pairs)
        rows = list(dict.fromkeys(row for row, _ in pairs))
        at_once = max(2 * len(self.team), COPIED // (4 * self.dim))
        for start in range(0, len(rows), at_once):
            piece = {row: place for place, row in enumerate(rows[start : start + at_once])}
            block = self.room(COPIES, len(piece))
            for row, place in piece.items():
                block[place].copy_(models[row])
            places = [place for place, (row, _) in enumerate(pairs) if row in piece]
            errands = [Errand(kind, piece[pairs[place][0]], details(pairs[place][1]), COPIES) for place in places]
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
        self.room(COPIES, 1)[0].copy_(model)
        updates = self.room(UPDATES, len(clients))
        errands = [Errand("gradient", place, (data, client), COPIES) for place, client in enumerate(clients)]
        self.spread(errands, [1] * len(errands), lambda: None)
        return updates[: len(clients)].clone()

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


def serve(rank: int, pipe: Connection, work: Workload, at_work: torch.Tensor) -> None:
    """A worker's life: take some errands, do them, answer (stack trace, results); end when the pipe is closed."""
    torch.set_num_threads(1)
    trainer: Trainer | None = None
    blocks: dict[str, torch.Tensor] = {}
    while True:
        try:
            first, errands = pipe.recv()
        except (EOFError, ConnectionError, KeyboardInterrupt):
            return
        if isinstance(first, str):  # a block that is new, or larger than before
            blocks[first] = errands
            continue
        answers: list[Any] = []
        try:
            trainer = trainer or work.make_trainer(work)
            for place, errand in enumerate(errands, first):
                at_work[rank] = place
                answers.append(as_plain(errand.carry_out(trainer, blocks)))
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
