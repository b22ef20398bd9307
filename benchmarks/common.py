"""What the parts of `make bench` share: samples, a workload, and how a ratio is shown."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from statistics import median

import numpy as np
import torch

from fedincent.config.compose import compose
from fedincent.federation import Job, Judged, LocalTask, Shards, Streams
from fedincent.models.convolutions import ConvNet
from fedincent.objectives import Classification
from fedincent.training import Workload
from fedincent.training.loop import Supervised

RECIPE = compose(["training.lr=0.001", "training.decay=1.0", "training.batch_size=64"]).training
TOTAL = 60_000  # training samples: 50 clients × 1,200, as Fashion-MNIST
REPETITIONS = int(os.environ.get("BENCH_REPETITIONS", "5"))

Row = tuple[str, float, float, float, str]


def seconds(work: Callable[[], object]) -> float:
    """How long it takes."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def pixels(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Samples of Fashion-MNIST's shape."""
    rng = np.random.default_rng(0)
    x = torch.from_numpy(rng.standard_normal((count, 1, 28, 28), dtype=np.float32))
    return x, torch.from_numpy(rng.integers(0, 10, count))


def bounds_of(total: int, parts: int) -> list[int]:
    """Where equal parts begin, and the end of the last."""
    return np.linspace(0, total, parts + 1).astype(int).tolist()


def workload(n_clients: int, own_tests: bool = False) -> Workload:
    """So many clients with equal shares of the same samples; a common test set, or also one in as many parts."""
    x, y = pixels(TOTAL)
    torch.manual_seed(0)
    test = pixels(10_000)
    judged = {"test": Judged(*test)}
    judged |= {"own": Judged(*test, clients=bounds_of(10_000, n_clients))} if own_tests else {}
    shards = Shards(x, y, bounds_of(TOTAL, n_clients))
    return Workload(ConvNet(1, 28, 28, 10), shards, judged, RECIPE, Streams(0), Classification(), Supervised)


def jobs_of(n: int, lr: float = 0.001) -> list[Job]:
    """Everybody trains the model of its own row."""
    return [Job(client, client, LocalTask(lr=lr)) for client in range(n)]


def spread(name: str, values: list[float], target: str) -> Row:
    """Median, smallest and largest of what was measured."""
    row = (name, median(values), min(values), max(values), target)
    print(f"{name:<68} {row[1]:6.2f}  ({row[2]:.2f} – {row[3]:.2f})   {target}", flush=True)
    return row
