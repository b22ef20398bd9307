"""The layout of a row: which of its D numbers are which tensor of a model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch


class Layout:
    """Maps a row of D numbers to a model's named tensors and back: views, no copies."""

    def __init__(self, module: torch.nn.Module) -> None:
        if any(True for _ in module.buffers()):
            raise TypeError(f"{type(module).__name__} has buffers (BatchNorm?): a model must be nothing but its row")
        self.shapes = {name: tuple(p.shape) for name, p in module.named_parameters()}
        sizes = [int(np.prod(shape)) for shape in self.shapes.values()]
        stops = np.cumsum(sizes).tolist()
        self.columns = {n: slice(b - s, b) for n, s, b in zip(self.shapes, sizes, stops, strict=True)}
        self.dim: int = stops[-1]
        self.linear = [name for name, part in module.named_modules() if isinstance(part, torch.nn.Linear)]  # in order

    def views(self, rows: torch.Tensor) -> dict[str, torch.Tensor]:
        """Named tensors that look into rows (…×D): each has the shape …×its own."""
        lead = rows.shape[:-1]
        return {n: rows[..., self.columns[n]].view(*lead, *shape) for n, shape in self.shapes.items()}

    def columns_of(self, layers: Sequence[str]) -> torch.Tensor:
        """Which columns belong to the named layers (D, boolean)."""
        chosen = torch.zeros(self.dim, dtype=torch.bool)
        for name, columns in self.columns.items():
            if name.rpartition(".")[0] in layers:
                chosen[columns] = True
        return chosen

    def flatten(self, module: torch.nn.Module) -> torch.Tensor:
        """A module's parameters as one new row (D)."""
        return torch.cat([p.detach().reshape(-1) for p in module.parameters()])

    def bind(self, module: torch.nn.Module, row: torch.Tensor, gradient: torch.Tensor) -> None:
        """Make a module live on a row (D): its parameters and their gradients become views of the two tensors."""
        rows, gradients = self.views(row), self.views(gradient)
        for name, parameter in module.named_parameters():
            parameter.data, parameter.grad = rows[name], gradients[name]
