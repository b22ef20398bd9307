"""fedincent data"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fedincent.cli.options import add_plugins, add_verb
from fedincent.config.groups import options_of
from fedincent.errors import ConfigError, FedincentError


def declare(verbs: Any) -> None:
    """The verb and its options."""
    parser = add_verb(
        verbs,
        "data",
        act,
        "list, fetch, verify or show data sets",
        (
            "fedincent data fetch fmnist",
            "fedincent data show dataset=fmnist partition=classes partition.k=3 --output skew.png",
        ),
        "Files are looked for in dataset.root, else in FEDINCENT_DATA, else in the user's cache folder.",
    )
    parser.add_argument("action", choices=("list", "fetch", "verify", "show"), help="what to do")
    parser.add_argument("names", nargs="*", metavar="NAME", help="data set (fetch, verify), or overrides (show)")
    parser.add_argument(
        "--output", metavar="FILE", default="partition.png", help="picture that show writes (default: %(default)s)"
    )
    add_plugins(parser)


def act(given: argparse.Namespace) -> None:
    """What was asked for, of each data set that was named."""
    if given.action == "show":
        show(given.names, Path(given.output))
        return
    if given.action == "list":
        if given.names:
            raise ConfigError("data list", " ".join(given.names), "takes no name")
        list_all()
        return
    if not given.names:
        raise ConfigError(f"data {given.action}", "(nothing)", f"which one? known: {', '.join(options_of('dataset'))}")
    for name in given.names:
        fetch(name) if given.action == "fetch" else verify(name)


def list_all() -> None:
    """Every data set, whether its files are here, and where."""
    from fedincent.config.compose import compose
    from fedincent.datasets.cache import locate

    known = options_of("dataset")
    for name, line in known.items():
        try:
            dataset = compose([f"dataset={name}"]).dataset
            paths = locate(dataset, dataset.folder())
            state = f"here: {paths[0]}" if paths else "not here"
        except FedincentError as error:
            state = str(error).splitlines()[0]
        print(f"{name:<14} {line}\n{'':<14} {state}")


def fetch(name: str) -> None:
    """Get a data set's files, parse them into the cache, and say what there is."""
    from fedincent.config.compose import compose
    from fedincent.datasets import load

    data = load(compose([f"dataset={name}"]).dataset)
    print(f"{name}: {len(data.y_train):,} + {len(data.y_test):,} samples of {data.shape}, {data.n_classes} classes")


def verify(name: str) -> None:
    """Check a data set's arrays against their checksum."""
    from fedincent.config.compose import compose
    from fedincent.datasets import verify as verify_arrays

    print(f"{name}: sha256 {verify_arrays(compose([f'dataset={name}']).dataset)}: as it should be")


def show(overrides: Sequence[str], output: Path) -> None:
    """Who holds what under a configuration: sizes in words, and a client × class heat map as a picture."""
    import numpy as np

    from fedincent.config.compose import compose
    from fedincent.results.holdings import draw
    from fedincent.runs.stage import Stage
    from fedincent.runs.view import View

    stage = Stage(compose(overrides), View())
    held = stage.class_counts
    sizes, kinds = held.sum(1), (held > 0).sum(1)
    choices = stage.config.choices
    print(f"{choices['dataset']}, {choices['partition']}, {len(held)} clients, seed {stage.config.seed}")
    print(f"samples per client: {sizes.min()} to {sizes.max()}, median {int(np.median(sizes))}, {sizes.sum():,} in all")
    print(f"classes per client: {kinds.min()} to {kinds.max()} of {stage.data.n_classes}")
    draw(held, f"{choices['dataset']}, {choices['partition']}, seed {stage.config.seed}", output)
    print(f"picture: {output}")
