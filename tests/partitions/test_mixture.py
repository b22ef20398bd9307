"""Mixtures: nobody shares a sample, everybody gets the mixture that was asked for, tests may be swapped."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fedincent.config.compose import compose
from fedincent.datasets import Data
from fedincent.errors import ConfigError
from fedincent.federation import Streams
from fedincent.federation.shards import gathered
from fedincent.objectives import Classification
from fedincent.partitions import Deal, Table
from fedincent.partitions.mixture import Mixture
from fedincent.runs.runner import run
from fedincent.runs.stage import Stage
from fedincent.runs.view import View

PLAIN: dict[str, Any] = {
    "by": "labels", "groups": 2, "label_groups": (), "mix": "fixed", "share": 0.9, "shuffled": False, "samples": 0,
    "test_samples": 0, "swapped": False, "fresh": 0.0, "min_size": 1,
}  # fmt: skip


def data(n: int = 2000, classes: int = 10) -> Data:
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (n, 4, 4, 1), dtype=np.uint8)
    y = np.arange(n) % classes
    return Data("d", images, y, images[: n // 2], y[: n // 2], "image", classes, mean=(0.0,), std=(1.0,))


def deal(n_clients: int = 10, seed: int = 0, fraction: float = 0.2, unseen: int = 0, **changes: Any) -> Deal:
    held = data()
    table = Table(held, np.arange(2000), n_clients + unseen, Streams(seed), 0.0, "own", fraction, unseen)
    return Mixture(**{**PLAIN, **changes}).deal(table)


def shares_of_group_0(shares: list[np.ndarray], found: Deal, part: str) -> np.ndarray:
    if found.turns:
        return np.array([(found.turns[part][share] == 0).mean() for share in shares])
    labels = data().y_train
    return np.array([(labels[share] < 5).mean() for share in shares])


@given(
    st.sampled_from(["labels", "rotation"]), st.sampled_from(["fixed", "linear", "random"]), st.booleans(),
    st.sampled_from([0, 100]), st.integers(2, 20), st.integers(0, 20), st.sampled_from([0.0, 0.2]), st.floats(0.5, 1.0),
)  # fmt: skip
@settings(max_examples=80, deadline=None)
def test_what_a_mixture_promises(
    by: str, mix: str, swapped: bool, samples: int, n: int, seed: int, fresh: float, share: float
) -> None:
    found = deal(n, seed, by=by, mix=mix, swapped=swapped, samples=samples, fresh=fresh, share=share)
    everything = np.concatenate([*found.train, *found.validation])
    assert len(np.unique(everything)) == len(everything)
    tests = np.concatenate([*found.test, *found.fresh])
    assert len(np.unique(tests)) == len(tests)
    if samples == 0:
        assert len(everything) == 2000 and len(tests) == 1000
    wanted = found.truth["share_of_group_0"]
    held = [np.concatenate(parts) for parts in zip(found.train, found.validation, strict=True)]
    sizes = np.array([len(part) for part in held])
    got = shares_of_group_0(held, found, "train")
    if samples:
        assert len(set(sizes.tolist())) <= 3 and sizes.max() <= 100
        np.testing.assert_allclose(got, wanted, atol=2 / sizes.min())
    aside = [*found.test] if not found.fresh else [np.concatenate(p) for p in zip(found.test, found.fresh, strict=True)]
    if mix == "fixed" and n % 2 == 0:
        aim = 1 - wanted if swapped else wanted
        np.testing.assert_allclose(shares_of_group_0(aside, found, "test"), aim, atol=0.06)
    assert sorted(found.distributions) == ["theta_0", "theta_1"]
    assert len(np.intersect1d(*found.distributions.values())) == 0
    again = deal(n, seed, by=by, mix=mix, swapped=swapped, samples=samples, fresh=fresh, share=share)
    assert all((a == b).all() for a, b in zip(found.train, again.train, strict=True))


def test_the_papers_sizes_fit_exactly() -> None:
    """100 clients of 500 from two pools of 25,000: 10:90 and linear use every sample."""
    partition = Mixture(**{**PLAIN, "samples": 500, "by": "rotation"})
    rng = np.random.default_rng(0)
    for mix in ("fixed", "linear"):
        partition.mix = mix
        _, rows = partition.mixtures(100, 0, rng)
        assert rows[:, 0].sum() == pytest.approx(50) and rows.sum(1) == pytest.approx(np.ones(100))
    assert rows[0, 0] == pytest.approx(0.005) and rows[99, 0] == pytest.approx(0.995)


def test_groups_of_classes_are_shared_equally() -> None:
    found = deal(12, groups=5, share=1.0, shuffled=True)
    labels = data().y_train
    kinds = [frozenset(labels[share].tolist()) for share in found.train]
    assert all(len(kind) == 2 for kind in kinds) and len(set(kinds)) == 5
    members = np.bincount(found.truth["group"])
    assert members.max() - members.min() <= 1
    for client, group in enumerate(found.truth["group"]):
        assert len(found.train[client]) + len(found.validation[client]) == pytest.approx(400 / members[group], abs=1)


def test_four_groups_swapped() -> None:
    found = deal(8, groups=4, label_groups=((0, 5), (6, 7), (2, 8, 1), (4, 3, 9)), swapped=True, share=0.7)
    labels = data().y_train
    assert found.truth["group"].tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    own = [np.isin(labels[share], (0, 5)).mean() for share in (found.train[0], found.test[0])]
    assert own[0] > 0.5 and own[1] < 0.4
    assert len(found.distributions["theta_2"]) == 300


def test_unseen_clients_are_dealt_like_the_others() -> None:
    found = deal(6, unseen=4)
    assert found.truth["group"].tolist() == [0, 0, 0, 1, 1, 1, 0, 0, 1, 1]


def test_images_are_turned_where_they_are_dealt_and_judged() -> None:
    config = compose(["partition=mixture", "partition.by=rotation", "n_clients=4", "client_validation_fraction=0.2"])
    stage = Stage(config, View())
    judged, found = stage.executor.work.judged, stage.deal
    plain = gathered(stage.data, [found.distributions["theta_1"]], Classification(), official_test=True).x
    torch.testing.assert_close(judged["theta_1"].x, torch.rot90(plain, 1, (-2, -1)))
    plain = gathered(stage.data, found.train, Classification()).x
    shards = stage.executor.work.shards.x
    turned = torch.from_numpy(found.turns["train"][np.concatenate(found.train)] == 1)
    torch.testing.assert_close(shards[~turned], plain[~turned])
    torch.testing.assert_close(shards[turned], torch.rot90(plain[turned], 1, (-2, -1)))
    assert len(judged["validation"].y) == sum(map(len, found.validation))
    stage.close()


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["partition.groups=11"], "partition.groups=11: must be ≤ 10"),
        (["partition.by=rotation", "partition.groups=5"], "partition.groups=5: there are 4 ways to turn an image"),
        (["partition.groups=3", "partition.mix=linear"], "partition.mix=linear: is for two groups"),
        (["partition.label_groups=[[0,1]]"], "must be 2 lists"),
        (["partition.label_groups=[[0,1],[1,2]]"], "each of 0 … 9 at most once"),
        (["client_test_fraction=0.2"], "partition=mixture: deals clients tests of their own"),
        (["n_clients=400", "partition.min_size=10"], "n_clients=400: client"),
        (["partition.by=rotation", "dataset=synthetic"], "partition.by=rotation: turns images"),
    ],
)
def test_what_cannot_be_is_said(overrides: list[str], words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        run(compose(["partition=mixture", "n_clients=4", "rounds=1", "model=logistic", *overrides]), View())
    assert words in str(caught.value)
