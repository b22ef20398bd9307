"""fedincent rm"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from fedincent.cli.options import add_results, add_verb, results_folder
from fedincent.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from fedincent.store.result import Result


def declare(verbs: Any) -> None:
    """The verb and its options."""
    parser = add_verb(
        verbs,
        "rm",
        act,
        "delete runs of one's own",
        ("fedincent rm iafl-digits-dirichlet-cnn-s0-0123456789", "fedincent rm mechanism=iafl seed=3,4 --yes"),
        "It lists them, says what was measured against them, and asks. Published runs are never deleted.",
    )
    parser.add_argument("filters", nargs="+", metavar="FILTER", help="NAME=VALUE[,VALUE…], or a part of a run's name")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    add_results(parser)


def act(given: argparse.Namespace) -> None:
    """The runs are gone, if that was meant."""
    import shutil

    from filelock import FileLock, Timeout

    from fedincent.store.identity import builds_on
    from fedincent.store.index import Index, parse_filters

    parse_filters(given.filters)
    index = Index(results_folder(given))
    chosen = [result for result in index.select(given.filters) if not result.published]
    if not chosen:
        raise ConfigError("rm", " ".join(given.filters), "no finished run of one's own fits")

    def based(base: Result) -> int:
        others = [result for result in index.results.values() if result not in chosen]
        return sum(
            builds_on(base.summary["identity"], other.summary["identity"], other.config.get("reference", "standalone"))
            for other in others
        )

    for result in chosen:
        count = based(result)
        print(f"{result.name}{f'  ({count} other runs were measured against it; they keep their numbers)' if count else ''}")
    if not given.yes:
        if not sys.stdin.isatty():
            raise UsageError("rm: nobody is there to be asked; --yes deletes them")
        if input(f"delete these {len(chosen)} runs? [y/N] ").strip().lower() not in ("y", "yes"):
            print("nothing deleted")
            return
    for result in chosen:
        try:
            with FileLock(result.path / "run.lock", timeout=0):
                (result.path / "summary.json").unlink()  # first: a half-deleted run is not a finished one
        except Timeout:
            print(f"{result.name} is being worked on: not deleted")
            continue
        shutil.rmtree(result.path)
    print("done")
