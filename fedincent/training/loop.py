"""The inner loop, once: one client's local training, and the judging of models, on one module that lives on one row.

A trainer holds a single module whose parameters and gradients are views of two flat tensors. To train a client its row is
copied in, trained, and the difference copied out; no module, optimizer or data set is ever copied per client.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

import numpy as np
import torch

from fedincent.federation import Job, Layout, LocalTask, Report
from fedincent.federation.jobs import Mixing
from fedincent.training.augment import crop_and_flip
from fedincent.training.optimizers import optimizer_class
from fedincent.training.trainer import Workload

P = ParamSpec("P")
T = TypeVar("T")
LATEST, MOST_PASSES = 10, 100  # of learning how to mix: passes that must be alike, and how many there are at most
JUDGE_BATCH = 250  # samples; the activations then stay in the cache (500: 10 % slower, 1000: twice as slow)


def order_of(work: Workload, job: Job, round_index: int, epoch: int) -> tuple[torch.Tensor, np.random.Generator]:
    """The order in which a pass goes over a client's samples, and the generator that drew it."""
    rng = work.streams(job.purpose(f"batches/{epoch}"), round_index, job.client)
    return torch.from_numpy(rng.permutation(work.shards.count(job.client, round_index))), rng


def epoch_of(work: Workload, job: Job, round_index: int, epoch: int) -> tuple[torch.Tensor, torch.Tensor]:
    """One pass over a client's samples in the order, with the augmentation and the noise, of this round and epoch."""
    shards = work.shards
    x, y = shards.of(job.client, round_index)
    order, rng = order_of(work, job, round_index, epoch)
    order = order.to(y.device)
    if work.recipe.augment == "crop_flip" and shards.black is not None:
        x = crop_and_flip(x, order, shards.black, rng)
    else:
        x = x[order]
    if shards.noise and shards.noise[job.client] > 0:
        noise = rng.standard_normal(tuple(x.shape), dtype="float32")
        x = x + shards.noise[job.client] * torch.from_numpy(noise).to(x)
    return x, y[order]


def seed_torch(seed: int, device: torch.device) -> None:
    """Seed the one generator that is used; torch.manual_seed would also note a stack trace for GPUs that are not there."""
    if device.type == "cuda":
        torch.cuda.manual_seed(seed)
    else:
        torch.default_generator.manual_seed(seed)


def without_gradients(method: Callable[P, T]) -> Callable[P, T]:
    """A method of which nobody asks for gradients; torch's own decorator would want torch as soon as this file is read."""

    @functools.wraps(method)
    def judging(*positional: P.args, **named: P.kwargs) -> T:
        with torch.inference_mode():
            return method(*positional, **named)

    return judging


