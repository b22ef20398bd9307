"""Numbers that must not move: small runs of everything, against what they gave when they were written down.

Other CPUs round differently, so accuracies may be two test samples off and losses 1e-3 (convolutions under Adam make more of
it: eight samples, 5 %); who holds how many samples, and the
run's name in the store (its identity), must be exactly as they were: no stored result may be orphaned.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import fedincent
from tests.golden import CASES, line

VALUES = json.loads((Path(__file__).parent / "values.json").read_text(encoding="utf-8"))
TEST_SAMPLES = 360  # of the digits


def test_every_case_has_its_values() -> None:
    assert list(VALUES) == list(CASES)


@pytest.mark.parametrize("case", CASES)
def test_the_numbers_stand(case: str) -> None:
    result, wanted = fedincent.run([*line(case), "executor=serial"]), VALUES[case]
    assert result.path.name == wanted["run"]
    clients = result.clients
    assert list(clients) == list(wanted["clients"])
    for name, values in wanted["clients"].items():
        found, expected = clients[name].to_numpy(dtype=float), np.array(values, dtype=float)
        if name in ("client", "n_samples"):
            np.testing.assert_array_equal(found, expected)
        elif "own" in name or "gap" in name:  # a client's own tests are few
            np.testing.assert_allclose(found, expected, atol=0.05, rtol=1e-3, err_msg=name)
        else:
            samples, share = (8, 5e-2) if case.startswith("cnn") else (2, 1e-3)
            np.testing.assert_allclose(found, expected, atol=samples / TEST_SAMPLES + 1e-9, rtol=share, err_msg=name)
