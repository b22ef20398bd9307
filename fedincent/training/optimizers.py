"""Adam and SGD on whole rows: the same few lines for one client (D) and for many at once (clients×D).

What an optimizer remembers is `state` (its `depth` rows for each row of parameters) and how many `steps` it has done.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from fedincent.federation import Recipe


class Optimizer:
    """Moves parameters by their gradient, in place; `reset` makes it as good as new."""

    depth: ClassVar[int] = 0

    def __init__(self, like: torch.Tensor, recipe: Recipe) -> None:
        self.state = like.new_zeros(self.depth, *like.shape)
        self.steps: int | torch.Tensor = 0  # of all rows, or of each (clients×1)

    def reset(self) -> None:
        """Forget everything."""
        self.state.zero_()
        self.steps = 0

    def step(self, parameters: torch.Tensor, gradient: torch.Tensor, lr: float | torch.Tensor) -> None:
        """One step; lr: one rate, or one per row (clients×1); a row with rate 0 stays as it is."""
        raise NotImplementedError


class SGD(Optimizer):
    """θ ← θ − lr·g."""

    def step(self, parameters: torch.Tensor, gradient: torch.Tensor, lr: float | torch.Tensor) -> None:
        self.steps = self.steps + 1
        if isinstance(lr, torch.Tensor):
            parameters.addcmul_(gradient, lr, value=-1)
        else:
            parameters.add_(gradient, alpha=-lr)


class Momentum(SGD):
    """v ← m·v + g, θ ← θ − lr·v."""

    depth: ClassVar[int] = 1

    def __init__(self, like: torch.Tensor, recipe: Recipe) -> None:
        super().__init__(like, recipe)
        self.momentum = recipe.momentum

    def step(self, parameters: torch.Tensor, gradient: torch.Tensor, lr: float | torch.Tensor) -> None:
        super().step(parameters, self.state[0].mul_(self.momentum).add_(gradient), lr)


class Adam(Optimizer):
    """Adam (Kingma & Ba 2015), β = (0.9, 0.999), ε = 1e-8; its buffers are made once and reused."""

    depth: ClassVar[int] = 2
    beta1, beta2, epsilon = 0.9, 0.999, 1e-8

    def __init__(self, like: torch.Tensor, recipe: Recipe) -> None:
        super().__init__(like, recipe)
        self.scale = torch.zeros_like(like)

    def step(self, parameters: torch.Tensor, gradient: torch.Tensor, lr: float | torch.Tensor) -> None:
        mean, square = self.state
        self.steps = self.steps + 1
        correction1 = 1 - self.beta1**self.steps
        correction2 = 1 - self.beta2**self.steps
        mean.lerp_(gradient, 1 - self.beta1)
        square.mul_(self.beta2).addcmul_(gradient, gradient, value=1 - self.beta2)
        torch.sqrt(square, out=self.scale)
        self.scale.div_(correction2**0.5).add_(self.epsilon)
        if isinstance(correction1, torch.Tensor):
            parameters.addcmul_(mean / self.scale, lr / correction1, value=-1)
        elif isinstance(lr, torch.Tensor):
            parameters.addcmul_(mean / self.scale, lr, value=-1 / correction1)
        else:
            parameters.addcdiv_(mean, self.scale, value=-lr / correction1)


def optimizer_class(recipe: Recipe) -> type[Optimizer]:
    """The optimizer that a recipe names."""
    if recipe.optimizer == "adam":
        return Adam
    return Momentum if recipe.momentum else SGD


@dataclass
class Memory:
    """What every client's optimizer carries from round to round: its state (N×depth×D) and its steps (N)."""

    state: torch.Tensor
    steps: torch.Tensor

    @staticmethod
    def of(recipe: Recipe, n: int, like: torch.Tensor) -> Memory:
        """Nothing remembered yet, by n clients with models like a row (D)."""
        depth = optimizer_class(recipe).depth
        return Memory(like.new_zeros(n, depth, len(like)), torch.zeros(n, dtype=torch.int64))

    def load(self, clients: int | list[int], optimizer: Optimizer) -> None:
        """Let an optimizer go on where one client's, or several clients', stopped."""
        if isinstance(clients, int):
            optimizer.state.copy_(self.state[clients])
            optimizer.steps = int(self.steps[clients])
        else:
            optimizer.state.copy_(self.state[clients].movedim(0, 1))
            optimizer.steps = self.steps[clients, None].to(optimizer.state)

    def save(self, clients: int | list[int], optimizer: Optimizer) -> None:
        """Remember where it stopped."""
        if isinstance(clients, int):
            self.state[clients] = optimizer.state
            self.steps[clients] = int(optimizer.steps)
        else:
            self.state[clients] = optimizer.state.movedim(0, 1).to(self.state)
            self.steps[clients] = torch.as_tensor(optimizer.steps).flatten().to(self.steps)
