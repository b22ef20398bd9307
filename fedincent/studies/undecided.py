"""IncFL's weight of a client against its incentive gap (Cho et al. 2022, figure 1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import torch

from fedincent.mechanisms.incfl import undecidedness


def weight_curve(reach: float, points: int) -> tuple[pd.DataFrame, Callable[[Any], None]]:
    """q = σ(z)·(1 − σ(z)) for gaps z from −reach to reach, by the mechanism's own function."""
    gap = np.linspace(-reach, reach, points)
    table = pd.DataFrame({"gap": gap, "weight": undecidedness(torch.from_numpy(gap)).numpy()})

    def draw(picture: Any) -> None:
        axis = picture.subplots()
        axis.plot(table.gap, table.weight, color="0.2")
        axis.set(xlabel="incentive gap z = F_k(w) − F_k(ŵ_k)", ylabel="weight q_k(w)")
        for place, words in (
            (-0.6 * reach, "won over:\ncommon model much better"),
            (0.6 * reach, "lost:\nown model much better"),
        ):
            axis.annotate(words, (place, 0.06), ha="center", fontsize=9)
        axis.axvline(0, color="0.7", linewidth=1, linestyle=":")
        axis.grid(True, color="0.9")
        axis.spines[["top", "right"]].set_visible(False)

    return table, draw
