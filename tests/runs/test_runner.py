"""Runs, end to end: the same numbers however they are carried out, interrupted or repeated."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import fedincent
from fedincent.config.compose import compose
from fedincent.config.groups import options_of
from fedincent.errors import ConfigError, DivergenceError, FedincentError
from fedincent.mechanisms.iafl import IAFL
from fedincent.runs.runner import run
from fedincent.runs.view import View
from fedincent.store.result import Result
from fedincent.training.serial import Serial

KILLER = """
import os, signal, sys
import fedincent.store.files as files
import fedincent.store.tensors as tensors
import fedincent.training.loop as loop
from fedincent.cli import main

what, count = sys.argv[1], int(sys.argv[2])
calls = 0

def counted(function, before):
    def wrapper(*args, **more):
        global calls
        calls += 1
        if calls == count:
            before(*args)
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*args, **more)
    return wrapper

def half_a_file(path, tensors, metadata):
    path.write_bytes(b"half a checkpoint")

if what == "train":
    loop.Supervised.train = counted(loop.Supervised.train, lambda *args: None)
elif what == "save":
    tensors.write_safetensors = counted(tensors.write_safetensors, half_a_file)
elif what == "replace":
    os.replace = counted(os.replace, lambda *args: None)
main(["run", *sys.argv[3:]])
"""


def read(result: Result) -> tuple[bytes, dict]:  # type: ignore[type-arg]
    """A result's clients.csv, and its summary without what may differ from time to time."""
    summary = json.loads((result.path / "summary.json").read_text())
    summary.pop("seconds")
    summary["files"].pop("config.yaml")  # it says how the run was asked for: by which executor, with force, …
    return (result.path / "clients.csv").read_bytes(), summary


def go(*overrides: str) -> Result:
    return run(compose(list(overrides)), View())


def test_bare_run_files_and_frames(tiny: list[str], own_results: Path) -> None:
    result = fedincent.run([*tiny, "eval_every=1"])
    assert result.path.parent == own_results / "runs"
    assert {p.name for p in result.path.iterdir()} >= {
        "config.yaml",
        "summary.json",
        "clients.csv",
        "rounds.csv",
        "checkpoint.safetensors",
    }
    columns = ["client", "n_samples", "contribution", "standalone_accuracy", "standalone_loss", "accuracy", "loss"]
    assert list(result.clients.columns) == columns and len(result.clients) == 6
    assert list(result.rounds["round"]) == [1, 2, 3]
    assert result.rounds.filter(like="client_").shape == (3, 6)
    metrics = ("ipr_accuracy", "ipr_loss", "pearson", "accuracy_mean", "accuracy_max", "accuracy_gain")
    assert all(key in result.summary for key in metrics)
    assert result.summary["accuracy_mean"] == pytest.approx(result.clients.accuracy.mean())
    last = result.rounds.filter(like="client_").iloc[-1].to_numpy()
    np.testing.assert_array_equal(last, result.clients.accuracy)  # no fine-tuning: the curve ends at the result
    np.testing.assert_array_equal(result.clients.contribution, result.clients.standalone_accuracy)
    assert not list(result.path.glob(".*"))


def test_serial_and_processes_give_the_same_bytes(tmp_path: Path) -> None:
    small = ["n_clients=8", "rounds=3", "partition=quantity"]
    results = [
        go(*small, "executor=serial", "results_dir=a"),
        go(*small, "executor=processes", "executor.workers=2", "results_dir=b"),
    ]
    assert read(results[0])[0] == read(results[1])[0]
    assert results[0].path.name == results[1].path.name  # one identity: either finds the other's result
    assert results[0].summary["pearson"] == results[1].summary["pearson"]


def test_two_processes_with_the_same_seed(tiny: list[str], tmp_path: Path) -> None:
    contents = []
    for name in "ab":
        subprocess.run(
            [sys.executable, "-m", "fedincent", "run", *tiny, f"results_dir={tmp_path / name}"],
            check=True,
            capture_output=True,
        )
        contents.append([p.read_bytes() for p in sorted((tmp_path / name).rglob("clients.csv"))])
    assert contents[0] == contents[1] and len(contents[0]) == 2
    assert read(go(*tiny, "seed=1"))[0] not in contents[0]


