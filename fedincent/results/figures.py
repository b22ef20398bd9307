"""A paper's figures, drawn from stored runs, or by a study of their own.

conf/figure/NAME.yaml states the runs of each panel (with `lines`, one for each of these), and the kind of picture:
- curves: six clients' accuracies over the rounds, from the smallest contribution to the largest (or those in `clients`);
- scatter: every client's contribution against its final accuracy;
- trace: what was noted of the clients in each round, one line of panels for each of `columns` of trace.csv;
- clients: the clients' final state, one line of panels for each of `columns` of clients.csv;
- progress: numbers over the rounds, one line of panels for each of `columns` of rounds.csv ("a+b": both in one panel);
- bars: numbers of the summary, one line of panels for each of `columns`;
- study: no runs; the function that `study` names gives the numbers (a CSV file) and the picture.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fedincent.campaigns.plan import Wish, last_of_each
from fedincent.config.compose import compose
from fedincent.config.groups import read_group
from fedincent.errors import ConfigError
from fedincent.evaluation.formulas import pearson
from fedincent.store.files import replacing, write_text
from fedincent.store.index import Index
from fedincent.store.result import Result

STYLES = ("-", "--", "-.", ":", (0, (3, 1, 1, 1, 1, 1)), (0, (5, 3)))  # told apart without colour too
SHOWN = 6  # clients in a panel of curves
LABELS = {
    "importance": "importance r",
    "train_loss": "training loss",
    "server_distance": "ℓ2 distance to the server's model",
    "reward_distance": "ℓ2 distance of reward and aggregate",
    "last_layer_distance": "ℓ2 distance to the server's last layer",
    "accuracy": "test accuracy in %",
    "loss": "test loss",
    "ipr_own": "IPR",
    "preferred_own": "accuracy in %\nof the preferred model",
    "own_loss": "own test loss, mean",
    "own_train_loss": "own training loss, mean",
    "own_loss+own_train_loss": "loss, mean over clients",
}
IN_PERCENT = ("accuracy", "preferred")
OVER_ROUNDS = ("curves", "progress")
Runs = dict[str, dict[str, Result]]  # of each panel, by the name of the line


@dataclass
class Figure:
    """A figure as its YAML states it."""

    name: str
    title: str
    kind: str
    overrides: list[str] = field(default_factory=list)
    panels: dict[str, list[str]] = field(default_factory=dict)
    lines: dict[str, list[str]] = field(default_factory=lambda: {"": []})  # the runs of each panel
    reference: list[str] = field(default_factory=list)  # a run drawn into every panel, FedAvg say
    columns: list[str] = field(default_factory=list)  # of trace.csv or clients.csv
    clients: list[int] = field(default_factory=list)  # which to show; none: all, or six of different contribution
    study: str = ""  # dotted name of a function
    options: dict[str, Any] = field(default_factory=dict)  # what it is called with
    note: str = ""

    def wishes(self, extra: Sequence[str]) -> list[Wish]:
        """The runs, panel by panel, and last the reference's; `extra` overrides come after the figure's own."""
        runs = [[*panel, *line] for panel in self.panels.values() for line in self.lines.values()]
        asked = [
            last_of_each([*self.overrides, *run, *extra]) for run in [*runs, *([self.reference] if self.reference else [])]
        ]
        return [Wish(overrides, compose(overrides)) for overrides in asked]


def load_figure(name: str) -> Figure:
    """A figure by its name; an error that lists the known ones."""
    return Figure(name=name, **read_group("figure", name))


def draw(figure: Figure, extra: Sequence[str], results_dir: Path, folder: Path) -> list[Path]:
    """Draw a figure as PNG and SVG from what is stored; an error that says which runs are missing."""
    if figure.kind == "study":
        return draw_study(figure, extra, folder)
    index = Index(results_dir)
    wishes = figure.wishes(extra)
    found = [index.find(wish.config) for wish in wishes]
    over_rounds = figure.kind in OVER_ROUNDS
    missing = [
        wish.line
        for wish, run in zip(wishes, found, strict=True)
        if run is None or (over_rounds and run.summary["eval_every"] == 0)
    ]
    if missing:
        lines = "\n  ".join("fedincent run " + " ".join(overrides) for overrides in missing)
        raise ConfigError("figure", figure.name, f"{len(missing)} of its runs are not there (--run does them):\n  {lines}")
    stored = iter([run for run in found if run is not None])
    runs = {panel: {line: next(stored) for line in figure.lines} for panel in figure.panels}
    title = f"{figure.title} ({common_choices([run for panel in runs.values() for run in panel.values()])})"
    size = (max(6.4, 3.6 * len(runs) + 0.6), 3.2 * max(1, len(figure.columns)) + 0.4)
    return save(figure, title, size, lambda picture: fill(picture, figure, runs, list(stored)), folder)


def common_choices(runs: list[Result]) -> str:
    """What all runs of a figure share of data, partition and model."""
    choices = [run.summary["choices"] for run in runs]
    return ", ".join(
        choices[0][group]
        for group in ("dataset", "partition", "model")
        if len({chosen[group] for chosen in choices}) == 1 and choices[0][group]
    )


def draw_study(figure: Figure, extra: Sequence[str], folder: Path) -> list[Path]:
    """Carry out a study; its numbers go beside the picture."""
    if extra:
        raise ConfigError("figure", figure.name, f"has no runs that {' '.join(extra)} could change")
    module, _, name = figure.study.rpartition(".")
    table, drawing = getattr(importlib.import_module(module), name)(**figure.options)
    path = folder / f"{figure.name}.csv"
    write_text(path, table.to_csv(index=False))
    return [*save(figure, figure.title, (8.6, 5.6), drawing, folder), path]


def save(figure: Figure, title: str, size: tuple[float, float], drawing: Callable[[Any], None], folder: Path) -> list[Path]:
    """A picture with its title as PNG and SVG."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = figure.name  # the same picture gives the same file
    import matplotlib.pyplot as plt

    picture = plt.figure(figsize=size, layout="constrained")
    drawing(picture)
    picture.suptitle(title, fontsize=11)
    paths = []
    for ending in ("png", "svg"):
        path = folder / f"{figure.name}.{ending}"
        with replacing(path) as scratch:
            picture.savefig(scratch, format=ending, dpi=150, metadata={"Date": None} if ending == "svg" else None)
        paths.append(path)
    plt.close(picture)
    return paths


