"""FYE and its rivals: by hand, in the limit, and as whole runs on streams of digits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from fedincent.config.compose import compose
from fedincent.contributions import shapley
from fedincent.contributions.stopping import henze_zirkler_p, hotelling_p
from fedincent.errors import ConfigError
from fedincent.mechanisms.fye import FYE
from fedincent.runs.runner import run
from fedincent.runs.stage import Stage
from fedincent.runs.view import View
from fedincent.store.result import Result
from fedincent.studies.staleness import models_sent
from tests.conftest import random_updates

STREAM = (
    "n_clients=6 rounds=16 per_round=3 model=logistic partition=iid stream.per_round=4 protocol=online reference=none "
    "training.optimizer=sgd training.lr=0.05 training.momentum=0.9 training.carry=true training.decay=1.0 "
    "training.batch_size=64 checkpoint_every=0 held_out=0.05"
).split()
SMALL = ["mechanism=fye", "mechanism.window=4", "mechanism.watched=2"]


def go(*overrides: str) -> Result:
    return run(compose([*STREAM, *overrides]), View())


def fye(**more: object) -> FYE:
    mechanism = compose([*STREAM, *SMALL, *(f"mechanism.{name}={value}" for name, value in more.items())]).mechanism
    assert isinstance(mechanism, FYE)
    return mechanism


def test_hotelling_against_the_tail_of_f() -> None:
    """Two nodes, four rounds, by hand: φ̄ − µ0 = (½, ½), S = [[1, −⅓], [−⅓, 1]], T² = 4·(½, ½)·S⁻¹·(½, ½) = 3, F = T²/3."""
    values = np.array([[0.0, 0.0], [0.0, 0.0], [0.0, 2.0], [2.0, 0.0]])
    spread = np.cov(values, rowvar=False)
    np.testing.assert_allclose(spread, [[1, -1 / 3], [-1 / 3, 1]])
    squared = 4 * np.array([0.5, 0.5]) @ np.linalg.inv(spread) @ np.array([0.5, 0.5])
    assert squared == pytest.approx(3.0)
    from scipy.stats import f

    assert hotelling_p(values, 2) == pytest.approx(f.sf((4 - 2) / (2 * 3) * 3.0, 2, 2))


def test_independent_contributions_stop_at_a_median_of_27() -> None:
    """(M, τ, α) = (10, 15, 0.7)."""
    rng = np.random.default_rng(0)
    stops = []
    for _ in range(300):
        values = rng.normal(size=(80, 10))
        stops.append(next(t for t in range(16, 81) if hotelling_p(values[:t], 15) > 0.7))
    assert abs(np.median(stops) - 27) <= 2


def test_the_linear_estimator_is_unbiased(make_federation) -> None:  # type: ignore[no-untyped-def]
    """N = 6: the mean of many estimates is the exact Shapley value; of the inner product every estimate is."""
    mechanism = fye(window=4)
    federation = make_federation(6, sizes=[1, 2, 3, 4, 5, 6])
    federation.per_round = 2
    mechanism.start(federation)
    updates = random_updates(6, federation.dim)
    game = mechanism.game(updates)
    exact = shapley.exact(game, 6)
    rng = np.random.default_rng(0)
    estimates = np.stack([shapley.linear(game, 6, rng) for _ in range(3000)])
    np.testing.assert_allclose(estimates.mean(0), exact, atol=5 * estimates.std(0).max() / np.sqrt(3000))
    shares = federation.data_shares.numpy()
    vectors = shares[:, None] * updates.double().numpy()
    np.testing.assert_allclose(exact, shapley.exact(shapley.cosine_game(vectors), 6), atol=1e-6)
    assert exact.sum() == pytest.approx(1.0, abs=1e-6)  # efficiency: U of all is 1
    inner = fye(utility="inner_product")
    inner.start(federation)
    wanted = shares * (updates.double().numpy() @ vectors.sum(0))  # eq. 4
    for seed in range(3):
        np.testing.assert_allclose(shapley.linear(inner.game(updates), 6, np.random.default_rng(seed)), wanted, rtol=1e-5)


def test_shares_may_count_twice(make_federation) -> None:  # type: ignore[no-untyped-def]
    federation = make_federation(3, sizes=[1, 2, 3])
    federation.per_round = 2
    updates = random_updates(3, federation.dim).double()
    mechanism = fye(coalition_weights="twice")
    mechanism.start(federation)
    p = federation.data_shares
    once, reference = p[:, None] ** 2 * updates, p @ updates
    wanted = [0.0, *(float(torch.cosine_similarity(once[:k].sum(0), reference, dim=0)) for k in (1, 2, 3))]
    coalitions = np.tri(4, 3, -1, dtype=bool)
    np.testing.assert_allclose(mechanism.game(updates.float())(coalitions), wanted, atol=1e-6)


def test_chances_by_hand(make_federation) -> None:  # type: ignore[no-untyped-def]
    federation = make_federation(3)
    federation.per_round = 2
    psi = torch.tensor([0.1, 0.3, 0.2], dtype=torch.float64)

    def chances(**more: object) -> list[float]:
        mechanism = fye(**more)
        mechanism.start(federation)
        mechanism.values = [psi - 0.05, psi + 0.05]
        torch.testing.assert_close(mechanism.contributions, psi)
        return mechanism.chances().tolist()

    e = np.exp(np.array([1.0, 3.0, 2.0]))
    assert chances(beta=0.1) == pytest.approx((e / e.sum()).tolist())
    assert chances(beta=0.1, score="reverse") == pytest.approx((e[[1, 0, 2]] / e.sum()).tolist())
    assert chances(beta=0.1, score="uniform") == pytest.approx([1 / 3] * 3)
    assert chances(beta=1e6) == pytest.approx([1 / 3] * 3, abs=1e-6)
    assert chances(beta=0.001)[1] == pytest.approx(1.0)


def test_one_round_of_each_phase_by_hand(make_federation, make_round) -> None:  # type: ignore[no-untyped-def]
    federation = make_federation(4, sizes=[1, 1, 2, 4])
    federation.per_round = 2
    mechanism = fye(beta=1e-4)
    mechanism.start(federation)
    start, updates = federation.initial.clone(), random_updates(4, federation.dim)
    round = make_round([True] * 4)
    assert mechanism.invite(round).all()
    mechanism.reward(round, updates)
    after = start + federation.data_shares.to(updates) @ updates  # everybody's share, in sum 1
    torch.testing.assert_close(mechanism.common, after)
    torch.testing.assert_close(mechanism.personal(), start.expand(4, -1))  # they hold what they trained from
    mechanism.exploring = torch.zeros((), dtype=torch.bool)
    mechanism.values = [torch.tensor([0.0, 1.0, 0.0, 0.0], dtype=torch.float64)]  # node 1 alone is drawn, twice
    round = make_round([False, True, False, False], index=1)
    assert mechanism.invite(round).tolist() == [False, True, False, False] and mechanism.drawn.tolist() == [0, 2, 0, 0]
    sent = torch.zeros_like(updates)
    sent[1] = updates[1]
    mechanism.reward(round, sent)
    torch.testing.assert_close(mechanism.common, after + 2 / 8 * updates[1])  # counts twice, not renormalised
    torch.testing.assert_close(mechanism.personal()[1], after)
    torch.testing.assert_close(mechanism.personal()[0], start)
    told = mechanism.outcomes()
    assert told["staleness"].tolist() == [0.5, 0, 0.5, 0.5] and told["rounds_per_sync"].tolist() == [2, 1, 2, 2]


def test_while_everybody_explores_it_is_central_momentum_sgd() -> None:
    """Each sample trains once; what is judged after round t is trained in round t + 1."""
    config = compose([*STREAM, *SMALL, "mechanism.alpha=1"])
    stage = Stage(config, View())
    shards, module = stage.training_shards(), stage.build("model")
    stage.executor.close()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.05, momentum=0.9)
    seen: list[int] = []
    pools = stage.judged_sets(shards)["arriving"]
    for t in range(16):
        held = [shards.place(i, t) for i in range(6)]
        seen += [k for part in held for k in range(part.start, part.stop)]
        x, y = (torch.cat([values[part] for part in held]) for values in (shards.x, shards.y))
        if t:
            torch.testing.assert_close(torch.sort(pools.of(None, t - 1)[1]).values, torch.sort(y).values)
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(module(x), y).backward()
        optimizer.step()
    assert len(seen) == len(set(seen)) == 16 * 6 * 4
    result = go(*SMALL, "mechanism.alpha=1", "keep_checkpoint=true")
    assert result.summary["stopping_round"] is None and (result.rounds.exploring == 1).all()
    from fedincent.store.tensors import load_tensors

    tensors, _ = load_tensors(result.path / "checkpoint.safetensors")
    central = torch.cat([p.detach().reshape(-1) for p in module.parameters()])
    torch.testing.assert_close(tensors["mechanism.common"], central, atol=1e-5, rtol=1e-5)


def test_exploring_is_the_same_for_every_beta() -> None:
    fair, equal = (go(*SMALL, f"mechanism.beta={beta}", "disturbance=feature_noise") for beta in (0.001, 1000))
    stop = fair.summary["stopping_round"]
    assert stop is not None and stop == equal.summary["stopping_round"] < 16
    one, other = (result.online[result.online["round"] <= stop] for result in (fair, equal))
    assert one.equals(other) and not fair.online.equals(equal.online)
    np.testing.assert_array_equal(fair.clients.psi, equal.clients.psi)
    assert (fair.rounds.p_value > 0.7).sum() == 1 and fair.rounds.exploring.sum() == stop
    assert fair.rounds.joined[:stop].eq(6).all() and fair.rounds.joined[stop:].le(3).all()
    assert {"pearson_staleness", "pearson_psi"} <= set(fair.summary)


def test_normalised_weights_take_larger_steps() -> None:
    plain, normalised = (
        go("mechanism=fedavg_stale", f"mechanism.normalise={value}", "training.lr=0.002") for value in ("false", "true")
    )
    assert normalised.summary["online_loss_mean"] < plain.summary["online_loss_mean"]
    everybody = go("mechanism=fedavg_stale", "per_round=6")
    same = go("mechanism=fedavg_stale", "per_round=6", "mechanism.normalise=true")
    np.testing.assert_allclose(everybody.clients.online_loss, same.clients.online_loss, rtol=1e-6)
    assert (everybody.clients.staleness == 0).all() and (plain.clients.staleness > 0).all()


@pytest.mark.parametrize("mechanism", ["qffl_stale", "gog", "cons", "fgfl", "fedavg_stale"])
def test_rivals_on_a_stream(mechanism: str) -> None:
    joined = 6 if mechanism == "fgfl" else 3
    result = go(f"mechanism={mechanism}", "disturbance=wrong_labels", *(["per_round=0"] if joined == 6 else []))
    assert (result.rounds.joined == joined).all() and result.clients.online_loss.notna().all()
    assert result.summary["online_accuracy_mean"] > 0.1


def test_cons_weights_by_hand(make_federation, make_round) -> None:  # type: ignore[no-untyped-def]
    from fedincent.mechanisms.cons import Cons

    round = make_round([True, True, False, True])
    round.incoming_losses = torch.tensor([1.0, 2.0, torch.nan, 3.0])
    for pairs, factor in (("mean", 4 * 0.3 / 3), ("sum", 4 * 0.3 * 3)):
        mechanism = Cons(strength=0.3, pairs=pairs)
        mechanism.start(make_federation(4))
        wanted = [0.25 - factor, 0.25, 0.0, 0.25 + factor]
        assert mechanism.weights(round, random_updates(4, 3)).tolist() == pytest.approx(wanted)


def test_gog_learns_who_helps(make_federation, make_round) -> None:  # type: ignore[no-untyped-def]
    """Worth is φ ← ¾φ + ¼SV for the chosen; the judge likes the first number of a model."""
    from fedincent.mechanisms.gog import GoG

    federation = make_federation(3, judge=lambda models, data: (models[:, 0].double(), models[:, 0].double()))
    federation.per_round = 2
    mechanism = GoG(permutations=200, past=0.75, validation="held_out")
    mechanism.start(federation)
    updates = torch.zeros(3, federation.dim)
    updates[0, 0], updates[1, 0] = 1.0, -1.0
    mechanism.reward(make_round([True, True, False]), updates)
    values = [0.75 / 3 + 0.25 * v for v in (1.0, -1.0)]  # v(0) = 1, v(1) = −1, v of both = 0: each order gives SV = ±1
    assert mechanism.worth.tolist() == pytest.approx([*values, 1 / 3], abs=0.03)
    torch.testing.assert_close(mechanism.common, federation.initial)  # the mean of +1 and −1


@pytest.mark.parametrize("rounds", [-1, 0, 1])
def test_stopped_around_the_last_exploring_round_and_resumed(rounds: int, tmp_path: Path) -> None:
    """Broken off before round T_α, T_α + 1, T_α + 2 and gone on with: the same bytes."""
    line = [*SMALL, "disturbance=feature_noise"]
    whole = go(*line)
    stop = whole.summary["stopping_round"] + rounds
    from fedincent.runs import session

    played = session.Session.play_round

    class Stopped(Exception):
        pass

    def until(self, index):  # type: ignore[no-untyped-def]
        if index == stop:
            raise Stopped
        return played(self, index)

    session.Session.play_round = until  # type: ignore[method-assign]
    try:
        with pytest.raises(Stopped):
            go(*line, "results_dir=again")
    finally:
        session.Session.play_round = played  # type: ignore[method-assign]
    again = go(*line, "results_dir=again")
    for name in ("clients.csv", "rounds.csv", "online.csv"):
        assert again.read(name) == whole.read(name)


def test_what_cannot_be_is_said_before_training() -> None:
    for words, field in (
        (["per_round=0"], "per_round"),
        (["mechanism.watched=7", "mechanism.window=9"], "mechanism.watched"),
        (["mechanism.window=1"], "mechanism.window"),
        (["mechanism.utility=negative_loss", "held_out=0"], "held_out"),
    ):
        with pytest.raises(ConfigError) as error:
            go(*SMALL, *words)
        assert error.value.field == field


def test_power_law_sizes() -> None:
    partition = compose(["partition=powerlaw"]).partition
    shares = partition.proportions(30)  # type: ignore[attr-defined]
    assert shares.sum() == pytest.approx(1) and shares[-1] / shares[0] == pytest.approx(0.994 / 0.484, abs=0.01)
    result = go("mechanism=fedavg_stale", "partition=powerlaw", "stream.sizes=proportional", "rounds=8")
    np.testing.assert_allclose(result.clients.n_samples, 6 * 8 * 4 * -result.clients.zeta, atol=1)


def test_henze_zirkler_tells_normal_from_not() -> None:
    rng = np.random.default_rng(0)
    normal = [henze_zirkler_p(rng.normal(size=(50, 4)) @ rng.normal(size=(4, 4))) for _ in range(200)]
    heavy = [henze_zirkler_p(rng.standard_t(1.5, size=(50, 4))) for _ in range(50)]
    assert 0.9 <= np.mean(np.array(normal) >= 0.05) <= 1.0 and np.mean(np.array(heavy) < 0.05) > 0.9
    assert henze_zirkler_p(np.ones((10, 2))) == 0.0


def test_the_best_node_stops_and_is_found() -> None:
    """i* is whom the honest run finds best; it is honest until a guessed round, and then sends nothing."""
    line = [*SMALL, "disturbance=feature_noise"]
    cheat = "behaviour=stops behaviour.pick=found_best behaviour.share=0.1".split()
    honest = go(*line)
    guessed = go(*line, *cheat, "behaviour.guess=uniform", "behaviour.after=16")
    best = int(honest.clients.psi.argmax())
    assert guessed.clients.cheats.tolist() == [int(i == best) for i in range(6)]
    np.testing.assert_array_equal(guessed.clients.honest_worth, honest.clients.psi)
    assert guessed.summary["online_loss_of_best"] == guessed.clients.online_loss[best]
    assert honest.summary["online_loss_of_best"] == honest.clients.online_loss[best]
    last = guessed.summary["honest_rounds"]
    assert honest.online[honest.online["round"] <= last].equals(guessed.online[guessed.online["round"] <= last])
    poisson = go(*line, *cheat, "behaviour.guess=poisson")
    assert 0 <= poisson.summary["honest_rounds"] <= 4 * honest.summary["stopping_round"]
    same = go(*line, *cheat, "behaviour.after=16")
    np.testing.assert_array_equal(same.clients.online_loss, honest.clients.online_loss)  # honest to the end


def test_absent_nodes_while_exploring() -> None:
    line = [*SMALL, "disturbance=feature_noise"]
    everybody, half = go(*line), go(*line, "mechanism.present=0.5")
    first = max(0, everybody.summary["stopping_round"] - 5)
    assert half.rounds.joined[:first].eq(6).all()
    exploring = half.rounds[half.rounds.exploring.astype(bool)]
    assert exploring.joined[first:].eq(3).all() and len(exploring) > first


def test_negative_loss_as_utility() -> None:
    result = go(*SMALL, "mechanism.utility=negative_loss", "disturbance=feature_noise", "rounds=6")
    assert result.clients.psi.abs().max() > 0 and result.summary["seconds"]["validation"] > 0


def test_what_is_sent_is_what_table_7_says() -> None:
    result = go(*SMALL, "mechanism.replacement=false", "disturbance=feature_noise")
    sent = models_sent(6, 16, 3, int(result.summary["stopping_round"]))
    assert 2 * result.rounds.joined.sum() == sent["fye"] < sent["fgfl"]
    assert 2 * go("mechanism=fedavg_stale").rounds.joined.sum() == sent["fedavg"]


def test_concurrent_evaluation() -> None:
    result = go(*SMALL, "mechanism.concurrent=true", "trace=true", "disturbance=wrong_labels", "disturbance.most=1")
    assert result.rounds.joined.le(3).all() and result.summary["stopping_round"] is None
    first = result.trace[result.trace["round"] == 1]
    never = first[first.drawn == 0]
    assert len(never) and np.allclose(never.psi, 1 / 6) and not np.allclose(first[first.drawn > 0].psi, 1 / 6)


def test_time_series_come_block_by_block() -> None:
    stream = compose([*STREAM, "stream.order=given"]).stream
    shares = stream.in_time(np.arange(100), 6)
    assert [share[:8].tolist() for share in shares[:2]] == [[0, 1, 2, 3, 24, 25, 26, 27], [4, 5, 6, 7, 28, 29, 30, 31]]
    assert {len(share) for share in shares} == {16}  # four whole rounds of 24 in 100
    with pytest.raises(ConfigError, match=r"stream\.order"):
        go("mechanism=fedavg_stale", "stream.order=given", "stream.sizes=proportional")
    assert go("mechanism=fedavg_stale", "stream.order=given", "rounds=8").clients.n_samples.eq(32).all()


def test_gog_knows_that_a_small_error_is_good(make_federation, make_round) -> None:  # type: ignore[no-untyped-def]
    from fedincent.mechanisms.gog import GoG

    federation = make_federation(2, judge=lambda models, data: (models[:, 0].double(), models[:, 0].double()))
    federation.higher_is_better = False
    mechanism = GoG(permutations=10, past=0.75, validation="held_out")
    mechanism.start(federation)
    updates = torch.zeros(2, federation.dim)
    updates[0, 0], updates[1, 0] = 1.0, -1.0
    mechanism.reward(make_round([True, True]), updates)
    assert mechanism.worth[1] > mechanism.worth[0]
