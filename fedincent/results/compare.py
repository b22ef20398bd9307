"""Some runs side by side in the terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from fedincent.config.compose import flat
from fedincent.errors import ConfigError, suggest
from fedincent.evaluation.metrics import METRICS, SHOWN
from fedincent.store.index import Index
from fedincent.store.result import Result

BARS = "▁▂▃▄▅▆▇█"
MACHINE = ("executor", "logger", "device", "force", "results_dir", "checkpoint_every", "keep_checkpoint", "hints")
WIDEST = 40  # bars in a sparkline


def find_runs(names: Sequence[str], results_dir: Path) -> list[Result]:
    """Runs by folder, name, or the beginning or end of a name that fits one run alone."""
    known = Index(results_dir).results
    found = []
    for name in names:
        plain = Path(name).name
        fitting = [key for key in known if key == plain] or [
            key for key in known if key.startswith(plain) or key.endswith(plain)
        ]
        if len(fitting) != 1:
            some = ", ".join(sorted(fitting)[:4]) + (", …" if len(fitting) > 4 else "")
            why = f"fits {len(fitting)} runs: {some}" if fitting else "no such finished run"
            hint = "" if fitting else f"; {suggest(plain, known)}".rstrip("; ")
            raise ConfigError("run", name, f"{why}{hint} (in {results_dir})")
        found.append(known[fitting[0]])
    return found


def sparkline(values: Sequence[float]) -> str:
    """A curve as a row of bars."""
    known = np.asarray([v for v in values if np.isfinite(v)], dtype=float)
    if not len(known):
        return "–"
    if len(known) > WIDEST:
        known = np.array([part.mean() for part in np.array_split(known, WIDEST)])
    low, high = known.min(), known.max()
    places = np.zeros(len(known)) if high == low else (known - low) / (high - low) * (len(BARS) - 1)
    return "".join(BARS[round(place)] for place in places)


def differs(name: str, value: object, configs: Sequence[dict]) -> bool:
    """Whether a field tells the runs apart; machine matters and class names do not."""
    if name.endswith("_target_") or name.startswith(
        ("executor", "logger", "checkpoint", "keep_", "force", "device", "root")
    ):
        return False
    return any(name in other and other[name] != value for other in configs)


def print_comparison(runs: Sequence[Result]) -> None:
    """Metrics side by side, a sparkline per run, and how each client differs from the first run."""
    console = Console(width=None if sys.stdout.isatty() else 120)
    letters = [chr(ord("A") + k) for k in range(len(runs))]
    configs = [flat(run.config) for run in runs]
    for letter, run, config in zip(letters, runs, configs, strict=True):
        apart = [f"{name}={value}" for name, value in config.items() if differs(name, value, configs)]
        place = f" (published, {run.path.parent.name})" if run.published else ""
        console.print(f"{letter}  {run.name}{place}  {' '.join(apart)}".rstrip(), highlight=False, markup=False)
    metrics = Table(title="metrics", title_justify="left")
    metrics.add_column("metric")
    for letter in letters:
        metrics.add_column(letter, justify="right")
    for name in SHOWN:
        if any(name in run.summary for run in runs):
            shown = (METRICS[name].show(run.summary[name]) if name in run.summary else "–" for run in runs)
            metrics.add_row(METRICS[name].title, *shown)
    metrics.add_row("seconds", *(f"{run.summary['seconds']['total']:.0f}" for run in runs))
    console.print(metrics)
    for letter, run in zip(letters, runs, strict=True):
        rounds = run.rounds
        judged = "accuracy_mean" in rounds
        curve = rounds["accuracy_mean" if judged else "train_loss"].to_numpy(dtype=float)
        console.print(
            f"{letter}  {sparkline(curve)}  {'accuracy' if judged else 'training loss'} over rounds", highlight=False
        )
    score = runs[0].score
    first = runs[0].clients.set_index("client")[score]
    for letter, run in zip(letters[1:], runs[1:], strict=True):
        clients = run.clients.set_index("client")
        data = [r.summary["choices"]["dataset"] for r in (runs[0], run)]
        if len(clients) != len(first) or data[0] != data[1] or score not in clients:
            text = f"{letter} − A: not the same clients ({len(clients)} on {data[1]} against {len(first)} on {data[0]})"
            console.print(text, highlight=False)
            continue
        gap = 100 * (clients[score] - first) * (-1 if "mape" in score else 1)
        worst, best = gap.idxmin(), gap.idxmax()
        console.print(
            f"{letter} − A: {gap.mean():+.1f} points on average; better for {(gap > 0).sum()}, worse for {(gap < 0).sum()} "
            f"of {len(gap)} clients; from {gap[worst]:+.1f} (client {worst}) to {gap[best]:+.1f} (client {best})",
            highlight=False,
        )
        console.print(f"       {sparkline(gap.to_numpy())}  by client, 0 … {len(gap) - 1}", highlight=False)
