"""Clients with tests of their own: what they reach alone, with a model they are given, and after tuning it."""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from fedincent.federation import LocalTask, Recipe, Shards, Streams
from fedincent.training.loop import Trainer, Workload


class Population:
    """Some clients' training and test samples, and one trainer for all of them, on a module of its own."""

    def __init__(self, train: Shards, test: Shards | None, module: nn.Module, recipe: Recipe, streams: Streams) -> None:
        self.train, self.test = train, test
        self.trainer = Trainer(Workload(copy.deepcopy(module), train, {}, recipe, streams))

    def judge(self, models: Tensor, data: str) -> tuple[Tensor, Tensor]:
        """Accuracy and loss (N each, float64) of model i (N×D) on client i's own "train" or "test" samples."""
        shards = self.train if data == "train" else self.test
        assert shards is not None
        scores = []
        for client, model in enumerate(models):
            self.trainer.row.copy_(model)
            scores.append(self.trainer.judge_bound(*shards.of(client)))
        accuracy, loss = torch.tensor(scores, dtype=torch.float64).T
        return accuracy, loss

    def trained(self, models: Tensor, task: LocalTask, round_index: int) -> Tensor:
        """The models (N×D) after each client has worked on its own for a while."""
        updates = torch.zeros_like(models)  # of N rows, even where the models are one row seen N times
        for client in range(len(self.train.sizes)):
            self.trainer.train(client, models[client], task, round_index, updates[client])
        return updates.add_(models)


def split_off(shares: Sequence[np.ndarray], fraction: float, streams: Streams) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """Each client's sample indices as a part to train on and a part to test on, at least one of each."""
    train, test = [], []
    for client, share in enumerate(shares):
        order = streams("own test", client=client).permutation(share)
        count = min(max(1, round(fraction * len(order))), len(order) - 1)
        test.append(order[:count])
        train.append(order[count:])
    return train, test
