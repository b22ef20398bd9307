"""Results and configurations in words and tables, for the terminal."""

from __future__ import annotations

import dataclasses
from typing import Any

from rich.console import Console
from rich.table import Table

from fedincent.config import Config
from fedincent.results.store import Result

METRICS = {  # summary key: name, explanation
    "ipr_accuracy": ("IPR (accuracy)", "share of clients not worse off than alone"),
    "ipr_loss": ("IPR (loss)", "the same by test loss"),
    "pearson": ("Pearson ρ", "final against standalone accuracy"),
    "accuracy_mean": ("mean accuracy", "over the clients' final models"),
    "accuracy_max": ("highest accuracy", "of any client"),
    "accuracy_gain": ("mean gain", "over standalone, in points"),
}


def show(key: str, value: float | None) -> str:
    """A metric as people read it."""
    if value is None:
        return "undefined"
    if key == "accuracy_gain":
        return f"{100 * value:+.1f}"
    return f"{100 * value:.1f} %" if key.startswith("accuracy") else f"{value:.2f}"


def one_line(result: Result) -> str:
    """A run's metrics in one line."""
    s = result.summary
    return (
        f"IPR {show('ipr_accuracy', s['ipr_accuracy'])}  ρ {show('pearson', s['pearson'])}  "
        f"accuracy {show('accuracy_mean', s['accuracy_mean'])}  gain {show('accuracy_gain', s['accuracy_gain'])}"
    )


def print_result(result: Result) -> None:
    """The metrics, the five best and worst clients, and where the files are."""
    summary, console = result.summary, Console()
    chosen = summary["choices"]
    title = f"{chosen['mechanism']} on {chosen['dataset']}, {chosen['partition']}, {chosen['model']}, seed {summary['seed']}"
    metrics = Table(title=title, title_justify="left")
    for column in ("metric", "value", "meaning"):
        metrics.add_column(column, justify="right" if column == "value" else "left")
    for key, (name, meaning) in METRICS.items():
        metrics.add_row(name, show(key, summary[key]), meaning)
    console.print(metrics)
    clients = result.clients.sort_values(["accuracy", "client"], ascending=[False, True])
    cut = len(clients) > 10
    table = Table(title="best and worst clients" if cut else "clients", title_justify="left")
    for column in ("client", "samples", "contribution", "alone", "final", "gain"):
        table.add_column(column, justify="right")
    for place, row in enumerate(clients.itertuples(index=False)):
        if cut and 5 <= place < len(clients) - 5:
            if place == 5:
                table.add_section()
            continue
        gain = f"{100 * (row.accuracy - row.standalone_accuracy):+.1f}"
        alone, final = f"{row.standalone_accuracy:.1%}", f"{row.accuracy:.1%}"
        table.add_row(str(row.client), str(row.n_samples), f"{row.contribution:.4g}", alone, final, gain)
    console.print(table)
    for note in summary["notes"]:
        console.print(f"note: {note}", highlight=False)
    print(f"{summary['seconds']['total']:.1f} s in all, {summary['seconds']['training']:.1f} s of it local training")
    print(f"files: {result.path}")


def print_config(config: Config) -> None:
    """Every field of a configuration with its value and meaning."""
    table = Table(box=None)
    for column in ("field", "value", "meaning"):
        table.add_column(column, overflow="fold")
    for name, value, help_text in described(config):
        table.add_row(name, value, help_text)
    Console().print(table)


def described(thing: Any, prefix: str = "") -> list[tuple[str, str, str]]:
    """(field, value, meaning) of a dataclass of options and of the components in it."""
    rows = []
    for field in dataclasses.fields(thing):
        if "help" in field.metadata:
            value = getattr(thing, field.name)
            rows.append((prefix + field.name, "null" if value is None else str(value), field.metadata["help"]))
    for field in dataclasses.fields(thing):
        value = getattr(thing, field.name) if field.init else None
        if dataclasses.is_dataclass(value):
            choice = getattr(thing, "choices", {}).get(field.name)
            if choice:
                rows.append((field.name, choice, (type(value).__doc__ or "").splitlines()[0]))
            rows += described(value, f"{field.name}.")
    return rows
