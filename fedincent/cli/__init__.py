"""The command line: one file a verb. Heavy imports happen inside the verbs, so that --help is instant."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from fedincent import __version__
from fedincent.cli import (
    audit,
    compare,
    completion,
    data,
    figure,
    listing,
    pack,
    report,
    rm,
    run,
    scoreboard,
    status,
    table,
    unpack,
    verify,
)
from fedincent.cli.later import import_later
from fedincent.errors import FedincentError
from fedincent.runs.interrupt import end_like_ctrl_c

VERBS = (run, table, figure, audit, scoreboard, status, report, compare, data, listing, pack, unpack, verify, rm, completion)


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of `fedincent`; errors a user can mend are shown as their message alone."""
    import_later("torch")
    given = parse(arguments)
    logging.basicConfig(format="%(levelname)s: %(message)s", level=logging.WARNING)
    if getattr(given, "plugins", None):
        os.environ["FEDINCENT_PLUGINS"] = str(Path(given.plugins).expanduser().resolve())
    end_like_ctrl_c()
    try:
        given.verb(given)
    except FedincentError as error:
        print(f"fedincent: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and "allocate memory" not in str(error):
            raise
        why = str(error).splitlines()[0] if str(error) else "no more to be had"
        print(f"fedincent: not enough memory: {why}", file=sys.stderr)
        sys.exit(1)
    except BrokenPipeError:  # whoever read the output has enough
        sys.exit(0)
    except OSError as error:
        where = f"{error.filename}: " if error.filename else ""
        print(f"fedincent: {where}{error.strerror or error}", file=sys.stderr)
        sys.exit(1)
    except KeyboardInterrupt:
        print("\nfedincent: interrupted; the same command goes on from the last checkpoint", file=sys.stderr)
        sys.exit(130)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The parsed command line; words after an option join those before it, wherever the verb takes any number of words."""
    parser = make_parser()
    given, rest = parser.parse_known_args(arguments)
    words = next((getattr(given, name) for name in ("overrides", "names", "filters") if hasattr(given, name)), None)
    if rest and (words is None or any(word.startswith("-") for word in rest)):
        parser.error(f"unrecognized arguments: {' '.join(rest)}")
    if words is not None:
        words.extend(rest)
    return given


def make_parser() -> argparse.ArgumentParser:
    """All verbs with their help."""
    parser = argparse.ArgumentParser(
        prog="fedincent",
        description="A benchmark for incentives in federated learning: who gains by taking part, and who gains more by "
        "contributing more?",
        epilog="examples:\n  fedincent run\n  fedincent run mechanism=iafl dataset=cifar10 partition=dirichlet seed=3",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"fedincent {__version__}")
    verbs = parser.add_subparsers(title="verbs", required=True, metavar="VERB")
    for module in VERBS:
        module.declare(verbs)
    return parser
