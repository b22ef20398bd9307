"""Figure 1 of the CGSV paper: what is compared, and its finding."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedincent.cli import main
from fedincent.contributions import shapley
from fedincent.studies.approximation import compare, cosine_approximation, study, summing_to_one


def test_cosine_approximation_by_hand() -> None:
    vectors = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])  # sum (2, 2)
    np.testing.assert_allclose(cosine_approximation(vectors), [1 / np.sqrt(2), 1 / np.sqrt(2), 1])


def test_equal_vectors_leave_no_error() -> None:
    vectors = np.tile(np.random.default_rng(0).standard_normal(50), (4, 1))
    right = summing_to_one(shapley.exact(shapley.cosine_game(vectors), 4))
    np.testing.assert_allclose(summing_to_one(cosine_approximation(vectors)), right, atol=1e-9)


def test_the_papers_finding_at_1024_numbers() -> None:
    """The cosine approximation is nearer to the exact values than (0.1, 0.1) sampling, on average over ten draws."""
    for n in (2, 5, 10):
        draws = pd.DataFrame([compare(n, 1024, seed, 0.1, 0.1) for seed in range(10)]).mean()
        assert draws.cosine_l1 < draws.sampling_l1 and draws.cosine_l2 < draws.sampling_l2


def test_the_figure_and_its_numbers(own_results: Path) -> None:
    table, _ = study([2, 3], [64], 32, 3, 0.5, 0.5, 2)
    assert list(table.varied) == ["N", "N", "D"] and (table[["cosine_l1", "sampling_l2"]] >= 0).all().all()
    main(["figure", "cgsv-1"])
    stored = pd.read_csv(own_results / "figures" / "cgsv-1.csv")
    assert len(stored) == 15 and (own_results / "figures" / "cgsv-1.png").stat().st_size > 20_000
    with pytest.raises(SystemExit):
        main(["figure", "cgsv-1", "seed=1"])
