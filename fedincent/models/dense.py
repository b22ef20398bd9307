"""Fully connected models for anything that is numbers."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

from torch import nn

from fedincent.config import option
from fedincent.datasets import Data
from fedincent.models.base import Model, refuse


@dataclass(kw_only=True)
class MLP(Model):
    """Fully connected layers with relu between them."""

    hidden: tuple[int, ...] = option("widths of the hidden layers", low=1)
    dropout: float = option("share of hidden values dropped in training", low=0, below=1)
    dropout_after: str = option("which hidden layers", choices=("all", "first"), neutral="all")

    def build(self, data: Data) -> nn.Module:
        if data.kind == "text":
            raise refuse("mlp", "needs numbers, the data set holds text; use model=lstm")
        widths = [math.prod(data.shape), *self.hidden]
        layers: list[nn.Module] = [nn.Flatten()]
        for a, b in itertools.pairwise(widths):
            layers += [nn.Linear(a, b), nn.ReLU()]
            if self.dropout > 0 and (self.dropout_after == "all" or len(layers) == 3):
                layers.append(nn.Dropout(self.dropout))
        return nn.Sequential(*layers, nn.Linear(widths[-1], data.n_outputs))


@dataclass(kw_only=True)
class Logistic(Model):
    """Multinomial logistic regression."""

    def build(self, data: Data) -> nn.Module:
        if data.kind == "text":
            raise refuse("logistic", "needs numbers, the data set holds text; use model=lstm")
        return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(data.shape), data.n_outputs))
