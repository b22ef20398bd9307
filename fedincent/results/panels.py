"""The panels of figures: one function a kind, which draws runs into one pair of axes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from fedincent.errors import ConfigError
from fedincent.evaluation.formulas import pearson
from fedincent.store.result import Result

STYLES = ("-", "--", "-.", ":", (0, (3, 1, 1, 1, 1, 1)), (0, (5, 3)))  # told apart without colour too
SHOWN = 6  # clients in a panel of curves
LABELS = {
    "importance": "importance r",
    "train_loss": "training loss",
    "overall_loss": "loss on all training data",
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
    "p_value": "p of Hotelling's test",
    "psi": "contribution ψ",
    "phi": "contribution φ of a round",
    "online_accuracy": "online accuracy in %",
    "online_loss": "online loss",
    "own_accuracy": "accuracy on own tests in %",
    "own_accuracy_mean": "accuracy on own tests in %, mean",
    "pma": "PMA in points",
    "clusters.c0_best": "cluster 0, best accuracy in %",
    "clusters.c1_best": "cluster 1, best accuracy in %",
    "tokens": "tokens held, mean",
    "bid_0": "share that bids for cluster 0",
    "bid_1": "share that bids for cluster 1",
    "paid": "tokens paid, mean",
}
IN_PERCENT = ("accuracy", "preferred", "online_accuracy", "own_accuracy", "clusters.")


@dataclass(frozen=True)
class Panel:
    """What is drawn into one pair of axes."""

    lines: dict[str, Result]  # by name
    column: str = ""
    clients: Sequence[int] = ()
    references: Sequence[Result] = ()
    options: dict[str, Any] = field(default_factory=dict)
    seeds: dict[str, list[Result]] = field(default_factory=dict)  # the same of all seeds, where the figure has several

    @property
    def run(self) -> Result:
        """The first line's run."""
        return next(iter(self.lines.values()))

    def runs(self, line: str) -> list[Result]:
        """A line's runs, one for each seed."""
        return self.seeds.get(line) or [self.lines[line]]


def add_legend(axis: Any) -> None:
    """Which line is which, below the panel, where it covers none."""
    names = axis.get_legend_handles_labels()[1]
    wide = max((len(name) for name in names), default=0)
    columns = 1 if wide > 24 else 2 if wide > 12 else 3
    place = {"loc": "upper center", "bbox_to_anchor": (0.5, -0.2)}
    axis.legend(**place, ncols=min(columns, max(1, len(names))), fontsize=7, frameon=False, columnspacing=1.0)


def styles(count: int) -> list[dict[str, Any]]:
    """How each of so many lines is drawn: from dark to light, and by dashes."""
    from matplotlib import colormaps

    shades = [colormaps["viridis"](0.9 * place / max(1, count - 1)) for place in range(count)]
    return [{"color": c, "linestyle": STYLES[k % len(STYLES)], "linewidth": 1.4} for k, c in enumerate(shades)]


def draw_curves(axis: Any, panel: Panel) -> None:
    """Some clients' accuracies over the rounds, from the smallest contribution (dark) to the largest (light)."""
    run = panel.run
    rounds = run.rounds.dropna(subset=["accuracy_mean"])
    order = run.clients.sort_values(["contribution", "client"]).client.to_numpy()
    picked = [c for c in panel.clients if c < len(order)]
    if not picked:
        picked = order[np.linspace(0, len(order) - 1, min(SHOWN, len(order))).round().astype(int)].tolist()
    contribution = run.clients.set_index("client").contribution
    for client, style in zip(picked, styles(len(picked)), strict=True):
        label = f"client {client}, p = {contribution[client]:.3g}"
        axis.plot(rounds["round"], 100 * rounds[f"client_{client}"], label=label, **style)
    for reference in panel.references:
        curve = reference.rounds.dropna(subset=["accuracy_mean"])
        axis.plot(curve["round"], 100 * curve["accuracy_mean"], color="black", linewidth=2, label="FedAvg")
    rho = run.summary["pearson"]
    axis.set_xlabel(
        f"round   (ρ {'undefined' if rho is None else format(rho, '.2f')}, mean {run.summary['accuracy_mean']:.1%})"
    )
    add_legend(axis)


def draw_scatter(axis: Any, panel: Panel) -> None:
    """Every client's contribution against its final accuracy, with their correlation."""
    clients = panel.run.clients
    rho = pearson(clients.contribution.to_numpy(), clients.accuracy.to_numpy())
    label = "ρ undefined" if rho is None else f"ρ = {rho:.2f}"
    axis.scatter(clients.contribution, 100 * clients.accuracy, s=18, color="0.25", label=label)
    axis.set_xlabel("contribution")
    add_legend(axis)


