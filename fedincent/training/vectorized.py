"""Many clients as one batch: stacked rows, one vmapped forward pass, one backward pass, one optimizer step for all.

Clients are ragged: a client with fewer samples has fewer or smaller batches. Every batch is padded to full size with
weight 0, and a client that has done its steps goes on with learning rate 0: its model does not feel the padding.
"""

from __future__ import annotations

import dataclasses
import logging
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch

from fedincent.config import option
from fedincent.errors import ConfigError
from fedincent.federation import Job, Report
from fedincent.training.executor import Pair, Tick
from fedincent.training.loop import JUDGE_BATCH, Supervised, epoch_of
from fedincent.training.optimizers import optimizer_class
from fedincent.training.serial import Serial
from fedincent.training.trainer import Workload

log = logging.getLogger("fedincent")


@dataclass
class Block:
    """The whole round's batches of some clients (k), padded: x is k×steps×batch×…, y and weights k×steps×batch."""

    x: torch.Tensor
    y: torch.Tensor
    weights: torch.Tensor  # 1/(size of the batch) for samples, 0 for padding
    active: torch.Tensor  # k×steps: whether the client has that step
    least: int  # steps that all of them have
    trials: torch.Tensor | None = None  # of Per-FedAvg, k×steps: the batch on which each step is tried first
    real: torch.Tensor | None = None  # and the batch of the step itself

    def batch(self, step: int, places: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """What the clients (k) see in a step: its batch, or where places (k×steps) say so another."""
        if places is None:
            return self.x[:, step], self.y[:, step], self.weights[:, step]
        clients, chosen = torch.arange(len(places), device=places.device), places[:, step]
        return self.x[clients, chosen], self.y[clients, chosen], self.weights[clients, chosen]

    def in_pairs(self, batches: list[int]) -> Block:
        """The same with steps of two batches each; who has one batch in all (batches: how many each has) uses it twice."""
        device = self.x.device
        pairs = [max(count // 2, min(count, 1)) for count in batches]
        first = 2 * torch.arange(max(pairs), device=device).expand(len(pairs), -1)
        lone = torch.tensor([[count == 1] for count in batches], device=device)
        own = first < torch.tensor([[2 * count] for count in pairs], device=device)
        first = torch.where(own, first, 0)
        return dataclasses.replace(
            self, active=own, least=min(pairs), trials=first, real=torch.where(own & ~lone, first + 1, 0)
        )


@dataclass(kw_only=True)
class Vectorized(Serial):
    """All clients in one batch, as many at a time as the memory holds; for GPUs."""

    numerics: ClassVar[str] = "vectorized"
    devices: ClassVar[tuple[str, ...]] = ("cpu", "cuda")

    chunk: int | None = option("clients trained at once; null: as many as fit the memory", low=1, identity=False)

    def open(self, work: Workload) -> None:
        if work.make_trainer is not Supervised:
            raise ConfigError("executor", "vectorized", "knows supervised learning alone; use serial or processes")
        super().open(work)
        assert isinstance(self.trainer, Supervised)
        self.supervised = self.trainer
        self.layout = self.trainer.layout
        self.device = work.shards.x.device
        self.one_by_one = cannot_batch(work.module)
        if self.one_by_one:
            log.warning("executor=vectorized: %s; clients train one after the other", self.one_by_one)
        self.at_once = 1 if self.one_by_one else self.chunk or fitting_chunk(self.supervised)
        self.judged_at_once = self.at_once

    def train_jobs(
        self, round_index: int, pool: torch.Tensor, jobs: Sequence[Job], tick: Tick
    ) -> tuple[torch.Tensor, list[Report]]:
        if len(jobs) > len(self.updates):
            self.updates = self.updates.new_zeros(len(jobs), self.layout.dim)
        reports: dict[int, Report] = {}
        if self.one_by_one or not all(job.task.plain for job in jobs):
            for place, job in enumerate(jobs):
                reports[place] = self.trainer.train(job, pool, round_index, self.updates[place])
                tick()
            return self.updates[: len(jobs)], [reports[place] for place in range(len(jobs))]
        steps = [self.steps_of(job, round_index) for job in jobs]
        tried = [bool(job.task.inner_rate) for job in jobs]
        by_size = sorted(range(len(jobs)), key=lambda place: (tried[place], -steps[place], place))  # alike ones together
        while by_size:
            places = [place for place in by_size[: self.at_once] if tried[place] == tried[by_size[0]]]
            try:
                found = self.train_block(round_index, pool, [jobs[place] for place in places], places)
            except torch.OutOfMemoryError as error:
                self.at_once = fewer(len(places), "clients", error)
                continue
            reports |= dict(zip(places, found, strict=True))
            by_size = by_size[len(places) :]
            for _ in places:
                tick()
        return self.updates[: len(jobs)], [reports[place] for place in range(len(jobs))]

    def steps_of(self, job: Job, round_index: int) -> int:
        """How many batches a job takes."""
        per_epoch = math.ceil(self.work.shards.count(job.client, round_index) / self.work.recipe.batch_size)
        if per_epoch == 0:
            return 0
        if job.task.steps is None:
            return per_epoch * job.task.epochs
        return job.task.steps * (2 if job.task.inner_rate else 1)

    def train_block(self, round_index: int, pool: torch.Tensor, jobs: list[Job], places: list[int]) -> list[Report]:
        """Carry out some jobs in lockstep; their updates go into their places."""
        tasks, recipe, memory = [job.task for job in jobs], self.work.recipe, self.work.memory
        block = self.gather(round_index, jobs)
        start = pool[[job.row for job in jobs]]
        anchors = pool[[job.row if job.task.anchor is None else job.task.anchor for job in jobs]]
        rows, gradient = start.clone(), torch.zeros_like(start)
        leaves = {name: view.detach().requires_grad_() for name, view in self.layout.views(rows).items()}
        slots = self.layout.views(gradient)
        optimizer = optimizer_class(recipe)(rows, recipe)
        clients = [job.client for job in jobs]
        if memory is not None:
            memory.load(clients, optimizer)
        rates = torch.tensor([[task.lr] for task in tasks], device=self.device, dtype=rows.dtype)
        pulls = torch.tensor([[task.proximal] for task in tasks], device=self.device, dtype=rows.dtype)
        pulled = any(task.proximal for task in tasks)  # known here, so that no step waits for the device to tell
        trial_rates = torch.tensor([[task.inner_rate] for task in tasks], device=self.device, dtype=rows.dtype)
        losses = torch.zeros(len(jobs), device=self.device, dtype=rows.dtype)
        self.work.module.train()
        for step in range(block.active.shape[1]):
            if block.trials is not None:  # the gradient is taken after a step on trial
                before_trial = rows.clone()
                self.slope(leaves, slots, block.batch(step, block.trials))
                rows.addcmul_(gradient, trial_rates, value=-1)
            loss = self.slope(leaves, slots, block.batch(step, block.real))
            if block.trials is not None:
                rows.copy_(before_trial)
            if pulled:
                gradient.addcmul_(rows - anchors, pulls)
            if recipe.weight_decay:
                gradient.add_(rows, alpha=recipe.weight_decay)
            for place, task in enumerate(tasks):
                for begin, stop in task.frozen:
                    gradient[place, begin:stop] = 0
            active = block.active[:, step, None]
            some = memory is not None and step >= block.least
            before = (optimizer.state.clone(), optimizer.steps) if some else None
            optimizer.step(rows, gradient, rates * active)
            if before is not None:  # whoever is done remembers nothing of the padding
                optimizer.state = torch.where(active, optimizer.state, before[0])
                optimizer.steps = torch.where(active, optimizer.steps, before[1])
            losses += loss.detach() * block.active[:, step]
        if memory is not None:
            memory.save(clients, optimizer)
        self.updates[places] = rows - start
        means = (losses / block.active.sum(1).clamp(min=1)).tolist()
        incoming = self.incoming_losses(jobs, pool, round_index)
        return [Report(mean, incoming_loss=loss) for mean, loss in zip(means, incoming, strict=True)]

    def slope(
        self,
        leaves: dict[str, torch.Tensor],
        slots: dict[str, torch.Tensor],
        batch: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    ) -> torch.Tensor:
        """The clients' losses (k) on a batch each; the gradients are written into the slots."""
        loss: torch.Tensor = torch.func.vmap(self.weighted_loss)(leaves, *batch)
        for name, part in zip(leaves, torch.autograd.grad(loss.sum(), list(leaves.values())), strict=True):
            slots[name].copy_(part)
        return loss

    def incoming_losses(self, jobs: list[Job], pool: torch.Tensor, round_index: int) -> list[float]:
        """The losses of the incoming models on the clients' training data; nan where the task does not ask for it."""
        found = [float("nan")] * len(jobs)
        asking = [place for place, job in enumerate(jobs) if job.task.incoming_loss]
        totals = []
        for place in asking:
            self.supervised.row.copy_(pool[jobs[place].row])
            totals.append(self.supervised.totals(*self.work.shards.of(jobs[place].client, round_index)))
        for place, (_, loss) in zip(asking, torch.stack(totals).tolist() if totals else [], strict=True):
            count = self.work.shards.count(jobs[place].client, round_index)
            found[place] = loss / count if count else float("nan")
        return found

    def weighted_loss(
        self, parameters: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor, weights: torch.Tensor
    ) -> torch.Tensor:
        """One client's loss on one padded batch."""
        outputs = torch.func.functional_call(self.work.module, parameters, (x,))
        return (self.work.objective.loss(outputs, y, "none") * weights).sum()

    def gather(self, round_index: int, jobs: list[Job]) -> Block:
        """The same batches, in the same order, as each client would see alone; padded and stacked."""
        shards, size = self.work.shards, self.work.recipe.batch_size
        steps = [self.steps_of(job, round_index) for job in jobs]
        shape = (len(jobs), max(steps), size)
        x = torch.zeros(*shape, *shards.x.shape[1:], dtype=shards.x.dtype, device=self.device)
        y = torch.zeros(shape, dtype=shards.y.dtype, device=self.device)
        counts = torch.zeros(shape[:2], dtype=torch.int64, device=self.device)
        for place, (job, wanted) in enumerate(zip(jobs, steps, strict=True)):
            done = epoch = 0
            while done < wanted:
                samples, targets = epoch_of(self.work, job, round_index, epoch)
                kept = min(len(targets), (wanted - done) * size)
                begin = done * size
                x[place].flatten(0, 1)[begin : begin + kept] = samples[:kept]
                y[place].flatten()[begin : begin + kept] = targets[:kept]
                batches = math.ceil(kept / size)
                counts[place, done : done + batches] = size
                counts[place, done + batches - 1] = kept - (batches - 1) * size
                done, epoch = done + batches, epoch + 1
        inside = torch.arange(size, device=self.device) < counts[:, :, None]
        weights = inside.to(self.trainer.row.dtype) / counts.clamp(min=1)[:, :, None]
        block = Block(x, y, weights, counts > 0, min(steps))
        return block.in_pairs(steps) if jobs[0].task.inner_rate else block

    def judge_pairs(self, models: torch.Tensor, pairs: list[Pair], data: str, round_index: int) -> list[tuple[float, float]]:
        if self.one_by_one or any(client is not None for _, client in pairs):
            return super().judge_pairs(models, pairs, data, round_index)
        rows = [row for row, _ in pairs]
        judged: list[tuple[float, float]] = []
        while len(judged) < len(rows):
            chosen = rows[len(judged) : len(judged) + self.judged_at_once]
            try:
                with torch.no_grad():
                    judged += self.judge_block(models, chosen, data, round_index)
            except torch.OutOfMemoryError as error:
                self.judged_at_once = fewer(len(chosen), "models", error)
        return judged

    def judge_block(self, models: torch.Tensor, rows: list[int], data: str, round_index: int) -> list[tuple[float, float]]:
        """Mean score and loss of some rows of models (M×D) on a judged set, all at once."""
        objective, (x, y) = self.work.objective, self.work.judged[data].of(None, round_index)
        self.work.module.eval()
        views, count = self.layout.views(models[rows]), len(rows)
        score, loss = torch.zeros(count, device=self.device), torch.zeros(count, device=self.device)
        for samples, targets in zip(x.split(JUDGE_BATCH), y.split(JUDGE_BATCH), strict=True):
            out = torch.func.vmap(lambda p, s: torch.func.functional_call(self.work.module, p, (s,)), in_dims=(0, None))(
                views, samples
            )
            score += objective.scores(out, targets).sum(-1)
            each = objective.loss(out.flatten(0, 1), targets.repeat(count), "none")
            loss += each.view(count, -1).sum(-1).to(loss)
        return list(zip((score / len(y)).tolist(), (loss / len(y)).tolist(), strict=True))


def fewer(count: int, what: str, error: torch.OutOfMemoryError) -> int:
    """Half as many at once, after the memory did not suffice; the error itself where it was one."""
    if count == 1:
        raise error
    torch.cuda.empty_cache()
    log.warning("out of memory with %d %s at once; going on with %d", count, what, count // 2)
    return count // 2


def cannot_batch(module: torch.nn.Module) -> str:
    """Why a module cannot train many clients at once, if so."""
    parts = list(module.modules())
    if any(isinstance(part, torch.nn.RNNBase) for part in parts):
        return "a recurrent model cannot be batched over clients"
    if any(isinstance(part, torch.nn.Embedding) for part in parts):
        return "a model of sentences looks at how long they are, which differs from client to client"
    if any(isinstance(part, torch.nn.Dropout) and part.p > 0 for part in parts):
        return "dropout draws per client, which a batch over clients cannot"
    return ""


def fitting_chunk(trainer: Supervised) -> int:
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
        free = free_on_gpu(trainer.row.device) * 0.7
    else:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") * 0.4
    return max(1, min(len(shards.sizes), int(free / size)))


def free_on_gpu(device: torch.device) -> float:
    """Bytes that this process may still take: what is free, and what torch holds in reserve; of its share of the card.

    FEDINCENT_GPU_SHARE is that share, where a launcher has several runs on one card.
    """
    free, total = torch.cuda.mem_get_info(device)
    ours = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    left = total * float(os.environ.get("FEDINCENT_GPU_SHARE", "1")) - torch.cuda.memory_allocated(device)
    return max(0.0, min(free + ours, left))
