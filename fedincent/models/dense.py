"""Fully connected models for anything that is numbers."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import torch

from fedincent.config import option
from fedincent.datasets import Data
from fedincent.models.base import Model, refuse


@dataclass(kw_only=True)
class MLP(Model):
    """Fully connected layers with relu between them."""

    hidden: tuple[int, ...] = option("widths of the hidden layers", low=1)
    dropout: float = option("share of hidden values dropped in training", low=0, below=1)
    dropout_after: str = option("which hidden layers", choices=("all", "first"), neutral="all")

    def build(self, data: Data) -> torch.nn.Module:
        if data.kind == "text":
            raise refuse("mlp", "needs numbers, the data set holds text; use model=lstm")
        widths = [math.prod(data.shape), *self.hidden]
        layers: list[torch.nn.Module] = [torch.nn.Flatten()]
        for a, b in itertools.pairwise(widths):
            layers += [torch.nn.Linear(a, b), torch.nn.ReLU()]
            if self.dropout > 0 and (self.dropout_after == "all" or len(layers) == 3):
                layers.append(torch.nn.Dropout(self.dropout))
        return torch.nn.Sequential(*layers, torch.nn.Linear(widths[-1], data.n_outputs))


@dataclass(kw_only=True)
class Logistic(Model):
    """Multinomial logistic regression."""

    def build(self, data: Data) -> torch.nn.Module:
        if data.kind == "text":
            raise refuse("logistic", "needs numbers, the data set holds text; use model=lstm")
        return torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(math.prod(data.shape), data.n_outputs))
