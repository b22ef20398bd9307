"""What is to be done in a round: jobs, each of a client that trains a row of a pool of models."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from fedincent.federation.recipe import Recipe


@dataclass(frozen=True)
class LocalTask:
    """What one client does with the model it is given in one round."""

    lr: float
    epochs: int = 1
    steps: int | None = None  # so many steps instead of epochs; batches go on from pass to pass
    inner_rate: float = 0.0  # of Per-FedAvg: each step takes its gradient after a trial step of this rate on another batch
    proximal: float = 0.0  # µ of FedProx: µ/2·‖θ − anchor‖² is added to the loss
    anchor: int | None = None  # the row of the pool that the proximal term pulls to; none: the one that is trained from
    frozen: tuple[tuple[int, int], ...] = ()  # column ranges that do not train
    incoming_loss: bool = False  # also report the loss of the incoming model on the client's training data

    @staticmethod
    def of(recipe: Recipe, round_index: int) -> LocalTask:
        """The recipe's task in a round."""
        return LocalTask(lr=recipe.rate(round_index), epochs=recipe.local_epochs, steps=recipe.local_steps or None)


@dataclass(frozen=True)
class Job:
    """One client trains one model: from a row of the round's pool (P×D)."""

    client: int
    row: int
    task: LocalTask
    slot: int = 0  # how many jobs the same client has before it in this round; each draws its own batches

    def purpose(self, of_what: str) -> str:
        """The purpose of this job's random draws."""
        return f"{of_what}#{self.slot}" if self.slot else of_what


def numbered(jobs: Iterable[Job]) -> list[Job]:
    """The jobs with their slots."""
    had: Counter[int] = Counter()
    out = []
    for job in jobs:
        out.append(dataclasses.replace(job, slot=had[job.client]) if had[job.client] else job)
        had[job.client] += 1
    return out
