"""FedAvg, LG-FedAvg, Rank and CGSV on numbers worked out by hand, and their invariants."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from fedincent.contributions.base import moving_importance
from fedincent.contributions.cgsv import CosineImportance
from fedincent.federation import Recipe
from fedincent.mechanisms.cgsv import CGSV
from fedincent.mechanisms.fedavg_finetune import FedAvgFinetune
from fedincent.mechanisms.lg_fedavg import LGFedAvg
from fedincent.mechanisms.rank import Rank
from fedincent.mechanisms.sparse import add_largest
from tests.conftest import baseline, random_updates


def cgsv(**changes) -> CGSV:  # type: ignore[no-untyped-def]
    return CGSV(**{"alpha": 0.95, "beta": 1.0, "gamma": 0.5, "weights": "importance", "mask": "layer", **changes})


def test_fedavg_moves_by_the_mean_of_those_who_joined(make_federation, make_round) -> None:  # type: ignore[no-untyped-def]
    federation = make_federation(3)
    mechanism = FedAvgFinetune(finetune_epochs=1)
    mechanism.start(federation)
    updates = random_updates(3, federation.dim)
    updates[1] = 0
    mechanism.reward(make_round([True, False, True]), updates)
    torch.testing.assert_close(mechanism.models[1], federation.initial + (updates[0] + updates[2]) / 2)
    assert mechanism.models.stride(0) == 0  # one row in memory
    before = mechanism.models.clone()
    mechanism.reward(make_round([False] * 3), torch.zeros_like(updates))
    assert torch.equal(mechanism.models, before)


def test_fedavg_fine_tunes_at_the_first_rate() -> None:
    recipe = Recipe(
        momentum=0.0,
        weight_decay=0.0,
        carry=False,
        optimizer="adam",
        lr=0.02,
        decay=0.5,
        batch_size=8,
        local_epochs=3,
        local_steps=0,
        augment="none",
    )
    task = FedAvgFinetune(finetune_epochs=1).closing_task(recipe)
    assert task is not None and (task.lr, task.epochs) == (0.02, 1)
    assert FedAvgFinetune(finetune_epochs=0).closing_task(recipe) is None


def test_lg_fedavg_shares_the_last_layers_only(make_federation, make_round) -> None:  # type: ignore[no-untyped-def]
    module = nn.Sequential(nn.Conv2d(1, 1, 1), nn.Linear(1, 2), nn.Linear(2, 1), nn.Linear(1, 1), nn.Linear(1, 1))
    federation = make_federation(2, module=module)  # columns: conv 0–1, linear 2–5, then shared 6–8, 9–10, 11–12
    mechanism = LGFedAvg(shared_layers=3)
    mechanism.start(federation)
    updates = torch.stack([torch.full((13,), 1.0), torch.full((13,), 3.0)])
    mechanism.reward(make_round([True, True]), updates)
    moved = mechanism.models - federation.initial
    torch.testing.assert_close(moved[0], torch.tensor([1.0] * 6 + [2.0] * 7))
    torch.testing.assert_close(moved[1], torch.tensor([3.0] * 6 + [2.0] * 7))
    mechanism.reward(make_round([True, False]), torch.stack([torch.full((13,), 1.0), torch.zeros(13)]))
    again = mechanism.models - federation.initial
    torch.testing.assert_close(again[1], torch.tensor([3.0] * 6 + [3.0] * 7))  # the absentee gets the shared part


def test_rank_by_hand(make_federation, make_round) -> None:  # type: ignore[no-untyped-def]
    """Accuracies .5, .9, .1: the order is 2, 0, 1; client 2 keeps its own, 0 averages {2, 0}, 1 averages all."""
    asked = []

    def judge(models: torch.Tensor, data: str) -> tuple[torch.Tensor, torch.Tensor]:
        asked.append((models.clone(), data))
        return torch.tensor([0.5, 0.9, 0.1]), torch.zeros(3)

    federation = make_federation(3, judge=judge)
    mechanism = Rank(validation="test", ties="number")
    mechanism.start(federation)
    updates = random_updates(3, federation.dim)
    mechanism.reward(make_round([True] * 3), updates)
    moved = mechanism.models - federation.initial
    torch.testing.assert_close(moved[2], updates[2])
    torch.testing.assert_close(moved[0], (updates[2] + updates[0]) / 2)
    torch.testing.assert_close(moved[1], updates.mean(0))
    torch.testing.assert_close(asked[0][0], federation.initial + updates)  # freshly trained models are judged
    assert asked[0][1] == "test"


def test_rank_with_ties_and_absentees(make_federation, make_round) -> None:  # type: ignore[no-untyped-def]
    federation = make_federation(4, judge=lambda models, data: (torch.full((len(models),), 0.5), None))
    mechanism = Rank(validation="held_out", ties="number")
    mechanism.start(federation)
    updates = random_updates(4, federation.dim)
    updates[1] = 0
    mechanism.reward(make_round([True, False, True, True]), updates)
    moved = mechanism.models - federation.initial
    torch.testing.assert_close(moved[0], updates[0])
    assert moved[1].abs().sum() == 0
    torch.testing.assert_close(moved[3], updates[[0, 2, 3]].mean(0))


def test_importance_by_hand() -> None:
    r = moving_importance(torch.zeros(3, dtype=torch.float64), torch.tensor([0.8, 0.2, -0.5]), 0.95)
    raw = np.array([0.04, 0.01, 0.001])  # (1−α)·ψ, the third floored
    np.testing.assert_allclose(r, raw / raw.sum())
    second = moving_importance(r, torch.tensor([0.8, 0.2, -0.5]), 0.95)
    raw = np.maximum(0.95 * r.numpy() + 0.05 * np.array([0.8, 0.2, -0.5]), 1e-3)
    np.testing.assert_allclose(second, raw / raw.sum())


def test_largest_entries_by_hand() -> None:
    aggregate = torch.tensor([1.0, -4.0, 2.0, -3.0, 10.0, 20.0])
    models = torch.zeros(3, 6)
    add_largest(models, aggregate, torch.tensor([0.5, 1.0, 0.01]), [slice(0, 4), slice(4, 6)], round_up=True)
    assert models[0].tolist() == [0, -4, 0, -3, 0, 20]
    assert models[1].tolist() == aggregate.tolist()  # q = 1 keeps all
    assert models[2].tolist() == [0, -4, 0, 0, 0, 20]  # at least one of each layer
    whole = torch.zeros(2, 6)
    add_largest(whole, aggregate, torch.tensor([0.5, 0.1]), [slice(0, 6)], round_up=False)
    assert whole[0].tolist() == [0, -4, 0, 0, 10, 20] and whole[1].abs().sum() == 0


def test_cgsv_round_by_hand(make_federation, make_round) -> None:  # type: ignore[no-untyped-def]
    """Two clients, orthogonal updates, data shares 3/4 and 1/4: cosines 3/√10 and 1/√10."""
    federation = make_federation(2, sizes=[30, 10])
    mechanism = cgsv(gamma=2.0)
    mechanism.start(federation)
    updates = torch.zeros(2, federation.dim)
    updates[0, 0], updates[1, 1] = 7.0, 0.1
    mechanism.reward(make_round([True, True]), updates)
    psi = np.array([3, 1]) / np.sqrt(10)
    np.testing.assert_allclose(mechanism.importance, psi / psi.sum(), rtol=1e-4)
    moved = mechanism.models - federation.initial
    torch.testing.assert_close(moved[0, :2], torch.tensor([1.5, 0.5]), rtol=1e-3, atol=1e-5)  # Γ·w, everything
    # q_2 = tanh(.25)/tanh(.75) = .386: ⌈.386·6⌉ = 3 of the first layer's six entries, the two that are not 0 among them
    torch.testing.assert_close(moved[1, :2], torch.tensor([1.5, 0.5]), rtol=1e-3, atol=1e-5)


@given(st.integers(2, 6), st.integers(0, 30), st.sampled_from(["honest", "zero", "huge", "opposite"]))
def test_cgsv_shares_stay_sane_however_bad_the_update(n: int, seed: int, kind: str) -> None:
    r = torch.full((n,), 1 / n, dtype=torch.float64)
    updates = random_updates(n, 40, seed)
    updates[0] = {
        "honest": updates[0],
        "zero": updates[0] * 0,
        "huge": updates[0] * 1e18,
        "opposite": -10 * updates[1:].sum(0),
    }[kind]
    measure = CosineImportance(alpha=0.9)
    measure.values, measure.data_shares = r, r
    from fedincent.federation import Round, Streams

    joined, losses = torch.ones(n, dtype=torch.bool), torch.zeros(n)
    for index in range(1, 4):
        values = measure.measure(Round(index, 0.1, Streams(0), joined, losses, losses), updates)
        assert values.isfinite().all() and (values > 0).all()
        assert float(values.sum()) == pytest.approx(1)


def test_large_beta_gives_everybody_everything(make_federation, make_round) -> None:  # type: ignore[no-untyped-def]
    federation = make_federation(4, sizes=[1, 2, 3, 4])
    mechanism = cgsv(beta=1e6)
    mechanism.start(federation)
    for index in range(3):
        mechanism.reward(make_round([True] * 4, index), random_updates(4, federation.dim, index))
    for i in range(1, 4):
        torch.testing.assert_close(mechanism.models[i], mechanism.models[0])


def test_cgsv_importance_is_the_same_as_mechanism_and_as_contribution(make_federation, make_round) -> None:  # type: ignore[no-untyped-def]
    federation = make_federation(4, sizes=[5, 10, 20, 40])
    mechanism, measure = cgsv(), CosineImportance(alpha=0.95)
    mechanism.start(federation)
    measure.start(federation, baseline([0.1] * 4))
    for index in range(4):
        updates, round = random_updates(4, federation.dim, index), make_round([True] * 4, index)
        measured = measure.measure(round, updates.clone())
        mechanism.reward(round, updates)
        torch.testing.assert_close(measured, mechanism.importance, rtol=1e-4, atol=1e-6)


def test_a_client_that_agrees_earns_more(make_federation, make_round) -> None:  # type: ignore[no-untyped-def]
    federation = make_federation(5)
    mechanism = cgsv()
    mechanism.start(federation)
    direction = random_updates(1, federation.dim, 99)
    for index in range(10):
        updates = direction + 0.3 * random_updates(5, federation.dim, index)
        updates[0] = random_updates(1, federation.dim, 1000 + index)
        mechanism.reward(make_round([True] * 5, index), updates)
    assert (mechanism.importance[0] < mechanism.importance[1:]).all()


def test_ties_in_rank_are_drawn(make_federation, make_round) -> None:  # type: ignore[no-untyped-def]
    """All equally accurate: over the rounds each is as often first (and keeps its own update alone) as any other."""
    federation = make_federation(3, judge=lambda models, data: (torch.ones(len(models)), torch.zeros(len(models))))
    alone = np.zeros(3)
    for index in range(300):
        mechanism = Rank(validation="test", ties="drawn")
        mechanism.start(federation)
        updates = random_updates(3, federation.dim)
        mechanism.reward(make_round([True] * 3, index=index), updates)
        moved = mechanism.models - federation.initial
        alone += [torch.allclose(moved[i], updates[i], atol=1e-5) for i in range(3)]
    assert alone.sum() == 300 and alone.min() > 70
