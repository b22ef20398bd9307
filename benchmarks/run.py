"""`make bench`: how fast we are, as ratios from one interleaved run; written to results/bench/.

Every ratio is taken within one repetition, so that a machine that is slow for a while is slow for both sides; what is
printed is the median over the repetitions, with the smallest and the largest.
"""

from __future__ import annotations

import csv
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import numpy as np
import torch

import fedincent
from benchmarks import bare, small, waiting
from benchmarks.common import RECIPE, REPETITIONS, TOTAL, Row, jobs_of, pixels, seconds, spread, workload
from fedincent.config.compose import compose
from fedincent.federation import Federation, Layout, Round, Streams
from fedincent.runs.runner import complete
from fedincent.runs.stage import Stage
from fedincent.runs.view import View
from fedincent.training import Workload
from fedincent.training.processes import Processes
from fedincent.training.serial import Serial

JUDGED = 10  # models judged in one repetition; the cost per model does not depend on how many there are


def training_and_judging() -> list[Row]:
    """Our loops against the bare ones: one round of 50 clients, and the judging of models."""
    work = workload(50)
    x, y, bounds = work.shards.x, work.shards.y, work.shards.bounds
    model = bare.TextbookCNN()
    start = {name: value.clone() for name, value in model.state_dict().items()}
    rows = Layout(work.module).flatten(work.module).repeat(50, 1)
    jobs = jobs_of(50)
    torch.set_num_threads(1)
    pair = bare.TwoProcesses(x, y, bounds)
    serial, processes = Serial(), Processes(workers=2)
    processes.open(work)
    serial.open(work)
    test = work.judged["test"].of()
    weights = [start] * JUDGED
    models = rows[:JUDGED] + 1e-3 * torch.arange(JUDGED)[:, None]
    sides: dict[str, Callable[[], object]] = {
        "bare": lambda: bare.train_round(model, start, x, y, bounds, range(50)),
        "serial": lambda: serial.train(0, rows, jobs, lambda: None),
        "bare 2": lambda: pair.train_round(start),
        "processes": lambda: processes.train(0, rows, jobs, lambda: None),
        "bare judging": lambda: bare.evaluate(model, weights, *test),
        "judging": lambda: serial.judge(models, "test"),
    }
    taken: dict[str, list[float]] = {name: [] for name in sides}
    for repetition in range(-1, REPETITIONS):  # the first is to warm up
        for name, side in sides.items():
            spent = seconds(side)
            if repetition >= 0:
                taken[name].append(spent)
    for closing in (serial.close, processes.close, pair.close):
        closing()

    def ratio(over: str, under: str) -> list[float]:
        return [a / b for a, b in zip(taken[over], taken[under], strict=True)]

    for name, values in taken.items():
        print(f"  {name}: {median(values):.2f} s", flush=True)
    return [
        spread("serial is faster than the bare loop, one thread, by", ratio("bare", "serial"), "≥ 1.30"),
        spread("processes (2) are faster than the bare loop in 2 processes by", ratio("bare 2", "processes"), "≥ 1.25"),
        spread("processes (2) are faster than serial by", ratio("serial", "processes"), "≥ 1.85"),
        spread("the bare loop in 2 processes is faster than in one by", ratio("bare", "bare 2"), ""),
        spread("judging models is faster than bare judging by", ratio("bare judging", "judging"), "≥ 2.50"),
    ]


def full_round(index: int, n: int) -> Round:
    """A round that everybody joined."""
    return Round(index, 0.001, Streams(0), torch.ones(n, dtype=torch.bool), torch.zeros(n), torch.zeros(n))


