"""One result in words and tables, for the terminal."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from fedincent.evaluation.metrics import shown_of
from fedincent.store.result import Result


def print_result(result: Result) -> None:
    """The metrics, the five best and worst clients, and where the files are."""
    summary, console = result.summary, Console()
    chosen = summary["choices"]
    title = f"{chosen['mechanism']} on {chosen['dataset']}, {chosen['partition']}, {chosen['model']}, seed {summary['seed']}"
    metrics = Table(title=title, title_justify="left")
    for column in ("metric", "value", "meaning"):
        metrics.add_column(column, justify="right" if column == "value" else "left")
    reference = summary["identity"].get("reference", "standalone")
    for metric in shown_of(summary):
        metrics.add_row(metric.title, metric.show(summary[metric.name]), measured_against(reference, metric.meaning))
    console.print(metrics)
    print_clients(result, console)
    if reference != "standalone" and chosen["mechanism"] != "standalone":
        told = (
            "nothing to compare with" if reference == "none" else f"gains are measured against {reference}, not standalone"
        )
        console.print(f"reference={reference}: {told}", highlight=False)
    for note in summary["notes"]:
        console.print(f"note: {note}", highlight=False)
    print(f"{summary['seconds']['total']:.1f} s in all, {summary['seconds']['training']:.1f} s of it local training")
    print(f"files: {result.path}")


def measured_against(reference: str, meaning: str) -> str:
    """What a metric means where gains are not measured against training alone."""
    if reference in ("standalone", "none"):
        return meaning
    changes = {"over standalone": f"over {reference}", "standalone accuracy": f"accuracy under {reference}"}
    changes |= {"than alone": f"than under {reference}"}
    for usual, other in changes.items():
        meaning = meaning.replace(usual, other)
    return meaning


def print_clients(result: Result, console: Console) -> None:
    """The clients from the best to the worst, or the five best and the five worst."""
    clients = result.clients
    score = result.score
    reference = next((name for name in ("standalone", "fedavg") if f"{name}_{score}" in clients), None)
    columns = {"client": "client", "samples": "n_samples", "contribution": "contribution"}
    columns |= {{"standalone": "alone"}.get(reference, reference): f"{reference}_{score}"} if reference else {}
    columns |= {"online" if score.startswith("online") else "final": score, "gain": "gain", "ζ": "zeta"}
    if reference:
        clients["gain"] = (clients[score] - clients[f"{reference}_{score}"]) * (-1 if "mape" in score else 1)
    columns = {title: name for title, name in columns.items() if name in clients}
    formats = {"zeta": "{:.3g}", "client": "{:d}", "n_samples": "{:d}", "contribution": "{:.4g}", "gain": "{:+.1f}"}
    clients = clients.sort_values([score, "client"], ascending=["mape" in score, True]).reset_index(drop=True)
    cut = len(clients) > 10
    table = Table(title="best and worst clients" if cut else "clients", title_justify="left")
    for title in columns:
        table.add_column(title, justify="right")
    for place, row in clients.iterrows():
        if cut and 5 <= place < len(clients) - 5:
            if place == 5:
                table.add_section()
            continue
        cells = []
        for name in columns.values():
            value = int(row[name]) if name in ("client", "n_samples") else 100 * row[name] if name == "gain" else row[name]
            cells.append(formats.get(name, "{:.1%}").format(value))
        table.add_row(*cells)
    console.print(table)
