"""Convolutional networks for images."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import torch

from fedincent.config import option
from fedincent.datasets import Data
from fedincent.errors import ConfigError
from fedincent.models.base import Model, refuse


@dataclass(kw_only=True)
class CNN(Model):
    """Two 5×5 convolutions (6, 16) with pooling, then fully connected 120, 84 and the classifier."""

    def build(self, data: Data) -> torch.nn.Module:
        from fedincent.models.convolutions import ConvNet

        return ConvNet(*image_shape(data), data.n_outputs)


def image_shape(data: Data) -> tuple[int, int, int]:
    """Channels, height and width of images that are large enough for two 5×5 convolutions; an error for all else."""
    if data.kind != "image":
        raise refuse("cnn", f"needs images, the data set holds {data.kind}; use model=mlp or model=logistic")
    channels, height, width = data.shape
    if min(height, width) < 16:
        raise refuse("cnn", f"needs images of at least 16×16, these are {height}×{width}; use model=mlp")
    return channels, height, width


@dataclass(kw_only=True)
class CNNDeepHead(CNN):
    """The CNN's two convolutions, then as many fully connected layers as one likes."""

    hidden: tuple[int, ...] = option("widths of the fully connected layers", low=1)

    def build(self, data: Data) -> torch.nn.Module:
        module = super().build(data)
        widths = [module.fc1.in_features, *self.hidden]  # type: ignore[union-attr]
        layers: list[torch.nn.Module] = []
        for a, b in itertools.pairwise(widths):
            layers += [torch.nn.Linear(a, b), torch.nn.ReLU()]  # type: ignore[arg-type]
        module.fc1, module.fc2 = torch.nn.Sequential(*layers), torch.nn.Identity()
        module.classifier = torch.nn.Linear(widths[-1], data.n_outputs)  # type: ignore[arg-type]
        return module


@dataclass(kw_only=True)
class CNN3(Model):
    """Three 3×3 convolutions (32, 64, 64) with pooling, then fully connected 64 and the classifier."""

    def build(self, data: Data) -> torch.nn.Module:
        if data.kind != "image":
            raise refuse("cnn3", f"needs images, the data set holds {data.kind}; use model=mlp or model=logistic")
        channels, height, width = data.shape
        from fedincent.models.convolutions import DeeperConvNet

        return DeeperConvNet(channels, height, width, data.n_outputs)


@dataclass(kw_only=True)
class ResNet18(Model):
    """ResNet18 with GroupNorm (4, 8, 16, 32 groups in the four stages) and the CIFAR stem."""

    def build(self, data: Data) -> torch.nn.Module:
        from torchvision.models import resnet18

        if data.kind != "image":
            raise refuse("resnet18", f"needs images, the data set holds {data.kind}; use model=mlp or model=logistic")
        module = resnet18(num_classes=data.n_outputs, norm_layer=group_norm)
        module.conv1 = torch.nn.Conv2d(data.shape[0], 64, 3, padding=1, bias=False)
        module.maxpool = torch.nn.Identity()
        return module


def group_norm(width: int) -> torch.nn.Module:
    """4, 8, 16, 32 groups in the four stages; with a name of its own, as modules go to worker processes."""
    return torch.nn.GroupNorm(width // 16, width)


@dataclass(kw_only=True)
class CNN4(Model):
    """Four 3×3 convolutions (32, 64, 64, 64), pooling after two and four, dropout, then fully connected 128."""

    dropout: tuple[float, ...] = option("shares that are dropped before and after the fully connected layer", low=0, below=1)

    def build(self, data: Data) -> torch.nn.Module:
        if data.kind != "image":
            raise refuse("cnn4", f"needs images, the data set holds {data.kind}; use model=mlp or model=logistic")
        if len(self.dropout) != 2:
            raise ConfigError("model.dropout", self.dropout, "must be two shares")
        channels, height, width = data.shape
        from fedincent.models.convolutions import FourConvNet

        return FourConvNet(channels, height, width, data.n_outputs, self.dropout)
