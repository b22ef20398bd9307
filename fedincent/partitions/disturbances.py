"""What is done to the clients' training samples: noise, wrong labels, missing values, flipped signs, turned images.

Client i = 0…N−1 has a share ζ_i = most·i/N of its samples disturbed, so that the first is clean and the last worst off. ζ is
the truth about a client that a fair mechanism should find out; it goes into clients.csv.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from fedincent.config import Component, option
from fedincent.errors import ConfigError


@dataclass(kw_only=True)
class Disturbance(Component):
    """Base of all disturbances; this one leaves the samples as they are."""

    group: ClassVar[str] = "disturbance"
    own_tests: ClassVar[bool] = False  # whether the client's own validation and test samples are disturbed alike

    def neutral(self) -> bool:
        return type(self) is Disturbance

    def check(self, kind: str, n_classes: int) -> None:
        """Raise where this disturbance makes no sense for a kind of data or a number of classes."""

    def shares(self, n_clients: int) -> np.ndarray:
        """Which share ζ of each client's samples is disturbed (N)."""
        return np.zeros(n_clients)

    def truth(self, n_clients: int) -> dict[str, np.ndarray]:
        """What is known of each client (N each), for clients.csv."""
        return {} if self.neutral() else {"zeta": self.shares(n_clients)}

    def disturb(
        self, x: torch.Tensor, y: torch.Tensor, chosen: torch.Tensor, n_classes: int, rng: np.random.Generator
    ) -> None:
        """Change some samples in place: x (n×…, standardised), y (n), chosen: which (indices)."""

    def apply(self, x: torch.Tensor, y: torch.Tensor, share: float, n_classes: int, rng: np.random.Generator) -> None:
        """Disturb so large a share of the samples, drawn at random."""
        count = int(share * len(y) + 1e-9)
        if count:
            self.disturb(x, y, torch.from_numpy(rng.permutation(len(y))[:count]), n_classes, rng)


@dataclass(kw_only=True)
class Growing(Disturbance):
    """Base of disturbances whose share grows from client to client."""

    most: float = option("share of samples that would be disturbed of a client after the last", low=0, high=1)

    def shares(self, n_clients: int) -> np.ndarray:
        return self.most * np.arange(n_clients) / n_clients


@dataclass(kw_only=True)
class FeatureNoise(Growing):
    """Gaussian noise on every standardised feature of some samples."""

    sigma: float = option("standard deviation of the noise", above=0)

    def check(self, kind: str, n_classes: int) -> None:
        refuse_text(kind, "feature_noise")

    def disturb(
        self, x: torch.Tensor, y: torch.Tensor, chosen: torch.Tensor, n_classes: int, rng: np.random.Generator
    ) -> None:
        noise = rng.standard_normal((len(chosen), *x.shape[1:]), dtype=np.float32)
        x[chosen] += self.sigma * torch.from_numpy(noise)


@dataclass(kw_only=True)
class WrongLabels(Growing):
    """Labels of some samples drawn anew."""

    may_stay: bool = option("whether the right label may be drawn, too")

    def check(self, kind: str, n_classes: int) -> None:
        if not n_classes:
            raise ConfigError("disturbance", "wrong_labels", "the data set has numbers as targets; use sign_flip")

    def disturb(
        self, x: torch.Tensor, y: torch.Tensor, chosen: torch.Tensor, n_classes: int, rng: np.random.Generator
    ) -> None:
        if self.may_stay:
            y[chosen] = torch.from_numpy(rng.integers(0, n_classes, len(chosen)))
        else:
            y[chosen] = (y[chosen] + torch.from_numpy(rng.integers(1, n_classes, len(chosen)))) % n_classes


@dataclass(kw_only=True)
class MissingValues(Growing):
    """Features of some samples set to the mean (0 when standardised), each with a probability."""

    probability: float = option("with which a feature of such a sample is missing", above=0, high=1)

    def check(self, kind: str, n_classes: int) -> None:
        refuse_text(kind, "missing")

    def disturb(
        self, x: torch.Tensor, y: torch.Tensor, chosen: torch.Tensor, n_classes: int, rng: np.random.Generator
    ) -> None:
        kept = rng.random((len(chosen), *x.shape[1:])) >= self.probability
        x[chosen] *= torch.from_numpy(kept)


@dataclass(kw_only=True)
class SignFlip(Growing):
    """Standardised features, or a standardised numeric target, of some samples times −1."""

    what: str = option("what is flipped", choices=("features", "target"))

    def check(self, kind: str, n_classes: int) -> None:
        refuse_text(kind, "sign_flip")
        if self.what == "target" and n_classes:
            raise ConfigError("disturbance.what", self.what, "the targets are labels; use disturbance=wrong_labels")

    def disturb(
        self, x: torch.Tensor, y: torch.Tensor, chosen: torch.Tensor, n_classes: int, rng: np.random.Generator
    ) -> None:
        flipped = x if self.what == "features" else y
        flipped[chosen] *= -1


@dataclass(kw_only=True)
class Rotation(Growing):
    """Some images turned by 90° counter-clockwise, in the client's own validation and test samples as in training."""

    own_tests: ClassVar[bool] = True

    def check(self, kind: str, n_classes: int) -> None:
        if kind != "image":
            raise ConfigError("disturbance", "rotation", f"turns images, the data set holds {kind}")

    def disturb(
        self, x: torch.Tensor, y: torch.Tensor, chosen: torch.Tensor, n_classes: int, rng: np.random.Generator
    ) -> None:
        x[chosen] = torch.rot90(x[chosen], 1, (-2, -1))


def refuse_text(kind: str, name: str) -> None:
    """Raise where samples are words."""
    if kind == "text":
        raise ConfigError("disturbance", name, "needs numbers, the data set holds text")
