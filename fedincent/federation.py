"""The federation as matrices: the layout of a row, the clients' shards, the random streams.

Θ is N×D: row i is client i's model, flattened. G is N×D: row i is its update of this round.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn

from fedincent.schema import Recipe

if TYPE_CHECKING:
    from fedincent.contributions.base import Contribution
    from fedincent.datasets import Data
    from fedincent.partitions import Partition


BLOCK = 512  # columns of a block of a product
WORTH_THREADS = 2e9  # multiplications; below that, starting threads takes longer than they save


class Layout:
    """Maps a row of D numbers to a model's named tensors and back: views, no copies."""

    def __init__(self, module: nn.Module) -> None:
        if any(True for _ in module.buffers()):
            raise TypeError(f"{type(module).__name__} has buffers (BatchNorm?): a model must be nothing but its row")
        self.shapes = {name: tuple(p.shape) for name, p in module.named_parameters()}
        sizes = [int(np.prod(shape)) for shape in self.shapes.values()]
        stops = np.cumsum(sizes).tolist()
        self.columns = {n: slice(b - s, b) for n, s, b in zip(self.shapes, sizes, stops, strict=True)}
        self.dim: int = stops[-1]
        self.linear = [name for name, part in module.named_modules() if isinstance(part, nn.Linear)]  # in order

    def views(self, rows: Tensor) -> dict[str, Tensor]:
        """Named tensors that look into rows (…×D): each has the shape …×its own."""
        lead = rows.shape[:-1]
        return {n: rows[..., self.columns[n]].view(*lead, *shape) for n, shape in self.shapes.items()}

    def columns_of(self, layers: Sequence[str]) -> Tensor:
        """Which columns belong to the named layers (D, boolean)."""
        chosen = torch.zeros(self.dim, dtype=torch.bool)
        for name, columns in self.columns.items():
            if name.rpartition(".")[0] in layers:
                chosen[columns] = True
        return chosen

    def flatten(self, module: nn.Module) -> Tensor:
        """A module's parameters as one new row (D)."""
        return torch.cat([p.detach().reshape(-1) for p in module.parameters()])

    def bind(self, module: nn.Module, row: Tensor, gradient: Tensor) -> None:
        """Make a module live on a row (D): its parameters and their gradients become views of the two tensors."""
        rows, gradients = self.views(row), self.views(gradient)
        for name, parameter in module.named_parameters():
            parameter.data, parameter.grad = rows[name], gradients[name]


@dataclass(frozen=True)
class Streams:
    """Every random draw of a run: generators keyed by (seed, purpose, round, client), the same wherever they are used."""

    seed: int

    def __call__(self, purpose: str, round: int = 0, client: int = 0) -> np.random.Generator:
        """A fresh NumPy generator for one purpose in one round for one client."""
        return np.random.default_rng([self.seed, zlib.crc32(purpose.encode()), round, client])

    def torch_seed(self, purpose: str, round: int = 0, client: int = 0) -> int:
        """A seed for torch's own generator (initial weights, dropout)."""
        return int(self(purpose, round, client).integers(2**63))


@dataclass
class Shards:
    """All clients' training samples in one block, grouped by client, ready to train on.

    x: n×… standardised (images n×channels×height×width) or tokens; y: n; bounds: client i holds bounds[i]:bounds[i+1].
    """

    x: Tensor
    y: Tensor
    bounds: list[int]
    noise: list[float] = field(default_factory=list)  # deviation of the noise to redraw at every pass; empty: none
    black: Tensor | None = None  # what a black pixel has become by standardisation, for padding

    @property
    def sizes(self) -> list[int]:
        """Samples per client (N)."""
        return [b - a for a, b in zip(self.bounds, self.bounds[1:], strict=False)]

    def of(self, client: int) -> tuple[Tensor, Tensor]:
        """One client's samples and labels, as views."""
        held = slice(self.bounds[client], self.bounds[client + 1])
        return self.x[held], self.y[held]


def standardise(data: Data, x: np.ndarray) -> Tensor:
    """Samples as the models take them: float32 with the training set's mean and deviation; token numbers as they are."""
    if data.kind == "text":
        return torch.from_numpy(np.array(x, dtype=np.int64))
    out = torch.empty((len(x), *data.shape), dtype=torch.float32)
    mean, std = torch.tensor(data.mean, dtype=torch.float32), torch.tensor(data.std, dtype=torch.float32)
    for start in range(0, len(x), 4096):  # in pieces, so that no second copy of the data set is ever held
        piece = slice(start, start + 4096)
        values = (torch.from_numpy(np.array(x[piece], dtype=np.float32)) - mean) / std
        out[piece] = values.movedim(-1, 1) if data.kind == "image" else values
    return out


def standardised_black(data: Data) -> Tensor:
    """The value of a black pixel after standardisation (channels)."""
    return -torch.tensor(data.mean, dtype=torch.float32) / torch.tensor(data.std, dtype=torch.float32)


