"""The command line: run · table · figure · status · report · compare · data · list.

Heavy imports happen inside the verbs, so that --help is instant.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from fedincent import __version__
from fedincent.errors import ConfigError, FedincentError, UsageError
from fedincent.groups import options_of

if TYPE_CHECKING:
    from fedincent.launchers import Launcher

GROUPS = (
    "datasets",
    "partitions",
    "models",
    "mechanisms",
    "contributions",
    "executors",
    "launchers",
    "loggers",
    "experiments",
    "tables",
    "figures",
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point of `fedincent`; errors a user can mend are shown as their message alone."""
    given = parse(arguments)
    set_up_logging()
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


def set_up_logging(anew: bool = False) -> None:
    """Warnings go to standard error; `anew`: to what that is now, whatever was set up before."""
    logging.basicConfig(format="%(levelname)s: %(message)s", level=logging.WARNING, force=anew)


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The parsed command line; words after an option join those before it, wherever the verb takes any number of words."""
    parser = make_parser()
    given, rest = parser.parse_known_args(arguments)
    words = next((getattr(given, name) for name in ("overrides", "names") if hasattr(given, name)), None)
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

    run = add_verb(
        verbs,
        "run",
        run_verb,
        "carry out one run, or find it finished; with -m a sweep",
        "fedincent run mechanism=iafl mechanism.kappa=0.2 dataset=fmnist partition=classes partition.k=3",
        "fedincent run -m mechanism=iafl,fedavg_finetune 'seed=range(0,3)'",
        "Overrides are Hydra's: GROUP=CHOICE picks a YAML file, NAME=VALUE sets a field. `fedincent list mechanisms` and\n"
        "its like show the choices, `fedincent run --show` every field. The same command a second time resumes or finds.\n"
        "A sweep goes through Hydra's launchers, or with launcher=local|ray|slurm through ours, as tables do.",
    )
    run.add_argument("overrides", nargs="*", metavar="OVERRIDE", help="Hydra override such as dataset=fmnist or seed=3")
    run.add_argument("-m", "--multirun", action="store_true", help="sweep over comma lists and ranges in the overrides")
    add_launching(run)
    run.add_argument("--show", action="store_true", help="print the configuration, each field with its meaning, and stop")
    add_plugins(run)

    table = add_verb(
        verbs,
        "table",
        table_verb,
        "render a paper's table from what was run, or run what it still needs",
        "fedincent table iafl-1 --only dataset=fmnist",
        "fedincent table iafl-1 --run --seeds 3 --only dataset=fmnist,mnist launcher=ray",
        "Files go to RESULTS/tables/ as Markdown, CSV and LaTeX. `fedincent list tables` shows the tables. With --sweep\n"
        "a grid of any metric over the stored runs: fedincent table --sweep mechanism.kappa --metric pearson dataset=digits",
    )
    table.add_argument("name", nargs="?", metavar="NAME", help="which table; with --sweep, a filter such as dataset=digits")
    table.add_argument(
        "overrides", nargs="*", metavar="OVERRIDE", help="Hydra overrides for all runs of the table; with --sweep, filters"
    )
    table.add_argument(
        "--only", action="append", default=[], metavar="KEY=A,B", help="dataset=…, setting=… or mechanism=… to keep"
    )
    table.add_argument("--sweep", action="append", default=[], metavar="FIELD", help="one or two fields to make a grid of")
    table.add_argument("--metric", default="pearson", help="metric of the grid (default: %(default)s)")
    add_plan(table)
    table.add_argument("--seeds", type=int, metavar="K", help="seeds 0 … K−1 instead of the table's own number")

    figure = add_verb(
        verbs,
        "figure",
        figure_verb,
        "draw a paper's figure from what was run, or run what it still needs",
        "fedincent figure iafl-1",
        "fedincent figure iafl-1 --run dataset=digits model=cnn training.lr=0.005",
        "PNG and SVG go to RESULTS/figures/. `fedincent list figures` shows the figures; overrides change all of its runs.",
    )
    figure.add_argument("name", metavar="NAME", help="which figure")
    figure.add_argument("overrides", nargs="*", metavar="OVERRIDE", help="Hydra overrides for all runs of the figure")
    add_plan(figure)

    status = add_verb(
        verbs,
        "status",
        status_verb,
        "how the runs stand: finished, running and where, queued, broken off",
        "fedincent status",
        "fedincent status --results /shared/results",
        "Looks at the results folder, and at SLURM's queue for jobs that were launched from it.",
    )
    add_results(status)

    report = add_verb(
        verbs,
        "report",
        report_verb,
        "write one self-contained HTML page of all results",
        "fedincent report --open",
        "fedincent report --output to_share.html",
        "Overview, the papers' tables beside ours, mechanisms compared, and every run with its charts and command.",
    )
    report.add_argument("--output", metavar="FILE", help="the page (default: RESULTS/report.html)")
    report.add_argument("--open", action="store_true", help="show it in the browser")
    add_results(report)
    add_plugins(report)

    compare = add_verb(
        verbs,
        "compare",
        compare_verb,
        "show some runs side by side",
        "fedincent compare iafl-digits cgsv-digits",
        "fedincent compare results/runs/iafl-digits-*",
        "A run is named by its folder, or by as much of its name's beginning or end as fits it alone.",
    )
    compare.add_argument("names", nargs="+", metavar="RUN", help="two or more runs")
    add_results(compare)

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
    listing.add_argument("group", choices=GROUPS, metavar="GROUP", help=f"one of {', '.join(GROUPS)}")
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
        "--jobs", type=int, metavar="J", help="runs at once (default: one per core, or as the cluster likes)"
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


def run_verb(given: argparse.Namespace) -> None:
    """fedincent run"""
    from fedincent.config import compose
    from fedincent.launchers import load_launcher

    launcher, words = load_launcher(given.overrides)
    launched = len(words) < len(given.overrides)
    if given.multirun and launched:
        from fedincent.sweep import combinations, print_lines

        wishes = [(line, compose(line)) for line in combinations(words)]
        folder = Path(wishes[0][1].results_dir).expanduser()
        launch(given, launcher, wishes, folder)
        if not given.detach:
            print_lines(wishes, folder)
        return
    if launched:
        raise UsageError("launcher=…: goes with a sweep (run -m …), table --run or figure --run")
    if given.jobs or given.detach:
        asked = "--jobs" if given.jobs else "--detach"
        raise UsageError(f"{asked}: goes with a sweep through launcher=local|ray|slurm (run -m …)")
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


def results_folder(given: argparse.Namespace) -> Path:
    """Where the results are."""
    return Path(given.results or os.environ.get("FEDINCENT_RESULTS") or "results").expanduser()


def take_launcher(given: argparse.Namespace) -> Launcher:
    """The launcher that the overrides describe; they are then the runs' alone."""
    from fedincent.launchers import load_launcher

    launcher, rest = load_launcher(given.overrides)
    if len(rest) < len(given.overrides) and not (given.run or given.dry_run):
        raise UsageError("launcher=…: goes with --run: it carries out the runs that are missing")
    given.overrides = rest
    return launcher


