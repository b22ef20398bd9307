"""The command line: run · data · list. Heavy imports happen inside the verbs, so that --help is instant."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from fedincent import __version__
from fedincent.errors import ConfigError, FedincentError
from fedincent.groups import options_of

GROUPS = ("datasets", "partitions", "models", "mechanisms", "contributions", "executors", "loggers", "experiments")


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of `fedincent`; errors a user can mend are shown as their message alone."""
    parser = make_parser()
    given = parser.parse_args(arguments)
    logging.basicConfig(format="%(levelname)s: %(message)s", level=logging.WARNING)
    if getattr(given, "plugins", None):
        os.environ["FEDINCENT_PLUGINS"] = str(Path(given.plugins).expanduser().resolve())
    try:
        given.verb(given)
    except FedincentError as error:
        print(f"fedincent: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("\nfedincent: interrupted; the same command goes on from the last checkpoint", file=sys.stderr)
        sys.exit(130)


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

    run = add_verb(
        verbs,
        "run",
        run_verb,
        "carry out one run, or find it finished; with -m a sweep",
        "fedincent run mechanism=iafl mechanism.kappa=0.2 dataset=fmnist partition=classes partition.k=3",
        "fedincent run -m mechanism=iafl,fedavg_finetune 'seed=range(0,3)'",
        "Overrides are Hydra's: GROUP=CHOICE picks a YAML file, NAME=VALUE sets a field. `fedincent list mechanisms` and\n"
        "its like show the choices, `fedincent run --show` every field. The same command a second time resumes or finds.",
    )
    run.add_argument("overrides", nargs="*", metavar="OVERRIDE", help="Hydra override such as dataset=fmnist or seed=3")
    run.add_argument("-m", "--multirun", action="store_true", help="sweep over comma lists and ranges in the overrides")
    run.add_argument("--show", action="store_true", help="print the configuration, each field with its meaning, and stop")
    add_plugins(run)

    data = add_verb(
        verbs,
        "data",
        data_verb,
        "list, fetch, verify or show data sets",
        "fedincent data fetch fmnist",
        "fedincent data show dataset=fmnist partition=classes partition.k=3 --output skew.png",
        "Files are looked for in dataset.root, else in FEDINCENT_DATA, else in the user's cache folder.",
    )
    data.add_argument("action", choices=("list", "fetch", "verify", "show"), help="what to do")
    data.add_argument("names", nargs="*", metavar="NAME", help="data set (fetch, verify), or overrides (show)")
    data.add_argument(
        "--output", metavar="FILE", default="partition.png", help="picture that show writes (default: %(default)s)"
    )
    add_plugins(data)

    listing = add_verb(
        verbs,
        "list",
        list_verb,
        "what there is to choose from",
        "fedincent list mechanisms",
        "fedincent list datasets",
        "One line on each choice of a group.",
    )
    listing.add_argument("group", choices=GROUPS, help="which group")
    add_plugins(listing)
    return parser


def add_verb(verbs, name, action, help, first, second, more):  # type: ignore[no-untyped-def]
    """A verb with a line of help, two examples and some more words."""
    verb = verbs.add_parser(
        name,
        help=help,
        description=f"{help[0].upper()}{help[1:]}.",
        epilog=f"{more}\n\nexamples:\n  {first}\n  {second}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verb.set_defaults(verb=action)
    return verb


def add_plugins(parser: argparse.ArgumentParser) -> None:
    """The option that brings one's own components."""
    parser.add_argument(
        "--plugins", metavar="DIR", help="folder with Python files and a conf/ of one's own mechanisms, data sets, …"
    )


def run_verb(given: argparse.Namespace) -> None:
    """fedincent run"""
    from fedincent.config import compose

    if given.multirun:
        from fedincent.sweep import sweep

        sweep(given.overrides)
        return
    config = compose(given.overrides)
    if given.show:
        from fedincent.describe import print_config

        print_config(config)
        return
    from fedincent.describe import print_result
    from fedincent.runner import run

    print_result(run(config))


def list_verb(given: argparse.Namespace) -> None:
    """fedincent list"""
    known = options_of(given.group.removesuffix("s"))
    width = max(len(name) for name in known)
    for name, line in known.items():
        print(f"{name:<{width}}  {line}")


def data_verb(given: argparse.Namespace) -> None:
    """fedincent data"""
    from fedincent import inspection

    if given.action == "show":
        inspection.show(given.names, Path(given.output))
        return
    if given.action == "list":
        if given.names:
            raise ConfigError("data list", " ".join(given.names), "takes no name")
        inspection.list_all()
        return
    if not given.names:
        raise ConfigError(f"data {given.action}", "(nothing)", f"which one? known: {', '.join(options_of('dataset'))}")
    for name in given.names:
        inspection.fetch(name) if given.action == "fetch" else inspection.verify(name)
