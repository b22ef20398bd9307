"""What a model is: a recipe for a module that is nothing but its parameters (no BatchNorm, no buffers)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from fedincent.config import Component
from fedincent.datasets import Data
from fedincent.errors import ConfigError


@dataclass(kw_only=True)
class Model(Component):
    """An architecture; input shape and classes come from the data set."""

    group: ClassVar[str] = "model"

    def build(self, data: Data) -> torch.nn.Module:
        """A fresh module for this data; its input is a batch of `data.shape`, its output a batch of class scores."""
        raise NotImplementedError


def refuse(model: str, why: str) -> ConfigError:
    """The error for a model that cannot take the data set."""
    return ConfigError("model", model, why)
