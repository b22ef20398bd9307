"""A paper's figures, drawn from stored runs, or by a study of their own.

conf/figure/NAME.yaml states the runs of each panel (with `lines`, one for each of these), and the kind of picture:
- curves: six clients' accuracies over the rounds, from the smallest contribution to the largest (or those in `clients`);
- scatter: every client's contribution against its final accuracy;
- trace: what was noted of the clients in each round, one line of panels for each of `columns` of trace.csv (option by: a
  column of clients.csv, one line for each group that it tells apart);
- clients: the clients' final state, one line of panels for each of `columns` of clients.csv;
- progress: numbers over the rounds, one line of panels for each of `columns` of rounds.csv ("a+b": both in one panel);
- bars: numbers of the summary, one line of panels for each of `columns`;
- online: what was judged after each round, for the clients in `clients`, or (option middle) by ψ; option smooth;
- histogram: the clients' means over the last rounds (option last);
- cdf: which share of the clients has at most so much of each of `columns` of clients.csv (pma: the gain on own tests);
- recall: how soon the lowest ψ are those of the worst clients (option worst: which; else those with the largest ζ);
- autocorrelation: of what was noted of some clients in each round;
- study: no runs; the function that `study` names gives the numbers (a CSV file) and the picture.
"""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fedincent.campaigns.plan import Wish, last_of_each
from fedincent.config.compose import compose, plugin_overrides
from fedincent.config.groups import read_group
from fedincent.errors import ConfigError, suggest
from fedincent.results.panels import LABELS, Panel, panel_of
from fedincent.store.files import replacing, write_text
from fedincent.store.index import Index
from fedincent.store.result import Result

WITH_COLUMNS = ("trace", "clients", "progress", "bars", "online", "histogram", "cdf", "recall", "autocorrelation")
WHAT = {
    "histogram": "nodes",
    "cdf": "share of clients",
    "recall": "recall",
    "autocorrelation": "autocorrelation",
}  # on the axis, whatever the column
Runs = dict[str, dict[str, list[Result]]]  # of each panel, by the name of the line, one for each seed


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
    seeds: int = 1  # of each run; progress and bars then show the mean and its error, cdf the clients of all

    def wishes(self, extra: Sequence[str]) -> list[Wish]:
        """The runs, panel by panel, and last the reference's; `extra` overrides come after the figure's own."""
        again = [[f"seed={seed}"] for seed in range(self.seeds)] if self.seeds > 1 else [[]]
        runs = [[*panel, *line, *seed] for panel in self.panels.values() for line in self.lines.values() for seed in again]
        asked = [
            last_of_each([*self.overrides, *run, *extra]) for run in [*runs, *([self.reference] if self.reference else [])]
        ]
        return [Wish(overrides, compose(overrides)) for overrides in asked]


KINDS: dict[str, type] = {"title": str, "kind": str, "overrides": list, "panels": dict, "lines": dict, "reference": list}
KINDS |= {"columns": list, "clients": list, "study": str, "options": dict, "note": str, "seeds": int}
OF_SEVERAL_SEEDS = ("progress", "bars", "cdf")


def load_figure(name: str) -> Figure:
    """A figure by its name; an error names what its YAML gets wrong."""
    content = read_group("figure", name)
    for key, value in content.items():
        if key not in KINDS:
            raise ConfigError(f"figure {name}", key, f"no such key; {suggest(key, KINDS)}known: {', '.join(sorted(KINDS))}")
        if not isinstance(value, KINDS[key]):
            raise ConfigError(f"figure {name}", key, f"cannot be {value!r}")
    missing = [key for key in ("title", "kind") if key not in content]
    figure = None if missing else Figure(name=name, **content)
    if figure is not None and figure.kind == "study":
        study_of(figure)
    elif figure is not None:
        panel_of(figure.kind)
        missing = [key for key in ("panels", *(["columns"] if figure.kind in WITH_COLUMNS else [])) if not content.get(key)]
    if missing or figure is None:
        raise ConfigError(f"figure {name}", missing[0], "is missing")
    with_seeds(figure, figure.seeds)
    return figure


