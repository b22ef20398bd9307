"""Convolutional networks for images."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import torch.nn.functional as F
from torch import Tensor, nn

from fedincent.config import option
from fedincent.datasets import Data
from fedincent.errors import ConfigError
from fedincent.models.base import Model, refuse
from fedincent.models.pooling import blocked, dense, halve


@dataclass(kw_only=True)
class CNN(Model):
    """Two 5×5 convolutions (6, 16) with pooling, then fully connected 120, 84 and the classifier."""

    def build(self, data: Data) -> nn.Module:
        return ConvNet(*image_shape(data), data.n_outputs)


def image_shape(data: Data) -> tuple[int, int, int]:
    """Channels, height and width of images that are large enough for two 5×5 convolutions; an error for all else."""
    if data.kind != "image":
        raise refuse("cnn", f"needs images, the data set holds {data.kind}; use model=mlp or model=logistic")
    channels, height, width = data.shape
    if min(height, width) < 16:
        raise refuse("cnn", f"needs images of at least 16×16, these are {height}×{width}; use model=mlp")
    return channels, height, width


class ConvNet(nn.Module):
    """conv 5×5, relu, pool 2, twice, and three fully connected layers; no padding."""

    def __init__(self, channels: int, height: int, width: int, n_classes: int, widths: tuple[int, ...] = (6, 16)) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, widths[0], 5)
        self.conv2 = nn.Conv2d(widths[0], widths[1], 5)
        rows, columns = (((side - 4) // 2 - 4) // 2 for side in (height, width))
        self.fc1 = nn.Linear(widths[1] * rows * columns, 120)
        self.fc2 = nn.Linear(120, 84)
        self.classifier = nn.Linear(84, n_classes)

    def forward(self, x: Tensor) -> Tensor:
        """x: batch×channels×height×width → batch×classes. Pooling before the relu: they commute, and it is less work."""
        x = halve(self.conv1(blocked(x)))
        x = dense(halve(self.conv2(x)))
        x = F.relu(self.fc1(x.flatten(1)))
        x = F.relu(self.fc2(x))
        return self.classifier(x)


@dataclass(kw_only=True)
class CNNDeepHead(CNN):
    """The CNN's two convolutions, then as many fully connected layers as one likes."""

    hidden: tuple[int, ...] = option("widths of the fully connected layers", low=1)

    def build(self, data: Data) -> nn.Module:
        module = super().build(data)
        widths = [module.fc1.in_features, *self.hidden]  # type: ignore[union-attr]
        layers: list[nn.Module] = []
        for a, b in itertools.pairwise(widths):
            layers += [nn.Linear(a, b), nn.ReLU()]  # type: ignore[arg-type]
        module.fc1, module.fc2 = nn.Sequential(*layers), nn.Identity()
        module.classifier = nn.Linear(widths[-1], data.n_outputs)  # type: ignore[arg-type]
        return module


@dataclass(kw_only=True)
class CNN3(Model):
    """Three 3×3 convolutions (32, 64, 64) with pooling, then fully connected 64 and the classifier."""

    def build(self, data: Data) -> nn.Module:
        if data.kind != "image":
            raise refuse("cnn3", f"needs images, the data set holds {data.kind}; use model=mlp or model=logistic")
        channels, height, width = data.shape
        return DeeperConvNet(channels, height, width, data.n_outputs)


class DeeperConvNet(nn.Module):
    """conv 3×3 with padding, relu, pool 2, three times, and two fully connected layers."""

    def __init__(self, channels: int, height: int, width: int, n_classes: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, 32, 3, padding=1)
        self.conv2 = nn.Conv2d(32, 64, 3, padding=1)
        self.conv3 = nn.Conv2d(64, 64, 3, padding=1)
        self.fc1 = nn.Linear(64 * (height // 8) * (width // 8), 64)
        self.classifier = nn.Linear(64, n_classes)

    def forward(self, x: Tensor) -> Tensor:
        """x: batch×channels×height×width → batch×classes."""
        x = halve(self.conv1(blocked(x)))
        x = halve(self.conv2(x))
        x = dense(halve(self.conv3(x)))
        return self.classifier(F.relu(self.fc1(x.flatten(1))))


@dataclass(kw_only=True)
class ResNet18(Model):
    """ResNet18 with GroupNorm (4, 8, 16, 32 groups in the four stages) and the CIFAR stem."""

    def build(self, data: Data) -> nn.Module:
        from torchvision.models import resnet18

        if data.kind != "image":
            raise refuse("resnet18", f"needs images, the data set holds {data.kind}; use model=mlp or model=logistic")
        module = resnet18(num_classes=data.n_outputs, norm_layer=lambda width: nn.GroupNorm(width // 16, width))
        module.conv1 = nn.Conv2d(data.shape[0], 64, 3, padding=1, bias=False)
        module.maxpool = nn.Identity()
        return module


@dataclass(kw_only=True)
class CNN4(Model):
    """Four 3×3 convolutions (32, 64, 64, 64), pooling after two and four, dropout, then fully connected 128."""

    dropout: tuple[float, ...] = option("shares that are dropped before and after the fully connected layer", low=0, below=1)

    def build(self, data: Data) -> nn.Module:
        if data.kind != "image":
            raise refuse("cnn4", f"needs images, the data set holds {data.kind}; use model=mlp or model=logistic")
        if len(self.dropout) != 2:
            raise ConfigError("model.dropout", self.dropout, "must be two shares")
        channels, height, width = data.shape
        return FourConvNet(channels, height, width, data.n_outputs, self.dropout)


class FourConvNet(nn.Module):
    """conv 3×3, relu, conv 3×3, relu, pool 2, twice; the first two pad nothing where images have 32 pixels or more."""

    def __init__(self, channels: int, height: int, width: int, n_classes: int, dropout: tuple[float, ...]) -> None:
        super().__init__()
        padding = 0 if min(height, width) >= 32 else 1
        self.conv1 = nn.Conv2d(channels, 32, 3, padding=padding)
        self.conv2 = nn.Conv2d(32, 64, 3, padding=padding)
        self.conv3 = nn.Conv2d(64, 64, 3, padding=1)
        self.conv4 = nn.Conv2d(64, 64, 3, padding=1)
        rows, columns = ((side - 4 * (1 - padding)) // 2 // 2 for side in (height, width))
        self.drop1 = nn.Dropout(dropout[0])
        self.fc1 = nn.Linear(64 * rows * columns, 128)
        self.drop2 = nn.Dropout(dropout[1])
        self.classifier = nn.Linear(128, n_classes)

    def forward(self, x: Tensor) -> Tensor:
        """x: batch×channels×height×width → batch×classes."""
        x = halve(self.conv2(F.relu(self.conv1(blocked(x)))))
        x = dense(halve(self.conv4(F.relu(self.conv3(x)))))
        x = F.relu(self.fc1(self.drop1(x.flatten(1))))
        return self.classifier(self.drop2(x))
