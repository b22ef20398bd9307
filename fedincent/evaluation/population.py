"""Clients that do not take part: what they reach alone, with a model they are given, and after tuning it."""

from __future__ import annotations

import copy
import dataclasses

import numpy as np
import torch

from fedincent.federation import Job, Judged, LocalTask, Shards, Streams
from fedincent.training import Workload


class Population:
    """Some clients' training and test samples, and one trainer for all of them, on a module of its own."""

    def __init__(self, train: Shards, judged: dict[str, Judged], like: Workload, streams: Streams) -> None:
        """judged: their own tests, by the name "own", and what else they judge on; like: the workload of those who train."""
        self.train, self.judged = train, judged
        work = dataclasses.replace(
            like, module=copy.deepcopy(like.module), shards=train, judged=judged, streams=streams, memory=None
        )
        self.trainer = work.make_trainer(work)

    def judge(self, models: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Score and loss (N each, float64) of model i (N×D) on client i's own tests."""
        scores = [self.trainer.judge(model, "own", client=client) for client, model in enumerate(models)]
        score, loss = torch.tensor(scores, dtype=torch.float64).T
        return score, loss

    def by_client(self, models: torch.Tensor, data: str) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """Scores and losses of M×D models on each sample of a set, client by client (M×n_i each)."""
        counts = np.diff(self.judged[data].clients or [0]).tolist()
        score, loss = (
            torch.stack(found) for found in zip(*(self.trainer.scores(model, data) for model in models), strict=True)
        )
        return list(score.split(counts, 1)), list(loss.split(counts, 1))

    def trained(self, models: torch.Tensor, task: LocalTask, round_index: int) -> torch.Tensor:
        """The models (N×D) after each client has worked on its own for a while."""
        updates = torch.zeros_like(models)  # of N rows, even where the models are one row seen N times
        for client in range(len(self.train.sizes)):
            self.trainer.train(Job(client, client, task), models, round_index, updates[client])
        return updates.add_(models)
