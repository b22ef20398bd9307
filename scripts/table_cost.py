"""What table 1 of the IAFL paper costs in core hours, from rounds measured here; into results/bench/table-cost.md.

Usage: FEDINCENT_DATA=DIR python scripts/table_cost.py FOLDER    (MNIST, Fashion-MNIST, CIFAR-10 and SST must be in DIR)
What is in FOLDER already is not measured again: some fifteen minutes in all, on a machine that does nothing else.

Every mechanism runs three rounds on one core (IID, 50 clients); a run of the table is reckoned as T such rounds and one
judgement, its standalone baseline, shared by five mechanisms, as T epochs. SVHN and CIFAR-100 are not measured: their
images and CNN are CIFAR-10's, so they are reckoned from it by the number of training images.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import fedincent
from fedincent.config.compose import compose
from fedincent.results.table import load_table

ROOT = Path(__file__).resolve().parent.parent
ROUNDS = 3
CLOSING = {"fedavg_finetune": 1}  # epochs after the last round
LIKE = {"svhn": ("cifar10", 73_257 / 50_000), "cifar100": ("cifar10", 1.0)}  # by training images


def measure(dataset: str, column: str, mechanism: list[str], results: str) -> tuple[float, float]:
    """Seconds of a round, and of everything else in a run but training, on one core."""
    common = [
        f"dataset={dataset}",
        "partition=iid",
        "n_clients=50",
        f"rounds={ROUNDS}",
        "executor=serial",
        f"results_dir={results}",
    ]
    seconds = fedincent.run([*common, *mechanism]).summary["seconds"]
    rounds = (seconds["training"] + seconds["mechanism"] + seconds["validation"]) / (ROUNDS + CLOSING.get(column, 0))
    return rounds, seconds["judging"]


def main(results: str) -> None:
    """Measure, reckon, write."""
    table = load_table("iafl-1", [])
    settings = Counter(dataset for dataset, _ in table.rows)
    columns = {"standalone": ["mechanism=standalone"], **table.columns}
    measured: dict[str, dict[str, tuple[float, float]]] = {}
    lines = [
        f"| data set | T | settings | {' | '.join(columns)} | core hours of all seeds |",
        "|---" * (len(columns) + 4) + "|",
    ]
    whole = 0.0
    for name in sorted(settings, key=lambda n: n in LIKE):
        source, scale = LIKE.get(name, (name, 1.0))
        if source not in measured:
            measured[source] = {column: measure(source, column, overrides, results) for column, overrides in columns.items()}
        rounds = compose([f"dataset={name}"]).rounds
        one_seed = sum(
            scale * ((rounds + CLOSING.get(column, 0)) * measured[source][column][0] + measured[source][column][1])
            for column in columns
        )
        hours = settings[name] * table.seeds * one_seed / 3600
        whole += hours
        cells = " | ".join(f"{scale * measured[source][column][0]:.2f}" for column in columns)
        shown = name if name == source else f"{name} (reckoned from {source})"
        lines.append(f"| {shown} | {rounds} | {settings[name]} | {cells} | {hours:.0f} |")
        print(lines[-1], flush=True)
    runs = sum(settings.values()) * table.seeds
    lines += [
        "",
        f"In all {whole:.0f} core hours for {runs * len(table.columns):,} runs and the {runs} standalone runs they share.",
    ]
    output = ROOT / "results" / "bench" / "table-cost.md"
    output.write_text("Seconds of a round on one core, by mechanism.\n\n" + "\n".join(lines) + "\n")
    print(lines[-1])
    print("file:", output.relative_to(ROOT))


if __name__ == "__main__":
    main(sys.argv[1])