def with_seeds(figure: Figure, seeds: int) -> None:
    """Let a figure show so many seeds; an error where its kind shows one run."""
    if seeds < 1 or (seeds > 1 and figure.kind not in OF_SEVERAL_SEEDS):
        why = f"kind={figure.kind} shows one seed; several are for {', '.join(OF_SEVERAL_SEEDS)}"
        raise ConfigError(f"figure {figure.name}: seeds", seeds, why)
    figure.seeds = seeds


def study_of(figure: Figure) -> Callable[..., Any]:
    """The function that a study's figure names: of a module of fedincent.studies, or of the plug-ins' folder."""
    module, _, name = figure.study.rpartition(".")
    plugins = os.environ.get("FEDINCENT_PLUGINS")
    own = bool(plugins) and bool(module) and (Path(str(plugins)).expanduser() / f"{module.split('.')[0]}.py").is_file()
    if not (module.startswith("fedincent.studies.") or own):
        why = "must be MODULE.FUNCTION, of a file in the --plugins folder or of fedincent.studies"
        raise ConfigError(f"figure {figure.name}: study", figure.study, why)
    plugin_overrides()  # so that it can be imported
    try:
        found: Callable[..., Any] = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"figure {figure.name}: study", figure.study, f"cannot be imported: {error}") from error
    return found


def draw(figure: Figure, extra: Sequence[str], results_dir: Path, folder: Path) -> list[Path]:
    """Draw a figure as PNG and SVG from what is stored; an error that says which runs are missing."""
    if figure.kind == "study":
        return draw_study(figure, extra, folder)
    index = Index(results_dir)
    wishes = figure.wishes(extra)
    found = [index.find(wish.config) for wish in wishes]
    missing = [
        wish.line
        for wish, run in zip(wishes, found, strict=True)
        if run is None
        or not run.has_curve(wish.config.eval_every)
        or (figure.kind == "curves" and run.summary["eval_every"] == 0)
    ]
    if missing:
        lines = "\n  ".join("fedincent run " + " ".join(overrides) for overrides in missing)
        raise ConfigError("figure", figure.name, f"{len(missing)} of its runs are not there (--run does them):\n  {lines}")
    stored = iter([run for run in found if run is not None])
    seeds = range(figure.seeds)
    runs = {panel: {line: [next(stored) for _ in seeds] for line in figure.lines} for panel in figure.panels}
    title = f"{figure.title} ({common_choices([some[0] for panel in runs.values() for some in panel.values()])})"
    title += f", {figure.seeds} seeds" if figure.seeds > 1 else ""
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
    table, drawing = study_of(figure)(**figure.options)
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
            if ending == "png":
                with_fewer_colours(scratch)
        paths.append(path)
    plt.close(picture)
    return paths


def with_fewer_colours(path: Path) -> None:
    """A PNG with a palette of 256 colours in place: a third of the size, and the report holds all of them."""
    from PIL import Image

    with Image.open(path) as picture:
        picture.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(path, format="PNG", optimize=True)


def fill(picture: Any, figure: Figure, runs: Runs, references: list[Result]) -> None:
    """Panels side by side on one scale; a line of them for each column."""
    columns = figure.columns or [""]
    draw_panel = panel_of(figure.kind)
    axes = picture.subplots(len(columns), len(runs), sharey="row", squeeze=False)
    for row, column in enumerate(columns):
        for axis, (title, lines) in zip(axes[row], runs.items(), strict=True):
            first = {line: some[0] for line, some in lines.items()}
            panel = Panel(first, column, figure.clients, references, figure.options, lines if figure.seeds > 1 else {})
            draw_panel(axis, panel)
            if row == 0:
                axis.set_title(title, fontsize=10)
            axis.grid(True, color="0.9")
            axis.spines[["top", "right"]].set_visible(False)
        axes[row][0].set_ylabel(WHAT.get(figure.kind, LABELS.get(column or "accuracy", column)))
