"""Ways not to be honest: what is sent, brought and said, by hand; and what they gain against the honest run."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from fedincent.behaviours.data import Sybils, Withholds
from fedincent.behaviours.presence import Inflates
from fedincent.behaviours.uploads import Copies, LastStep
from fedincent.config.compose import compose
from fedincent.config.groups import options_of
from fedincent.errors import ConfigError
from fedincent.federation import Job, LocalTask, Streams
from fedincent.partitions import Deal
from fedincent.runs.runner import run
from fedincent.runs.stage import Stage
from fedincent.runs.view import View
from fedincent.store.result import Result
from tests.everything import NEEDS

TINY = ["n_clients=6", "rounds=3", "model=logistic", "partition=iid", "reference=none", "held_out=0.1"]
NOTHING = {  # each cheats in name only
    "scaled": ["behaviour.factor=1"],
    "withholds": ["behaviour.keep=1"],
    "absent": ["behaviour.comes=1"],
    "inflates": ["behaviour.factor=1"],
    "wrong_labels": ["behaviour.wrong=0"],
    "stops": ["behaviour.after=99"],
    "effort": ["behaviour.common=[1.0]", "behaviour.own=1"],
}


def go(*overrides: str) -> Result:
    return run(compose(list(overrides)), View())


def paired(name: str, *overrides: str) -> Result:
    return go(*TINY, f"behaviour={name}", "behaviour.share=0.3", "behaviour.paired=true", *overrides)


def assert_nothing_gained(result: Result) -> None:
    """To the last bit, for everybody."""
    clients = result.clients
    assert clients.cheats.sum() == 2
    assert result.summary["cheat_gain"] == result.summary["cheat_others"] == 0.0
    rewards = [name for name in clients if f"honest_{name}" in clients]
    assert rewards
    for name in rewards:
        np.testing.assert_array_equal(clients[name], clients[f"honest_{name}"])


@pytest.mark.parametrize("mechanism", [name for name in options_of("mechanism") if name != "standalone"])
def test_who_does_nothing_else_gains_exactly_nothing(mechanism: str) -> None:
    more = [word for word in NEEDS.get(mechanism, []) if not word.startswith(("reference", "unseen", "tune"))]
    assert_nothing_gained(paired("scaled", "behaviour.factor=1", f"mechanism={mechanism}", *more))


@pytest.mark.parametrize("name", NOTHING)
@pytest.mark.parametrize("mechanism", ["iafl", "qffl"])
def test_whatever_the_behaviour_that_is_none(name: str, mechanism: str) -> None:
    result = paired(name, *NOTHING[name], f"mechanism={mechanism}", "training.batch_size=16")
    assert_nothing_gained(result)
    assert result.summary["cheat_saving"] == 0


def test_all_behaviours_have_a_pair_and_a_sentence() -> None:
    for name in options_of("behaviour"):
        behaviour = compose([f"behaviour={name}"]).behaviour
        assert (type(behaviour).__doc__ or "").strip()
        assert name == "honest" or behaviour.paired is False


def test_a_pair_needs_somebody_to_be_rewarded_by() -> None:
    with pytest.raises(ConfigError, match=r"behaviour\.paired=True: who trains alone is rewarded by nobody"):
        paired("zeros", "mechanism=standalone")


# --- what they send ----------------------------------------------------------------------------------------------------


def sent(behaviour, make_federation, make_round, pools, updates):  # type: ignore[no-untyped-def]
    """What client 0 of three sends in each round, given its models and everybody's updates."""
    federation = make_federation(3)
    behaviour.start(federation, None)
    found = []
    for index, (pool, update) in enumerate(zip(pools, updates, strict=True)):
        round = make_round([True] * 3, index)
        round.jobs = [Job(i, i, LocalTask(lr=0.1)) for i in range(3)]
        given = update.clone()
        behaviour.send(round, given, pool)
        np.testing.assert_array_equal(given[1:], update[1:])  # the others are honest
        found.append(given[0])
    return found


