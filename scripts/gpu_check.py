"""Five minutes on a real GPU: does all of it run, is it what one client at a time gives, how fast, how much memory?

`python scripts/gpu_check.py` prints a table to paste into an issue. `--device cpu` goes through the same steps without a
GPU, where speed means nothing.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

import fedincent
from fedincent.config.groups import options_of

MIXED = "partition=mixture client_validation_fraction=0.2 reference=fedavg per_round=4"
STREAM = "stream.per_round=3 protocol=online training.carry=true reference=none held_out=0.1 per_round=3"
NEEDS = dict.fromkeys(("ipfl", "ditto", "fedsoft", "ifca", "fedem", "fedala", "fedfomo", "fedproto"), MIXED)
NEEDS |= dict.fromkeys(("fedavg_stale", "qffl_stale", "gog", "cons"), STREAM)
NEEDS |= {"fye": f"{STREAM} mechanism.watched=3 mechanism.window=3", "fgfl": f"{STREAM} per_round=0"}
SPEED = "n_clients=50 rounds=3 reference=none mechanism=iafl contribution=data_size partition=iid"
MODELS = {
    "cnn": "model=cnn dataset.size=28",
    "cnn4": "model=cnn4 dataset.size=28",
    "resnet18": "model=resnet18 dataset.size=16",
}


def carried_out(words: str, device: str, executor: str) -> tuple[dict, np.ndarray, float, float]:
    """A run in a process of its own: its summary, the clients' losses, seconds of training, peak memory in MB."""
    with tempfile.TemporaryDirectory() as scratch:
        line = [
            *words.split(),
            f"device={device}",
            f"executor={executor}",
            f"results_dir={scratch}",
            "checkpoint_every=3600",
        ]
        if device == "cuda":
            torch.cuda.reset_peak_memory_stats()
        result = fedincent.run(line)
        peak = torch.cuda.max_memory_allocated() / 2**20 if device == "cuda" else float("nan")
        column = "loss" if "loss" in result.clients else "own_loss" if "own_loss" in result.clients else "online_loss"
        return result.summary, result.clients[column].to_numpy(), result.summary["seconds"]["training"], peak


def everything(device: str) -> list[str]:
    """Each mechanism, all clients at once and one after the other: a line each."""
    lines = []
    for name in options_of("mechanism"):
        words = f"n_clients=6 rounds=3 model=cnn held_out=0.1 mechanism={name} {NEEDS.get(name, '')}"
        try:
            _, together, _, _ = carried_out(words, device, "vectorized")
            _, alone, _, _ = carried_out(words, device, "serial")
            apart = float(np.max(np.abs(together - alone) / np.abs(alone)))
            lines.append(f"| {name} | runs | {apart:.1e} |")
        except Exception as error:  # whatever it is, it belongs into the table
            lines.append(f"| {name} | {type(error).__name__}: {str(error).splitlines()[0][:80]} | |")
        print(lines[-1], file=sys.stderr, flush=True)
    return lines


def speeds(device: str) -> list[str]:
    """50 clients at once, one after the other, and on the CPU's cores: seconds of training in three rounds, peak memory."""
    lines = []
    for name, words in MODELS.items():
        cells = []
        for where, executor in ((device, "vectorized"), (device, "serial"), ("cpu", "processes")):
            carried_out(f"{SPEED} {words} rounds=1 seed=9", where, executor)  # kernels are chosen, memory is taken
            _, _, seconds, peak = carried_out(f"{SPEED} {words}", where, executor)
            cells.append(f"{seconds:.2f} s" + (f" ({peak:,.0f} MB)" if peak == peak else ""))
        lines.append(f"| {name} | {' | '.join(cells)} |")
        print(lines[-1], file=sys.stderr, flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--skip-speed", action="store_true")
    given = parser.parse_args()
    if given.device == "cuda" and not torch.cuda.is_available():
        sys.exit("torch finds no CUDA device here; --device cpu goes through the steps without one")
    begun = time.perf_counter()
    card = torch.cuda.get_device_name() if given.device == "cuda" else platform.processor() or "CPU"
    known = {"fedincent": fedincent.__version__, "torch": torch.__version__, "on": card, "python": platform.python_version()}
    lines = [
        "| mechanism | on the card | all at once against one by one, largest relative difference of a loss |",
        "|---|---|---|",
    ]
    lines += everything(given.device)
    if not given.skip_speed:
        lines += [
            "",
            "| model | 50 at once | one by one | CPU, one process a core |",
            "|---|---|---|---|",
            *speeds(given.device),
        ]
    if given.device == "cuda":
        tests = Path(__file__).resolve().parent.parent / "tests" / "gpu"
        ended = subprocess.run([sys.executable, "-m", "pytest", "-q", str(tests)], capture_output=True, text=True)
        lines += ["", f"tests/gpu: {ended.stdout.strip().splitlines()[-1] if ended.stdout.strip() else ended.stderr[-200:]}"]
    print(json.dumps(known), *lines, f"{time.perf_counter() - begun:.0f} s", sep="\n")


if __name__ == "__main__":
    main()
