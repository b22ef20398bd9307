"""UNI, POW and CLA: sizes, classes, disjointness, wrong labels."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedincent.config.compose import compose
from fedincent.datasets import load
from fedincent.errors import ConfigError
from fedincent.federation import Streams, make_shards
from fedincent.partitions import assign
from fedincent.partitions.agents import ClassCounts, PowerLaw, Uniform


def labels(n: int = 6000) -> np.ndarray:
    return np.arange(n) % 10


def split(partition, n: int, seed: int = 0, total: int = 6000):  # type: ignore[no-untyped-def]
    return assign(partition, labels(total), 10, n, np.random.default_rng(seed))


def uniform(**changes) -> Uniform:  # type: ignore[no-untyped-def]
    return Uniform(**{"size": 60, "wrong_labels": (), "min_size": 2, **changes})


def power(**changes) -> PowerLaw:  # type: ignore[no-untyped-def]
    return PowerLaw(**{"size": 60, "exponent": 1.2, "wrong_labels": (), "min_size": 2, **changes})


@given(st.integers(1, 20), st.integers(1, 100), st.integers(0, 5))
@settings(max_examples=25, deadline=None)
def test_uniform_sizes(n: int, size: int, seed: int) -> None:
    shares = split(uniform(size=size, min_size=1), n, seed)
    assert [len(share) for share in shares] == [size] * n
    assert len(np.unique(np.concatenate(shares))) == n * size


@given(st.integers(2, 20), st.floats(0, 2), st.integers(0, 5))
@settings(max_examples=25, deadline=None)
def test_power_law_sizes(n: int, exponent: float, seed: int) -> None:
    shares = split(power(exponent=exponent, min_size=1), n, seed)
    sizes = np.array([len(share) for share in shares])
    assert sizes.sum() == 60 * n and (np.diff(sizes) >= -1).all()
    wanted = np.arange(1, n + 1) ** exponent
    assert np.abs(sizes - wanted / wanted.sum() * 60 * n).max() <= 1
    assert len(np.unique(np.concatenate(shares))) == 60 * n


@pytest.mark.parametrize(("n", "counts"), [(5, [1, 3, 5, 7, 10]), (10, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]), (3, [1, 5, 10])])
def test_class_counts_as_the_paper_says(n: int, counts: list[int]) -> None:
    shares = split(ClassCounts(size=60, min_size=2), n)
    assert [len(np.unique(labels()[share])) for share in shares] == counts
    assert {len(share) for share in shares} == {60}
    assert len(np.unique(np.concatenate(shares))) == 60 * n


def test_everything_is_dealt_out_where_no_size_is_given() -> None:
    assert sum(len(share) for share in split(power(size=None), 7)) == 6000


def test_more_than_there_is() -> None:
    with pytest.raises(ConfigError, match="10 clients would hold 10000 samples, there are 6000"):
        split(uniform(size=1000), 10)
    with pytest.raises(ConfigError, match=r"client 0 needs 700 samples of class \d, of which 600 are left"):
        split(ClassCounts(size=700, min_size=2), 5)


def test_wrong_labels_are_wrong_and_as_many_as_said() -> None:
    data = load(compose([]).dataset)
    partition = uniform(size=100, wrong_labels=(0.2, 1.0))
    shares = assign(partition, np.asarray(data.y_train), 10, 3, np.random.default_rng(0))
    shards = make_shards(data, shares, partition, Streams(0))
    right = [torch.from_numpy(np.array(data.y_train[share])) for share in shares]
    differing = [int((shards.of(i)[1] != right[i]).sum()) for i in range(3)]
    assert differing == [20, 100, 0]
    assert shards.y.min() >= 0 and shards.y.max() <= 9
    again = make_shards(data, shares, partition, Streams(0))
    assert torch.equal(shards.y, again.y)
    with pytest.raises(ConfigError, match="names more than 1 clients"):
        uniform(wrong_labels=(0.1, 0.2)).label_noise(1)
