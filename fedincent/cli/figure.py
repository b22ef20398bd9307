"""fedincent figure"""

from __future__ import annotations

import argparse
from typing import Any

from fedincent.cli.options import add_plan, add_verb, launch, positive, print_choices, results_folder, take_launcher
from fedincent.config.groups import options_of


def declare(verbs: Any) -> None:
    """The verb and its options."""
    parser = add_verb(
        verbs,
        "figure",
        act,
        "draw a paper's figure from what was run, or run what it still needs",
        ("fedincent figure iafl-1", "fedincent figure iafl-1 --run dataset=digits model=cnn training.lr=0.005"),
        "PNG and SVG go to RESULTS/figures/. `fedincent list figures` shows the figures; overrides change all of its runs.",
    )
    parser.add_argument("name", nargs="?", metavar="NAME", help="which figure")
    parser.add_argument("overrides", nargs="*", metavar="OVERRIDE", help="Hydra overrides for all runs of the figure")
    parser.add_argument("--seeds", type=positive, metavar="K", help="seeds 0 … K−1: means and errors, where the kind can")
    add_plan(parser)


def act(given: argparse.Namespace) -> None:
    """The figure as files."""
    from fedincent.results.figures import draw, load_figure, with_seeds

    if not given.name:
        print_choices(options_of("figure"))
        return
    figure = load_figure(given.name)
    if given.seeds:
        with_seeds(figure, given.seeds)
    launcher = take_launcher(given)
    folder = results_folder(given)
    if given.run or given.dry_run:
        launch(given, launcher, figure.wishes(given.overrides), folder)
        if given.dry_run or given.detach:
            return
    print("files:", *draw(figure, given.overrides, folder, folder / "figures"))
