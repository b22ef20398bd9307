"""The convolutional networks themselves; apart from what describes them, so that nobody loads torch to read a name."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from fedincent.models.pooling import blocked, dense, halve


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
