"""Clients that send something else than what their training found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import torch

from fedincent.behaviours.base import Dishonest
from fedincent.config import option
from fedincent.errors import ConfigError
from fedincent.federation import Federation, Round
from fedincent.federation.round import Found


@dataclass(kw_only=True)
class Zeros(Dishonest):
    """Sends nothing: the plainest free rider, saves its work and hopes to be rewarded all the same."""

    works: ClassVar[bool] = False

    def upload(self, round: Round, client: int, update: torch.Tensor) -> torch.Tensor:
        return torch.zeros_like(update)


@dataclass(kw_only=True)
class Stops(Dishonest):
    """Honest for some rounds, then sends nothing: it has earned a good name and lives on it."""

    after: int = option("rounds in which it is honest, or that it would guess", low=0)
    guess: str = option(
        "whether that number holds, or is a guess at when contributions are known: uniform up to it, or Poisson around what "
        "the honest run shows (needs a mechanism that says stopping_round)",
        choices=("none", "uniform", "poisson"),
        neutral="none",
    )

    @property
    def asks_honest_run(self) -> bool:
        return super().asks_honest_run or self.guess == "poisson"

    def start(self, federation: Federation, contribution: torch.Tensor | None) -> None:
        super().start(federation, contribution)
        self.last, rng = self.after, federation.streams("guess")
        if self.guess == "uniform":
            self.last = int(rng.integers(0, self.after + 1))
        elif self.guess == "poisson":
            stop = federation.found["honest"].summary.get("stopping_round")
            self.last = int(rng.poisson(self.after if stop is None else stop))

    def saving(self, honest: Found) -> torch.Tensor:
        return torch.tensor(max(0.0, 1 - self.last / int(honest.summary["rounds"])))

    def facts(self) -> dict[str, Any]:
        return {} if self.guess == "none" else {"honest_rounds": self.last}

    def upload(self, round: Round, client: int, update: torch.Tensor) -> torch.Tensor:
        return update if round.index < self.last else torch.zeros_like(update)


@dataclass(kw_only=True)
class Noise(Dishonest):
    """Sends Gaussian noise as long as an honest update: looks like work to who counts lengths, and saves it all."""

    works: ClassVar[bool] = False

    def upload(self, round: Round, client: int, update: torch.Tensor) -> torch.Tensor:
        rng = round.streams("upload noise", round.index, client)
        noise = torch.from_numpy(rng.standard_normal(len(update), dtype=np.float32)).to(update)
        return noise * (update.norm() / noise.norm())


@dataclass(kw_only=True)
class SignFlip(Dishonest):
    """Sends the opposite of its update: it works, and gains only if the others do badly."""

    def upload(self, round: Round, client: int, update: torch.Tensor) -> torch.Tensor:
        return -update


@dataclass(kw_only=True)
class Scaled(Dishonest):
    """Sends its update times a factor: gains if the common model then goes its way, or if length passes for worth."""

    factor: float = option("by which the update is multiplied")

    def upload(self, round: Round, client: int, update: torch.Tensor) -> torch.Tensor:
        return self.factor * update


@dataclass(kw_only=True)
class Earlier(Dishonest):
    """Base of those who send again what they saw in the round before; in the first round, and until they see it, nothing."""

    saved: ClassVar[tuple[str, ...]] = ("chosen", "seen", "last")
    works: ClassVar[bool] = False

    def start(self, federation: Federation, contribution: torch.Tensor | None) -> None:
        super().start(federation, contribution)
        self.cheats = self.chosen.nonzero().flatten().tolist()
        self.seen = torch.zeros(len(self.cheats), dtype=torch.bool)
        self.last = federation.initial.new_zeros(len(self.cheats), federation.dim)
        self.stale = self.last

    def upload(self, round: Round, client: int, update: torch.Tensor) -> torch.Tensor:
        return self.stale[self.cheats.index(client)]


@dataclass(kw_only=True)
class LastStep(Earlier):
    """Sends how the model it is given has moved since it got one last: free, and in the direction of everybody (Fraboni)."""

    def send(self, round: Round, updates: torch.Tensor, pool: torch.Tensor) -> None:
        self.stale = torch.zeros_like(self.last)
        for job in round.jobs:
            if job.slot == 0 and self.chosen[job.client]:
                place = self.cheats.index(job.client)
                if self.seen[place]:
                    self.stale[place] = pool[job.row] - self.last[place]
                self.last[place], self.seen[place] = pool[job.row], True
        super().send(round, updates, pool)


@dataclass(kw_only=True)
class Copies(Earlier):
    """Sends another client's update of the round before: passes for that client's worth without its work."""

    def start(self, federation: Federation, contribution: torch.Tensor | None) -> None:
        super().start(federation, contribution)
        honest = (~self.chosen).nonzero().flatten()
        if not len(honest):
            raise ConfigError("behaviour.share", self.share, "there must be somebody left to copy")
        self.copied = int(honest[int(federation.streams("copied").integers(len(honest)))])

    def send(self, round: Round, updates: torch.Tensor, pool: torch.Tensor) -> None:
        self.stale = self.last.clone()
        for job, update in zip(round.jobs, updates, strict=True):
            if job.slot == 0 and job.client == self.copied:
                self.last[:], self.seen[:] = update, True
        super().send(round, updates, pool)
