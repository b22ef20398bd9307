"""Small batches, tests of everybody's own, ten thousand clients, and how much memory a large model takes."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

from benchmarks import bare
from benchmarks.common import REPETITIONS, Row, bounds_of, jobs_of, pixels, seconds, spread, workload
from fedincent.config.compose import compose
from fedincent.federation import Judged, Layout, Shards, Streams
from fedincent.models.convolutions import TanhConvNet
from fedincent.objectives import Classification
from fedincent.training import Workload
from fedincent.training.loop import Supervised
from fedincent.training.serial import Serial

NODES, BATCH, ROUNDS = 30, 3, 20  # the FYE paper on MNIST


def streaming() -> list[Row]:
    """Thirty nodes that take one step on three samples each, with momentum that is carried on."""
    recipe = compose(["experiment=fye_mnist"]).training
    x, y = pixels(NODES * BATCH * ROUNDS)
    bounds = bounds_of(len(y), NODES)
    torch.manual_seed(0)
    module = TanhConvNet(1, 28, 28, 10, -0.4)
    shards = Shards(x, y, bounds, arrivals=[[BATCH * t for t in range(ROUNDS + 1)] for _ in range(NODES)])
    work = Workload(module, shards, {"test": Judged(*pixels(90))}, recipe, Streams(0), Classification(), Supervised)
    plain = bare.Streaming(copy.deepcopy(module), x, y, bounds, BATCH, recipe.lr)
    executor = Serial()
    executor.open(work)
    pool = Layout(module).flatten(module).expand(NODES, -1)
    jobs = jobs_of(NODES, recipe.lr)
    ratios = []
    for repetition in range(-1, 2 * REPETITIONS):
        theirs = seconds(lambda: [plain.train_round(t) for t in range(ROUNDS)])
        ours = seconds(lambda: [executor.train(t, pool, jobs, lambda: None) for t in range(ROUNDS)])
        if repetition >= 0:
            ratios.append(ours / theirs)
    executor.close()
    return [spread("30 nodes × 3 samples: a round takes, of the bare loop's same steps,", ratios, "≤ 1.10")]


def segments() -> list[Row]:
    """Fifty models, each on its own two hundred tests, against four of them on all ten thousand: per sample."""
    work = workload(50, own_tests=True)
    executor = Serial()
    executor.open(work)
    models = Layout(work.module).flatten(work.module) + 1e-3 * torch.arange(50)[:, None]
    ratios = []
    for repetition in range(-1, 2 * REPETITIONS):
        common = seconds(lambda: executor.judge(models[:4], "test")) / 40_000
        own = seconds(lambda: [executor.judge(models, "own", own=True) for _ in range(4)]) / 40_000
        if repetition >= 0:
            ratios.append(common / own)
    executor.close()
    return [spread("judging 50 models on 200 samples each is, per sample, as fast by", ratios, "≥ 0.90")]


def crowd() -> list[Row]:
    """Ten thousand clients, logistic regression on the digits' shape: a round of IAFL, and the memory of all processes."""
    words = "model=logistic partition=iid partition.min_size=4 n_clients=10000 rounds=2 reference=none"
    words += " contribution=data_size dataset=npz dataset.file=many.npz"
    spent, memory = measured(words, images=(40_000, 8, 8, 1))
    whole = [spent["training"] + spent["mechanism"]]
    return [
        spread("seconds of a round of IAFL with N = 10,000, logistic regression", whole, ""),
        spread("GB of memory for it, all processes", [memory], "≤ 24"),
    ]


def memory() -> list[Row]:
    """Fifty clients with ResNet18 in two processes."""
    words = "model=resnet18 partition=iid n_clients=50 rounds=2 reference=none contribution=data_size executor=processes"
    _, most = measured(f"dataset=npz dataset.file=many.npz {words} executor.workers=2", images=(600, 16, 16, 3))
    return [spread("GB of memory for 50 clients with ResNet18 in two processes", [most], "≤ 5.0")]


def measured(words: str, images: tuple[int, ...]) -> tuple[dict[str, float], float]:
    """Seconds of one round by kind, and the largest memory (GB, shared memory once) of a run and its workers."""
    code = """
import json, sys, numpy as np, fedincent
shape = tuple(json.loads(sys.argv[2]))
rng = np.random.default_rng(0)
x, y = rng.integers(0, 255, shape, dtype=np.uint8), np.arange(shape[0]) % 10
np.savez("many.npz", x_train=x, y_train=y, x_test=x[:100], y_test=y[:100])
result = fedincent.run([*sys.argv[1].split(), "keep_checkpoint=false", "checkpoint_every=9999"])
print(json.dumps(result.summary["seconds"]))
"""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "measured.py").write_text(code)
        root = Path(__file__).resolve().parent.parent
        process = subprocess.Popen(
            [sys.executable, "measured.py", words, json.dumps(images)],
            cwd=folder,
            env={"PYTHONPATH": str(root), "PATH": "/usr/bin:/bin", "HOME": folder, "FEDINCENT_CACHE": folder},
            stdout=subprocess.PIPE,
        )
        most = 0.0
        while process.poll() is None:
            most = max(most, memory_of(process.pid))
            time.sleep(0.05)
        assert process.stdout is not None
        out = process.stdout.read().decode()
    assert process.returncode == 0, out
    return {name: value / 2 for name, value in json.loads(out.splitlines()[-1]).items()}, most


def memory_of(pid: int) -> float:
    """GB that a process and those it has started hold, what they share counted once (PSS)."""
    total = 0
    waiting = [pid]
    while waiting:
        one = waiting.pop()
        try:
            lines = Path(f"/proc/{one}/smaps_rollup").read_text().splitlines()
            total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
            for task in Path(f"/proc/{one}/task").iterdir():
                waiting += [int(child) for child in (task / "children").read_text().split()]
        except (OSError, ValueError):  # it has just ended
            continue
    return total / 2**20
