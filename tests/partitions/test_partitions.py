"""Partitions: what each promises, for any labels, clients and seed."""

from __future__ import annotations

import itertools
import logging
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedincent.config.compose import compose
from fedincent.datasets import Data
from fedincent.errors import ConfigError, FedincentError
from fedincent.federation import Streams, make_shards
from fedincent.partitions import Partition, assign
from fedincent.partitions.classes import Classes
from fedincent.partitions.dirichlet import Dirichlet
from fedincent.partitions.iid import Iid, Noise
from fedincent.partitions.quantity import Quantity

MAKERS = {
    "dirichlet": lambda: Dirichlet(beta=0.5, min_size=1),
    "quantity": lambda: Quantity(beta=0.5, min_size=1),
    "iid": lambda: Iid(stratified=False, min_size=1),
    "stratified": lambda: Iid(stratified=True, min_size=1),
    "noise": lambda: Noise(sigma=0.1, redraw=False, stratified=False, min_size=1),
    "classes": lambda: Classes(k=2, min_size=1),
}


def split(partition: Partition, labels: np.ndarray, n_classes: int, n_clients: int, seed: int) -> list[np.ndarray]:
    return assign(partition, labels, n_classes, n_clients, np.random.default_rng(seed))


@given(st.sampled_from(sorted(MAKERS)), st.integers(2, 6), st.integers(1, 8), st.integers(0, 50))
@settings(max_examples=150, deadline=None)
def test_nothing_is_held_twice_and_everybody_has_enough(kind: str, n_classes: int, n_clients: int, seed: int) -> None:
    labels = np.random.default_rng(seed).integers(0, n_classes, 120)
    shares = split(MAKERS[kind](), labels, n_classes, n_clients, seed)
    everything = np.concatenate(shares)
    assert len(shares) == n_clients
    assert len(np.unique(everything)) == len(everything)
    assert min(len(share) for share in shares) >= 1
    if kind != "classes" or n_clients >= n_classes:
        assert len(everything) == len(labels)
    again = split(MAKERS[kind](), labels, n_classes, n_clients, seed)
    assert all((a == b).all() for a, b in zip(shares, again, strict=True))


def test_iid_sizes_differ_by_at_most_one() -> None:
    for stratified in (False, True):
        sizes = [len(s) for s in split(Iid(stratified=stratified, min_size=1), np.arange(103) % 4, 4, 10, 0)]
        assert max(sizes) - min(sizes) <= 1


def test_stratified_splits_every_class_equally() -> None:
    labels = np.arange(400) % 4
    for share in split(Iid(stratified=True, min_size=1), labels, 4, 10, 0):
        assert np.bincount(labels[share], minlength=4).tolist() == [10, 10, 10, 10]


@given(st.integers(1, 10), st.integers(10, 40), st.integers(0, 20))
@settings(max_examples=40, deadline=None)
def test_classes_gives_each_client_k_classes_split_equally(k: int, n_clients: int, seed: int) -> None:
    labels = np.arange(2000) % 10
    shares = split(Classes(k=k, min_size=1), labels, 10, n_clients, seed)
    held = np.stack([np.bincount(labels[share], minlength=10) for share in shares])
    assert ((held > 0).sum(1) == k).all()
    assert all(held[i, i % 10] > 0 for i in range(n_clients))
    for column in held.T:
        assert np.ptp(column[column > 0]) <= 1


def test_classes_nobody_holds_are_dropped_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        shares = split(Classes(k=1, min_size=1), np.arange(100) % 10, 10, 4, 0)
    assert sum(map(len, shares)) == 40
    assert "nobody holds 6 of 10 classes; 60 samples are not used" in caplog.text


def test_more_classes_than_there_are() -> None:
    with pytest.raises(ConfigError, match=r"partition\.k=11.*≤ 10"):
        Classes(k=11, min_size=1).check("image", 10)


def test_noise_on_text() -> None:
    with pytest.raises(ConfigError, match="not text"):
        MAKERS["noise"]().check("text", 5)


def test_dirichlet_balance_step() -> None:
    """A client with its fair share gets nothing of later classes: nobody ends with much more than that plus one class."""
    labels = np.repeat(np.arange(10), 100)
    for seed in range(20):
        sizes = [len(s) for s in split(Dirichlet(beta=0.1, min_size=1), labels, 10, 5, seed)]
        assert max(sizes) <= 1000 / 5 + 100


