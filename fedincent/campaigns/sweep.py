"""Sweeps: Hydra's own multirun, with every value checked before the first run starts."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from omegaconf import DictConfig, OmegaConf

from fedincent.campaigns.plan import Wish
from fedincent.config.compose import compose, from_values, own_choices, plugin_overrides
from fedincent.config.groups import conf_folder
from fedincent.errors import ConfigError, FedincentError


def sweep(overrides: Sequence[str]) -> None:
    """Run every combination of the swept values through Hydra's sweeper and launcher; failures are shown as they happen."""
    import hydra

    check(overrides)
    os.environ["HYDRA_FULL_ERROR"] = "1"  # or Hydra prints a stack trace of what we say in one line
    sys.argv = ["fedincent", "--multirun", *overrides, *plugin_overrides()]
    try:
        hydra.main(version_base="1.3", config_path=str(conf_folder()), config_name="config")(one)()
    except FedincentError as error:  # Hydra raises the first when all have ended
        raise FedincentError("runs of the sweep failed, as said above; the same command tries those again") from error


def one(node: DictConfig) -> None:
    """One job of the sweep: run it, and print a line on it."""
    from hydra.core.hydra_config import HydraConfig

    from fedincent.evaluation.metrics import one_line
    from fedincent.runs.runner import run

    chosen = HydraConfig.get()
    label = " ".join(chosen.overrides.task)
    values = OmegaConf.to_container(node, resolve=True)
    try:
        result = run(from_values(values, own_choices(chosen.runtime.choices)))  # type: ignore[arg-type]
    except FedincentError as error:
        print(f"FAILED  {label}: {error}", file=sys.stderr, flush=True)
        raise
    print(f"{label:<48} {one_line(result.summary)}", flush=True)


def check(overrides: Sequence[str]) -> None:
    """Compose each swept value once, so that a typo in the last of a hundred runs is found before the first."""
    choices = swept_values(overrides)
    first = [choice[0] for choice in choices]
    for place, swept in enumerate(choices):
        for override in swept:
            compose([*first[:place], override, *first[place + 1 :]])


def combinations(overrides: Sequence[str]) -> list[list[str]]:
    """Every combination of the swept values, as a line of overrides, in Hydra's order."""
    return [list(line) for line in itertools.product(*swept_values(overrides))]


def print_lines(wishes: Sequence[Wish], results_dir: Path) -> None:
    """A line on each run of a sweep that a launcher of ours has carried out."""
    from fedincent.evaluation.metrics import one_line
    from fedincent.store.index import Index

    index = Index(results_dir)
    for line, config, _ in wishes:
        found = index.find(config)
        print(f"{' '.join(line):<48} {one_line(found.summary) if found else 'not there'}")


def swept_values(overrides: Sequence[str]) -> list[list[str]]:
    """What each override takes in turn, one value or all that are swept; Hydra's own settings are left out."""
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        parsed = OverridesParser.create().parse_overrides(list(overrides))
    except HydraException as error:
        raise ConfigError("overrides", " ".join(overrides), str(error).splitlines()[0]) from error
    return [
        [f"{o.get_key_element()}={value}" for value in o.sweep_string_iterator()]
        if o.is_sweep_override()
        else [str(o.input_line)]
        for o in parsed
        if not o.get_key_element().startswith("hydra")
    ]
