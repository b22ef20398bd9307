"""Data that arrive: each round brings every client new samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from fedincent.config import Component, option
from fedincent.errors import ConfigError


@dataclass(kw_only=True)
class Stream(Component):
    """How many of its samples a client has when."""

    group: ClassVar[str] = "stream"

    per_round: int = option("new samples of each client in each round; 0: all samples are there from the beginning", low=0)
    sizes: str = option(
        "whether everybody gets as many, or so many on average, in proportion to what each holds",
        choices=("equal", "proportional"),
    )

    order: str = option(
        "in which order samples come: shuffled, or as the data set has them: each round the next ones, block by block (time "
        "series)",
        choices=("shuffled", "given"),
        neutral="shuffled",
    )

    def neutral(self) -> bool:
        return self.per_round == 0

    def in_time(self, samples: np.ndarray, n_clients: int) -> list[np.ndarray]:
        """Samples as the data set has them: round t brings the next N·per_round, of which client i gets the i-th block."""
        if self.sizes != "equal":
            raise ConfigError("stream.order", "given", "goes with stream.sizes=equal: every round is dealt out in blocks")
        rounds = len(samples) // (n_clients * self.per_round)
        blocks = samples[: rounds * n_clients * self.per_round].reshape(rounds, n_clients, self.per_round)
        return [blocks[:, client].ravel() for client in range(n_clients)]

    def counts(self, held: np.ndarray, rounds: int) -> np.ndarray:
        """How many samples each client has got before round 0, 1, …, T and T+1 (N×(T+2)), of those it holds (N).

        The batch of round T+1 is never trained on: it judges what round T has made.
        """
        share = np.ones(len(held)) if self.sizes == "equal" else len(held) * held / held.sum()
        counts = np.rint(np.outer(share, self.per_round * np.arange(rounds + 2))).astype(np.int64)
        short = np.flatnonzero(counts[:, -1] > held)
        if len(short):
            client = short[0]
            raise ConfigError(
                "stream.per_round",
                self.per_round,
                f"client {client} holds {held[client]} samples; {rounds} rounds and one more need {counts[client, -1]}",
            )
        return counts
