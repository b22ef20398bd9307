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
from fedincent.models.image import CNN, ConvNet, image_shape


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
class WiderCNN(CNN):
    """The CNN with as many channels in its two convolutions as one likes."""

    channels: tuple[int, ...] = option("channels of the two convolutions", low=1)

    def build(self, data: Data) -> nn.Module:
        if len(self.channels) != 2:
            raise refuse("cnn_wide", f"has two convolutions, not {len(self.channels)} (model.channels)")
        return ConvNet(*image_shape(data), data.n_outputs, self.channels)


@dataclass(kw_only=True)
class LoadMLP(MLP):
    """Fully connected layers with relu between them, but none before the last."""

    def build(self, data: Data) -> nn.Module:
        layers = list(super().build(data))  # type: ignore[call-overload]
        without = max(k for k, layer in enumerate(layers) if isinstance(layer, nn.ReLU))
        return nn.Sequential(*(layer for place, layer in enumerate(layers) if place != without))
