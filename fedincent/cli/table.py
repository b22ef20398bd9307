"""fedincent table"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from fedincent.cli.options import add_plan, add_verb, launch, positive, print_choices, results_folder, take_launcher
from fedincent.config.groups import options_of
from fedincent.errors import ConfigError, FedincentError


def declare(verbs: Any) -> None:
    """The verb and its options."""
    parser = add_verb(
        verbs,
        "table",
        act,
        "render a paper's table from what was run, or run what it still needs",
        (
            "fedincent table iafl-1 --only dataset=fmnist",
            "fedincent table iafl-1 --run --seeds 3 --only dataset=fmnist,mnist launcher=ray",
        ),
        "Files go to RESULTS/tables/ as Markdown, CSV and LaTeX. `fedincent list tables` shows the tables. With --sweep\n"
        "a grid of any metric over the stored runs: fedincent table --sweep mechanism.kappa --metric pearson dataset=digits",
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="which table; with --sweep, a filter such as dataset=digits")
    parser.add_argument(
        "overrides", nargs="*", metavar="OVERRIDE", help="Hydra overrides for all runs of the table; with --sweep, filters"
    )
    parser.add_argument(
        "--only", action="append", default=[], metavar="KEY=A,B", help="dataset=…, setting=… or mechanism=… to keep"
    )
    parser.add_argument("--sweep", action="append", default=[], metavar="FIELD", help="one or two fields to make a grid of")
    parser.add_argument("--metric", default="pearson", help="metric of the grid (default: %(default)s)")
    add_plan(parser)
    parser.add_argument("--seeds", type=positive, metavar="K", help="seeds 0 … K−1 instead of the table's own number")


def act(given: argparse.Namespace) -> None:
    """A paper's table, or a grid over stored runs."""
    from fedincent.results import render
    from fedincent.results.table import checked_only, fill_cells, load_table
    from fedincent.store.index import Index

    folder = results_folder(given)
    if given.sweep:
        if len(given.sweep) > 2:
            raise ConfigError("--sweep", ", ".join(given.sweep), "one or two fields make a grid")
        from fedincent.results.sweep_table import grid_to_files, print_grid, sweep_grid

        filters = [part for part in (given.name, *given.overrides) if part]
        grid = sweep_grid(folder, given.sweep, given.metric, filters)
        print_grid(grid)
        name = "+".join(["sweep", given.metric, *given.sweep, *filters]).replace("/", "_")
        print("files:", *grid_to_files(grid, name, folder / "tables"))
        return
    if not given.name:
        print_choices(options_of("table"))
        return
    launcher = take_launcher(given)
    table = load_table(given.name, given.overrides)
    only = checked_only(table, parse_only(given.only))
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
