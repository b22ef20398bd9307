"""fedincent status"""

from __future__ import annotations

import argparse
from typing import Any

from fedincent.cli.options import add_results, add_verb, results_folder


def declare(verbs: Any) -> None:
    """The verb and its options."""
    parser = add_verb(
        verbs,
        "status",
        act,
        "how the runs stand: finished, running and where, queued, broken off",
        ("fedincent status", "fedincent status --results /shared/results"),
        "Looks at the results folder, and at SLURM's queue for jobs that were launched from it.",
    )
    add_results(parser)


def act(given: argparse.Namespace) -> None:
    """Everything that was begun."""
    from fedincent.results.status import show

    show(results_folder(given))
