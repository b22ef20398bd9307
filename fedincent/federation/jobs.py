"""What is to be done in a round: jobs, each of a client that trains a row of a pool of models."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from fedincent.federation.recipe import Recipe


@dataclass(frozen=True)
class Mixing:
    """A client finds out, entry by entry, how much of the model it is given to take over some columns of its own.

    There the model becomes θ_i + ω∘(w − θ_i), with ω learned on a part of the client's samples (Zhang et al. 2023).
    """

    own: int  # the row of the pool that is θ_i
    columns: tuple[int, int]  # from, to
    weights: np.ndarray = field(compare=False)  # ω so far, one for each column
    rate: float
    share: float  # of the client's samples that ω is learned on
    steady: float | None = None  # not one pass, but passes until the last ten's losses deviate by less than this


@dataclass
class Report:
    """What a client tells of its local training."""

    loss: float  # mean over the steps
    incoming_seconds: float = 0.0  # what finding the next number took
    incoming_loss: float = float("nan")  # of the model it was given, on its training data, where the task asks for it
    feature_sums: np.ndarray | None = None  # classes×features, where the task asks for features
    feature_counts: np.ndarray | None = None  # samples of each class that these are sums over
    mixing_weights: np.ndarray | None = None  # ω as it is now


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
    weights: np.ndarray | None = field(default=None, compare=False)  # of the loss of each of the client's samples (n_i)
    prototypes: np.ndarray | None = field(default=None, compare=False)  # classes×features, nan for a class without one
    attraction: float = 0.0  # λ: so much of ‖features − the label's prototype‖² (mean over entries) is added to the loss
    features: bool = False  # also report the sum of the features of each class's samples while training
    mixing: Mixing | None = None  # before training, the model is mixed with another

    @property
    def plain(self) -> bool:
        """Whether a batch over clients can carry it out; else clients do so one by one."""
        special = (self.weights is not None, self.attraction, self.features, self.mixing is not None)
        return not any(special)

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
