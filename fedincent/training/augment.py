"""Random crops and flips of a whole epoch's images at once."""

from __future__ import annotations

import numpy as np
import torch

PADDING = 4


def crop_and_flip(x: torch.Tensor, order: torch.Tensor, black: torch.Tensor, rng: np.random.Generator) -> torch.Tensor:
    """Images x[order] (n×channels×height×width), each padded by 4 black pixels, cropped back at random, flipped or not.

    black: the value of a black pixel (channels).
    """
    n, channels, height, width = len(order), *x.shape[1:]
    shift = rng.integers(-PADDING, PADDING + 1, (2, n, 1))
    rows = np.arange(height) + shift[0]
    columns = np.arange(width) + shift[1]
    flipped = rng.random(n) < 0.5
    columns[flipped] = columns[flipped, ::-1]
    outside = ((rows < 0) | (rows >= height))[:, :, None] | ((columns < 0) | (columns >= width))[:, None, :]
    source = rows.clip(0, height - 1)[:, :, None] * width + columns.clip(0, width - 1)[:, None, :]
    index = torch.from_numpy(source).view(n, 1, -1).to(x.device).expand(-1, channels, -1)
    out = x[order].view(n, channels, -1).gather(2, index).view(n, channels, height, width)
    return torch.where(torch.from_numpy(outside).to(x.device)[:, None], black.to(x).view(-1, 1, 1), out)
