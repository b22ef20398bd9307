"""fedincent run"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from fedincent.cli.options import add_launching, add_plugins, add_verb, launch
from fedincent.errors import UsageError


def declare(verbs: Any) -> None:
    """The verb and its options."""
    parser = add_verb(
        verbs,
        "run",
        act,
        "carry out one run, or find it finished; with -m a sweep",
        (
            "fedincent run mechanism=iafl mechanism.kappa=0.2 dataset=fmnist partition=classes partition.k=3",
            "fedincent run -m mechanism=iafl,fedavg_finetune 'seed=range(0,3)'",
        ),
        "Overrides are Hydra's: GROUP=CHOICE picks a YAML file, NAME=VALUE sets a field. `fedincent list mechanisms` and\n"
        "its like show the choices, `fedincent run --show` every field. The same command a second time resumes or finds.\n"
        "A sweep goes through Hydra's launchers, or with launcher=local|ray|slurm through ours, as tables do.",
    )
    parser.add_argument("overrides", nargs="*", metavar="OVERRIDE", help="Hydra override such as dataset=fmnist or seed=3")
    parser.add_argument("-m", "--multirun", action="store_true", help="sweep over comma lists and ranges in the overrides")
    add_launching(parser)
    parser.add_argument("--show", action="store_true", help="print the configuration, each field with its meaning, and stop")
    add_plugins(parser)


def act(given: argparse.Namespace) -> None:
    """One run, a sweep, or the configuration alone."""
    from fedincent.campaigns.launcher import load_launcher
    from fedincent.config.compose import compose

    launcher, words = load_launcher(given.overrides)
    launched = len(words) < len(given.overrides)
    if given.multirun and launched:
        from fedincent.campaigns.plan import Wish
        from fedincent.campaigns.sweep import combinations, print_lines

        wishes = [Wish(line, compose(line)) for line in combinations(words)]
        folder = Path(wishes[0].config.results_dir).expanduser()
        launch(given, launcher, wishes, folder)
        if not given.detach:
            print_lines(wishes, folder)
            print_summary([wish.line for wish in wishes])
        return
    if launched:
        raise UsageError("launcher=…: goes with a sweep (run -m …), table --run or figure --run")
    if given.jobs or given.detach:
        asked = "--jobs" if given.jobs else "--detach"
        raise UsageError(f"{asked}: goes with a sweep through launcher=local|ray|slurm (run -m …)")
    if given.multirun:
        from fedincent.campaigns.sweep import combinations, sweep

        sweep(given.overrides)
        print_summary(combinations(given.overrides))
        return
    config = compose(given.overrides)
    if given.show:
        from fedincent.config.describe import print_config

        print_config(config)
        return
    from fedincent.results.terminal import print_result
    from fedincent.runs.runner import run

    print_result(run(config))


def print_summary(lines: list[list[str]]) -> None:
    """A sweep's table, mean ± over seeds, of what is stored."""
    from fedincent.config.compose import composed
    from fedincent.results.sweep_table import print_grid, sweep_summary
    from fedincent.store.index import Index

    configs = [composed(line) for line in lines]
    index = Index(Path(configs[0].results_dir).expanduser())
    if len(lines) > 1:
        print_grid(sweep_summary(lines, [index.find(config) for config in configs]))
