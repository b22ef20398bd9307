"""What a mechanism sees: the federation, and one round of it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from fedincent.federation.jobs import Job, Report
from fedincent.federation.layout import Layout
from fedincent.federation.streams import Streams

if TYPE_CHECKING:
    from fedincent.contributions.base import Contribution

BLOCK = 512  # columns of a block of a product
WORTH_THREADS = 2e9  # multiplications; below that, starting threads takes longer than they save


@dataclass(frozen=True)
class Found:
    """A finished run that another builds on."""

    summary: Mapping[str, Any]
    clients: Mapping[str, Any]  # the columns of its clients.csv


def not_given(*anything: object) -> Any:
    """Stands for what a federation made by hand does not offer."""
    raise NotImplementedError("this federation was made without it")


@dataclass
class Federation:
    """All that a mechanism may know of the clients and the server, passed in by the runner."""

    initial: torch.Tensor  # θ_0 of the seed (D), where everybody starts
    layout: Layout
    sizes: torch.Tensor  # samples per client (N)
    participation: torch.Tensor  # the probability with which each client joins a round (N)
    streams: Streams
    contribution: Contribution
    judge: Callable[..., tuple[torch.Tensor, torch.Tensor]]  # models (M×D), name of a judged set, own → score, loss (M each)
    cores: int = 1  # that large products may use
    higher_is_better: bool = True  # of the score that `judge` gives
    per_round: int = 0  # exactly so many clients train in a round; 0: each by its participation rate
    solo_losses: torch.Tensor | None = None  # F_k(ŵ_k): what each client's own model reaches on its training data (N)
    scores: Callable[..., tuple[torch.Tensor, torch.Tensor]] = (
        not_given  # M×D, a set, clients → score, loss of each sample (M×n)
    )
    judge_pairs: Callable[..., list[tuple[float, float]]] = not_given  # M×D, [(row, client)], a set → score, loss of each
    gradient: Callable[[torch.Tensor, str, Sequence[int]], torch.Tensor] = (
        not_given  # D, a set, clients → of the mean loss (D)
    )
    fresh: Callable[[int], torch.Tensor] = not_given  # further initial models (D), by number
    found: dict[str, Found] = field(default_factory=dict)  # the runs that this one builds on, by name
    segments: Callable[[str], list[int]] = not_given  # a set that is grouped by client → where each client's part begins

    @property
    def n(self) -> int:
        """Number of clients N."""
        return len(self.sizes)

    @property
    def data_shares(self) -> torch.Tensor:
        """Each client's share of all training samples (N, float64)."""
        return self.sizes.double() / self.sizes.sum()

    @property
    def dim(self) -> int:
        """Length of a row, D."""
        return self.layout.dim

    def by_client(
        self, models: torch.Tensor, data: str, clients: Sequence[int] | None = None
    ) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        """Scores and losses of M×D models on each sample of a set, client by client (M×n_i each): of all, or of some."""
        bounds = self.segments(data)
        counts = [bounds[i + 1] - bounds[i] for i in (range(self.n) if clients is None else clients)]
        score, loss = self.scores(models, data, clients)
        return list(score.split(counts, 1)), list(loss.split(counts, 1))

    def replicas(self) -> torch.Tensor:
        """A model of its own for every client, all equal to θ_0 (N×D)."""
        return self.initial.repeat(self.n, 1)

    def add_product(self, models: torch.Tensor, shares: np.ndarray | torch.Tensor, updates: torch.Tensor) -> None:
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
    joined: torch.Tensor  # who trained (N, boolean)
    losses: torch.Tensor  # mean local training loss (N); nan for those who did not train
    incoming_losses: (
        torch.Tensor
    )  # of the incoming models on the clients' own training data (N); nan where no task asked for it
    trace: dict[str, torch.Tensor] | None = None  # what is noted of this round, where somebody wants to know
    jobs: list[Job] = field(default_factory=list)  # its work
    reports: list[Report] = field(default_factory=list)  # and what came of it
    told: dict[str, float] = field(default_factory=dict)  # numbers of this round for rounds.csv
    aside_seconds: float = 0.0  # spent for a trace alone

    def tell(self, name: str, number: float) -> None:
        """Keep one number of this round for rounds.csv."""
        self.told[name] = float(number)

    def note(self, name: str, values: Callable[[], torch.Tensor]) -> None:
        """Keep a number per client (N) of this round for trace.csv; found out only where somebody wants to know."""
        found = self.aside(values)
        if found is not None and self.trace is not None:
            self.trace[name] = found.double().cpu()

    def aside(self, work: Callable[[], torch.Tensor]) -> torch.Tensor | None:
        """What only a trace asks for: none where nobody wants one; its time is not the mechanism's."""
        if self.trace is None:
            return None
        begun = time.perf_counter()
        found = work()
        self.aside_seconds += time.perf_counter() - begun
        return found

    def stream(self, purpose: str) -> np.random.Generator:
        """This round's generator for one purpose."""
        return self.streams(purpose, self.index)
