"""Contributions that are known before the first round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedincent.config import option
from fedincent.contributions.base import Baseline, Contribution
from fedincent.federation import Federation


@dataclass(kw_only=True)
class StandaloneAccuracy(Contribution):
    """The accuracy a client reaches alone: on the test set as in the paper, or on held-out training data.

    Where the score is an error (MAPE), one over it: half the error counts twice as much.
    """

    needs_standalone: ClassVar[bool] = True

    data: str = option("which data judge the standalone models", choices=("test", "held_out"))

    def reads_test(self) -> str:
        return "contributions are standalone accuracies on the test set" if self.data == "test" else ""

    def needs_held_out(self) -> bool:
        return self.data == "held_out"

    def start(self, federation: Federation, baseline: Baseline | None) -> None:
        assert baseline is not None
        score = baseline.accuracy if self.data == "test" else baseline.held_out_accuracy
        self.values = score if federation.higher_is_better else 1 / score.clamp(min=1e-9)


@dataclass(kw_only=True)
class DataSize(Contribution):
    """The number of samples a client holds."""

    def start(self, federation: Federation, baseline: Baseline | None) -> None:
        self.values = federation.sizes.double()


@dataclass(kw_only=True)
class ParticipationRate(Contribution):
    """The probability with which a client joins a round (see `participation`)."""

    def start(self, federation: Federation, baseline: Baseline | None) -> None:
        self.values = federation.participation.double()
