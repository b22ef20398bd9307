"""The inner loop, once: one client's local training, and the judging of models, on one module that lives on one row.

A trainer holds a single module whose parameters and gradients are views of two flat tensors. To train a client its row is
copied in, trained, and the difference copied out; no module, optimizer or data set is ever copied per client.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedincent.federation import Layout, LocalTask, Recipe, Shards, Streams
from fedincent.training.augment import crop_and_flip
from fedincent.training.optimizers import OPTIMIZERS

JUDGE_BATCH = 250  # samples; the activations then stay in the cache (500: 10 % slower, 1000: twice as slow)


@dataclass
class Workload:
    """All that training and judging need, the same in every process: plain data and shared tensors."""

    module: nn.Module
    shards: Shards
    judged: dict[str, tuple[Tensor, Tensor]]  # "test" and, where there is one, "held_out": samples and labels
    recipe: Recipe
    streams: Streams


@dataclass
class Report:
    """What a client tells of its local training."""

    loss: float  # mean over the steps
    incoming_loss: float = float("nan")  # of the model it was given, on its training data, where the task asks for it


def epoch_of(
    shards: Shards, client: int, recipe: Recipe, streams: Streams, round_index: int, epoch: int
) -> tuple[Tensor, Tensor]:
    """One pass over a client's samples in the order, with the augmentation and the noise, of this round and epoch."""
    x, y = shards.of(client)
    rng = streams(f"batches/{epoch}", round_index, client)
    order = torch.from_numpy(rng.permutation(len(y))).to(y.device)
    if recipe.augment == "crop_flip" and shards.black is not None:
        x = crop_and_flip(x, order, shards.black, rng)
    else:
        x = x[order]
    if shards.noise and shards.noise[client] > 0:
        noise = rng.standard_normal(tuple(x.shape), dtype="float32")
        x = x + shards.noise[client] * torch.from_numpy(noise).to(x)
    return x, y[order]


def seed_torch(seed: int, device: torch.device) -> None:
    """Seed the one generator that is used; torch.manual_seed would also note a stack trace for GPUs that are not there."""
    if device.type == "cuda":
        torch.cuda.manual_seed(seed)
    else:
        torch.default_generator.manual_seed(seed)


class Trainer:
    """Trains and judges one model at a time on one thread."""

    def __init__(self, work: Workload) -> None:
        self.work = work
        self.module = work.module
        self.layout = Layout(self.module)
        self.row = self.layout.flatten(self.module).to(work.shards.x.device)
        self.gradient = torch.zeros_like(self.row)
        self.layout.bind(self.module, self.row, self.gradient)
        self.optimizer = OPTIMIZERS[work.recipe.optimizer](self.row)

    def train(self, client: int, incoming: Tensor, task: LocalTask, round_index: int, update: Tensor) -> Report:
        """Train client i from its incoming model (D); its update g_i is written into `update` (D)."""
        report = Report(float("nan"))
        self.row.copy_(incoming)
        if task.incoming_loss:
            report.incoming_loss = self.judge_bound(*self.work.shards.of(client))[1]
        seed_torch(self.work.streams.torch_seed("dropout", round_index, client), self.row.device)
        self.module.train()
        self.optimizer.reset()
        total, steps = torch.zeros((), device=self.row.device), 0
        trial: Tensor | None = None  # where a step of Per-FedAvg began
        for x, y in self.batches(client, task, round_index):
            self.gradient.zero_()
            loss = F.cross_entropy(self.module(x), y)
            loss.backward()
            if task.inner_rate and trial is None:
                trial = self.row.clone()
                self.row.add_(self.gradient, alpha=-task.inner_rate)
                continue
            if trial is not None:
                self.row.copy_(trial)
                trial = None
            if task.proximal:
                self.gradient.add_(self.row - incoming, alpha=task.proximal)
            for start, stop in task.frozen:
                self.gradient[start:stop] = 0
            self.optimizer.step(self.row, self.gradient, task.lr)
            total += loss.detach()
            steps += 1
        if trial is not None:  # an odd batch was left over
            self.row.copy_(trial)
        report.loss = float(total) / max(steps, 1)
        torch.sub(self.row, incoming, out=update)
        return report

    def batches(self, client: int, task: LocalTask, round_index: int):  # type: ignore[no-untyped-def]
        """The batches of a task: whole epochs, or so many steps however many epochs that takes."""
        size, left, epoch = self.work.recipe.batch_size, task.steps, 0
        if left is not None and task.inner_rate:
            left *= 2  # a step takes two batches
        while left != 0 and (left is not None or epoch < task.epochs):
            x, y = epoch_of(self.work.shards, client, self.work.recipe, self.work.streams, round_index, epoch)
            for batch in zip(x.split(size), y.split(size), strict=True):
                if left == 0:
                    return
                yield batch
                left = None if left is None else left - 1
            epoch += 1

    def judge(self, model: Tensor, data: str) -> tuple[float, float]:
        """Accuracy and mean cross-entropy of a model (D) on the test or the held-out set."""
        self.row.copy_(model)
        return self.judge_bound(*self.work.judged[data])

    @torch.inference_mode()
    def judge_bound(self, x: Tensor, y: Tensor) -> tuple[float, float]:
        """Accuracy and mean cross-entropy of the model now on the row."""
        self.module.eval()
        right, loss = 0, 0.0
        for samples, labels in zip(x.split(JUDGE_BATCH), y.split(JUDGE_BATCH), strict=True):
            scores = self.module(samples)
            right += int((scores.argmax(1) == labels).sum())
            loss += float(F.cross_entropy(scores, labels, reduction="sum"))
        return right / len(y), loss / len(y)
