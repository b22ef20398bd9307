"""fedincent list"""

from __future__ import annotations

import argparse
from typing import Any

from fedincent.cli.options import add_plugins, add_results, add_verb, print_choices, results_folder
from fedincent.config.groups import options_of
from fedincent.errors import ConfigError

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
    "runs",
)


def plural(word: str) -> str:
    """A group by its name, which may be singular."""
    for name in (word, f"{word}s"):
        if name in GROUPS:
            return name
    raise argparse.ArgumentTypeError(f"invalid choice: {word!r} (choose from {', '.join(GROUPS)})")


def declare(verbs: Any) -> None:
    """The verb and its options."""
    parser = add_verb(
        verbs,
        "list",
        act,
        "what there is to choose from",
        ("fedincent list mechanisms", "fedincent list runs mechanism=iafl dataset=fmnist"),
        "One line on each choice of a group; runs: those that are stored, one's own and published ones.",
    )
    parser.add_argument("group", nargs="?", type=plural, metavar="GROUP", help=f"one of {', '.join(GROUPS)}")
    parser.add_argument(
        "filters", nargs="*", metavar="FILTER", help="of runs: NAME=VALUE[,VALUE…], or a part of a run's name"
    )
    add_results(parser)
    add_plugins(parser)


def act(given: argparse.Namespace) -> None:
    """A line on each choice; of the groups themselves where none is named."""
    if given.group is None:
        print("fedincent list GROUP, which is one of:\n  " + "\n  ".join(GROUPS))
        return
    if given.group == "runs":
        list_runs(given)
        return
    if given.filters:
        raise ConfigError("list", given.group, f"takes no filter, only runs do ({' '.join(given.filters)})")
    if given.group == "metrics":
        from fedincent.evaluation.metrics import METRICS

        known = {name: f"{metric.label}: {metric.meaning}" for name, metric in METRICS.items()}
    else:
        known = options_of(given.group.removesuffix("s"))
    print_choices(known)


def list_runs(given: argparse.Namespace) -> None:
    """A line on each stored run: its name, where it is kept, and its metrics."""
    from fedincent.evaluation.metrics import one_line
    from fedincent.store.index import Index, parse_filters

    parse_filters(given.filters)
    index = Index(results_folder(given))
    chosen = sorted(index.select(given.filters), key=lambda result: (result.published, result.name))
    width = max((len(result.name) for result in chosen), default=0)
    for result in chosen:
        place = result.path.parent.stem if result.published else "own"
        print(f"{result.name:<{width}}  {place:<8}  {one_line(result.summary)}")
    print(f"{len(chosen)} of {len(index.results)} runs")
    for damage in index.damaged:
        print(f"damaged: {damage.name}: {damage.why}  ({damage.mend})")
