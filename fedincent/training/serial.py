"""One job after the other in this process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch

from fedincent.federation import Job, Report
from fedincent.training.executor import Executor, Pair, Tick
from fedincent.training.trainer import Workload


@dataclass(kw_only=True)
class Serial(Executor):
    """One client after the other, on one core."""

    devices: ClassVar[tuple[str, ...]] = ("cpu", "cuda")

    def open(self, work: Workload) -> None:
        super().open(work)
        self.trainer = work.make_trainer(work)
        self.updates = self.trainer.row.new_zeros(len(work.shards.sizes), self.trainer.layout.dim)

    def train_jobs(
        self, round_index: int, pool: torch.Tensor, jobs: Sequence[Job], tick: Tick
    ) -> tuple[torch.Tensor, list[Report]]:
        if len(jobs) > len(self.updates):
            self.updates = self.updates.new_zeros(len(jobs), self.updates.shape[1])
        reports = []
        for job, update in zip(jobs, self.updates, strict=False):
            reports.append(self.trainer.train(job, pool, round_index, update))
            tick()
        return self.updates[: len(jobs)], reports

    def judge_pairs(self, models: torch.Tensor, pairs: list[Pair], data: str, round_index: int) -> list[tuple[float, float]]:
        return [self.trainer.judge(models[row], data, round_index, client) for row, client in pairs]

    def scores(
        self, models: torch.Tensor, data: str, round_index: int = 0, clients: Sequence[int] | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        each = [self.trainer.scores(model, data, round_index, clients) for model in models]
        return torch.stack([score for score, _ in each]), torch.stack([loss for _, loss in each])

    def gradients(self, model: torch.Tensor, data: str, clients: Sequence[int]) -> torch.Tensor:
        rows = model.new_zeros(len(clients), len(model))
        for client, row in zip(clients, rows, strict=True):
            self.trainer.gradient(model, data, client, row)
        return rows

    def outputs(
        self, models: torch.Tensor, pairs: list[Pair], data: str, round_index: int, features: bool
    ) -> list[torch.Tensor]:
        return [self.trainer.outputs(models[row], data, round_index, client, features) for row, client in pairs]
