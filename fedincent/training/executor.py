"""What an executor is: it carries out many clients' local training, and the judging of many models."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fedincent.config import Component
from fedincent.federation import LocalTask
from fedincent.training.loop import Report, Workload

Tick = Callable[[], None]  # called whenever one more client is done


@dataclass(kw_only=True)
class Executor(Component):
    """Base of all executors: opened with a workload, closed at the end, the same results from each of a numerics class."""

    group: ClassVar[str] = "executor"

    numerics: ClassVar[str] = "exact"  # executors of one class agree bit for bit on one machine
    devices: ClassVar[tuple[str, ...]] = ("cpu",)

    def open(self, work: Workload) -> None:
        """Get ready. Every CPU executor computes with one intra-op thread, so that sums come out the same."""
        self.work = work
        self.threads = torch.get_num_threads()
        torch.set_num_threads(1)

    def close(self) -> None:
        """Let go of everything that `open` took."""
        torch.set_num_threads(self.threads)

    @property
    def parallel(self) -> int:
        """How many cores the executor keeps busy; a mechanism's large products may use as many."""
        return 1

    def train(
        self, round_index: int, incoming: Tensor, tasks: Mapping[int, LocalTask], tick: Tick
    ) -> tuple[Tensor, dict[int, Report]]:
        """Train the clients that have a task, each from its row of incoming (N×D).

        Gives the updates G (N×D, zero rows for the others; valid until the next call) and a report per trained client.
        """
        raise NotImplementedError

    def judge(self, models: Tensor, data: str) -> tuple[Tensor, Tensor]:
        """Accuracy and loss (M each, float64) of M×D models on the "test" or "held_out" set; equal rows are judged once."""
        first, place = distinct_rows(models)
        scores = torch.tensor(self.judge_rows(models, first, data), dtype=torch.float64).view(-1, 2)[place]
        return scores[:, 0], scores[:, 1]

    def judge_rows(self, models: Tensor, rows: list[int], data: str) -> list[tuple[float, float]]:
        """Accuracy and loss of some rows of models (M×D)."""
        raise NotImplementedError


def distinct_rows(models: Tensor) -> tuple[list[int], list[int]]:
    """The first row of each kind, and for each row (M) which kind it is."""
    if models.stride(0) == 0:
        return [0], [0] * len(models)
    kinds: dict[bytes, int] = {}
    first: list[int] = []
    place = []
    for i, row in enumerate(models):
        digest = hashlib.blake2b(row.contiguous().cpu().numpy()).digest()
        if digest not in kinds:
            kinds[digest] = len(first)
            first.append(i)
        place.append(kinds[digest])
    return first, place
