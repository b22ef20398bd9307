"""Adam and SGD on whole rows: the same few lines for one client (D) and for many at once (clients×D)."""

from __future__ import annotations

from typing import Protocol

import torch
from torch import Tensor


class Optimizer(Protocol):
    """Moves parameters by their gradient, in place; `reset` makes it as good as new."""

    def reset(self) -> None: ...

    def step(self, parameters: Tensor, gradient: Tensor, lr: float | Tensor) -> None: ...


class SGD:
    """θ ← θ − lr·g."""

    def __init__(self, like: Tensor) -> None:
        pass

    def reset(self) -> None:
        """Nothing is remembered."""

    def step(self, parameters: Tensor, gradient: Tensor, lr: float | Tensor) -> None:
        """lr: one rate, or one per row (clients×1)."""
        if isinstance(lr, Tensor):
            parameters.addcmul_(gradient, lr, value=-1)
        else:
            parameters.add_(gradient, alpha=-lr)


class Adam:
    """Adam without weight decay (Kingma & Ba 2015), β = (0.9, 0.999), ε = 1e-8; its buffers are made once and reused."""

    beta1, beta2, epsilon = 0.9, 0.999, 1e-8

    def __init__(self, like: Tensor) -> None:
        self.mean, self.square, self.scale = (torch.zeros_like(like) for _ in range(3))
        self.steps = 0

    def reset(self) -> None:
        """Forget the moments."""
        self.mean.zero_()
        self.square.zero_()
        self.steps = 0

    def step(self, parameters: Tensor, gradient: Tensor, lr: float | Tensor) -> None:
        """lr: one rate, or one per row (clients×1); a row with rate 0 stays as it is."""
        self.steps += 1
        correction1 = 1 - self.beta1**self.steps
        correction2 = 1 - self.beta2**self.steps
        self.mean.lerp_(gradient, 1 - self.beta1)
        self.square.mul_(self.beta2).addcmul_(gradient, gradient, value=1 - self.beta2)
        torch.sqrt(self.square, out=self.scale)
        self.scale.div_(correction2**0.5).add_(self.epsilon)
        if isinstance(lr, Tensor):
            parameters.addcmul_(self.mean / self.scale, lr, value=-1 / correction1)
        else:
            parameters.addcdiv_(self.mean, self.scale, value=-lr / correction1)


OPTIMIZERS: dict[str, type[Adam] | type[SGD]] = {"adam": Adam, "sgd": SGD}
