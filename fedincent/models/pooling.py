"""2×2 max-pooling that is cheap on a CPU: first the two rows of a window, then the two columns.

The library's kernel notes where each maximum was; finding that out again in the backward pass, from the values, costs less
than noting it. Among equal values the right column goes first, in it the lower one (the library: the upper left first).
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


def halve(x: Tensor) -> Tensor:
    """Max-pooling 2×2 with stride 2 of …×height×width; an odd last row or column is left out."""
    if x.device.type != "cpu":
        return F.max_pool2d(x, 2)
    if x.shape[-2] % 2 or x.shape[-1] % 2:
        x = x[..., : x.shape[-2] // 2 * 2, : x.shape[-1] // 2 * 2]
    return Halve.apply(x)[0] if torch.is_grad_enabled() else maxima(x)[0]


def maxima(x: Tensor) -> tuple[Tensor, Tensor]:
    """The maximum of each 2×2 window, and on the way there of each pair one above the other."""
    rows = torch.maximum(x[..., ::2, :], x[..., 1::2, :])
    return torch.maximum(rows[..., ::2], rows[..., 1::2]), rows


class Halve(torch.autograd.Function):
    """`maxima` with the gradient of the first."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Tensor) -> tuple[Tensor, Tensor]:
        return maxima(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: tuple[Tensor, Tensor]) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(inputs[0], output[1])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> Tensor:
        x, rows = ctx.saved_tensors
        along = torch.empty_like(rows)
        left = pass_where_positive(gradient, rows[..., ::2] - rows[..., 1::2])
        along[..., ::2] = left
        along[..., 1::2] = gradient - left
        out = torch.empty_like(x)
        upper = pass_where_positive(along, x[..., ::2, :] - x[..., 1::2, :])
        out[..., ::2, :] = upper
        out[..., 1::2, :] = along - upper
        return out


def pass_where_positive(gradient: Tensor, difference: Tensor) -> Tensor:
    """The gradient where the difference is positive, else 0: relu's own backward kernel, the fastest there is for this."""
    return torch.ops.aten.threshold_backward(gradient, difference, 0)
