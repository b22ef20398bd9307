"""A paper's figures, drawn from stored runs.

conf/figure/NAME.yaml states the runs of each panel. `curves` shows six clients' accuracies over the rounds, from the
smallest contribution to the largest; `scatter` every client's contribution against its final accuracy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from fedincent.config import Config, compose
from fedincent.errors import ConfigError, suggest
from fedincent.groups import group_folders, options_of
from fedincent.metrics import pearson
from fedincent.results.files import replacing
from fedincent.results.index import Index
from fedincent.results.plan import last_of_each
from fedincent.results.store import Result

STYLES = ("-", "--", "-.", ":", (0, (3, 1, 1, 1, 1, 1)), (0, (5, 3)))  # told apart without colour too
SHOWN = 6  # clients in a panel of curves


@dataclass
class Figure:
    """A figure as its YAML states it."""

    name: str
    title: str
    kind: str
    overrides: list[str]
    panels: dict[str, list[str]]
    reference: list[str] = field(default_factory=list)  # a run drawn into every panel, FedAvg say
    note: str = ""

    def wishes(self, extra: Sequence[str]) -> list[tuple[list[str], Config]]:
        """The runs of the panels, in order, and last the reference's; `extra` overrides come after the figure's own."""
        lines = [*self.panels.values(), *([self.reference] if self.reference else [])]
        asked = [last_of_each([*self.overrides, *line, *extra]) for line in lines]
        return [(overrides, compose(overrides)) for overrides in asked]


def load_figure(name: str) -> Figure:
    """A figure by its name; an error that lists the known ones."""
    for folder in group_folders("figure"):
        path = folder / f"{name}.yaml"
        if path.is_file():
            return Figure(name=name, **yaml.safe_load(path.read_text(encoding="utf-8")))
    known = options_of("figure")
    raise ConfigError("figure", name, f"no such figure; {suggest(name, known)}known: {', '.join(known)}")


def draw(figure: Figure, extra: Sequence[str], results_dir: Path, folder: Path) -> list[Path]:
    """Draw a figure as PNG and SVG from what is stored; an error that says which runs are missing."""
    index = Index(results_dir)
    wishes = figure.wishes(extra)
    found = [index.find(config) for _, config in wishes]
    curves = figure.kind == "curves"
    missing = [
        w[0] for w, run in zip(wishes, found, strict=True) if run is None or (curves and run.summary["eval_every"] == 0)
    ]
    if missing:
        lines = "\n  ".join("fedincent run " + " ".join(overrides) for overrides in missing)
        raise ConfigError("figure", figure.name, f"{len(missing)} of its runs are not there (--run does them):\n  {lines}")
    runs = [run for run in found if run is not None]
    return plot(figure, runs[: len(figure.panels)], runs[len(figure.panels) :], folder)


def plot(figure: Figure, runs: list[Result], references: list[Result], folder: Path) -> list[Path]:
    """Panels side by side on one scale."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    shape: dict[str, Any] = {
        "figsize": (3.6 * len(runs) + 0.6, 3.6),
        "sharey": True,
        "squeeze": False,
        "layout": "constrained",
    }
    picture, axes = plt.subplots(1, len(runs), **shape)
    for axis, title, run in zip(axes[0], figure.panels, runs, strict=True):
        if figure.kind == "curves":
            draw_curves(axis, run, references)
        else:
            draw_scatter(axis, run)
        axis.set_title(title, fontsize=10)
        axis.grid(True, color="0.9")
        axis.spines[["top", "right"]].set_visible(False)
    axes[0][0].set_ylabel("test accuracy in %")
    chosen = runs[0].summary["choices"]
    picture.suptitle(f"{figure.title} ({chosen['dataset']}, {chosen['partition']}, {chosen['model']})", fontsize=11)
    paths = []
    for ending in ("png", "svg"):
        path = folder / f"{figure.name}.{ending}"
        with replacing(path) as scratch:
            picture.savefig(scratch, format=ending, dpi=150)
        paths.append(path)
    plt.close(picture)
    return paths


def draw_curves(axis: Any, run: Result, references: list[Result]) -> None:
    """Six clients' accuracies over the rounds, from the smallest contribution (dark) to the largest (light)."""
    from matplotlib import colormaps

    rounds = run.rounds.dropna(subset=["accuracy_mean"])
    order = run.clients.sort_values(["contribution", "client"]).client.to_numpy()
    picked = order[np.linspace(0, len(order) - 1, min(SHOWN, len(order))).round().astype(int)]
    contribution = run.clients.set_index("client").contribution
    for place, client in enumerate(picked):
        colour = colormaps["viridis"](0.9 * place / max(1, len(picked) - 1))
        style: Any = STYLES[place % len(STYLES)]
        label = f"client {client}, p = {contribution[client]:.3g}"
        axis.plot(
            rounds["round"], 100 * rounds[f"client_{client}"], color=colour, linestyle=style, linewidth=1.4, label=label
        )
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