def test_the_last_step_is_what_its_own_model_moved_by(make_federation, make_round) -> None:  # type: ignore[no-untyped-def]
    dim = make_federation(3).dim
    pools = [torch.full((3, dim), float(k)) for k in (1, 4, 9)]
    updates = [torch.ones(3, dim)] * 3
    behaviour = LastStep(clients=(0,), share=0.0, pick="random", paired=False)
    first, second, third = sent(behaviour, make_federation, make_round, pools, updates)
    assert (first == 0).all() and (second == 3).all() and (third == 5).all()


def test_copies_are_of_the_round_before(make_federation, make_round) -> None:  # type: ignore[no-untyped-def]
    dim = make_federation(3).dim
    updates = [torch.arange(3.0)[:, None].expand(3, dim) + 10 * k for k in range(3)]
    behaviour = Copies(clients=(0,), share=0.0, pick="random", paired=False)
    found = sent(behaviour, make_federation, make_round, [torch.zeros(3, dim)] * 3, updates)
    copied = behaviour.copied
    assert copied in (1, 2)
    assert [float(row[0]) for row in found] == [0.0, float(copied), 10.0 + copied]


# --- what they bring and say -------------------------------------------------------------------------------------------


def deal_of(sizes: list[int]) -> Deal:
    ends = np.cumsum(sizes)
    return Deal([np.arange(end - size, end) for size, end in zip(sizes, ends, strict=True)])


def test_more_effort_holds_what_less_brings() -> None:
    deal = deal_of([10, 20, 30])
    brought = []
    for keep in (0.0, 0.3, 0.8, 1.0):
        behaviour = Withholds(clients=(1,), share=0.0, pick="random", paired=False, keep=keep)
        train = behaviour.bring(deal, Streams(0)).train
        assert len(train[0]) == 10 and len(train[2]) == 30
        brought.append(set(train[1].tolist()))
    assert [len(some) for some in brought] == [1, 6, 16, 20]  # nobody can bring nothing
    assert brought[0] < brought[1] < brought[2] < brought[3] == set(deal.train[1].tolist())


def test_the_largest_or_the_smallest_can_be_chosen() -> None:
    for pick, chosen in (("best", [2]), ("worst", [0])):
        behaviour = Withholds(clients=(), share=0.3, pick=pick, paired=False, keep=0.5)
        behaviour.bring(deal_of([10, 20, 30]), Streams(0))
        assert behaviour.settled.nonzero().flatten().tolist() == chosen
    with pytest.raises(ConfigError, match=r"behaviour\.pick=found_best: Withholds begins before anything can be found"):
        Withholds(clients=(), share=0.3, pick="found_best", paired=False, keep=0.5).bring(deal_of([5, 5]), Streams(0))


def test_sybils_split_what_one_holds() -> None:
    behaviour = Sybils(clients=(1,), share=0.0, pick="random", paired=False)
    deal = deal_of([10, 21, 30])
    brought = behaviour.bring(deal, Streams(0))
    assert behaviour.seats(3) == 4 and behaviour.persons_of(4).tolist() == [0, 1, 2, 1]
    assert [len(share) for share in brought.train] == [10, 11, 30, 10]
    assert set(brought.train[1]) | set(brought.train[3]) == set(deal.train[1]) and not set(brought.train[1]) & set(
        brought.train[3]
    )


def test_sybils_take_the_better_of_their_rewards() -> None:
    result = paired("sybils", "mechanism=iafl", "behaviour.clients=[1]")
    clients = result.clients
    assert len(clients) == 7 and clients.person.tolist() == [0, 1, 2, 3, 4, 5, 1]
    mine = clients[clients.person == 1]
    assert result.summary["cheat_gain"] == pytest.approx((mine.accuracy - mine.honest_accuracy).max())
    others = clients[clients.person != 1]
    assert result.summary["cheat_others"] == pytest.approx((others.accuracy - others.honest_accuracy).mean())
    with pytest.raises(ConfigError, match="behaviour=sybils: goes with no disturbance or noise"):
        paired("sybils", "disturbance=feature_noise")


