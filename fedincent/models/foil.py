"""The networks of the FYE paper (Lin et al. 2023), as its published code builds them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from fedincent.config import option
from fedincent.datasets import Data
from fedincent.models.base import Model, refuse
from fedincent.models.dense import MLP
from fedincent.models.image import CNN, image_shape


@dataclass(kw_only=True)
class TanhCNN(Model):
    """Convolutions 3×3 (64) and 7×7 (16) with tanh and pooling, then fully connected 200; images padded by two."""

    def build(self, data: Data) -> torch.nn.Module:
        if data.kind != "image":
            raise refuse("cnn_tanh", f"needs images, the data set holds {data.kind}; use model=mlp or model=logistic")
        channels, height, width = data.shape
        if min(height, width) < 14:
            raise refuse("cnn_tanh", f"needs images of at least 14×14, these are {height}×{width}; use model=mlp")
        black = -float(np.mean(data.mean) / np.mean(data.std))
        from fedincent.models.convolutions import TanhConvNet

        return TanhConvNet(channels, height, width, data.n_outputs, black)


@dataclass(kw_only=True)
class WiderCNN(CNN):
    """The CNN with as many channels in its two convolutions as one likes."""

    channels: tuple[int, ...] = option("channels of the two convolutions", low=1)

    def build(self, data: Data) -> torch.nn.Module:
        if len(self.channels) != 2:
            raise refuse("cnn_wide", f"has two convolutions, not {len(self.channels)} (model.channels)")
        from fedincent.models.convolutions import ConvNet

        return ConvNet(*image_shape(data), data.n_outputs, self.channels)


@dataclass(kw_only=True)
class LoadMLP(MLP):
    """Fully connected layers with relu between them, but none before the last."""

    def build(self, data: Data) -> torch.nn.Module:
        layers = list(super().build(data))  # type: ignore[call-overload]
        without = max(k for k, layer in enumerate(layers) if isinstance(layer, torch.nn.ReLU))
        return torch.nn.Sequential(*(layer for place, layer in enumerate(layers) if place != without))
