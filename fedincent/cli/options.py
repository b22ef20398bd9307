"""What the verbs share: how they are declared, the options several of them take, and where the results are."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedincent.errors import ConfigError, UsageError

if TYPE_CHECKING:
    from fedincent.campaigns.launcher import Launcher


def add_verb(verbs: Any, name: str, action: Any, help: str, examples: tuple[str, str], more: str) -> argparse.ArgumentParser:
    """A verb with a line of help, two examples and some more words."""
    verb: argparse.ArgumentParser = verbs.add_parser(
        name,
        help=help,
        description=f"{help[0].upper()}{help[1:]}.",
        epilog=f"{more}\n\nexamples:\n  " + "\n  ".join(examples),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verb.set_defaults(verb=action)
    return verb


def positive(text: str) -> int:
    """A whole number ≥ 1 of a command line."""
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: must be a whole number ≥ 1")
    return int(text)


def add_plan(parser: argparse.ArgumentParser) -> None:
    """The options of verbs that can carry out many runs."""
    parser.add_argument(
        "--run", action="store_true", help="first do the runs that are missing; launcher=local|ray|slurm says where"
    )
    parser.add_argument("--dry-run", action="store_true", help="list the runs that are missing, and stop")
    add_launching(parser)
    add_results(parser)
    add_plugins(parser)


def add_launching(parser: argparse.ArgumentParser) -> None:
    """How many runs are carried out at once, and whether to wait for them."""
    parser.add_argument(
        "--jobs", type=positive, metavar="J", help="runs at once (default: one per core, or as the cluster likes)"
    )
    parser.add_argument(
        "--detach", action="store_true", help="with launcher=slurm: submit the jobs, and do not wait for them"
    )


def add_results(parser: argparse.ArgumentParser) -> None:
    """The option of verbs that look at results."""
    parser.add_argument("--results", metavar="DIR", help="folder of results (default: FEDINCENT_RESULTS, else results)")


def add_plugins(parser: argparse.ArgumentParser) -> None:
    """The option that brings one's own components."""
    parser.add_argument(
        "--plugins", metavar="DIR", help="folder with Python files and a conf/ of one's own mechanisms, data sets, …"
    )


def print_choices(known: Mapping[str, str]) -> None:
    """What there is, a line on each."""
    width = max(len(name) for name in known)
    for name, line in known.items():
        print(f"{name:<{width}}  {line}")


def results_folder(given: argparse.Namespace) -> Path:
    """Where the results are."""
    if given.results and Path(given.results).expanduser().exists() and not Path(given.results).expanduser().is_dir():
        raise ConfigError("--results", given.results, "is no folder")
    return Path(given.results or os.environ.get("FEDINCENT_RESULTS") or "results").expanduser()


def folder_with_runs(given: argparse.Namespace) -> Path:
    """Where the results are; an error where there are none."""
    folder = results_folder(given)
    if not (folder / "runs").is_dir() and not (folder / "published").is_dir():
        raise ConfigError("--results", str(folder), "there are no runs; `fedincent run` makes one")
    return folder


def take_launcher(given: argparse.Namespace) -> Launcher:
    """The launcher that the overrides describe; they are then the runs' alone."""
    from fedincent.campaigns.launcher import load_launcher

    launcher, rest = load_launcher(given.overrides)
    if len(rest) < len(given.overrides) and not (given.run or given.dry_run):
        raise UsageError("launcher=…: goes with --run: it carries out the runs that are missing")
    given.overrides = rest
    return launcher


def launch(given: argparse.Namespace, launcher: Launcher, wishes: list, folder: Path) -> None:
    """Do, or list, the runs that are missing."""
    from fedincent.campaigns.plan import run_missing

    run_missing(wishes, folder, launcher, given.jobs, getattr(given, "dry_run", False), given.detach)
