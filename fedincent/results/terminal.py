"""One result in words and tables, for the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from fedincent.evaluation.measures import METRICS, show
from fedincent.store.folder import Result


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
