"""fedincent pack"""

from __future__ import annotations

import argparse
from typing import Any

from fedincent.cli.options import add_results, add_verb, results_folder
from fedincent.errors import ConfigError


def declare(verbs: Any) -> None:
    """The verb and its options."""
    parser = add_verb(
        verbs,
        "pack",
        act,
        "put finished runs of one's own into one file to publish, or add them to it",
        ("fedincent pack mine", "fedincent pack iafl n_clients=50 dataset=fmnist,mnist --move"),
        "The file is RESULTS/published/NAME.zip: tables, figures, report and compare read it as it is, and no run ever\n"
        "writes it. Packs made on different machines merge: copy one there, or pack unpacked runs once more.",
    )
    parser.add_argument("name", metavar="NAME", help="of the pack")
    parser.add_argument("filters", nargs="*", metavar="FILTER", help="NAME=VALUE[,VALUE…], or a part of a run's name")
    parser.add_argument("--move", action="store_true", help="delete the runs' folders when they are safely packed")
    add_results(parser)


def act(given: argparse.Namespace) -> None:
    """The pack, and what is in it."""
    import shutil

    from fedincent.store.index import Index, parse_filters
    from fedincent.store.pack import FOLDER, RUN_NAME, Pack, merge, write_pack

    if not RUN_NAME.fullmatch(given.name):
        raise ConfigError("pack", given.name, "must be a plain name of letters, digits, - and _")
    parse_filters(given.filters)
    folder = results_folder(given)
    index = Index(folder)
    chosen = [result for result in index.select(given.filters) if not result.published]
    if not chosen:
        raise ConfigError("pack", " ".join(given.filters) or "all", f"no finished run of one's own in {folder} fits")
    path = folder / FOLDER / f"{given.name}.zip"
    runs = Pack(path).files() if path.is_file() else {}
    new = merge(runs, {result.name: result.files() for result in chosen}, (str(path), str(folder / "runs")))
    write_pack(path, runs)
    there = Pack(path)
    if given.move:
        for result in chosen:
            if there.result(result.name).files() == runs[result.name]:
                shutil.rmtree(result.path)
    size = path.stat().st_size / 1e6
    print(f"{new} runs added, {len(chosen) - new} were there; {len(there.runs)} runs in {path} ({size:.1f} MB)")
