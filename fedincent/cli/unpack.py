"""fedincent unpack"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from fedincent.cli.options import add_results, add_verb, results_folder
from fedincent.errors import ConfigError


def declare(verbs: Any) -> None:
    """The verb and its options."""
    parser = add_verb(
        verbs,
        "unpack",
        act,
        "put published runs into folders of one's own",
        ("fedincent unpack iafl", "fedincent unpack ~/downloads/theirs.zip mechanism=cgsv"),
        "The pack stays as it is. A run that is there with other numbers is an error.",
    )
    parser.add_argument("name", metavar="NAME", help="a pack below RESULTS/published/, or a file")
    parser.add_argument("filters", nargs="*", metavar="FILTER", help="NAME=VALUE[,VALUE…], or a part of a run's name")
    add_results(parser)


def act(given: argparse.Namespace) -> None:
    """The runs as folders."""
    from fedincent.store.folder import receive
    from fedincent.store.index import Index, parse_filters, passes
    from fedincent.store.pack import FOLDER, Pack, merge, packs

    parse_filters(given.filters)
    folder = results_folder(given)
    places = [folder / FOLDER / f"{given.name.removesuffix('.zip')}.zip", Path(given.name).expanduser()]
    path = next((place for place in places if len(place.name) < 250 and place.is_file()), None)
    if path is None:
        known = ", ".join(pack.stem for pack in packs(folder) if pack.is_file()) or "none"
        raise ConfigError("unpack", given.name, f"no such pack; known: {known}")
    chosen = [result for result in Pack(path).results().values() if all(passes(result, word) for word in given.filters)]
    own = {name: result.files() for name, result in Index(folder).results.items() if not result.published}
    there = set(own)
    merge(own, {result.name: result.files() for result in chosen}, (str(folder / "runs"), str(path)))
    for result in chosen:
        if result.name not in there:
            receive(folder, result.name, result.files())
    print(f"{len(chosen)} runs in {folder / 'runs'}, {len(there & {result.name for result in chosen})} were there")
