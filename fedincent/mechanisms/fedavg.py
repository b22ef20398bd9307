"""FedAvg (McMahan et al. 2017)."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from fedincent.config import option
from fedincent.federation import Round
from fedincent.mechanisms.common import CommonModel


@dataclass(kw_only=True)
class FedAvg(CommonModel):
    """One common model moves by the mean of the joined clients' updates."""

    weighting: str = option("what an update counts by", choices=("sizes", "equal"))

    def weights(self, round: Round, updates: torch.Tensor) -> torch.Tensor:
        counts = round.joined.double() * (self.federation.data_shares if self.weighting == "sizes" else 1.0)
        return counts / counts.sum()
