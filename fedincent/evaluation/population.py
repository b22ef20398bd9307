"""Clients that do not take part: what they reach alone, with a model they are given, and after tuning it."""

from __future__ import annotations

import copy
import dataclasses

import numpy as np
import torch

from fedincent.federation import Job, Judged, LocalTask, Shards, Streams
from fedincent.training import Executor, Workload


class Population:
    """Some clients' training and test samples, and an executor of their own."""

    def __init__(
        self, train: Shards, judged: dict[str, Judged], like: Workload, streams: Streams, executor: Executor
    ) -> None:
        """judged: their own tests, by the name "own", and what else they judge on; like: the workload of those who train."""
        self.train, self.judged, self.executor = train, judged, executor
        recipe = dataclasses.replace(like.recipe, carry=False)
        module = copy.deepcopy(like.module)
        work = dataclasses.replace(
            like, module=module, shards=train, judged=judged, recipe=recipe, streams=streams, memory=None
        )
        executor.open(work)

    def close(self) -> None:
        """Let the executor go."""
        self.executor.close()

    def judge(self, models: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Score and loss (N each, float64) of model i (N×D) on client i's own tests."""
        return self.executor.judge(models, "own", own=True)

    def by_client(self, models: torch.Tensor, data: str) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """Scores and losses of M×D models on each sample of a set, client by client (M×n_i each)."""
        counts = np.diff(self.judged[data].clients or [0]).tolist()
        score, loss = self.executor.scores(models, data)
        return list(score.split(counts, 1)), list(loss.split(counts, 1))

    def trained(self, models: torch.Tensor, task: LocalTask, round_index: int) -> torch.Tensor:
        """The models (N×D) after each client has worked on its own for a while."""
        jobs = [Job(client, client, task) for client in range(len(self.train.sizes))]
        updates, _ = self.executor.train(round_index, models, jobs, lambda: None)
        return updates + models
