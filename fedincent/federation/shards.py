"""The clients' samples in one block, as models take them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from fedincent.datasets import Data
from fedincent.federation.streams import Streams
from fedincent.partitions import Partition


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
