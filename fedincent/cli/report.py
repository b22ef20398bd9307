"""fedincent report"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from fedincent.cli.options import add_plugins, add_results, add_verb, folder_with_runs


def declare(verbs: Any) -> None:
    """The verb and its options."""
    parser = add_verb(
        verbs,
        "report",
        act,
        "write one self-contained HTML page of all results",
        ("fedincent report --open", "fedincent report --output to_share.html"),
        "Overview, the papers' tables beside ours, mechanisms compared, and every run with its charts and command.",
    )
    parser.add_argument("--output", metavar="FILE", help="the page (default: RESULTS/report.html)")
    parser.add_argument("--open", action="store_true", help="show it in the browser")
    add_results(parser)
    add_plugins(parser)


def act(given: argparse.Namespace) -> None:
    """The page, and where it is."""
    from fedincent.results.report import write_report

    folder = folder_with_runs(given)
    output = Path(given.output).expanduser() if given.output else folder / "report.html"
    write_report(folder, output)
    print("file:", output)
    if given.open:
        import webbrowser

        webbrowser.open(output.resolve().as_uri())
