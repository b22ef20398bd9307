"""fedincent rm"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from fedincent.cli.options import add_results, add_verb, results_folder
from fedincent.errors import ConfigError, FedincentError, UsageError

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
    parser.add_argument("filters", nargs="+", metavar="FILTER", help="NAME=VALUE[,VALUE…], or a run's whole name")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    add_results(parser)


def act(given: argparse.Namespace) -> None:
    """The runs are gone, if that was meant."""
    import contextlib
    import shutil

    from filelock import FileLock, Timeout

    from fedincent.store.identity import builds_on
    from fedincent.store.index import Index, named, parse_filters

    parse_filters(given.filters)
    index = Index(results_folder(given))
    for word in given.filters:
        if "=" not in word and not any(named(result, word) for result in index.results.values()):
            raise ConfigError("rm", word, "is no whole name of a run; `fedincent list runs` shows them")
    chosen = [result for result in index.select(given.filters) if not result.published]
    if not chosen:
        raise ConfigError("rm", " ".join(given.filters), "no finished run of one's own fits")

    def based(base: Result) -> int:
        count = 0
        for other in index.results.values():
            with contextlib.suppress(FedincentError):  # one that cannot be read is no reason to keep this one
                reference = other.config.get("reference", "standalone")
                mine = base.summary["identity"], other.summary["identity"]
                count += other not in chosen and builds_on(*mine, reference)
        return count

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
                shutil.rmtree(result.path)
        except Timeout:
            print(f"{result.name} is being worked on: not deleted")
        except FileNotFoundError:
            print(f"{result.name} was deleted by somebody else")
    print("done")
