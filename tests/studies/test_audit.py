"""The audits: verdicts by hand, and each through the command line on digits made small."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedincent.cli import main
from fedincent.config.compose import compose, line_of
from fedincent.config.references import references
from fedincent.studies.audit import HONEST, OPEN, PAYS, price_of_work, verdict

SMALL = ["n_clients=6", "rounds=2", "model=logistic", "checkpoint_every=0"]


def test_verdicts_by_hand() -> None:
    """t(2 degrees, 97.5 %) = 4.303: with standard error 0.1 the interval reaches 0.43 to both sides."""
    spread = np.array([-0.1, 0.0, 0.1]) * math.sqrt(3)  # standard error 0.1
    assert verdict(0.5 + spread) == PAYS
    assert verdict(0.4 + spread) == OPEN
    assert verdict(-0.5 + spread) == HONEST
    assert verdict(np.array([1.0])) == OPEN  # one seed decides nothing
    assert verdict(np.zeros(3)) == HONEST  # exactly nothing is nothing


def test_what_work_must_be_worth() -> None:
    assert price_of_work(np.array([-2.0, -4.0]), np.array([0.5, 0.5])) == pytest.approx(600)  # 100 points × 3 / 0.5
    assert price_of_work(np.array([1.0]), np.array([1.0])) == 0
    assert price_of_work(np.array([0.0]), np.array([0.0])) == math.inf  # nothing gained, nothing saved
    assert price_of_work(np.array([-1.0]), np.array([0.0])) == math.inf
    assert math.isnan(price_of_work(np.array([]), np.array([])))


def test_does_cheating_pay(own_results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["audit", "mechanism=fedavg,rank", "dataset=digits", "--seeds", "2", *SMALL])
    said = capsys.readouterr().out
    assert "Does cheating pay?" in said and "FedAvg" in said and "sybils" in said
    frame = pd.read_csv(next((own_results / "tables").glob("audit-1-verdicts*.csv")))
    assert set(frame.mechanism) == {"fedavg", "rank"} and (frame.seeds == 2).all() and len(frame) == 24
    zeros = frame[(frame.behaviour == "zeros") & (frame.mechanism == "fedavg")].iloc[0]
    assert zeros.saving == 100
    assert next((own_results / "figures").glob("audit-1-verdicts*.png")).stat().st_size > 10_000
    main(["audit", "mechanism=fedavg", "dataset=digits", "--seeds", "2", *SMALL])  # all there: one mechanism in full
    said = capsys.readouterr()
    assert "all 24 runs are there" in said.err and "pays from" in said.out


def test_efforts_and_their_price(own_results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["audit", "--what", "effort", "mechanism=fedavg", "--seeds", "1", *SMALL, "held_out=0.6"])
    assert "Effort in equilibrium" in capsys.readouterr().out
    frame = pd.read_csv(next((own_results / "tables").glob("audit-2*.csv")))
    dear = frame.set_index("cost").loc[0.4]
    assert float(dear.effort) < 1  # what costs 40 points is not brought in full
    assert (frame.best_welfare >= frame.welfare - 1e-9).all() and (frame.regret >= -1e-9).all()
    assert list((own_results / "figures").glob("audit-2*.png"))


def test_stability_of_contributions(own_results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["audit", "--what", "stability", "--seeds", "2", "rounds=2", "model=logistic", "checkpoint_every=0"])
    assert "Kendall" in capsys.readouterr().out
    frame = pd.read_csv(next((own_results / "tables").glob("audit-3*.csv"))).set_index("measure")
    assert frame.loc["data size", "with itself"] == pytest.approx(1)  # who holds what is the same in all seeds
    assert frame.loc["data size", "inflates: own"] > 10  # who is believed gains by saying more
    assert frame.loc["standalone accuracy", "inflates: own"] == pytest.approx(0, abs=1e-9)


def test_what_cannot_be_audited() -> None:
    for words in (["audit", "--seeds", "0"], ["audit", "mechanism=nothing"], ["audit", "mechanism=standalone"]):
        with pytest.raises(SystemExit) as ended:
            main([*words, *SMALL])
        assert ended.value.code in (1, 2)


def test_what_a_paired_run_builds_on_is_asked_for_honestly() -> None:
    """IAFL needs standalone accuracies: a job of its own in a plan, which must not be told to be paired."""
    config = compose(["mechanism=iafl", "behaviour=zeros", "behaviour.paired=true", *SMALL])
    alone = references(config)["standalone"]
    assert alone.choices["behaviour"] == "honest" and alone.raw["behaviour"] == {
        "_target_": "fedincent.behaviours.Behaviour"
    }
    assert not any(word.startswith("behaviour") for word in line_of(alone))
    brings_less = references(compose(["mechanism=iafl", "behaviour=withholds", "behaviour.paired=true", *SMALL]))
    assert brings_less["standalone"].choices["behaviour"] == "withholds"  # what one brings, one trains on alone, too
    assert "behaviour.paired=true" not in line_of(brings_less["standalone"])
