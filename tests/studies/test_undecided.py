"""Figure 1 of the IncFL paper."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from fedincent.cli import main


def test_the_weight_is_largest_for_the_undecided(own_results: Path) -> None:
    """A quarter at gap 0, falling to both sides alike, 0 at the ends."""
    main(["figure", "incfl-1"])
    table = pd.read_csv(own_results / "figures" / "incfl-1.csv")
    weight = table.weight.to_numpy()
    assert table.gap[weight.argmax()] == 0 and weight.max() == 0.25
    np.testing.assert_allclose(weight, weight[::-1], rtol=1e-12)
    assert (np.diff(weight[:201]) > 0).all() and weight[0] < 1e-4
