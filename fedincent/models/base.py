"""What a model is: a recipe for a module that is nothing but its parameters (no BatchNorm, no buffers)."""

from __future__ import annotations

from dataclasses import dataclass

from torch import nn

from fedincent.datasets import Data
from fedincent.errors import ConfigError
from fedincent.schema import Component


@dataclass(kw_only=True)
class Model(Component):
    """An architecture; input shape and classes come from the data set."""

    def build(self, data: Data) -> nn.Module:
        """A fresh module for this data; its input is a batch of `data.shape`, its output a batch of class scores."""
        raise NotImplementedError


def refuse(model: str, why: str) -> ConfigError:
    """The error for a model that cannot take the data set."""
    return ConfigError("model", model, why)