def test_a_finished_run_is_found_and_not_repeated(tiny: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    first = go(*tiny)
    monkeypatch.setattr("fedincent.runs.session.Session.play", lambda self: pytest.fail("it ran again"))
    assert go(*tiny) == first
    assert go(*tiny, "executor=processes", "logger=wandb", "checkpoint_every=5") == first  # none changes numbers
    with pytest.raises(pytest.fail.Exception):
        go(*tiny, "mechanism.kappa=0.25")


def test_force_runs_anew_with_the_same_numbers(tiny: list[str]) -> None:
    first = read(go(*tiny))
    stamp = (go(*tiny).path / "summary.json").stat().st_mtime_ns
    again = go(*tiny, "force=true")
    assert read(again) == first
    assert (again.path / "summary.json").stat().st_mtime_ns > stamp


def test_a_finer_curve_is_made_and_then_serves_coarser_wishes(tiny: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    plain = go(*tiny)
    assert "accuracy_mean" not in plain.rounds
    curve = go(*tiny, "eval_every=1")
    assert curve.path == plain.path and curve.rounds.accuracy_mean.notna().all()
    monkeypatch.setattr("fedincent.runs.session.Session.play", lambda self: pytest.fail("it ran again"))
    assert go(*tiny).summary == go(*tiny, "eval_every=3").summary == curve.summary


def test_mechanisms_share_one_standalone_baseline(tiny: list[str], own_results: Path) -> None:
    for mechanism in ("iafl", "fedavg_finetune", "iafl mechanism.q=0.5 participation=linear contribution=data_size"):
        go(*tiny, *f"mechanism={mechanism}".split())
    names = [p.name.split("-")[0] for p in (own_results / "runs").iterdir()]
    assert sorted(names) == ["fedavg_finetune", "iafl", "iafl", "standalone"]
    alone = go(*tiny, "mechanism=standalone")
    assert alone.summary["ipr_accuracy"] == 1 and alone.summary["accuracy_gain"] == 0
    assert len(list((own_results / "runs").iterdir())) == 4


def test_data_shared_by_nobody_else(tiny: list[str]) -> None:
    """Everything that can change numbers is in the identity."""
    names = {
        go(*tiny, *change.split()).path.name
        for change in (
            "",
            "seed=1",
            "rounds=2",
            "held_out=0.2",
            "training.lr=0.1",
            "partition.beta=1",
            "model=mlp",
            "participation=0.5",
            "ipr_strict=true",
        )
    }
    assert len(names) == 9


@pytest.mark.parametrize(
    ("what", "count"),
    [
        ("train", 4),
        ("train", 12),
        ("train", 23),
        ("train", 33),
        ("save", 1),
        ("save", 2),
        ("save", 5),
        ("replace", 9),
        ("replace", 14),
    ],
)
def test_killed_at_any_moment_it_goes_on_to_the_same_result(what: str, count: int, tiny: list[str], tmp_path: Path) -> None:
    """6 clients × 3 rounds: calls 1–18 train alone, 19–36 are the mechanism's; every round writes a checkpoint."""
    wanted = read(go(*tiny, "results_dir=whole"))
    command = [sys.executable, "-c", KILLER, what, str(count), *tiny, f"results_dir={tmp_path / 'killed'}"]
    killed = subprocess.run(command, capture_output=True, text=True)
    assert killed.returncode == -9, killed.stderr
    assert not list((tmp_path / "killed" / "runs").glob("iafl*/summary.json"))
    assert read(go(*tiny, "results_dir=killed")) == wanted
    assert not list((tmp_path / "killed").rglob(".*.*")), "scratch files are left"


def test_a_resumed_run_does_not_repeat_finished_rounds(
    tiny: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = [sys.executable, "-c", KILLER, "train", "33", *tiny, f"results_dir={tmp_path / 'killed'}"]
    subprocess.run(command, capture_output=True)
    played = []
    play_round = fedincent.runs.session.Session.play_round  # type: ignore[attr-defined]
    monkeypatch.setattr(
        "fedincent.runs.session.Session.play_round", lambda self, index: played.append(index) or play_round(self, index)
    )
    go(*tiny, "results_dir=killed")
    assert played == [2]


def test_a_damaged_checkpoint_is_put_aside(tiny: list[str], tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    wanted = read(go(*tiny, "results_dir=whole"))
    command = [sys.executable, "-c", KILLER, "train", "33", *tiny, f"results_dir={tmp_path / 'killed'}"]
    subprocess.run(command, capture_output=True)
    checkpoint = next((tmp_path / "killed" / "runs").glob("iafl*/checkpoint.safetensors"))
    content = bytearray(checkpoint.read_bytes())
    content[-5] ^= 255
    checkpoint.write_bytes(content)
    assert read(go(*tiny, "results_dir=killed")) == wanted
    assert "checksum" in caplog.text and checkpoint.with_suffix(".damaged").is_file()


def test_two_at_once(tmp_path: Path) -> None:
    """The second waits for the first, says so, and both end with the same result."""
    overrides = ["n_clients=10", "rounds=12", "checkpoint_every=0", f"results_dir={tmp_path / 'both'}"]
    command = [sys.executable, "-m", "fedincent", "run", *overrides]
    pair = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    outputs = [process.communicate(timeout=120) for process in pair]
    assert [process.returncode for process in pair] == [0, 0], outputs
    waited = ["waiting for it" in err for _, err in outputs]
    assert sum(waited) == 1
    assert outputs[0][0].splitlines()[:9] == outputs[1][0].splitlines()[:9]
    assert len(list((tmp_path / "both").rglob("summary.json"))) == 2


@pytest.mark.parametrize("mechanism", sorted(options_of("mechanism")))
def test_every_mechanism_runs_and_resumes(mechanism: str, tiny: list[str], tmp_path: Path) -> None:
    tiny += ["held_out=0.1", "trace=true", "client_validation_fraction=0.2"]
    tiny += ["per_round=3", "mechanism.watched=2", "mechanism.window=2"] if mechanism == "fye" else []
    wanted = read(go(*tiny, f"mechanism={mechanism}", "results_dir=whole"))
    count = {"standalone": "9", "rr": "20"}.get(mechanism, "33")
    command = [
        sys.executable,
        "-c",
        KILLER,
        "train",
        count,
        *tiny,
        f"mechanism={mechanism}",
        f"results_dir={tmp_path / 'killed'}",
    ]
    assert subprocess.run(command, capture_output=True).returncode == -9
    assert read(go(*tiny, f"mechanism={mechanism}", "results_dir=killed")) == wanted


def test_participation(tiny: list[str]) -> None:
    linear = go(*tiny, "n_clients=10", "participation=linear", "contribution=participation_rate", "rounds=20")
    np.testing.assert_allclose(linear.clients.contribution, 0.5 * (1 + np.arange(1, 11) / 10))
    assert 5 <= linear.rounds.joined.mean() <= 9.5 and linear.rounds.joined.nunique() > 1
    assert go(*tiny, "participation=full").rounds.joined.unique().tolist() == [6]


def test_contributions(tiny: list[str]) -> None:
    sizes = go(*tiny, "contribution=data_size").clients
    np.testing.assert_array_equal(sizes.contribution, sizes.n_samples)
    held = go(*tiny, "contribution.data=held_out", "held_out=0.2")
    assert held.clients.n_samples.sum() == 1437 - 287
    assert not np.array_equal(held.clients.contribution, held.clients.standalone_accuracy)
    assert held.summary["notes"] == []
    assert go(*tiny).summary["notes"] == ["contributions are standalone accuracies on the test set"]
    with pytest.raises(ConfigError, match=r"held_out=0.*contribution judges on held-out data"):
        go(*tiny, "contribution.data=held_out")


def test_rank_on_held_out_data(tiny: list[str]) -> None:
    assert go(*tiny, "mechanism=rank").summary["notes"] == [
        "Rank orders the clients by accuracy on the test set in every round"
    ]
    honest = go(*tiny, "mechanism=rank", "mechanism.validation=held_out", "held_out=0.1")
    assert honest.summary["notes"] == []
    with pytest.raises(ConfigError, match="held_out"):
        go(*tiny, "mechanism=rank", "mechanism.validation=held_out")


def test_divergence(tiny: list[str], caplog: pytest.LogCaptureFixture) -> None:
    wild = ["model=mlp", "training.lr=1e30", "training.optimizer=sgd", "mechanism=standalone"]
    with pytest.raises(DivergenceError, match=r"client \d+ diverged in round \d at learning rate 1e\+30"):
        go(*tiny, *wild)
    result = go(*tiny, *wild, "on_divergence=drop")
    assert "its update is dropped" in caplog.text
    assert np.isfinite(result.clients.accuracy).all()


def test_a_finished_result_stays_until_its_successor_is_there(tiny: list[str], tmp_path: Path) -> None:
    result = go(*tiny)
    before = read(result)
    command = [sys.executable, "-c", KILLER, "train", "5", *tiny, "eval_every=1", f"results_dir={result.path.parent.parent}"]
    assert subprocess.run(command, capture_output=True).returncode == -9
    assert read(go(*tiny)) == before
    assert go(*tiny, "eval_every=1").rounds.accuracy_mean.notna().all()


def test_a_baseline_is_stored_as_what_it_is(tiny: list[str], own_results: Path) -> None:
    go(*tiny, "ipr_strict=true", "eval_every=1")
    folder = next((own_results / "runs").glob("standalone*"))
    assert "Standalone" in (folder / "config.yaml").read_text() and "kappa" not in (folder / "config.yaml").read_text()
    assert json.loads((folder / "summary.json").read_text())["ipr_accuracy"] == 1.0


def test_next_to_nothing_held_out(tiny: list[str]) -> None:
    with pytest.raises(ConfigError, match="less than one of 1437"):
        go(*tiny, "held_out=0.0001")


def test_ranks_validation_is_the_mechanisms_overhead(tiny: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    judge = Serial.judge
    monkeypatch.setattr(Serial, "judge", lambda self, *what: time.sleep(0.5) or judge(self, *what))
    seconds = go(*tiny, "mechanism=rank").summary["seconds"]
    assert seconds["validation"] >= 1.5 and seconds["judging"] >= 0.5  # three rounds; the end
    assert seconds["mechanism"] < 0.5
    assert seconds["overhead"] == pytest.approx(seconds["mechanism"] + seconds["validation"], abs=1e-5)
    assert seconds["overhead_share"] == pytest.approx(seconds["overhead"] / seconds["training"], rel=1e-3)


def test_undefined_correlation_is_null(tiny: list[str]) -> None:
    result = go(*tiny, "mechanism=fedavg_finetune", "mechanism.finetune_epochs=0")
    assert result.summary["pearson"] is None
    assert json.loads((result.path / "summary.json").read_text())["pearson"] is None


def test_devices(tiny: list[str]) -> None:
    import torch

    if not torch.cuda.is_available():
        with pytest.raises(ConfigError, match="device=cuda"):
            go(*tiny, "device=cuda")
    assert go(*tiny, "device=cpu").summary["identity"]["numerics"] == "exact"


def test_processes_work_from_a_script_without_a_guard(tmp_path: Path, tiny: list[str]) -> None:
    script = tmp_path / "plain.py"
    overrides = [*tiny, "executor=processes", "executor.workers=2"]
    script.write_text(f"import fedincent\nprint(fedincent.run({overrides!r}).summary['rounds'])\n")
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, timeout=120, env=dict(os.environ))
    assert done.stdout.strip() == "3", done.stderr


def test_wandb_offline(tiny: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_SILENT", "true")
    go(*tiny, "logger=wandb", "logger.mode=offline", f"logger.folder={tmp_path}", "eval_every=1")
    assert list((tmp_path / "wandb").glob("offline-run-*/*.wandb"))


def test_wandb_is_not_imported_unless_chosen(tiny: list[str]) -> None:
    code = f"import sys, fedincent; fedincent.run({tiny!r}); print('wandb' in sys.modules, 'matplotlib' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False False"


def test_the_default_run_is_fifty_clients_on_digits_with_iafl() -> None:
    result = go("rounds=2")
    chosen = result.summary["choices"]
    assert result.summary["n_clients"] == 50
    assert [chosen[k] for k in ("mechanism", "dataset", "partition", "model")] == ["iafl", "digits", "dirichlet", "cnn"]


def test_what_cannot_be_dealt_out_leaves_no_folder(tiny: list[str], own_results: Path) -> None:
    with pytest.raises(FedincentError):
        go(*tiny, "partition.min_size=500")
    assert not list(own_results.glob("runs/*"))


def test_a_mechanism_that_spoils_the_models_is_named(tiny: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def spoil(self, round, updates):  # type: ignore[no-untyped-def]
        self.models.fill_(float("nan"))

    monkeypatch.setattr(IAFL, "reward", spoil)
    with pytest.raises(DivergenceError, match=r"client 0 is given in round 2 is not finite: look at IAFL.reward"):
        go(*tiny)

    def shrink(self, round, updates):  # type: ignore[no-untyped-def]
        self.models = self.models[0]

    monkeypatch.setattr(IAFL, "reward", shrink)
    with pytest.raises(FedincentError, match="left models of shape"):
        go(*tiny, "seed=1", "rounds=1")  # what is given is looked at when it is judged
