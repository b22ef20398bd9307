"""The seams at work in whole runs: arrivals, online judging, references, behaviours, regression; killed and resumed."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from fedincent.config.compose import compose
from fedincent.errors import ConfigError
from fedincent.runs.runner import run
from fedincent.runs.view import View
from fedincent.store.result import Result

ONLINE = (
    "n_clients=6 rounds=8 model=logistic stream.per_round=4 protocol=online partition=iid training.carry=true "
    "disturbance=feature_noise checkpoint_every=0 reference=none training.batch_size=3"
).split()
FILES = ("clients.csv", "rounds.csv", "online.csv")


def go(*overrides: str) -> Result:
    return run(compose(list(overrides)), View())


def contents(result: Result) -> dict[str, bytes]:
    return {name: (result.path / name).read_bytes() for name in FILES}


def test_arrivals_online_and_the_truth() -> None:
    result = go(*ONLINE, "mechanism=fedavg")
    online, clients = result.online, result.clients
    assert len(online) == 8 * 6 and list(online.columns) == ["round", "client", "accuracy", "loss"]
    np.testing.assert_allclose(clients.online_loss, online.groupby("client").loss.mean())
    np.testing.assert_allclose(clients.zeta, 0.9 * np.arange(6) / 6)
    assert (clients.n_samples == 4 * 8).all()  # what arrived before the last round was over
    assert result.summary["online_accuracy_mean"] == pytest.approx(online.accuracy.mean())
    assert result.summary["pearson_online_loss"] is None  # everybody has the same model
    assert "ipr_accuracy" not in result.summary and "standalone_accuracy" not in clients
    assert not list(result.path.parent.glob("standalone*"))  # nobody asked for it
    alone = go(*ONLINE, "mechanism=standalone", "reference=standalone")
    assert alone.summary["pearson_online_loss"] is not None and len(alone.online) == 8 * 6


def test_a_stream_needs_enough_samples() -> None:
    with pytest.raises(
        ConfigError, match=r"stream\.per_round=40: client \d holds 240 samples; 8 rounds and one more need 360"
    ):
        go(*ONLINE, "stream.per_round=40")
    shared = go(*ONLINE, "mechanism=fedavg", "partition=pow", "partition.size=100", "stream.sizes=proportional")
    assert shared.clients.n_samples.is_monotonic_increasing and shared.clients.n_samples.sum() == pytest.approx(
        6 * 32, abs=6
    )


@pytest.mark.parametrize("executor", ["serial", "processes"])
@pytest.mark.parametrize("mechanism", ["fedavg", "standalone"])
def test_killed_at_random_with_carried_adam_arrivals_and_online_judging(
    executor: str, mechanism: str, tmp_path: Path
) -> None:
    """kill -9 again and again, at random moments; in the end the same bytes as in one piece."""
    line = [*ONLINE, f"mechanism={mechanism}", f"executor={executor}", "rounds=20"]
    wanted = contents(go(*line, "executor=serial", "results_dir=whole"))
    command = [sys.executable, "-m", "fedincent", "run", *line, f"results_dir={tmp_path / 'killed'}"]
    draw = random.Random(f"{executor} {mechanism}")
    for _ in range(12):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        checkpoints = list((tmp_path / "killed").glob("runs/*/checkpoint.safetensors"))
        before = checkpoints[0].stat().st_mtime_ns if checkpoints else 0
        while process.poll() is None:
            saved = list((tmp_path / "killed").glob("runs/*/checkpoint.safetensors"))
            if saved and saved[0].stat().st_mtime_ns > before:
                break
            time.sleep(0.005)
        time.sleep(draw.random() * 0.03)
        if process.poll() is not None:
            break
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    found = go(*line, "results_dir=killed")
    assert contents(found) == wanted


def test_serial_and_processes_agree_on_all_of_it(tmp_path: Path) -> None:
    line = [*ONLINE, "mechanism=iafl", "reference=standalone", "client_test_fraction=0.2", "client_validation_fraction=0.2"]
    one = go(*line, "executor=serial", "results_dir=a")
    other = go(*line, "executor=processes", "executor.workers=2", "results_dir=b")
    assert contents(one) == contents(other) and one.path.name == other.path.name


def test_fedavg_as_the_reference() -> None:
    tiny = ["n_clients=6", "rounds=3", "model=logistic", "client_test_fraction=0.3"]
    ours = go(*tiny, "mechanism=lg_fedavg", "reference=fedavg")
    names = {path.name.split("-")[0] for path in ours.path.parent.iterdir()}
    assert names == {"lg_fedavg", "fedavg"}  # made once, and nothing that nobody asked for
    theirs = go(*tiny, "mechanism=fedavg", "reference=none")
    assert len(list(ours.path.parent.iterdir())) == 2  # the reference is a run like any other
    np.testing.assert_array_equal(ours.clients.fedavg_accuracy, theirs.clients.accuracy)
    gain = ours.clients.own_accuracy - theirs.clients.own_accuracy
    assert ours.summary["own_accuracy_gain"] == pytest.approx(gain.mean())
    assert ours.summary["opt_outs"] == pytest.approx((gain <= 0).mean())
    assert ours.summary["accuracy_gain"] == pytest.approx((ours.clients.accuracy - theirs.clients.accuracy).mean())


def test_a_contribution_that_needs_standalone_training_gets_it() -> None:
    result = go("n_clients=4", "rounds=2", "model=logistic", "mechanism=iafl", "reference=fedavg")
    assert {path.name.split("-")[0] for path in result.path.parent.iterdir()} == {"iafl", "fedavg", "standalone"}
    assert {"contribution", "fedavg_accuracy"} <= set(result.clients) and "standalone_accuracy" not in result.clients


def test_own_tests_from_the_official_test_set() -> None:
    line = "n_clients=5 rounds=2 model=logistic partition=classes partition.k=2 mechanism=standalone".split()
    result = go(*line, "client_test_fraction=0.1", "client_test_from=official")
    np.testing.assert_array_equal(result.clients.n_samples, go(*line).clients.n_samples)  # nothing is taken from the clients
    assert result.clients.own_accuracy.mean() > result.clients.accuracy.mean() + 0.3  # tests of their own two classes


@pytest.mark.parametrize("behaviour", ["zeros", "noise", "sign_flip", "scaled", "stops"])
def test_behaviours_change_what_is_sent(behaviour: str) -> None:
    tiny = ["n_clients=6", "rounds=4", "model=logistic", "mechanism=fedavg"]
    honest = go(*tiny)
    more = ["behaviour.after=2"] if behaviour == "stops" else []
    other = go(*tiny, f"behaviour={behaviour}", "behaviour.clients=[0,5]", *more)
    assert other.path != honest.path
    assert not np.array_equal(other.clients.loss, honest.clients.loss)
    np.testing.assert_array_equal(other.clients.standalone_loss, honest.clients.standalone_loss)
    same = (honest.rounds.train_loss == other.rounds.train_loss).tolist()
    assert same == ([True, True, True, False] if behaviour == "stops" else [True, False, False, False])


def test_who_behaves_so() -> None:
    tiny = ["n_clients=6", "rounds=2", "model=logistic", "mechanism=iafl", "behaviour=zeros"]
    best = go(*tiny, "behaviour.share=0.3", "behaviour.pick=best")
    named = go(*tiny, f"behaviour.clients={best.clients.contribution.nlargest(2).index.tolist()}".replace(" ", ""))
    np.testing.assert_array_equal(best.clients.accuracy, named.clients.accuracy)
    with pytest.raises(ConfigError, match=r"behaviour\.clients=\[6\]: there are 6 clients"):
        go(*tiny, "behaviour.clients=[6]")
    with pytest.raises(ConfigError, match="no contributions are known"):
        go(*tiny, "behaviour.pick=worst", "contribution=cgsv")


def test_regression_from_end_to_end() -> None:
    result = go("dataset=diabetes", "rounds=10", "mechanism=fedavg", "eval_every=5")
    clients, summary = result.clients, result.summary
    assert {"mape", "standalone_mape", "loss"} <= set(clients) and "accuracy" not in clients
    assert summary["mape_mean"] == pytest.approx(clients.mape.mean()) and "accuracy_mean" not in summary
    assert summary["ipr_mape"] == pytest.approx((clients.mape <= clients.standalone_mape).mean())
    assert 0.2 < summary["mape_mean"] < 0.7 and result.rounds.mape_mean.notna().sum() == 2
    for partition in ("dirichlet", "classes", "clusters", "cla"):
        with pytest.raises(ConfigError, match=r"partition=.*goes by label, the data set has numbers as targets"):
            go("dataset=diabetes", f"partition={partition}")
    with pytest.raises(ConfigError, match="goes by label"):
        go("dataset=diabetes", "partition.stratified=true")
    with pytest.raises(ConfigError, match="wrong_labels"):
        go("dataset=diabetes", "disturbance=wrong_labels")


def test_what_a_mechanism_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    from fedincent.mechanisms.fedavg import FedAvg

    plain = FedAvg.weights

    def telling(self, round, updates):  # type: ignore[no-untyped-def]
        round.tell("largest_update", float(updates.norm(dim=1).max()))
        return plain(self, round, updates)

    monkeypatch.setattr(FedAvg, "weights", telling)
    monkeypatch.setattr(FedAvg, "facts", lambda self: {"stopped": 3, "psi": [0.5, 0.5]})
    result = go("n_clients=4", "rounds=2", "model=logistic", "mechanism=fedavg", "reference=none")
    assert (result.rounds.largest_update > 0).all()
    summary = json.loads((result.path / "summary.json").read_text())
    assert summary["stopped"] == 3 and summary["psi"] == [0.5, 0.5]