class Supervised:
    """Learning from samples with targets."""

    def __init__(self, work: Workload) -> None:
        self.work = work
        self.module = work.module
        self.layout = Layout(self.module)
        self.row = self.layout.flatten(self.module).to(work.shards.x.device)
        self.slope = torch.zeros_like(self.row)
        self.layout.bind(self.module, self.row, self.slope)
        self.optimizer = optimizer_class(work.recipe)(self.row, work.recipe)

    def train(self, job: Job, pool: torch.Tensor, round_index: int, update: torch.Tensor) -> Report:
        """A client's work from its row of the pool (P×D); its update g is written into `update` (D)."""
        task, start, gradient = job.task, pool[job.row], self.slope
        anchor = start if task.anchor is None else pool[task.anchor]
        report = Report(float("nan"))
        self.row.copy_(start)
        if task.mixing is not None:
            report.mixing_weights = self.mix(job, task.mixing, pool[task.mixing.own], round_index)
        if task.incoming_loss:
            begun = time.perf_counter()
            report.incoming_loss = self.judge_bound(*self.work.shards.of(job.client, round_index))[1]
            report.incoming_seconds = time.perf_counter() - begun
        seed_torch(self.work.streams.torch_seed(job.purpose("dropout"), round_index, job.client), self.row.device)
        self.module.train()
        memory, decay = self.work.memory, self.work.recipe.weight_decay
        if memory is None:
            self.optimizer.reset()
        else:
            memory.load(job.client, self.optimizer)
        total, steps = torch.zeros((), device=self.row.device), 0
        trial: torch.Tensor | None = None  # where a step of Per-FedAvg began
        for x, y, weights in self.batches(job, round_index):
            gradient.zero_()
            loss = self.loss(task, x, y, weights, report)
            loss.backward()
            if task.inner_rate and trial is None:
                trial = self.row.clone()
                self.row.add_(gradient, alpha=-task.inner_rate)
                continue
            if trial is not None:
                self.row.copy_(trial)
                trial = None
            if task.proximal:
                gradient.add_(self.row - anchor, alpha=task.proximal)
            if decay:
                gradient.add_(self.row, alpha=decay)
            for begin, end in task.frozen:
                gradient[begin:end] = 0
            self.optimizer.step(self.row, gradient, task.lr)
            total += loss.detach()
            steps += 1
        if trial is not None and steps == 0:  # one batch in all: it serves for both
            gradient.zero_()
            loss = self.loss(task, x, y, weights, report)
            loss.backward()
            self.row.copy_(trial)
            self.optimizer.step(self.row, gradient, task.lr)
            total += loss.detach()
            steps = 1
        elif trial is not None:  # an odd batch was left over
            self.row.copy_(trial)
        if memory is not None:
            memory.save(job.client, self.optimizer)
        report.loss = float(total) / max(steps, 1)
        torch.sub(self.row, start, out=update)
        return report

    def loss(
        self, task: LocalTask, x: torch.Tensor, y: torch.Tensor, weights: torch.Tensor | None, report: Report
    ) -> torch.Tensor:
        """What a step of a task minimises, on a batch; the report notes features where the task asks for them."""
        objective = self.work.objective
        with self.watched(task.features or task.attraction > 0) as seen:
            outputs = self.module(x)
        loss = objective.loss(outputs, y) if weights is None else (objective.loss(outputs, y, "none") * weights).mean()
        if task.attraction and task.prototypes is not None:
            aims = torch.from_numpy(task.prototypes).to(seen[0])[y]
            loss = loss + task.attraction * torch.nn.functional.mse_loss(
                seen[0], torch.where(aims.isnan(), seen[0].detach(), aims)
            )
        if task.features:
            if report.feature_sums is None or report.feature_counts is None:
                report.feature_sums = np.zeros((outputs.shape[1], seen[0].shape[1]))
                report.feature_counts = np.zeros(outputs.shape[1])
            labels = y.cpu().numpy()
            np.add.at(report.feature_sums, labels, seen[0].detach().cpu().numpy())
            np.add.at(report.feature_counts, labels, 1)
        return loss

    @contextmanager
    def watched(self, wanted: bool) -> Iterator[list[torch.Tensor]]:
        """What goes into the last fully connected layer (n×features), batch by batch, while this is open; if wanted."""
        seen: list[torch.Tensor] = []
        if not wanted:
            yield seen
            return
        last = self.module.get_submodule(self.layout.linear[-1])
        hook = last.register_forward_pre_hook(lambda module, inputs: seen.append(inputs[0].flatten(1)))
        try:
            yield seen
        finally:
            hook.remove()

    def mix(self, job: Job, mixing: Mixing, own: torch.Tensor, round_index: int) -> np.ndarray:
        """Replace some columns of the row by a mixture with one's own, and learn the mixture's weights ω on the way."""
        columns = slice(*mixing.columns)
        weights = torch.from_numpy(mixing.weights).to(self.row)
        mine, apart = own[columns], self.row[columns] - own[columns]
        if not apart.any():
            return mixing.weights
        x, y = self.work.shards.of(job.client, round_index)
        count = max(1, int(mixing.share * len(y)))
        rng = self.work.streams(job.purpose("mixing"), round_index, job.client)
        first = int(rng.integers(0, len(y) - count + 1))
        x, y, size = x[first : first + count], y[first : first + count], self.work.recipe.batch_size
        seed_torch(self.work.streams.torch_seed(job.purpose("mixing"), round_index, job.client), self.row.device)
        self.module.train()
        losses: list[float] = []
        while not losses or not (mixing.steady is None or self.steady(losses, mixing.steady)):
            for samples, targets in zip(x.split(size), y.split(size), strict=True):
                self.row[columns] = mine + weights * apart
                self.slope.zero_()
                loss = self.work.objective.loss(self.module(samples), targets)
                loss.backward()
                weights = (weights - mixing.rate * self.slope[columns] * apart).clamp(0, 1)
            losses.append(float(loss.detach()))
        self.row[columns] = mine + weights * apart
        return weights.cpu().numpy()

    @staticmethod
    def steady(losses: list[float], deviation: float) -> bool:
        """Whether the last ten of more than ten losses deviate by less than so much; a hundred are enough."""
        return len(losses) > MOST_PASSES or (len(losses) > LATEST and float(np.std(losses[-LATEST:])) < deviation)

    def batches(self, job: Job, round_index: int) -> Iterator[tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]]:
        """The batches of a job: whole epochs, or so many steps however many epochs that takes; none if nothing came.

        The third of each are the samples' weights, where the task states such.
        """
        if self.work.shards.count(job.client, round_index) == 0:
            return
        task, size, epoch = job.task, self.work.recipe.batch_size, 0
        left = task.steps
        if left is not None and task.inner_rate:
            left *= 2  # a step takes two batches
        while left != 0 and (left is not None or epoch < task.epochs):
            x, y = epoch_of(self.work, job, round_index, epoch)
            weights = None
            if task.weights is not None:
                weights = torch.from_numpy(task.weights).to(x)[order_of(self.work, job, round_index, epoch)[0].to(x.device)]
            for begin in range(0, len(y), size):
                if left == 0:
                    return
                batch = slice(begin, begin + size)
                yield x[batch], y[batch], None if weights is None else weights[batch]
                left = None if left is None else left - 1
            epoch += 1

    def judge(self, model: torch.Tensor, data: str, round_index: int = 0, client: int | None = None) -> tuple[float, float]:
        """Mean score and loss of a model (D) on a judged set, or on a client's own part of it."""
        self.row.copy_(model)
        return self.judge_bound(*self.work.judged[data].of(client, round_index))

    def judge_bound(self, x: torch.Tensor, y: torch.Tensor) -> tuple[float, float]:
        """Mean score and loss of the model now on the row; nan of nothing."""
        if not len(y):
            return float("nan"), float("nan")
        score, loss = self.totals(x, y).tolist()
        return score / len(y), loss / len(y)

    @without_gradients
    def totals(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        """Summed score and loss (2, float64) of the model now on the row, where the samples are."""
        self.module.eval()
        found = torch.zeros(2, dtype=torch.float64, device=x.device)
        for samples, targets in zip(x.split(JUDGE_BATCH), y.split(JUDGE_BATCH), strict=True):
            outputs = self.module(samples)
            found[0] += self.work.objective.scores(outputs, targets).sum()
            found[1] += self.work.objective.loss(outputs, targets, "sum")
        return found

    @without_gradients
    def scores(
        self, model: torch.Tensor, data: str, round_index: int = 0, clients: Sequence[int] | None = None
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Score and loss of a model (D) on every sample of a judged set, or of some clients' parts of it (n each)."""
        objective, judged = self.work.objective, self.work.judged[data]
        self.row.copy_(model)
        self.module.eval()
        scores, losses = [], []
        for client in [None] if clients is None else clients:
            x, y = judged.of(client, round_index)
            for samples, targets in zip(x.split(JUDGE_BATCH), y.split(JUDGE_BATCH), strict=True):
                outputs = self.module(samples)
                scores.append(objective.scores(outputs, targets))
                losses.append(objective.loss(outputs, targets, "none"))
        return torch.cat(scores), torch.cat(losses)

    @without_gradients
    def outputs(self, model: torch.Tensor, data: str, round_index: int, client: int | None, features: bool) -> torch.Tensor:
        """What a model (D) says of every sample (n×classes), or the features it says that by (n×F)."""
        self.row.copy_(model)
        self.module.eval()
        x, _ = self.work.judged[data].of(client, round_index)
        if not features:
            return torch.cat([self.module(samples) for samples in x.split(JUDGE_BATCH)])
        with self.watched(True) as seen:
            for samples in x.split(JUDGE_BATCH):
                self.module(samples)
        return torch.cat(seen)

    def gradient(self, model: torch.Tensor, data: str, client: int, out: torch.Tensor) -> None:
        """The gradient of the summed loss of a model (D) on a client's part of a judged set, into `out` (D)."""
        self.row.copy_(model)
        self.module.eval()
        self.slope.zero_()
        x, y = self.work.judged[data].of(client)
        for samples, targets in zip(x.split(JUDGE_BATCH), y.split(JUDGE_BATCH), strict=True):
            self.work.objective.loss(self.module(samples), targets, "sum").backward()
        out.copy_(self.slope)