def fill(picture: Any, figure: Figure, runs: Runs, references: list[Result]) -> None:
    """Panels side by side on one scale; a line of them for each column."""
    columns = figure.columns or [""]
    axes = picture.subplots(len(columns), len(runs), sharey="row", squeeze=False)
    for row, column in enumerate(columns):
        for axis, (title, lines) in zip(axes[row], runs.items(), strict=True):
            run = next(iter(lines.values()))
            if figure.kind == "curves":
                draw_curves(axis, run, references, figure.clients)
            elif figure.kind == "scatter":
                draw_scatter(axis, run)
            elif figure.kind == "trace":
                draw_trace(axis, run, column, figure.clients)
            elif figure.kind == "clients":
                draw_clients(axis, run, column)
            elif figure.kind == "progress":
                draw_progress(axis, lines, column)
            else:
                draw_bars(axis, lines, column)
            if row == 0:
                axis.set_title(title, fontsize=10)
            axis.grid(True, color="0.9")
            axis.spines[["top", "right"]].set_visible(False)
        axes[row][0].set_ylabel(LABELS.get(column or "accuracy", column))


def styles(count: int) -> list[dict[str, Any]]:
    """How each of so many lines is drawn: from dark to light, and by dashes."""
    from matplotlib import colormaps

    shades = [colormaps["viridis"](0.9 * place / max(1, count - 1)) for place in range(count)]
    return [{"color": c, "linestyle": STYLES[k % len(STYLES)], "linewidth": 1.4} for k, c in enumerate(shades)]


