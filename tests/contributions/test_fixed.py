"""Contributions known beforehand: more is better, whichever way the score goes."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from fedincent.config.compose import compose
from fedincent.runs.runner import run
from fedincent.runs.view import View
from tests.conftest import baseline


def test_half_the_error_counts_twice(make_federation) -> None:  # type: ignore[no-untyped-def]
    measure = compose(["contribution=standalone_accuracy"]).contribution
    measure.start(make_federation(3), baseline([0.2, 0.4, 0.8]))
    assert measure.values.tolist() == [0.2, 0.4, 0.8]
    errors = dataclasses.replace(make_federation(3), higher_is_better=False)
    measure.start(errors, baseline([0.2, 0.4, 0.8]))
    assert measure.values.tolist() == pytest.approx([5, 2.5, 1.25])


def test_who_predicts_best_alone_contributes_most() -> None:
    words = ["dataset=diabetes", "model=mlp", "partition=quantity", "n_clients=6", "rounds=5", "mechanism.kappa=0"]
    clients = run(compose(words), View()).clients
    assert np.array_equal(clients.contribution.argsort(), (-clients.standalone_mape).argsort())
