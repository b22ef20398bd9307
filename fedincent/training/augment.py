"""Random crops and flips of a whole epoch's images at once."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

PADDING = 4


def crop_and_flip(x: Tensor, order: Tensor, black: Tensor, rng: np.random.Generator) -> Tensor:
    """Images x[order] (n×height×width×channels), each padded by 4 black pixels, cropped back at random and flipped or not.

    black: the value of a black pixel (channels).
    """
    n, height, width = len(order), x.shape[1], x.shape[2]
    shift = rng.integers(-PADDING, PADDING + 1, (2, n, 1))
    rows = np.arange(height) + shift[0]
    columns = np.arange(width) + shift[1]
    flipped = rng.random(n) < 0.5
    columns[flipped] = columns[flipped, ::-1]
    outside = ((rows < 0) | (rows >= height))[:, :, None] | ((columns < 0) | (columns >= width))[:, None, :]
    rows, columns = rows.clip(0, height - 1), columns.clip(0, width - 1)
    flat = torch.from_numpy(rows[:, :, None] * width + columns[:, None, :]).to(x.device)
    index = (flat + order[:, None, None] * (height * width)).view(-1)
    out = x.reshape(-1, x.shape[3])[index].view(n, height, width, -1)
    out[torch.from_numpy(outside).to(x.device)] = black.to(x)
    return out
