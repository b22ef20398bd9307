"""Every random draw of a run."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import numpy as np


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