def growth() -> list[Row]:
    """A round of IAFL, and its training alone, over more clients with the same data; and the mechanisms' own cost."""
    rounds: dict[int, list[float]] = {50: [], 200: [], 1000: []}
    alone: dict[int, list[float]] = {n: [] for n in rounds}
    shares: dict[str, list[float]] = {}
    for _ in range(max(2, REPETITIONS // 2)):
        for n, times in rounds.items():
            work = workload(n)
            executor = Processes(workers=2)
            executor.open(work)
            federation = make_federation(work, n, executor)
            mechanism = compose(["mechanism=iafl"]).mechanism
            mechanism.start(federation)
            jobs = jobs_of(n)

            def play(index: int, mechanism=mechanism, executor=executor, n=n) -> None:  # type: ignore[no-untyped-def]
                round = full_round(index, n)
                pool, round.jobs = mechanism.jobs(round, RECIPE)
                updates, _ = executor.train(index, pool, round.jobs, lambda: None)
                mechanism.receive(round, updates)

            play(0)
            times.append(min(seconds(lambda: play(1)), seconds(lambda: play(2))))
            models = mechanism.models
            alone[n].append(seconds(lambda: executor.train(3, models, jobs, lambda: None)))  # noqa: B023
            if n == 50:
                for name, share in mechanism_shares(work, executor, times[-1]).items():
                    shares.setdefault(name, []).append(share)
            executor.close()
    rows = [
        spread(f"a round with N = {n:,} takes, of one with N = 50 and the same data,", relative(times, rounds[50]), target)
        for n, times, target in ((200, rounds[200], ""), (1000, rounds[1000], "≤ 1.35"))
    ]
    rows.append(spread("its training alone with N = 1,000, of that with N = 50,", relative(alone[1000], alone[50]), ""))
    return rows + [spread(f"{name} takes, of a round with N = 50,", values, "≤ 0.03") for name, values in shares.items()]


def relative(times: list[float], base: list[float]) -> list[float]:
    """Each time as a multiple of its repetition's base."""
    return [a / b for a, b in zip(times, base, strict=True)]


def make_federation(work: Workload, n: int, executor: Processes) -> Federation:
    """A federation whose contributions are spread evenly over 0.2 … 1."""
    layout = Layout(work.module)
    contribution = compose(["contribution=data_size"]).contribution
    contribution.values = torch.linspace(0.2, 1.0, n, dtype=torch.float64)
    return Federation(
        layout.flatten(work.module),
        layout,
        torch.tensor(work.shards.sizes),
        torch.ones(n),
        Streams(0),
        contribution,
        executor.judge,
        executor.parallel,
    )


def mechanism_shares(work: Workload, executor: Processes, round_seconds: float) -> dict[str, float]:
    """What each mechanism's own algebra costs beside a round's training (Rank: without its judging of models)."""
    shares = {}
    updates = 1e-3 * torch.randn(50, Layout(work.module).dim)
    for name in ("iafl", "cgsv", "lg_fedavg", "rank"):
        federation = make_federation(work, 50, executor)
        federation.judge = lambda models, data: (torch.rand(len(models)), torch.zeros(len(models)))
        mechanism = compose([f"mechanism={name}"]).mechanism
        mechanism.start(federation)
        times = [
            seconds(lambda: mechanism.reward(full_round(index, 50), updates.clone()))  # noqa: B023
            for index in range(6)
        ]
        shares[name] = median(times[1:]) / round_seconds
    return shares


def whole_run() -> list[Row]:
    """A run of IAFL over 50 rounds, its standalone baseline stored already, against its pure local training."""
    with tempfile.TemporaryDirectory() as folder:
        x, y = pixels(TOTAL)
        images = (x.clamp(-3, 3) * 40 + 128).to(torch.uint8).movedim(1, -1).numpy()
        np.savez(Path(folder) / "fmnist.npz", x_train=images, y_train=y, x_test=images[:10_000], y_test=y[:10_000])
        os.environ["FEDINCENT_CACHE"] = folder
        overrides = ["dataset=fmnist", f"dataset.root={folder}", f"results_dir={folder}/results", "partition=iid"]
        alone = Stage(compose([*overrides, "executor=processes", "executor.workers=2", "mechanism=standalone"]), View())
        complete(alone, alone.config)
        alone.close()
        begun = time.perf_counter()
        fresh = Stage(compose([*overrides, "executor=processes", "executor.workers=2"]), View())
        training = 0.0
        train = Processes.train

        def timed(self, *args):  # type: ignore[no-untyped-def]
            nonlocal training
            started = time.perf_counter()
            try:
                return train(self, *args)
            finally:
                training += time.perf_counter() - started

        Processes.train = timed  # type: ignore[method-assign]
        complete(fresh, fresh.config)
        fresh.close()
        whole = time.perf_counter() - begun
        Processes.train = train  # type: ignore[method-assign]
    return [spread("a whole IAFL run of 50 rounds takes, of its pure training,", [whole / training], "≤ 1.08")]


def start_up() -> list[Row]:
    """Seconds until something happens."""
    helping = [
        seconds(lambda: subprocess.run([sys.executable, "-m", "fedincent", "--help"], capture_output=True)) for _ in range(5)
    ]
    code = (
        "import time, fedincent.runs.runner\nfrom fedincent.config.compose import compose\n"
        "from fedincent.runs.view import View\n"
        "begun = time.perf_counter()\n"
        "class First(View):\n    def client_done(self):\n        print(time.perf_counter() - begun); raise SystemExit\n"
        "fedincent.runs.runner.run(compose(['results_dir=' + __import__('tempfile').mkdtemp()]), First())"
    )
    firsts = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
        for _ in range(3)
    ]
    return [
        spread("seconds of `fedincent --help`", helping, "≤ 0.70"),
        spread("seconds from the imports to the first client trained, digits", firsts, "≤ 3.00"),
    ]


def main() -> None:
    """All of it, or the parts that are named, printed and written to results/bench/."""
    print(f"{os.cpu_count()} cores, {topology()}, torch {torch.__version__}")
    print(f"{REPETITIONS} repetitions: median (smallest – largest)")
    parts = {
        "start": start_up,
        "looking": waiting.looking,
        "training": training_and_judging,
        "small": small.streaming,
        "segments": small.segments,
        "growth": growth,
        "crowd": small.crowd,
        "run": whole_run,
        "table": waiting.table,
        "memory": small.memory,
    }
    chosen = sys.argv[1:] or list(parts)
    rows = [row for name in chosen for row in parts[name]()]
    target = Path("results/bench")
    target.mkdir(parents=True, exist_ok=True)
    file = target / f"bench-{time.strftime('%Y%m%d-%H%M%S')}.csv"
    with file.open("w", newline="", encoding="utf-8") as out:
        writer = csv.writer(out)
        writer.writerow(["what", "median", "min", "max", "target", "cores", "topology", "torch", "python", "fedincent"])
        versions = (os.cpu_count(), topology(), torch.__version__, platform.python_version(), fedincent.__version__)
        writer.writerows([*row, *versions] for row in rows)
    print(f"written to {file}")


def topology() -> str:
    """Whether the first two cores are one core's threads."""
    path = Path("/sys/devices/system/cpu/cpu0/topology/thread_siblings_list")
    siblings = path.read_text().strip() if path.is_file() else "?"
    return f"threads of core 0: {siblings}"


if __name__ == "__main__":
    main()