def make_shards(
    data: Data, shares: Sequence[np.ndarray], partition: Partition, streams: Streams, clean: bool = False
) -> Shards:
    """Gather the clients' samples into one block and disturb them as the partition says (not where `clean`)."""
    order = np.concatenate(shares)
    bounds = [0, *np.cumsum([len(share) for share in shares]).tolist()]
    levels = [] if clean else partition.noise(len(shares)).tolist()
    wrong_labels = [] if clean else partition.label_noise(len(shares)).tolist()
    redraw = partition.redraws_noise and not clean
    shards = Shards(
        x=standardise(data, data.x_train[order]),
        y=torch.from_numpy(np.array(data.y_train[order], dtype=np.int64)),
        bounds=bounds,
        noise=levels if redraw else [],
        black=standardised_black(data) if data.kind == "image" else None,
    )
    for client, share in enumerate(wrong_labels):
        if share > 0:
            _, y = shards.of(client)
            rng = streams("labels", client=client)
            wrong = torch.from_numpy(rng.permutation(len(y))[: round(share * len(y))])
            y[wrong] = (y[wrong] + torch.from_numpy(rng.integers(1, data.n_classes, len(wrong)))) % data.n_classes
    if not redraw:
        for client, level in enumerate(levels):
            if level > 0:
                x, _ = shards.of(client)
                noise = streams("noise", client=client).standard_normal(x.shape, dtype=np.float32)
                x += level * torch.from_numpy(noise)
    return shards


@dataclass(frozen=True)
class LocalTask:
    """What one client does with the model it is given in one round."""

    lr: float
    epochs: int = 1
    steps: int | None = None  # so many steps instead of epochs; batches go on from pass to pass
    inner_rate: float = 0.0  # of Per-FedAvg: each step takes its gradient after a trial step of this rate on another batch
    proximal: float = 0.0  # µ of FedProx: µ/2·‖θ − incoming‖² is added to the loss
    frozen: tuple[tuple[int, int], ...] = ()  # column ranges that do not train
    incoming_loss: bool = False  # also report the loss of the incoming model on the client's training data

    @staticmethod
    def of(recipe: Recipe, round_index: int) -> LocalTask:
        """The recipe's task in a round."""
        return LocalTask(lr=recipe.rate(round_index), epochs=recipe.local_epochs, steps=recipe.local_steps or None)


@dataclass
class Federation:
    """All that a mechanism may know of the clients and the server, passed in by the runner."""

    initial: Tensor  # θ_0 of the seed (D), where everybody starts
    layout: Layout
    sizes: Tensor  # samples per client (N)
    participation: Tensor  # the probability with which each client joins a round (N)
    streams: Streams
    contribution: Contribution
    judge: Callable[[Tensor, str], tuple[Tensor, Tensor]]  # models (M×D), "test" or "held_out" → accuracy, loss (M)
    cores: int = 1  # that large products may use
    per_round: int = 0  # exactly so many clients train in a round; 0: each by its participation rate
    solo_losses: Tensor | None = None  # F_k(ŵ_k): what each client's own model reaches on its training data (N)

    @property
    def n(self) -> int:
        """Number of clients N."""
        return len(self.sizes)

    @property
    def data_shares(self) -> Tensor:
        """Each client's share of all training samples (N, float64)."""
        return self.sizes.double() / self.sizes.sum()

    @property
    def dim(self) -> int:
        """Length of a row, D."""
        return self.layout.dim

    def replicas(self) -> Tensor:
        """A model of its own for every client, all equal to θ_0 (N×D)."""
        return self.initial.repeat(self.n, 1)

    def add_product(self, models: Tensor, shares: np.ndarray | Tensor, updates: Tensor) -> None:
        """Θ ← Θ + S·G, in place: models and updates N×D, shares N×N.

        On a CPU it goes block by block of columns, each computed by one thread: faster than all at once, and the same
        sums however many cores share the blocks.
        """
        weights = torch.as_tensor(shares).to(updates)
        if models.device.type != "cpu":
            models.addmm_(weights, updates)
            return

        def add(start: int) -> None:
            block = slice(start, start + BLOCK)
            models[:, block].addmm_(weights, updates[:, block])

        starts = range(0, self.dim, BLOCK)
        if self.cores == 1 or models.numel() * self.n < WORTH_THREADS:
            for start in starts:
                add(start)
        else:
            with ThreadPoolExecutor(self.cores, initializer=lambda: torch.set_num_threads(1)) as pool:
                list(pool.map(add, starts))


@dataclass
class Round:
    """One round as a mechanism sees it."""

    index: int  # 0 in the first round
    lr: float  # the recipe's learning rate in this round
    streams: Streams
    joined: Tensor  # who trained (N, boolean)
    losses: Tensor  # mean local training loss (N); nan for those who did not train
    incoming_losses: Tensor  # of the incoming models on the clients' own training data (N); nan where no task asked for it
    trace: dict[str, Tensor] | None = None  # what is noted of this round, where somebody wants to know

    def note(self, name: str, values: Callable[[], Tensor]) -> None:
        """Keep a number per client (N) of this round for trace.csv; found out only where somebody wants to know."""
        if self.trace is not None:
            self.trace[name] = values().double().cpu()

    def stream(self, purpose: str) -> np.random.Generator:
        """This round's generator for one purpose."""
        return self.streams(purpose, self.index)
