"""fedincent scoreboard"""

from __future__ import annotations

import argparse
from typing import Any

from fedincent.cli.options import add_plugins, add_results, add_verb, folder_with_runs


def declare(verbs: Any) -> None:
    """The verb and its options."""
    parser = add_verb(
        verbs,
        "scoreboard",
        act,
        "how much of each paper was run, and how much of that agrees with print",
        ("fedincent scoreboard", "fedincent scoreboard --tables"),
        "Writes RESULTS/README.md, and renders every table of which anything was run into RESULTS/tables/.",
    )
    parser.add_argument("--tables", action="store_true", help="a line for each table, not only for each paper")
    add_results(parser)
    add_plugins(parser)


def act(given: argparse.Namespace) -> None:
    """The counts, in the terminal and as a page; the tables anew."""
    from rich.console import Console
    from rich.table import Table

    from fedincent.results import render
    from fedincent.results.scoreboard import HEADER, MEANING, scoreboard, to_markdown
    from fedincent.store.files import write_text
    from fedincent.store.index import Index

    folder = folder_with_runs(given)
    scores = scoreboard(Index(folder))
    shown = Table(title="ours against print", title_justify="left")
    for place, name in enumerate(HEADER):
        shown.add_column(name, justify="right" if place else "left")
    for whole, tables in scores.values():
        shown.add_row(*whole.row, style="bold" if given.tables else "")
        for score in tables if given.tables else []:
            shown.add_row(*score.row)
    console = Console()
    console.print(shown)
    console.print(MEANING, style="dim", highlight=False)
    for _, tables in scores.values():
        for score in tables:
            if score.filled is not None:
                render.to_files(*score.filled, folder / "tables")
    write_text(folder / "README.md", to_markdown(scores))
    print("files:", folder / "README.md", folder / "tables")
