"""fedincent pack"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from fedincent.cli.options import add_results, add_verb, results_folder
from fedincent.errors import ConfigError

if TYPE_CHECKING:
    from fedincent.store.pack import Pack
    from fedincent.store.result import Result


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
    parser.add_argument("--replace", action="store_true", help="let runs take the place of packed ones with other numbers")
    add_results(parser)


def act(given: argparse.Namespace) -> None:
    """The pack, and what is in it."""
    from filelock import FileLock

    from fedincent.store.index import Index, parse_filters
    from fedincent.store.pack import FOLDER, RUN_NAME, Pack, merge, write_pack

    name = given.name.removesuffix(".zip")
    if not RUN_NAME.fullmatch(name) or len(name) > 100:
        raise ConfigError("pack", given.name, "must be a plain name of letters, digits, - and _")
    parse_filters(given.filters)
    folder = results_folder(given)
    index = Index(folder)
    chosen = [result for result in index.select(given.filters) if not result.published]
    if not chosen:
        raise ConfigError("pack", " ".join(given.filters) or "all", f"no finished run of one's own in {folder} fits")
    path = folder / FOLDER / f"{name}.zip"
    path.parent.mkdir(parents=True, exist_ok=True)
    with FileLock(path.parent / f".{name}.lock"):
        runs = Pack(path).files() if path.is_file() else {}
        new = merge(runs, {r.name: r.files() for r in chosen}, (str(path), str(folder / "runs")), given.replace)
        write_pack(path, runs)
        there = Pack(path)
        kept = [why for result in chosen if given.move and (why := not_moved(result, there))]
    size = path.stat().st_size / 1e6
    print(f"{new} runs added, {len(chosen) - new} were there; {len(there.runs)} runs in {path} ({size:.1f} MB)")
    for why in dict.fromkeys(kept):
        print(f"{kept.count(why)} kept their folders: {why}")


def not_moved(result: Result, pack: Pack) -> str:
    """Delete a run's folder when the pack holds all of it; else why it stays."""
    import shutil

    from filelock import FileLock, Timeout

    if (result.path / "checkpoint.safetensors").is_file():
        return "they hold final models (checkpoint.safetensors), which a pack does not; `fedincent rm` deletes them"
    try:
        with FileLock(result.path / "run.lock", timeout=0):
            if pack.result(result.name).files() != result.files():
                return "the pack holds another version of them"
            (result.path / "summary.json").unlink()  # first: a half-deleted run is not a finished one
            shutil.rmtree(result.path)
    except Timeout:
        return "they are being worked on"
    return ""
