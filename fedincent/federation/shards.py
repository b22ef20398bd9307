"""The clients' samples in one block, as models take them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from fedincent.datasets import Data
from fedincent.federation.streams import Streams
from fedincent.objectives import Objective, objective_of
from fedincent.partitions import Disturbance, Partition


@dataclass
class Shards:
    """All clients' training samples in one block, grouped by client, ready to train on.

    x: n×… standardised (images n×channels×height×width) or tokens; y: n; bounds: client i holds bounds[i]:bounds[i+1].
    """

    x: torch.Tensor
    y: torch.Tensor
    bounds: list[int]
    noise: list[float] = field(default_factory=list)  # deviation of the noise to redraw at every pass; empty: none
    black: torch.Tensor | None = None  # what a black pixel has become by standardisation, for padding
    arrivals: list[list[int]] | None = None  # per client, how many of its samples have come before round 0, 1, …, T

    @property
    def sizes(self) -> list[int]:
        """Samples per client (N)."""
        return [b - a for a, b in zip(self.bounds, self.bounds[1:], strict=False)]

    def place(self, client: int, round_index: int | None = None) -> slice:
        """Where a client's samples are: all of them, or those that come in a round (after the last round, all again)."""
        first, last = self.bounds[client], self.bounds[client + 1]
        if self.arrivals is not None and round_index is not None and round_index + 1 < len(self.arrivals[client]):
            first, last = (first + self.arrivals[client][round_index + k] for k in (0, 1))
        return slice(first, last)

    def count(self, client: int, round_index: int | None = None) -> int:
        """How many samples that is."""
        held = self.place(client, round_index)
        return int(held.stop - held.start)

    def of(self, client: int, round_index: int | None = None) -> tuple[torch.Tensor, torch.Tensor]:
        """One client's samples and targets, as views: the whole shard, or what arrives in a round."""
        held = self.place(client, round_index)
        return self.x[held], self.y[held]


@dataclass
class Judged:
    """Samples that models are judged on: one set for all, or grouped by client, or by the round that judges on them."""

    x: torch.Tensor
    y: torch.Tensor
    clients: list[int] | None = None  # client i's are clients[i]:clients[i+1]
    rounds: list[int] | None = None  # round t judges on rounds[t]:rounds[t+1]

    def of(self, client: int | None = None, round_index: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
        """The samples and targets, as views: all of them, one client's own, or a round's."""
        held = slice(None)
        if client is not None:
            assert self.clients is not None, "this set is not grouped by client"
            held = slice(self.clients[client], self.clients[client + 1])
        elif self.rounds is not None:
            held = slice(self.rounds[round_index], self.rounds[round_index + 1])
        return self.x[held], self.y[held]


def standardise(data: Data, x: np.ndarray) -> torch.Tensor:
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


def standardised_black(data: Data) -> torch.Tensor:
    """The value of a black pixel after standardisation (channels)."""
    return -torch.tensor(data.mean, dtype=torch.float32) / torch.tensor(data.std, dtype=torch.float32)


def turn(x: torch.Tensor, quarters: np.ndarray) -> None:
    """Turn images (n×channels×height×width) by so many times 90° counter-clockwise each (n), in place."""
    for count in np.unique(quarters[quarters > 0]).tolist():
        chosen = torch.from_numpy(np.flatnonzero(quarters == count))
        x[chosen] = torch.rot90(x[chosen], count, (-2, -1))


def gathered(
    data: Data,
    shares: Sequence[np.ndarray],
    objective: Objective,
    official_test: bool = False,
    turns: Mapping[str, np.ndarray] | None = None,
) -> Shards:
    """The clients' samples in one block, as they are: of the training set, or of the official test set."""
    x, y = (data.x_test, data.y_test) if official_test else (data.x_train, data.y_train)
    order = np.concatenate(shares)
    samples = standardise(data, x[order])
    if turns:
        turn(samples, turns["test" if official_test else "train"][order])
    return Shards(
        x=samples,
        y=objective.targets_of(y[order]),
        bounds=[0, *np.cumsum([len(share) for share in shares]).tolist()],
        black=standardised_black(data) if data.kind == "image" else None,
    )


def make_shards(
    data: Data,
    shares: Sequence[np.ndarray],
    partition: Partition,
    streams: Streams,
    turns: Mapping[str, np.ndarray] | None = None,
) -> Shards:
    """The clients' training samples in one block, disturbed as the partition says."""
    shards = gathered(data, shares, objective_of(data), turns=turns)
    levels = partition.noise(len(shares)).tolist()
    for client, share in enumerate(partition.label_noise(len(shares)).tolist()):
        if share > 0:
            _, y = shards.of(client)
            rng = streams("labels", client=client)
            wrong = torch.from_numpy(rng.permutation(len(y))[: round(share * len(y))])
            y[wrong] = (y[wrong] + torch.from_numpy(rng.integers(1, data.n_classes, len(wrong)))) % data.n_classes
    if partition.redraws_noise:
        shards.noise = levels
        return shards
    for client, level in enumerate(levels):
        if level > 0:
            x, _ = shards.of(client)
            noise = streams("noise", client=client).standard_normal(x.shape, dtype=np.float32)
            x += level * torch.from_numpy(noise)
    return shards


def disturb(shards: Shards, disturbance: Disturbance, shares: np.ndarray, n_classes: int, streams: Streams) -> None:
    """Disturb so large a share (N) of each client's samples, in place."""
    for client, share in enumerate(shares.tolist()):
        disturbance.apply(*shards.of(client), share, n_classes, streams("disturbance", client=client))
