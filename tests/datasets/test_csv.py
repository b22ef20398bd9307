"""One's own table as a data set: texts as labels, numbers to predict, and what cannot be used."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from fedincent.config.compose import compose
from fedincent.datasets import load
from fedincent.errors import DataError
from fedincent.runs.runner import run


def written(text: str) -> list[str]:
    Path("mine.csv").write_text(text)
    return ["dataset=csv", "dataset.file=mine.csv"]


def animals(count: int = 60) -> str:
    rng = np.random.default_rng(0)
    lines = [f"{k % 3 * 2 + rng.normal():.3f}, {rng.normal():.3f}, {('cat', 'dog', 'eel')[k % 3]}" for k in range(count)]
    return "\n".join(["a, b, kind", *lines])


def test_texts_are_classes_in_the_order_of_their_names() -> None:
    data = load(compose(written(animals())).dataset)
    assert data.n_classes == 3 and data.kind == "features" and data.shape == (2,)
    assert len(data.x_train) == 48 and len(data.x_test) == 12
    assert np.corrcoef(data.x_train[:, 0], data.y_train)[0, 1] > 0.7  # cat, dog, eel lie in this order
    result = run(compose([*written(animals()), "rounds=2", "n_clients=3", "partition=iid"]))
    assert result.summary["choices"]["dataset"] == "csv"


def test_numbers_are_predicted_and_the_target_is_named() -> None:
    text = "y,x\n" + "\n".join(f"{0.5 * k},{k}" for k in range(20))
    data = load(compose([*written(text), "dataset.target=y"]).dataset)
    assert data.n_classes == 0 and data.y_train.dtype == np.float64
    whole = load(compose(written("x,y\n" + "\n".join(f"{k},{k % 2}" for k in range(20)))).dataset)
    assert whole.n_classes == 2
    told = load(compose([*written("x,y\n" + "\n".join(f"{k},{k % 2}" for k in range(20))), "dataset.task=numbers"]).dataset)
    assert told.n_classes == 0


def test_a_changed_file_is_another_run() -> None:
    first = load(compose(written(animals())).dataset).fingerprint
    assert load(compose(written(animals(61))).dataset).fingerprint != first


@pytest.mark.parametrize(
    ("text", "more", "words"),
    [
        ("a,kind\n1,cat\n2,\n", [], "column 'kind' is empty in line 3"),
        ("a,b,kind\n1,x,cat\n2,y,dog\n", [], "column 'b' holds texts; features must be numbers"),
        ("a,kind\n1,cat\n2,dog\n", ["dataset.target=sort"], "no column 'sort'"),
        ("a,kind\n1,cat\n2,dog\n", ["dataset.task=numbers"], "holds texts, no numbers to predict"),
        ("a\n1\n2\n", [], "there must be a header, features and a target"),
        ("a,kind\n1e300,cat\n2,dog\n", [], "too large for a number of 32 bits"),
        ("", [], "No columns to parse"),
        ("1.5,2,0\n1,2,1\n3,4,0\n", [], "its first line must name the columns"),
        ("a;b\n1;2\n3;4\n", [], "by semicolons"),
        ("a,kind\n1,cat\n2,cat\n", [], "the same value in every line"),
    ],
)
def test_what_cannot_be_used_is_said(text: str, more: list[str], words: str) -> None:
    with pytest.raises(DataError, match=words):
        load(compose([*written(text), *more]).dataset)


def test_no_file() -> None:
    for line, words in ((["dataset=csv"], "say which file"), (["dataset=csv", "dataset.file=none.csv"], "no such file")):
        with pytest.raises(DataError, match=words):
            load(compose(line).dataset)
