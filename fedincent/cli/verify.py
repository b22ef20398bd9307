"""fedincent verify"""

from __future__ import annotations

import argparse
from typing import Any

from fedincent.cli.options import add_results, add_verb, results_folder
from fedincent.errors import ConfigError, FedincentError


def declare(verbs: Any) -> None:
    """The verb and its options."""
    parser = add_verb(
        verbs,
        "verify",
        act,
        "check all stored runs: checksums, and every metric once more from the clients' numbers",
        ("fedincent verify", "fedincent verify --results /shared/results"),
        "What is wrong is listed with what mends it; the exit code is then 1.",
    )
    add_results(parser)


def act(given: argparse.Namespace) -> None:
    """Every run looked at; an error if one is not right."""
    from fedincent.store.verify import verify

    folder = results_folder(given)
    if given.results and not folder.is_dir():
        raise ConfigError("--results", str(folder), "there is no such folder")
    wrong, runs, metrics = [], {False: 0, True: 0}, 0
    for result, damage, checked in verify(folder):
        metrics += checked
        if damage:
            wrong.append(f"{damage.name}: {damage.why}  ({damage.mend})")
        elif result:
            runs[result.published] += 1
    print(f"{runs[False]} runs of one's own and {runs[True]} published ones are right; {metrics} metrics recomputed")
    if wrong:
        raise FedincentError(f"{len(wrong)} are not:\n  " + "\n  ".join(wrong))
