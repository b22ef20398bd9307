"""fedincent compare"""

from __future__ import annotations

import argparse
from typing import Any

from fedincent.cli.options import add_results, add_verb, results_folder
from fedincent.errors import ConfigError


def declare(verbs: Any) -> None:
    """The verb and its options."""
    parser = add_verb(
        verbs,
        "compare",
        act,
        "show some runs side by side",
        ("fedincent compare iafl-digits cgsv-digits", "fedincent compare results/runs/iafl-digits-*"),
        "A run is named by its folder, or by as much of its name's beginning or end as fits it alone.",
    )
    parser.add_argument("names", nargs="+", metavar="RUN", help="two or more runs")
    add_results(parser)


def act(given: argparse.Namespace) -> None:
    """The runs in columns."""
    from fedincent.results.compare import find_runs, print_comparison

    if len(given.names) < 2:
        raise ConfigError("compare", " ".join(given.names), "needs two runs at least")
    print_comparison(find_runs(given.names, results_folder(given)))
