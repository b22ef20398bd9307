"""2×2 max-pooling and relu in one, the same on CPU and GPU: first the two rows of a window, then the two columns.

The library's kernel notes where each maximum was; finding that out again in the backward pass, from the values, costs less
than noting it. Among equal values the right column goes first, in it the lower one (the library: the upper left first).
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


def halve(x: Tensor) -> Tensor:
    """relu of the maximum of each 2×2 window of …×height×width; an odd last row or column is left out."""
    if x.is_mkldnn:
        return F.relu(F.max_pool2d(x, 2))
    if x.shape[-2] % 2 or x.shape[-1] % 2:
        x = x[..., : x.shape[-2] // 2 * 2, : x.shape[-1] // 2 * 2]
    return Halve.apply(x)[0] if torch.is_grad_enabled() else maxima(x)[0]


def blocked(x: Tensor) -> Tensor:
    """Images in the layout that a CPU's convolutions work in, so that it is not made and unmade at every layer.

    Only where no gradient can be asked for: pooling is as fast there as ours, and judging takes a fifth less.
    """
    if torch.is_inference_mode_enabled() and x.dtype == torch.float32 and x.device.type == "cpu":
        return x.to_mkldnn() if torch.backends.mkldnn.is_available() else x
    return x


def dense(x: Tensor) -> Tensor:
    """The ordinary layout again."""
    return x.to_dense() if x.is_mkldnn else x


def maxima(x: Tensor) -> tuple[Tensor, Tensor]:
    """The maximum of each 2×2 window, not below 0, and on the way there of each pair one above the other."""
    rows = torch.maximum(x[..., ::2, :], x[..., 1::2, :])
    return torch.maximum(rows[..., ::2], rows[..., 1::2]).relu_(), rows


class Halve(torch.autograd.Function):
    """`maxima` with the gradient of the first."""

    @staticmethod
    def forward(x: Tensor) -> tuple[Tensor, Tensor]:
        return maxima(x)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor], output: tuple[Tensor, Tensor]) -> None:
        best, rows = output
        ctx.mark_non_differentiable(rows)
        ctx.save_for_backward(inputs[0], rows, best)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor, _: Tensor) -> Tensor:
        x, rows, best = ctx.saved_tensors
        gradient = pass_where_positive(gradient, best)
        left = pass_where_positive(gradient, rows[..., ::2] - rows[..., 1::2])
        along = torch.empty_like(rows)
        along[..., ::2] = left
        torch.sub(gradient, left, out=along[..., 1::2])
        upper = pass_where_positive(along, x[..., ::2, :] - x[..., 1::2, :])
        out = torch.empty_like(x)
        out[..., ::2, :] = upper
        torch.sub(along, upper, out=out[..., 1::2, :])
        return out

    @staticmethod
    def vmap(info: Any, in_dims: tuple[int], x: Tensor) -> tuple[tuple[Tensor, Tensor], tuple[int, int]]:
        """Any number of leading dimensions will do, so a batch of clients is just one more."""
        return Halve.apply(x.movedim(in_dims[0], 0)), (0, 0)


def pass_where_positive(gradient: Tensor, difference: Tensor) -> Tensor:
    """The gradient where the difference is positive, else 0: relu's own backward kernel, the fastest there is for this."""
    return torch.ops.aten.threshold_backward(gradient, difference, 0)
