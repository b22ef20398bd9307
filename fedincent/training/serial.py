"""One client after the other in this process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from fedincent.federation import LocalTask
from fedincent.training.executor import Executor, Tick
from fedincent.training.loop import Report, Trainer, Workload


@dataclass(kw_only=True)
class Serial(Executor):
    """One client after the other, on one core."""

    devices: ClassVar[tuple[str, ...]] = ("cpu", "cuda")

    def open(self, work: Workload) -> None:
        super().open(work)
        self.trainer = Trainer(work)
        self.updates = self.trainer.row.new_zeros(len(work.shards.sizes), self.trainer.layout.dim)

    def train(
        self, round_index: int, incoming: Tensor, tasks: Mapping[int, LocalTask], tick: Tick
    ) -> tuple[Tensor, dict[int, Report]]:
        reports = {}
        for client in range(len(self.updates)):
            if client in tasks:
                row, update = incoming[client], self.updates[client]
                reports[client] = self.trainer.train(client, row, tasks[client], round_index, update)
                tick()
            else:
                self.updates[client] = 0
        return self.updates, reports

    def judge_rows(self, models: Tensor, rows: list[int], data: str) -> list[tuple[float, float]]:
        return [self.trainer.judge(models[i], data) for i in rows]