def draw_curves(axis: Any, run: Result, references: list[Result], clients: Sequence[int]) -> None:
    """Some clients' accuracies over the rounds, from the smallest contribution (dark) to the largest (light)."""
    rounds = run.rounds.dropna(subset=["accuracy_mean"])
    order = run.clients.sort_values(["contribution", "client"]).client.to_numpy()
    picked = [c for c in clients if c < len(order)]
    if not picked:
        picked = order[np.linspace(0, len(order) - 1, min(SHOWN, len(order))).round().astype(int)].tolist()
    contribution = run.clients.set_index("client").contribution
    for client, style in zip(picked, styles(len(picked)), strict=True):
        label = f"client {client}, p = {contribution[client]:.3g}"
        axis.plot(rounds["round"], 100 * rounds[f"client_{client}"], label=label, **style)
    for reference in references:
        curve = reference.rounds.dropna(subset=["accuracy_mean"])
        axis.plot(curve["round"], 100 * curve["accuracy_mean"], color="black", linewidth=2, label="FedAvg")
    rho = run.summary["pearson"]
    axis.set_xlabel(
        f"round   (ρ {'undefined' if rho is None else format(rho, '.2f')}, mean {run.summary['accuracy_mean']:.1%})"
    )
    axis.legend(fontsize=6.5, framealpha=0.8, loc="lower right")


def draw_scatter(axis: Any, run: Result) -> None:
    """Every client's contribution against its final accuracy, with their correlation."""
    clients = run.clients
    rho = pearson(clients.contribution.to_numpy(), clients.accuracy.to_numpy())
    label = "ρ undefined" if rho is None else f"ρ = {rho:.2f}"
    axis.scatter(clients.contribution, 100 * clients.accuracy, s=18, color="0.25", label=label)
    axis.set_xlabel("contribution")
    axis.legend(fontsize=8, loc="lower right")


def draw_trace(axis: Any, run: Result, column: str, clients: Sequence[int]) -> None:
    """A number that was noted of some clients in each round."""
    trace = run.trace
    known = sorted(trace.client.unique())
    picked = [c for c in clients if c in known] or known
    by_client: pd.DataFrame = trace.pivot(index="round", columns="client", values=column)
    for client, style in zip(picked, styles(len(picked)), strict=True):
        axis.plot(by_client.index, by_client[client], label=f"client {client}", **style)
    if column == "server_distance":
        start = trace[trace.client == known[0]]
        axis.plot(
            start["round"], start.server_from_start, color="0.4", linewidth=2.5, alpha=0.6, label="server, from its start"
        )
    axis.set_xlabel("round")
    axis.legend(fontsize=6.5, framealpha=0.8, ncols=1 + len(picked) // 6)


def draw_clients(axis: Any, run: Result, column: str) -> None:
    """The clients' final state, side by side."""
    axis.plot(run.clients.client, in_percent(run.clients[column], column), "o-", color="0.3")
    axis.set_xlabel("client")


def draw_progress(axis: Any, lines: dict[str, Result], column: str) -> None:
    """Numbers of rounds.csv over the rounds, for every line."""
    together = column.split("+")
    curves = [(line, run, name) for line, run in lines.items() for name in together]
    for (line, run, name), style in zip(curves, styles(len(curves)), strict=True):
        rounds = run.rounds.dropna(subset=[name])
        label = " ".join([line, LABELS[name]]) if len(together) > 1 else line
        axis.plot(rounds["round"], in_percent(rounds[name], name), label=label, **style)
    axis.set_xlabel("round")
    axis.legend(fontsize=7, framealpha=0.8)


def draw_bars(axis: Any, lines: dict[str, Result], column: str) -> None:
    """A number of the summary for every line, with its value on the bar."""
    heights = [in_percent(run.summary[column], column) for run in lines.values()]
    shades = [str(0.75 - 0.55 * place / max(1, len(lines) - 1)) for place in range(len(lines))]
    bars = axis.bar(range(len(lines)), heights, color=shades)
    axis.bar_label(bars, fmt="%.1f" if column.startswith(IN_PERCENT) else "%.2f", fontsize=8)
    axis.set_xticks(range(len(lines)), list(lines), fontsize=8, rotation=20)
    axis.margins(y=0.12)
    axis.set_axisbelow(True)


def in_percent(values: Any, column: str) -> Any:
    """Accuracies as percentages, all else as it is."""
    return 100 * values if column.startswith(IN_PERCENT) else values
