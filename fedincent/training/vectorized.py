"""Many clients as one batch: stacked rows, one vmapped forward pass, one backward pass, one optimizer step for all.

Clients are ragged: a client with fewer samples has fewer or smaller batches. Every batch is padded to full size with
weight 0, and a client that has done its steps goes on with learning rate 0: its model does not feel the padding.
"""

from __future__ import annotations

import logging
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, vmap

from fedincent.config import option
from fedincent.federation import LocalTask
from fedincent.training.executor import Executor, Tick
from fedincent.training.loop import JUDGE_BATCH, Report, Trainer, Workload, epoch_of
from fedincent.training.optimizers import OPTIMIZERS

log = logging.getLogger("fedincent")


@dataclass
class Block:
    """The whole round's batches of some clients (k), padded: x is k×steps×batch×…, y and weights k×steps×batch."""

    x: Tensor
    y: Tensor
    weights: Tensor  # 1/(size of the batch) for samples, 0 for padding
    active: Tensor  # k×steps: whether the client has that step


@dataclass(kw_only=True)
class Vectorized(Executor):
    """All clients in one batch, as many at a time as the memory holds; for GPUs."""

    numerics: ClassVar[str] = "vectorized"
    devices: ClassVar[tuple[str, ...]] = ("cpu", "cuda")

    chunk: int | None = option("clients trained at once; null: as many as fit the memory", low=1, identity=False)

    def open(self, work: Workload) -> None:
        super().open(work)
        self.trainer = Trainer(work)
        self.layout = self.trainer.layout
        self.device = work.shards.x.device
        self.updates = self.trainer.row.new_zeros(len(work.shards.sizes), self.layout.dim)
        self.one_by_one = cannot_batch(work.module)
        if self.one_by_one:
            log.warning("executor=vectorized: %s; clients train one after the other", self.one_by_one)
        self.at_once = 1 if self.one_by_one else self.chunk or fitting_chunk(self.trainer)

    def train(
        self, round_index: int, incoming: Tensor, tasks: Mapping[int, LocalTask], tick: Tick
    ) -> tuple[Tensor, dict[int, Report]]:
        self.updates[[i for i in range(len(self.updates)) if i not in tasks]] = 0
        reports: dict[int, Report] = {}
        if self.one_by_one or any(task.inner_rate for task in tasks.values()):
            for client, task in tasks.items():
                reports[client] = self.trainer.train(client, incoming[client], task, round_index, self.updates[client])
                tick()
            return self.updates, reports
        by_size = sorted(tasks, key=lambda client: (-self.steps_of(client, tasks[client]), client))  # alike clients together
        while by_size:
            clients = by_size[: self.at_once]
            try:
                reports |= self.train_block(round_index, incoming, clients, tasks)
            except torch.OutOfMemoryError:
                if len(clients) == 1:
                    raise
                self.at_once = max(1, len(clients) // 2)
                torch.cuda.empty_cache()
                log.warning("out of memory with %d clients at once; going on with %d", len(clients), self.at_once)
                continue
            by_size = by_size[len(clients) :]
            for _ in clients:
                tick()
        return self.updates, reports

    def steps_of(self, client: int, task: LocalTask) -> int:
        """How many steps a task takes a client."""
        per_epoch = math.ceil(self.work.shards.sizes[client] / self.work.recipe.batch_size)
        return per_epoch * task.epochs if task.steps is None else task.steps

    def train_block(
        self, round_index: int, incoming: Tensor, clients: list[int], tasks: Mapping[int, LocalTask]
    ) -> dict[int, Report]:
        """Train some clients in lockstep; their updates go into G."""
        chosen = [tasks[client] for client in clients]
        block = self.gather(round_index, clients, chosen)
        start = incoming[clients]
        rows, gradient = start.clone(), torch.zeros_like(start)
        leaves = {name: view.detach().requires_grad_() for name, view in self.layout.views(rows).items()}
        slots = self.layout.views(gradient)
        optimizer = OPTIMIZERS[self.work.recipe.optimizer](rows)
        rates = torch.tensor([[task.lr] for task in chosen], device=self.device, dtype=rows.dtype)
        pulls = torch.tensor([[task.proximal] for task in chosen], device=self.device, dtype=rows.dtype)
        losses = torch.zeros(len(clients), device=self.device, dtype=rows.dtype)
        self.work.module.train()
        for step in range(block.active.shape[1]):
            loss = vmap(self.weighted_loss)(leaves, block.x[:, step], block.y[:, step], block.weights[:, step])
            for name, part in zip(leaves, torch.autograd.grad(loss.sum(), list(leaves.values())), strict=True):
                slots[name].copy_(part)
            if pulls.any():
                gradient.addcmul_(rows - start, pulls)
            for place, task in enumerate(chosen):
                for begin, stop in task.frozen:
                    gradient[place, begin:stop] = 0
            optimizer.step(rows, gradient, rates * block.active[:, step, None])
            losses += loss.detach()
        self.updates[clients] = rows - start
        means = losses / block.active.sum(1).clamp(min=1)
        return {
            client: Report(float(mean), self.incoming_loss(client, incoming[client], task))
            for client, task, mean in zip(clients, chosen, means, strict=True)
        }

    def incoming_loss(self, client: int, model: Tensor, task: LocalTask) -> float:
        """The loss of the incoming model on the client's training data, where the task asks for it."""
        if not task.incoming_loss:
            return float("nan")
        self.trainer.row.copy_(model)
        return self.trainer.judge_bound(*self.work.shards.of(client))[1]

    def weighted_loss(self, parameters: dict[str, Tensor], x: Tensor, y: Tensor, weights: Tensor) -> Tensor:
        """One client's loss on one padded batch."""
        scores = functional_call(self.work.module, parameters, (x,))
        return (F.cross_entropy(scores, y, reduction="none") * weights).sum()

    def gather(self, round_index: int, clients: list[int], tasks: list[LocalTask]) -> Block:
        """The same batches, in the same order, as each client would see alone; padded and stacked."""
        shards, size = self.work.shards, self.work.recipe.batch_size
        steps = [self.steps_of(client, task) for client, task in zip(clients, tasks, strict=True)]
        shape = (len(clients), max(steps), size)
        x = torch.zeros(*shape, *shards.x.shape[1:], dtype=shards.x.dtype, device=self.device)
        y = torch.zeros(shape, dtype=torch.int64, device=self.device)
        counts = torch.zeros(shape[:2], dtype=torch.int64, device=self.device)
        for place, (client, wanted) in enumerate(zip(clients, steps, strict=True)):
            done = epoch = 0
            while done < wanted:
                samples, labels = epoch_of(shards, client, self.work.recipe, self.work.streams, round_index, epoch)
                kept = min(len(labels), (wanted - done) * size)
                begin = done * size
                x[place].flatten(0, 1)[begin : begin + kept] = samples[:kept]
                y[place].flatten()[begin : begin + kept] = labels[:kept]
                batches = math.ceil(kept / size)
                counts[place, done : done + batches] = size
                counts[place, done + batches - 1] = kept - (batches - 1) * size
                done, epoch = done + batches, epoch + 1
        inside = torch.arange(size, device=self.device) < counts[:, :, None]
        weights = inside / counts.clamp(min=1)[:, :, None]
        return Block(x, y, weights.to(self.trainer.row.dtype), counts > 0)

    def judge_rows(self, models: Tensor, rows: list[int], data: str) -> list[tuple[float, float]]:
        if self.one_by_one:
            return [self.trainer.judge(models[i], data) for i in rows]
        x, y = self.work.judged[data]
        self.work.module.eval()
        scores: list[tuple[float, float]] = []
        for start in range(0, len(rows), self.at_once):
            views = self.layout.views(models[rows[start : start + self.at_once]])
            count = len(rows[start : start + self.at_once])
            right, loss = torch.zeros(count, device=self.device), torch.zeros(count, device=self.device)
            with torch.no_grad():
                for samples, labels in zip(x.split(JUDGE_BATCH), y.split(JUDGE_BATCH), strict=True):
                    out = vmap(lambda p, s: functional_call(self.work.module, p, (s,)), in_dims=(0, None))(views, samples)
                    right += (out.argmax(-1) == labels).sum(-1)
                    each = F.cross_entropy(out.flatten(0, 1), labels.repeat(count), reduction="none")
                    loss += each.view(count, -1).sum(-1).to(loss)
            scores += zip((right / len(y)).tolist(), (loss / len(y)).tolist(), strict=True)
        return scores


def cannot_batch(module: nn.Module) -> str:
    """Why a module cannot train many clients at once, if so."""
    parts = list(module.modules())
    if any(isinstance(part, nn.RNNBase) for part in parts):
        return "a recurrent model cannot be batched over clients"
    if any(isinstance(part, nn.Embedding) for part in parts):
        return "a model of sentences looks at how long they are, which differs from client to client"
    if any(isinstance(part, nn.Dropout) and part.p > 0 for part in parts):
        return "dropout draws per client, which a batch over clients cannot"
    return ""


def fitting_chunk(trainer: Trainer) -> int:
    """How many clients fit the memory at once: their rows and optimizer state, and the activations of one batch each."""
    shards, batch = trainer.work.shards, trainer.work.recipe.batch_size
    outputs: list[int] = []
    leaves = [part for part in trainer.module.modules() if not list(part.children())]
    hooks = [leaf.register_forward_hook(lambda m, i, out: outputs.append(out.numel())) for leaf in leaves]
    with torch.no_grad():
        trainer.module(shards.x[:1])
    for hook in hooks:
        hook.remove()
    numbers = 7 * trainer.layout.dim + 4 * batch * sum(outputs)  # forward and backward, with kernels' scratch space
    longest = (max(shards.sizes) + batch) * trainer.work.recipe.local_epochs
    size = numbers * trainer.row.element_size() + longest * shards.x[0].numel() * shards.x.element_size()
    if trainer.row.device.type == "cuda":
        free = torch.cuda.mem_get_info(trainer.row.device)[0] * 0.7
    else:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * 0.4
    return max(1, min(len(shards.sizes), int(free / size)))
