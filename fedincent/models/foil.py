"""The networks of the FYE paper (Lin et al. 2023), as its published code builds them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedincent.config import option
from fedincent.datasets import Data
from fedincent.models.base import Model, refuse
from fedincent.models.dense import MLP
from fedincent.models.pooling import blocked, dense, halve


@dataclass(kw_only=True)
class TanhCNN(Model):
    """Convolutions 3×3 (64) and 7×7 (16) with tanh and pooling, then fully connected 200; images padded by two."""

    def build(self, data: Data) -> nn.Module:
        if data.kind != "image":
            raise refuse("cnn_tanh", f"needs images, the data set holds {data.kind}; use model=mlp or model=logistic")
        channels, height, width = data.shape
        if min(height, width) < 14:
            raise refuse("cnn_tanh", f"needs images of at least 14×14, these are {height}×{width}; use model=mlp")
        black = -float(np.mean(data.mean) / np.mean(data.std))
        return TanhConvNet(channels, height, width, data.n_outputs, black)


class TanhConvNet(nn.Module):
    """tanh commutes with pooling, and comes after it: less work."""

    def __init__(self, channels: int, height: int, width: int, n_classes: int, black: float) -> None:
        super().__init__()
        self.black = black
        self.conv1 = nn.Conv2d(channels, 64, 3)
        self.conv2 = nn.Conv2d(64, 16, 7)
        rows, columns = (((side + 4 - 2) // 2 - 6) // 2 for side in (height, width))
        self.fc1 = nn.Linear(16 * rows * columns, 200)
        self.classifier = nn.Linear(200, n_classes)

    def forward(self, x: Tensor) -> Tensor:
        """x: batch×channels×height×width → batch×classes."""
        x = F.pad(x, (2, 2, 2, 2), value=self.black)
        x = torch.tanh(F.max_pool2d(self.conv1(x), 2))
        x = torch.tanh(F.max_pool2d(self.conv2(x), 2))
        x = torch.tanh(self.fc1(x.flatten(1)))
        return self.classifier(x)


@dataclass(kw_only=True)
class WiderCNN(Model):
    """Two 5×5 convolutions with pooling, then fully connected 120, 84 and the classifier: the CNN with more channels."""

    channels: tuple[int, ...] = option("channels of the two convolutions", low=1)

    def build(self, data: Data) -> nn.Module:
        if data.kind != "image" or min(data.shape[1:]) < 16:
            raise refuse("cnn_wide", "needs images of at least 16×16; use model=mlp or model=logistic")
        if len(self.channels) != 2:
            raise refuse(
                "cnn_wide", f"has two convolutions; model.channels={list(self.channels)} names {len(self.channels)}"
            )
        return WiderConvNet(data.shape, self.channels, data.n_outputs)


class WiderConvNet(nn.Module):
    """conv 5×5, relu, pool 2, twice, and three fully connected layers; no padding."""

    def __init__(self, shape: tuple[int, ...], widths: tuple[int, ...], n_classes: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(shape[0], widths[0], 5)
        self.conv2 = nn.Conv2d(widths[0], widths[1], 5)
        rows, columns = (((side - 4) // 2 - 4) // 2 for side in shape[1:])
        self.fc1 = nn.Linear(widths[1] * rows * columns, 120)
        self.fc2 = nn.Linear(120, 84)
        self.classifier = nn.Linear(84, n_classes)

    def forward(self, x: Tensor) -> Tensor:
        """x: batch×channels×height×width → batch×classes. Pooling before the relu: they commute, and it is less work."""
        x = halve(self.conv1(blocked(x)))
        x = dense(halve(self.conv2(x)))
        x = F.relu(self.fc1(x.flatten(1)))
        return self.classifier(F.relu(self.fc2(x)))


@dataclass(kw_only=True)
class LoadMLP(MLP):
    """Fully connected layers with relu between them, but none before the last."""

    def build(self, data: Data) -> nn.Module:
        layers = list(super().build(data))  # type: ignore[call-overload]
        without = max(k for k, layer in enumerate(layers) if isinstance(layer, nn.ReLU))
        return nn.Sequential(*(layer for place, layer in enumerate(layers) if place != without))
