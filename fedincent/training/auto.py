"""Picks the executor for the machine and the amount of work."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedincent.config import option
from fedincent.training.executor import Executor
from fedincent.training.processes import Processes, cores
from fedincent.training.serial import Serial
from fedincent.training.vectorized import Vectorized

WORTH_PROCESSES = 10_000  # training samples; below that, starting processes takes longer than they save


@dataclass(kw_only=True)
class Auto(Executor):
    """Vectorized on a GPU; else processes where there are several cores and enough data; else serial."""

    numerics: ClassVar[str] = "any"  # of the executor that it will choose

    workers: int | None = option("worker processes; null: one per core", low=1, identity=False)

    def choose(self, n_samples: int, device: str) -> Executor:
        """The executor for so many training samples on this machine."""
        if device != "cpu":
            return Vectorized(chunk=None)
        workers = self.workers or cores()
        if workers > 1 and n_samples >= WORTH_PROCESSES:
            return Processes(workers=workers)
        return Serial()
