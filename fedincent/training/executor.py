"""What an executor is: it carries out many clients' local training, and the judging of many models."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch

from fedincent.config import Component
from fedincent.errors import ConfigError
from fedincent.federation import Job, Layout, Report
from fedincent.federation.predictors import Predictor
from fedincent.training.optimizers import Memory
from fedincent.training.trainer import Workload

LOOK = 256  # numbers of a row by which unequal ones are told apart before whole rows are compared
Tick = Callable[[], None]  # called whenever one more job is done
Pair = tuple[int, int | None]  # a row of some models, and whose part of a judged set it is judged on (none: all of it)


@dataclass(kw_only=True)
class Executor(Component):
    """Base of all executors: opened with a workload, closed at the end, the same results from each of a numerics class."""

    group: ClassVar[str] = "executor"

    numerics: ClassVar[str] = "exact"  # executors of one class agree bit for bit on one machine
    devices: ClassVar[tuple[str, ...]] = ("cpu",)

    def open(self, work: Workload) -> None:
        """Get ready. Every CPU executor computes with one intra-op thread, so that sums come out the same."""
        self.work = work
        if work.recipe.carry:
            row = Layout(work.module).flatten(work.module).to(work.shards.x.device)
            work.memory = Memory.of(work.recipe, len(work.shards.sizes), row)
        self.threads = torch.get_num_threads()
        torch.set_num_threads(1)

    def close(self) -> None:
        """Let go of everything that `open` took."""
        torch.set_num_threads(self.threads)

    @property
    def parallel(self) -> int:
        """How many cores the executor keeps busy; a mechanism's large products may use as many."""
        return 1

    def share(self, models: torch.Tensor) -> None:
        """Let models (N×D) that stay where they are lie where workers can read them, so that no round copies them."""

    def state_dict(self) -> dict[str, torch.Tensor]:
        """What must survive an interruption: the optimizers' memory, where it is carried."""
        memory = self.work.memory
        return {} if memory is None else {"memory": memory.state, "steps": memory.steps}

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """Put back, in place, what `state_dict` gave; an empty state forgets everything."""
        memory = self.work.memory
        if memory is not None:
            memory.state.copy_(state["memory"]) if state else memory.state.zero_()
            memory.steps.copy_(state["steps"]) if state else memory.steps.zero_()

    def train(
        self, round_index: int, pool: torch.Tensor, jobs: Sequence[Job], tick: Tick
    ) -> tuple[torch.Tensor, list[Report]]:
        """Carry out a round's jobs, each from its row of the pool (P×D).

        Gives the updates (J×D, in the order of the jobs; valid until the next call) and a report of each.
        """
        if self.work.memory is not None and any(job.slot for job in jobs):
            raise ConfigError("training.carry", True, "a client has several jobs in a round: which is its optimizer's?")
        return self.train_jobs(round_index, pool, jobs, tick)

    def train_jobs(
        self, round_index: int, pool: torch.Tensor, jobs: Sequence[Job], tick: Tick
    ) -> tuple[torch.Tensor, list[Report]]:
        """The same, for jobs that were checked."""
        raise NotImplementedError

    def judge(
        self, models: torch.Tensor | Predictor, data: str, round_index: int = 0, own: bool = False
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Mean score and loss (M each, float64) of M×D models on a judged set; equal rows are judged once.

        own: client i's model on client i's own part of the set.
        """
        if not isinstance(models, torch.Tensor):
            return self.judge_predictor(models, data, round_index, own)
        first, place = (list(range(len(models))),) * 2 if own else distinct_rows(models)
        pairs: list[Pair] = [(row, row if own else None) for row in first]
        scores = torch.tensor(self.judge_pairs(models, pairs, data, round_index), dtype=torch.float64).view(-1, 2)[place]
        return scores[:, 0], scores[:, 1]

    def judge_pairs(self, models: torch.Tensor, pairs: list[Pair], data: str, round_index: int) -> list[tuple[float, float]]:
        """Mean score and loss of some rows of models (M×D), each on the set or on somebody's part of it."""
        raise NotImplementedError

    def scores(
        self, models: torch.Tensor, data: str, round_index: int = 0, clients: Sequence[int] | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Score and loss of M×D models on every sample of a judged set, or of some clients' parts of it (M×n each).

        Means over a client's part of a set that is grouped by client are how good each model is for it.
        """
        raise NotImplementedError

    def gradient(self, model: torch.Tensor, data: str, clients: Sequence[int]) -> torch.Tensor:
        """The gradient (D) of a model's mean loss over some clients' parts of a judged set."""
        judged = self.work.judged[data]
        count = sum(len(judged.of(client)[1]) for client in clients)
        return self.gradients(model, data, clients).sum(0) / max(count, 1)

    def gradients(self, model: torch.Tensor, data: str, clients: Sequence[int]) -> torch.Tensor:
        """The gradients of the summed losses, a row for each client (clients×D)."""
        raise NotImplementedError

    def outputs(
        self, models: torch.Tensor, pairs: list[Pair], data: str, round_index: int, features: bool
    ) -> list[torch.Tensor]:
        """What some rows of models (M×D) say of every sample of the set, or of somebody's part of it."""
        raise NotImplementedError

    def judge_predictor(
        self, predictor: Predictor, data: str, round_index: int, own: bool
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Mean score and loss (N each) of what is no single row; a model that all clients use runs once."""
        scores = []
        whole: dict[int, torch.Tensor] = {}
        shared = len({tuple(predictor.rows_of(client)) for client in range(len(predictor))}) == 1
        for client in range(len(predictor)):
            rows = predictor.rows_of(client)
            missing = [row for row in rows if row not in whole]
            part = client if own else None
            found = self.outputs(predictor.models, [(row, part) for row in missing], data, round_index, predictor.features)
            parts = {**whole, **dict(zip(missing, found, strict=True))}
            if shared and not own:
                whole = parts
            outputs = predictor.outputs([parts[row] for row in rows], client)
            _, targets = self.work.judged[data].of(part, round_index)
            objective = self.work.objective
            score = objective.scores(outputs, targets).double().mean()
            scores.append((float(score), float(objective.loss(outputs, targets))))
        judged = torch.tensor(scores, dtype=torch.float64).view(-1, 2)
        return judged[:, 0], judged[:, 1]


def distinct_rows(models: torch.Tensor) -> tuple[list[int], list[int]]:
    """The first row of each kind, and for each row (M) which kind it is."""
    if models.stride(0) == 0:
        return [0], [0] * len(models)
    looks = models[:, :: max(1, models.shape[1] // LOOK)].contiguous().cpu().numpy()
    alike: dict[bytes, list[int]] = {}  # by a few of their numbers: which of `first` look so
    first: list[int] = []
    place = []
    for i, look in enumerate(looks):
        known = alike.setdefault(look.tobytes(), [])
        same = next((kind for kind in known if torch.equal(models[first[kind]], models[i])), None)
        if same is None:
            same = len(first)
            known.append(same)
            first.append(i)
        place.append(same)
    return first, place