def test_who_inflates_is_believed_by_who_weighs_by_size() -> None:
    behaviour = Inflates(clients=(0,), share=0.0, pick="random", paired=False, factor=5.0)
    assert behaviour.report(torch.tensor([3, 4, 5]), Streams(0)).tolist() == [15, 4, 5]
    believed = paired("inflates", "mechanism=iafl", "contribution=data_size", "behaviour.factor=5")
    assert believed.summary["cheat_share"] > 0.3  # its share of the contributions
    assert paired("inflates", "mechanism=rank", "behaviour.factor=5").summary["cheat_gain"] == 0  # Rank asks nobody


def test_wrong_labels_are_wrong_and_no_more_than_stated() -> None:
    lines = [["behaviour=honest"], ["behaviour=wrong_labels", "behaviour.wrong=0.5", "behaviour.clients=[2]"]]
    stages = [Stage(compose([*TINY, "mechanism=fedavg", *line]), View()) for line in lines]
    honest, spoilt = (stage.training_shards() for stage in stages)
    for client in range(6):
        changed = int((honest.of(client)[1] != spoilt.of(client)[1]).sum())
        assert changed == (round(0.5 * honest.count(client)) if client == 2 else 0)


def test_absent_clients_are_there_for_a_share_of_the_rounds() -> None:
    result = paired("absent", "mechanism=fedavg", "behaviour.comes=0", "behaviour.clients=[0,1]")
    assert (result.rounds.joined == 4).all() and result.summary["cheat_saving"] == 1
    half = paired("absent", "mechanism=fedavg", "behaviour.comes=0.5", "behaviour.clients=[0]", "rounds=30")
    assert 0.25 < (half.rounds.joined == 6).mean() < 0.75


def test_the_honest_run_brings_all_it_has(tmp_path: Path) -> None:
    """A behaviour of data changes what the stage holds; the run it is measured against is not changed by it."""
    result = paired("withholds", "mechanism=fedavg", "behaviour.keep=0.25", "behaviour.clients=[0]")
    honest = go(*TINY, "mechanism=fedavg")
    assert len(list(result.path.parent.glob("fedavg*"))) == 2  # found again
    np.testing.assert_array_equal(result.clients.honest_accuracy, honest.clients.accuracy)
    assert result.clients.n_samples[0] < honest.clients.n_samples[0]
    assert result.summary["cheat_saving"] == pytest.approx(0.75, abs=0.01)


# --- what it comes to, on digits, three seeds --------------------------------------------------------------------------

DIGITS = ["n_clients=10", "rounds=15", "reference=none", "partition=iid", "behaviour.share=0.1", "behaviour.paired=true"]


def gains(*overrides: str) -> list[float]:
    found = [go(*DIGITS, f"seed={seed}", *overrides) for seed in range(3)]
    return [100 * float(result.summary["cheat_gain"]) for result in found]


def test_fedavg_hardly_minds_a_free_rider() -> None:
    assert all(abs(gain) < 3 for gain in gains("mechanism=fedavg", "behaviour=zeros"))


def test_under_cgsv_noise_brings_the_share_to_the_floor() -> None:
    line = [*DIGITS, "mechanism=cgsv", "behaviour=noise", "trace=true"]
    for seed in range(3):
        result = go(*line, f"seed={seed}")
        cheat = int(result.clients.cheats.to_numpy().nonzero()[0][0])
        last = result.trace[result.trace["round"] == 15].set_index("client")
        others = last.drop(index=cheat).importance
        assert last.importance[cheat] < 0.05 * others.median()
        assert 100 * result.summary["cheat_gain"] < -10


def test_alone_it_costs_to_hold_data_back() -> None:
    line = ["n_clients=10", "rounds=15", "partition=iid", "mechanism=standalone"]
    for seed in range(3):
        honest = go(*line, f"seed={seed}")
        lazy = go(*line, f"seed={seed}", "behaviour=withholds", "behaviour.keep=0.2", "behaviour.clients=[4]")
        assert honest.clients.accuracy[4] - lazy.clients.accuracy[4] > 0.15
        np.testing.assert_array_equal(honest.clients.accuracy.drop(4), lazy.clients.accuracy.drop(4))