def launch(given: argparse.Namespace, launcher: Launcher, wishes: list, folder: Path) -> None:
    """Do, or list, the runs that are missing."""
    from fedincent.results.plan import run_missing

    for name in ("jobs", "seeds"):
        value = getattr(given, name, None)
        if value is not None and value < 1:
            raise ConfigError(f"--{name}", value, "must be ≥ 1")
    run_missing(wishes, folder, launcher, given.jobs, getattr(given, "dry_run", False), given.detach)


def table_verb(given: argparse.Namespace) -> None:
    """fedincent table"""
    from fedincent.results import render
    from fedincent.results.index import Index
    from fedincent.results.table import fill_cells, load_table

    folder = results_folder(given)
    if given.sweep:
        from fedincent.results.sweep_table import sweep_grid

        sweep_grid(folder, given.sweep[:2], given.metric, [part for part in (given.name, *given.overrides) if part])
        return
    if not given.name:
        raise ConfigError("table", "(nothing)", f"which one? known: {', '.join(options_of('table'))}")
    launcher = take_launcher(given)
    table = load_table(given.name, given.overrides)
    only = parse_only(given.only)
    failure = None
    if given.run or given.dry_run:
        try:
            launch(given, launcher, table.wishes(given.seeds, only), folder)
        except ConfigError:
            raise
        except FedincentError as error:  # what could be run is rendered all the same
            failure = error
        if given.dry_run or given.detach:
            if failure:
                raise failure
            return
    cells = fill_cells(table, Index(folder), given.seeds, only)
    if not cells:
        raise ConfigError("--only", " ".join(given.only), "leaves nothing of the table")
    render.to_terminal(table, cells)
    if not only or given.overrides:
        print("files:", *render.to_files(table, cells, folder / "tables"))
    if failure:
        raise failure


def parse_only(parts: Sequence[str]) -> dict[str, list[str]]:
    """--only dataset=fmnist,mnist as a mapping."""
    only = {}
    for part in parts:
        name, _, values = part.partition("=")
        if name not in ("dataset", "setting", "mechanism") or not values:
            raise ConfigError("--only", part, "must be dataset=…, setting=… or mechanism=…, values separated by commas")
        only[name] = values.split(",")
    return only


def figure_verb(given: argparse.Namespace) -> None:
    """fedincent figure"""
    from fedincent.results.figures import draw, load_figure

    figure = load_figure(given.name)
    launcher = take_launcher(given)
    folder = results_folder(given)
    if given.run or given.dry_run:
        launch(given, launcher, figure.wishes(given.overrides), folder)
        if given.dry_run or given.detach:
            return
    print("files:", *draw(figure, given.overrides, folder, folder / "figures"))


def status_verb(given: argparse.Namespace) -> None:
    """fedincent status"""
    from fedincent.results.status import show

    show(results_folder(given))


def report_verb(given: argparse.Namespace) -> None:
    """fedincent report"""
    from fedincent.report import write_report

    folder = results_folder(given)
    if not (folder / "runs").is_dir():
        raise ConfigError("--results", str(folder), "there are no runs; `fedincent run` makes one")
    output = Path(given.output).expanduser() if given.output else folder / "report.html"
    write_report(folder, output)
    print("file:", output)
    if given.open:
        import webbrowser

        webbrowser.open(output.resolve().as_uri())


def compare_verb(given: argparse.Namespace) -> None:
    """fedincent compare"""
    from fedincent.results.compare import find_runs, print_comparison

    if len(given.names) < 2:
        raise ConfigError("compare", " ".join(given.names), "needs two runs at least")
    print_comparison(find_runs(given.names, results_folder(given)))


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
