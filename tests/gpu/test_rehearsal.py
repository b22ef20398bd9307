"""Everything there is on a pretended GPU: no device mixed up, few waits, little memory survived, nothing left behind.

What a new YAML file brings is in by itself.
"""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import numpy as np
import pytest
import torch

from fedincent.campaigns import local
from fedincent.campaigns.launcher import Order, overrides_of
from fedincent.campaigns.plan import Wish, missing_jobs
from fedincent.config.compose import compose
from fedincent.config.groups import options_of
from fedincent.runs.runner import run
from fedincent.runs.session import Session
from fedincent.runs.stage import Stage
from fedincent.runs.view import View
from fedincent.store.index import Index
from fedincent.store.result import Result
from fedincent.training.vectorized import Vectorized, free_on_gpu
from tests.everything import NEEDS
from tests.gpu.pretend import PretendedGpu

TINY = ["n_clients=5", "rounds=2", "model=mlp", "device=cuda", "checkpoint_every=0", "partition=iid"]
IMAGES = {"cnn": 28, "cnn3": 28, "cnn4": 28, "cnn_fc": 32, "cnn_tanh": 28, "cnn_wide": 32, "resnet18": 16}
TEXT = ("lstm", "textcnn", "wordmlp")
SENTENCES = Path("sentences.npz")
REAL = torch.cuda.is_available()  # then everything there is runs on that card, and the counts on the pretended one


def rehearse(*overrides: str) -> tuple[Result, PretendedGpu]:
    """A run on the pretended card, on which it must lie, and which must have refused nothing."""
    with PretendedGpu() as gpu:
        result = run(compose([*TINY, *overrides]), View())
    assert not gpu.refused, gpu.refused
    assert gpu.count("launch") > 100
    return result, gpu


def on_a_card(*overrides: str) -> Result:
    """A run on the real card where there is one, else on the pretended one."""
    return run(compose([*TINY, *overrides]), View()) if REAL else rehearse(*overrides)[0]


@pytest.mark.parametrize("name", options_of("mechanism"))
def test_mechanisms(name: str) -> None:
    result = on_a_card(f"mechanism={name}", "held_out=0.1", "eval_every=1", *NEEDS.get(name, []))
    assert result.summary["identity"]["numerics"] == "cuda"


@pytest.mark.parametrize("name", options_of("contribution"))
def test_contributions(name: str) -> None:
    on_a_card(
        "mechanism=cgsv_iafl", f"contribution={name}", "held_out=0.1", "trace=true", "trace_loss=true", "participation=0.7"
    )


@pytest.mark.parametrize("name", options_of("behaviour"))
def test_behaviours(name: str) -> None:
    on_a_card("mechanism=iafl", f"behaviour={name}")


@pytest.mark.parametrize("name", options_of("disturbance"))
def test_disturbances(name: str) -> None:
    data = ["dataset=diabetes"] if name == "sign_flip" else []
    on_a_card("mechanism=fedavg", f"disturbance={name}", "client_test_fraction=0.2", *data)


@pytest.mark.parametrize("name", options_of("model"))
def test_models(name: str) -> None:
    data = [f"dataset.size={IMAGES[name]}"] if name in IMAGES else []
    if name in TEXT:
        rng = np.random.default_rng(0)
        x = rng.integers(1, 50, (120, 12)).astype(np.int32)
        np.savez(
            SENTENCES, x_train=x[:100], y_train=np.arange(100) % 2, x_test=x[100:], y_test=np.arange(20) % 2, vocabulary=50
        )
        data = ["dataset=npz", f"dataset.file={SENTENCES}"]
        data += ["model.vectors=null"] if name == "textcnn" else []
    on_a_card(f"model={name}", "mechanism=fedavg", "rounds=1", "reference=none", "n_clients=3", *data)


@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_regression_augmentation_noise_and_memory(optimizer: str) -> None:
    on_a_card("dataset=diabetes", "mechanism=iafl", f"training.optimizer={optimizer}", "training.carry=true")
    on_a_card("model=cnn", "mechanism=iafl", "training.augment=crop_flip", f"training.optimizer={optimizer}")
    on_a_card("partition=noise", "partition.redraw=true", "mechanism=fedavg")
    on_a_card("mechanism=iafl", "executor=serial")


def test_the_card_gives_what_the_vectorized_executor_gives_on_the_cpu() -> None:
    line = ["mechanism=iafl", "model=cnn", "partition=dirichlet"]
    card, _ = rehearse(*line, "results_dir=card")
    cpu = run(compose([*TINY, *line, "device=cpu", "executor=vectorized", "results_dir=cpu"]), View())
    np.testing.assert_allclose(card.clients.loss, cpu.clients.loss, rtol=1e-6)


def of_a_round(kind: str, n_clients: int, mechanism: str) -> int:
    """How often something happens in one more round."""
    counts = []
    for rounds in (2, 3):
        line = [f"mechanism={mechanism}", f"n_clients={n_clients}", f"rounds={rounds}", "reference=none", "partition=iid"]
        more = [
            "contribution=data_size",
            "training.batch_size=4",
            "training.local_steps=3",
            "force=true",
        ]
        counts.append(rehearse(*line, *more)[1].count(kind))
    return counts[1] - counts[0]


@pytest.mark.parametrize("mechanism", ["fedavg", "iafl", "cgsv", "fedprox"])
def test_a_round_waits_no_more_often_with_more_clients(mechanism: str) -> None:
    few, many = (of_a_round("wait", n, mechanism) for n in (4, 16))
    assert many == few <= 12
    up = [of_a_round("up", n, mechanism) for n in (4, 16)]
    assert up[1] - up[0] <= 12  # one copy for a further client: the order of its samples
    assert up[0] <= 4 + 16


