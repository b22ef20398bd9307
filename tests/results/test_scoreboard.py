"""The scoreboard: counts by hand, the order of mechanisms, and the page."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kendalltau

from fedincent.cli import main
from fedincent.results.scoreboard import Score, order_of, score_of
from fedincent.results.table import Cell, Printed


def cell(ours: list[float], paper: float | None, compared: bool = True) -> Cell:
    printed = None if paper is None else Printed(paper, None)
    return Cell("ipr_accuracy", ours, wanted=3, paper=printed, compared=compared)


def test_counts_by_hand() -> None:
    cells = {
        ("d", "iid", "a", "ipr_accuracy"): cell([0.5], 0.55),  # within 0.1
        ("d", "iid", "b", "ipr_accuracy"): cell([0.2, 0.4], 0.9),
        ("d", "iid", "c", "ipr_accuracy"): cell([0.9], 0.95),
        ("d", "iid", "e", "ipr_accuracy"): cell([0.9], 0.1, compared=False),
        ("d", "iid", "f", "ipr_accuracy"): cell([], 0.1),
    }
    score = score_of("t", cells)
    assert (score.cells, score.run, score.compared, score.agree, score.seeds) == (5, 4, 3, 2, {1, 2})
    assert score.orders == [pytest.approx(1 / 3)]  # of the pairs ab, ac, bc one is the other way round
    whole = Score("paper")
    whole.add(score)
    whole.add(score)
    assert whole.row == ["paper", "10", "8", "1–2", "6", "4 (67%)", "+0.33"]
    assert Score("nothing").row[1:] == ["0", "0", "–", "0", "–", "–"]


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=3, max_size=9))
def test_the_order_is_kendalls_tau(pairs: list[tuple[int, int]]) -> None:
    theirs = kendalltau(*zip(*pairs, strict=True)).statistic
    ours = order_of(pairs)
    assert (ours is None) == (theirs != theirs) and (ours is None or ours == pytest.approx(theirs))


def test_the_page(own_results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["run", "dataset=fmnist", "--show"])
    (own_results / "runs").mkdir(parents=True)
    capsys.readouterr()
    main(["scoreboard", "--tables"])
    assert "IAFL" in capsys.readouterr().out
    assert "not edited by hand" in (own_results / "README.md").read_text()