def draw_trace(axis: Any, panel: Panel) -> None:
    """A number that was noted of some clients in each round."""
    trace, column = panel.run.trace, panel.column
    known = sorted(trace.client.unique())
    picked = [c for c in panel.clients if c in known] or known
    if "by" in panel.options:
        draw_groups(axis, panel)
        return
    by_client: pd.DataFrame = trace.pivot(index="round", columns="client", values=column)
    for client, style in zip(picked, styles(len(picked)), strict=True):
        axis.plot(by_client.index, by_client[client], label=f"client {client}", **style)
    if column == "server_distance":
        start = trace[trace.client == known[0]]
        axis.plot(
            start["round"], start.server_from_start, color="0.4", linewidth=2.5, alpha=0.6, label="server, from its start"
        )
    axis.set_xlabel("round")
    add_legend(axis)


def draw_groups(axis: Any, panel: Panel) -> None:
    """The same, averaged over each group of clients that the option `by` tells apart (a column of clients.csv)."""
    groups = panel.run.clients.set_index("client")[panel.options["by"]]
    trace = panel.run.trace
    means = trace.groupby([trace["round"], trace.client.map(groups)])[panel.column].mean().unstack()
    for (group, curve), style in zip(means.items(), styles(means.shape[1]), strict=True):
        axis.plot(curve.index, curve, label=f"{panel.options['by']} {group}", **style)
    axis.set_xlabel("round")
    add_legend(axis)


def draw_cdf(axis: Any, panel: Panel) -> None:
    """Which share of the clients has at most so much of something, for every line; pma: the gain on one's own tests."""
    for (line, run), style in zip(panel.lines.items(), styles(len(panel.lines)), strict=True):
        clients = pd.concat([run.clients for run in panel.runs(line)])
        if panel.column == "pma":
            values = 100 * (clients.own_accuracy - clients[f"{run.config['reference']}_own_accuracy"])
        else:
            values = in_percent(clients[panel.column], panel.column)
        axis.step(np.sort(values), np.arange(1, len(values) + 1) / len(values), where="post", label=line, **style)
    if panel.column == "pma":
        axis.axvline(0, color="0.5", linewidth=1, linestyle=":")
    axis.set_xlabel(LABELS.get(panel.column, panel.column))
    add_legend(axis)


def draw_clients(axis: Any, panel: Panel) -> None:
    """The clients' final state, side by side, for every line."""
    for (line, run), style in zip(panel.lines.items(), styles(len(panel.lines)), strict=True):
        clients, column = run.clients, panel.column
        axis.plot(clients.client, in_percent(clients[column], column), label=line, marker="o", markersize=4, **style)
    axis.set_xlabel("client")
    if len(panel.lines) > 1:
        add_legend(axis)


def draw_progress(axis: Any, panel: Panel) -> None:
    """Numbers of rounds.csv over the rounds, for every line; of several seeds the mean, ± its standard error."""
    together = panel.column.split("+")
    curves = [(line, name) for line in panel.lines for name in together]
    for (line, name), style in zip(curves, styles(len(curves)), strict=True):
        seeds = pd.concat([run.rounds.dropna(subset=[name]).set_index("round")[name] for run in panel.runs(line)], axis=1)
        middle, error = in_percent(seeds.mean(axis=1), name), in_percent(seeds.sem(axis=1), name)
        label = " ".join([line, LABELS[name]]) if len(together) > 1 else line
        axis.plot(seeds.index, middle, label=label, **style)
        if seeds.shape[1] > 1:
            axis.fill_between(seeds.index, middle - error, middle + error, color=style["color"], alpha=0.2, linewidth=0)
    axis.set_xlabel("round")
    add_legend(axis)


def draw_bars(axis: Any, panel: Panel) -> None:
    """A number of the summary for every line, with its value on the bar."""
    lines, column = panel.lines, panel.column
    values = [[in_percent(run.value(column), column) for run in panel.runs(line)] for line in lines]
    known = [[value for value in some if value is not None] or [0.0] for some in values]
    heights = [float(np.mean(some)) for some in known]
    errors = [float(np.std(some, ddof=1) / len(some) ** 0.5) if len(some) > 1 else 0.0 for some in known]
    shades = [str(0.75 - 0.55 * place / max(1, len(lines) - 1)) for place in range(len(lines))]
    bars = axis.bar(range(len(lines)), heights, color=shades, yerr=errors if any(errors) else None, capsize=3)
    axis.bar_label(bars, fmt="%.1f" if column.startswith(IN_PERCENT) else "%.2f", fontsize=8)
    axis.set_xticks(range(len(lines)), list(lines), fontsize=8, rotation=20)
    axis.margins(y=0.12)
    axis.set_axisbelow(True)


def in_percent(values: Any, column: str) -> Any:
    """Accuracies as percentages, all else as it is."""
    return 100 * values if values is not None and column.startswith(IN_PERCENT) else values


