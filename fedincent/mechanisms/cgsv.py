"""Gradient-driven rewards: a client gets the larger a part of the aggregate the better it agrees with it (Xu et al. 2021).

Updates are brought to norm Γ, u = Σ w_i·u_i is their weighted sum (w: data shares in the first round, importance r later),
and client i receives the ⌈q_i·len⌉ entries of each layer of u that are largest in magnitude (eq. 5), where
q_i = tanh(β·r_i)/max_j tanh(β·r_j). It gets nothing of its own update on top.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from fedincent.config import option
from fedincent.contributions.base import moving_importance
from fedincent.contributions.cgsv import cosines
from fedincent.federation import Round
from fedincent.mechanisms.sparse import SparseReward


@dataclass(kw_only=True)
class CGSV(SparseReward):
    """The share of the aggregate that a client's cosine with it has earned (Xu et al. 2021)."""

    uses_contribution: ClassVar[bool] = False  # it finds its own

    alpha: float = option("weight of the past in the moving average of importance", low=0, below=1)

    def value(self, round: Round, updates: torch.Tensor, aggregate: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        psi = cosines(updates, aggregate, lengths)
        round.note("psi", lambda: psi)
        return moving_importance(self.importance, psi, self.alpha)
