"""The layout of a row, the streams, the shards."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from fedincent.datasets import Data
from fedincent.federation import Layout, Streams, make_shards, standardise
from fedincent.partitions.iid import Iid


def test_a_row_is_a_model() -> None:
    module = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    layout = Layout(module)
    row = layout.flatten(module)
    x = torch.randn(5, 3)
    expected = module(x).detach()
    other = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    home, gradient = torch.zeros(layout.dim), torch.zeros(layout.dim)
    layout.bind(other, home, gradient)
    home.copy_(row)  # the bound module lives on the row: writing the row changes the module
    assert torch.equal(other(x), expected)
    other(x).sum().backward()
    assert gradient.abs().sum() > 0 and other[0].weight.grad.data_ptr() == gradient.data_ptr()


def test_views_are_views_of_one_or_many_rows() -> None:
    layout = Layout(nn.Linear(3, 2))
    rows = torch.arange(16.0).view(2, 8)
    views = layout.views(rows)
    assert views["weight"].shape == (2, 2, 3) and views["bias"].tolist() == [[6.0, 7.0], [14.0, 15.0]]
    views["bias"][1] = 0
    assert rows[1, 6:].tolist() == [0.0, 0.0]


def test_columns_of_layers() -> None:
    layout = Layout(nn.Sequential(nn.Conv2d(1, 2, 1), nn.Linear(2, 3), nn.Linear(3, 1)))
    assert layout.linear == ["1", "2"]
    assert layout.columns_of(["2"]).nonzero().flatten().tolist() == [13, 14, 15, 16]


def test_batch_norm_is_refused() -> None:
    with pytest.raises(TypeError, match="BatchNorm"):
        Layout(nn.BatchNorm1d(3))


def test_streams_are_keyed_by_everything() -> None:
    draws = {
        Streams(seed)(purpose, round, client).integers(2**60)
        for seed in (0, 1)
        for purpose in ("batches", "peers")
        for round in (0, 1)
        for client in (0, 1)
    }
    assert len(draws) == 16
    assert Streams(0)("peers", 1, 2).random() == Streams(0)("peers", 1, 2).random()


def test_shards_are_grouped_and_standardised() -> None:
    x = np.random.default_rng(0).integers(0, 256, (10, 4, 4, 3), dtype=np.uint8)
    y = np.arange(10)
    mean, std = x.reshape(-1, 3).mean(0), x.reshape(-1, 3).std(0)
    data = Data("d", x, y, x, y, "image", 10, mean=tuple(mean), std=tuple(std))
    shares = [np.array([1, 5, 7]), np.array([0, 2])]
    shards = make_shards(data, shares, Iid(stratified=False, min_size=1), Streams(0))
    assert shards.sizes == [3, 2] and shards.y.tolist() == [1, 5, 7, 0, 2]
    held, labels = shards.of(1)
    assert labels.tolist() == [0, 2]
    expected = (x[[0, 2]] - mean) / std
    np.testing.assert_allclose(held.numpy(), expected.transpose(0, 3, 1, 2), atol=1e-5)
    everything = standardise(data, x)
    assert everything.mean((0, 2, 3)).abs().max() < 1e-5
    assert (everything.std((0, 2, 3)) - 1).abs().max() < 0.01
    torch.testing.assert_close(shards.black, torch.tensor(-mean / std, dtype=torch.float32))


def test_tokens_stay_tokens() -> None:
    x = np.array([[1, 2, 0]], dtype=np.int32)
    data = Data("d", x, np.zeros(1, int), x, np.zeros(1, int), "text", 2, vocabulary=3)
    assert standardise(data, x).tolist() == [[1, 2, 0]]


def test_products_are_the_same_on_any_number_of_cores(make_federation, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    monkeypatch.setattr("fedincent.federation.round.WORTH_THREADS", 0)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # as every executor does
    federation = make_federation(7, module=nn.Linear(60, 50))
    rng = torch.Generator().manual_seed(0)
    shares, updates = (torch.rand(7, n, generator=rng) for n in (7, federation.dim))
    results = []
    for cores in (1, 2, 3):
        federation.cores = cores
        models = federation.replicas()
        federation.add_product(models, shares, updates)
        results.append(models)
    torch.set_num_threads(threads)
    torch.testing.assert_close(results[0], federation.initial + shares @ updates)
    assert torch.equal(results[0], results[1]) and torch.equal(results[0], results[2])