def test_little_memory_is_survived_in_training_and_in_judging(caplog: pytest.LogCaptureFixture) -> None:
    line = ["mechanism=rank", "model=cnn", "n_clients=8", "reference=none", "eval_every=1", "dataset.size=28"]
    ample, gpu = rehearse(*line, "results_dir=ample")
    floor = gpu.peak
    for share in (0.8, 0.6):
        with PretendedGpu(int(share * floor)) as small:
            tight = run(
                compose([*TINY, *line, f"results_dir=tight{share}", "executor=vectorized", "executor.chunk=8"]), View()
            )
        np.testing.assert_allclose(tight.clients.loss, ample.clients.loss, rtol=1e-4)
        assert small.peak <= share * floor
    assert "out of memory with" in caplog.text


def test_judging_alone_halves_too(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    real, asked = Vectorized.judge_block, []

    def short(self: Vectorized, models: torch.Tensor, rows: list[int], data: str, index: int):  # type: ignore[no-untyped-def]
        asked.append(len(rows))
        if len(rows) > 2:
            raise torch.OutOfMemoryError("no room")
        return real(self, models, rows, data, index)

    plain = rehearse("mechanism=rank", "reference=none", "results_dir=plain")[0]
    monkeypatch.setattr(Vectorized, "judge_block", short)
    halved = rehearse("mechanism=rank", "reference=none", "results_dir=halved")[0]
    assert asked[0] == 5 and max(asked[2:]) <= 2 and "models at once; going on with 2" in caplog.text
    np.testing.assert_allclose(halved.clients.loss, plain.clients.loss, rtol=1e-6)


def test_nothing_of_a_run_is_left_behind() -> None:
    """A sweep's earlier runs must not hold the card: all is freed by reference counts, without the collector."""
    kept: list[weakref.ref] = []
    real = Session.judge_and_store

    def watch(self: Session) -> Result:
        kept.extend(weakref.ref(thing) for thing in (self.mechanism.models, self.stage.executor.work.shards.x))
        return real(self)

    gc.collect()
    gc.disable()
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Session, "judge_and_store", watch)
            for seed in (0, 1):
                run(compose([*TINY, "device=cpu", "mechanism=rank", "reference=none", f"seed={seed}"]), View())
        assert kept and not any(reference() is not None for reference in kept)
    finally:
        gc.enable()


def test_a_killed_run_goes_on_on_the_card(monkeypatch: pytest.MonkeyPatch) -> None:
    line = ["mechanism=iafl", "rounds=4", "reference=none"]
    whole, _ = rehearse(*line, "results_dir=whole")
    real = Session.play_round

    def stop(self: Session, index: int):  # type: ignore[no-untyped-def]
        if index == 2:
            raise KeyboardInterrupt
        return real(self, index)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt), PretendedGpu():
        patch.setattr(Session, "play_round", stop)
        run(compose([*TINY, *line, "results_dir=parts"]), View())
    parts, gpu = rehearse(*line, "results_dir=parts")
    assert (whole.path / "clients.csv").read_bytes() == (parts.path / "clients.csv").read_bytes()
    assert gpu.count("up") > 5


def test_memory_in_reserve_counts_as_free_and_a_share_is_kept_to(monkeypatch: pytest.MonkeyPatch) -> None:
    with PretendedGpu(1000) as gpu:
        gpu.used = 200
        monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device=None: 500)
        assert free_on_gpu(torch.device("cuda")) == 800  # 800 of others' and ours, 300 of it held in reserve
        monkeypatch.setenv("FEDINCENT_GPU_SHARE", "0.5")
        assert free_on_gpu(torch.device("cuda")) == 300


def test_the_card_computes_so_that_runs_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    config = compose([*TINY, "mechanism=fedavg"])
    with PretendedGpu():
        Stage(config, View())
        backend = torch.backends.cudnn
        assert backend.deterministic and not backend.allow_tf32 and not torch.backends.cuda.matmul.allow_tf32
        Stage(compose([*TINY, "mechanism=fedavg", "fast_gpu=true"]), View())
        assert not backend.deterministic and backend.allow_tf32
        Stage(config, View())


def test_tables_use_the_card_where_there_is_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    order = Order("t", "l", ("mechanism=iafl",))
    launcher = local.Local(retries=0)
    assert not launcher.on_gpu and launcher.numerics == "exact"
    monkeypatch.setattr(local, "gpu_here", lambda: True)
    launcher.open(tmp_path, None)
    assert launcher.at_once == 1 and launcher.numerics == "cuda"
    assert "device=cuda" in overrides_of(order, tmp_path, int(launcher.on_gpu))
    told = Order("t", "l", ("mechanism=iafl", "device=cpu"))
    assert "device=cuda" not in overrides_of(told, tmp_path, int(launcher.on_gpu))


def test_a_baseline_of_the_cpu_is_not_one_of_the_card(own_results: Path) -> None:
    line = ["n_clients=5", "rounds=2", "model=logistic", "mechanism=iafl"]
    run(compose([*line, "mechanism=standalone", "executor=serial"]), View())
    wishes = [Wish(line, compose(line))]
    assert len(missing_jobs(wishes, Index(own_results), "exact")) == 1
    jobs = missing_jobs(wishes, Index(own_results), "cuda")
    assert len(jobs) == 2 and list(jobs.values())[1].needs
