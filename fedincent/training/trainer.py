"""What a trainer is: it trains a client from a row, and judges rows. Supervised learning is one (loop.py)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import torch

from fedincent.federation import Job, Judged, Layout, Recipe, Report, Shards, Streams
from fedincent.objectives import Objective
from fedincent.training.optimizers import Memory


class Trainer(Protocol):
    """Trains and judges one model at a time on one thread, on a module that lives on one row."""

    layout: Layout
    row: torch.Tensor

    def train(self, job: Job, pool: torch.Tensor, round_index: int, update: torch.Tensor) -> Report:
        """A client's work from its row of the pool (P×D); its update g is written into `update` (D)."""

    def judge(self, model: torch.Tensor, data: str, round_index: int = 0, client: int | None = None) -> tuple[float, float]:
        """Mean score and loss of a model (D) on a judged set, or on a client's own part of it."""

    def scores(
        self, model: torch.Tensor, data: str, round_index: int = 0, clients: Sequence[int] | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Score and loss of a model (D) on every sample of a judged set, or of some clients' parts of it (n each)."""

    def outputs(self, model: torch.Tensor, data: str, round_index: int, client: int | None, features: bool) -> torch.Tensor:
        """What a model (D) says of every sample (n×classes), or the features it says that by (n×F)."""

    def gradient(self, model: torch.Tensor, data: str, client: int, out: torch.Tensor) -> None:
        """The gradient of the summed loss of a model (D) on a client's part of a judged set, into `out` (D)."""


@dataclass
class Workload:
    """All that training and judging need, the same in every process: plain data and shared tensors."""

    module: torch.nn.Module
    shards: Shards
    judged: dict[str, Judged]  # by name: "test", "train", and, where there are such, "held_out", "own", "arriving", …
    recipe: Recipe
    streams: Streams
    objective: Objective
    make_trainer: Callable[[Workload], Trainer]
    memory: Memory | None = field(default=None)  # of the clients' optimizers, where the recipe carries it
