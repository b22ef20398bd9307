"""fedincent list"""

from __future__ import annotations

import argparse
from typing import Any

from fedincent.cli.options import add_plugins, add_verb
from fedincent.config.groups import options_of

GROUPS = (
    "datasets",
    "partitions",
    "disturbances",
    "models",
    "mechanisms",
    "contributions",
    "behaviours",
    "executors",
    "launchers",
    "loggers",
    "experiments",
    "tables",
    "figures",
    "metrics",
)


def declare(verbs: Any) -> None:
    """The verb and its options."""
    parser = add_verb(
        verbs,
        "list",
        act,
        "what there is to choose from",
        ("fedincent list mechanisms", "fedincent list datasets"),
        "One line on each choice of a group.",
    )
    parser.add_argument("group", choices=GROUPS, metavar="GROUP", help=f"one of {', '.join(GROUPS)}")
    add_plugins(parser)


def act(given: argparse.Namespace) -> None:
    """A line on each choice."""
    if given.group == "metrics":
        from fedincent.evaluation.metrics import METRICS

        known = {name: f"{metric.label}: {metric.meaning}" for name, metric in METRICS.items()}
    else:
        known = options_of(given.group.removesuffix("s"))
    width = max(len(name) for name in known)
    for name, line in known.items():
        print(f"{name:<{width}}  {line}")