def test_dirichlet_beta_makes_the_skew() -> None:
    labels = np.random.default_rng(0).integers(0, 10, 5000)

    def spread(beta: float) -> float:
        shares = split(Dirichlet(beta=beta, min_size=1), labels, 10, 10, 0)
        return float(np.std([np.bincount(labels[s], minlength=10) / len(s) for s in shares]))

    assert spread(0.1) > spread(1.0) > spread(100.0)


@pytest.mark.parametrize(
    "partition", [Dirichlet(beta=0.001, min_size=100), Quantity(beta=0.001, min_size=15)], ids=["dirichlet", "quantity"]
)
def test_what_cannot_be_drawn_is_an_error_not_a_hang(partition: Partition, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(partition), "tries", 40_000 if isinstance(partition, Quantity) else 200)
    labels = np.arange(1000) % 2
    with pytest.raises(FedincentError, match=r"draws gave no split.*partition\.beta=0\.001"):
        split(partition, labels, 2, 10, 0)


def test_fewer_samples_than_clients_need() -> None:
    with pytest.raises(ConfigError, match=r"n_clients=20.*10 samples each"):
        split(Iid(stratified=False, min_size=10), np.zeros(100, int), 1, 20, 0)


def test_quantity_at_the_size_of_sst_is_found() -> None:
    """8,544 sentences, 50 clients, β = 0.5, at least 10 each: rare enough that a loop in Python would take minutes."""
    sizes = [len(s) for s in split(Quantity(beta=0.5, min_size=10), np.zeros(8544, int), 1, 50, 1)]
    assert min(sizes) >= 10 and sum(sizes) == 8544


def test_same_split_in_another_process() -> None:
    code = (
        "import numpy as np; from fedincent.partitions import assign; from fedincent.federation import Streams\n"
        "from fedincent.partitions.dirichlet import Dirichlet\n"
        "s = assign(Dirichlet(beta=0.5, min_size=2), np.arange(500) % 7, 7, 9, Streams(3)('partition'))\n"
        "print([int(x.sum()) for x in s])"
    )
    shares = assign(Dirichlet(beta=0.5, min_size=2), np.arange(500) % 7, 7, 9, Streams(3)("partition"))
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert other.strip() == str([int(x.sum()) for x in shares])


def noisy_and_clean(redraw: bool = False) -> tuple[torch.Tensor, torch.Tensor, list[int]]:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (1000, 8, 8, 1), dtype=np.uint8)
    y = np.zeros(1000, int)
    data = Data("d", x, y, x, y, "image", 1, mean=(127.5,), std=(74.0,))
    shares = [np.arange(i * 100, i * 100 + 100) for i in range(10)]
    noise = Noise(sigma=0.5, redraw=redraw, stratified=False, min_size=1)
    noisy = make_shards(data, shares, noise, Streams(0))
    clean = make_shards(data, shares, Iid(stratified=False, min_size=1), Streams(0))
    assert noisy.noise == (noise.noise(10).tolist() if redraw else [])
    return noisy.x, clean.x, noisy.bounds


def test_noise_grows_linearly_with_the_client() -> None:
    noisy, clean, bounds = noisy_and_clean()
    added = noisy - clean
    stds = [float(added[a:b].std()) for a, b in itertools.pairwise(bounds)]
    np.testing.assert_allclose(stds, 0.5 * np.arange(1, 11) / 10, rtol=0.05)
    again, _, _ = noisy_and_clean()
    assert torch.equal(noisy, again)


def test_redrawn_noise_is_left_to_the_training() -> None:
    noisy, clean, _ = noisy_and_clean(redraw=True)
    assert torch.equal(noisy, clean)


def test_configured_partitions_are_the_papers() -> None:
    assert compose(["dataset=fmnist"]).partition == Dirichlet(beta=0.5, min_size=10)
    assert compose(["dataset=fmnist", "partition=classes"]).partition == Classes(k=3, min_size=10)
    assert compose(["dataset=fmnist", "partition=noise"]).partition.sigma == 0.1  # type: ignore[attr-defined]
    assert compose(["partition=iid"]).partition.min_size == 2  # the embedded digits