def draw_online(axis: Any, panel: Panel) -> None:
    """Some clients' losses or accuracies on what arrived after each round, smoothed over `smooth` rounds.

    Clients are named, or picked by ψ: the one with the most, the one at `middle`, the one with the least.
    """
    run, smooth = panel.run, int(panel.options.get("smooth", 1))
    table = run.online.pivot(index="round", columns="client", values=panel.column.removeprefix("online_"))
    picked, names = list(panel.clients) or list(table), {}
    if "middle" in panel.options:
        order = run.clients.sort_values("psi", ascending=False).client.to_numpy()
        picked = [int(order[place]) for place in (0, min(panel.options["middle"], len(order)) - 1, len(order) - 1)]
        names = dict(zip(picked, ("highest ψ", f"ψ at place {panel.options['middle']}", "lowest ψ"), strict=False))
    for client, style in zip(picked, styles(len(picked)), strict=True):
        curve = in_percent(table[client].rolling(smooth, min_periods=1).mean(), panel.column)
        axis.plot(table.index, curve, label=names.get(client, f"node {client}"), **style)
    stop = run.summary.get("stopping_round")
    if stop:
        axis.axvline(stop, color="0.5", linewidth=1, linestyle=":")
    axis.set_xlabel("round")
    if len(picked) <= SHOWN:
        add_legend(axis)


def draw_histogram(axis: Any, panel: Panel) -> None:
    """How many clients have which mean of the last `last` rounds, for every line."""
    last = int(panel.options.get("last", 10))
    means = {}
    for line, run in panel.lines.items():
        online = run.online
        late = online[online["round"] > online["round"].max() - last]
        means[line] = in_percent(late.groupby("client")[panel.column.removeprefix("online_")].mean(), panel.column)
    bins = np.histogram_bin_edges(np.concatenate(list(means.values())), 20)
    for (line, values), style in zip(means.items(), styles(len(means)), strict=True):
        axis.hist(values, bins, histtype="step", label=line, **style)
    axis.set_xlabel(LABELS.get(panel.column, panel.column))
    add_legend(axis)


def draw_recall(axis: Any, panel: Panel) -> None:
    """Over the rounds: which share of the clients with the largest ζ are among those with the lowest ψ, for every line."""
    for (line, run), style in zip(panel.lines.items(), styles(len(panel.lines)), strict=True):
        worst = set(panel.options.get("worst") or largest(run.clients.set_index("client").zeta))
        psi = run.trace.dropna(subset=["psi"]).pivot(index="round", columns="client", values="psi")
        found = [len(worst & set(row.nsmallest(len(worst)).index)) / len(worst) for _, row in psi.iterrows()]
        axis.plot(psi.index, found, label=f"{line} recall".strip(), **style)
        moved = psi.diff().abs().max(axis=1)
        label = f"{line} |ψ_t − ψ_t−1|∞ over its largest".strip()
        axis.plot(psi.index, moved / moved.max(), label=label, color=style["color"], linestyle=":")
    axis.set_xlabel("round")
    add_legend(axis)


def largest(zeta: pd.Series) -> list[int]:
    """The third of the clients with the largest ζ."""
    return zeta.nlargest(len(zeta) // 3).index.tolist()


def draw_autocorrelation(axis: Any, panel: Panel) -> None:
    """How a client's contributions of a round go with those of so many rounds before, and what chance would allow."""
    trace = panel.run.trace.dropna(subset=[panel.column])
    for client, style in zip(panel.clients, styles(len(panel.clients)), strict=True):
        values = trace[trace.client == client][panel.column].to_numpy()
        centred = values - values.mean()
        lags = range(1, min(30, len(values) // 2) + 1)
        found = [float(centred[lag:] @ centred[:-lag] / (centred @ centred)) for lag in lags]
        axis.plot(list(lags), found, marker="o", markersize=3, label=f"node {client}", **style)
        axis.axhspan(-1.96 / len(values) ** 0.5, 1.96 / len(values) ** 0.5, color="0.92")
    axis.set_xlabel("lag in rounds")
    add_legend(axis)


PANELS: dict[str, Callable[[Any, Panel], None]] = {
    "curves": draw_curves,
    "scatter": draw_scatter,
    "trace": draw_trace,
    "clients": draw_clients,
    "progress": draw_progress,
    "bars": draw_bars,
    "online": draw_online,
    "histogram": draw_histogram,
    "cdf": draw_cdf,
    "recall": draw_recall,
    "autocorrelation": draw_autocorrelation,
}


def panel_of(kind: str) -> Callable[[Any, Panel], None]:
    """The function that draws a kind; an error that lists the known ones."""
    if kind not in PANELS:
        raise ConfigError("kind", kind, f"must be one of {', '.join(PANELS)}, study")
    return PANELS[kind]
