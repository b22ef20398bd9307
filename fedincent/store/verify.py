"""Whether stored runs are what they were: checksums, and every metric once more from the columns it was made of."""

from __future__ import annotations

import contextlib
import hashlib
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fedincent.errors import FedincentError
from fedincent.evaluation.metrics import value_of
from fedincent.evaluation.recompute import recomputed
from fedincent.store.folder import digest_of
from fedincent.store.index import Damage, Index
from fedincent.store.pack import NUMBERS, PackError, open_pack, packs
from fedincent.store.result import RESULT_FILES, Result

CLOSE = 1e-9


def verify(results_dir: Path) -> Iterator[tuple[Result | None, Damage | None, int]]:
    """Of everything in a results folder: the run, what is wrong with it (or nothing), how many metrics were recomputed."""
    index = Index(results_dir)
    for damage in index.damaged:
        yield None, damage, 0
    published = []
    for path in packs(results_dir):
        with contextlib.suppress(PackError):  # named as damaged already
            pack = open_pack(path)
            published += [pack.result(name) for name in pack.runs]
    for result in [*published, *(result for result in index.results.values() if not result.published)]:
        mend = "get that pack again" if result.published else "run it again with force=true"
        try:
            checked, wrong = check(result)
            yield result, Damage(result.name, wrong, mend) if wrong else None, checked
        except (FedincentError, ValueError, KeyError, TypeError, AttributeError, OSError) as error:
            yield result, Damage(result.name, f"{type(error).__name__}: {error}", mend), 0


def check(result: Result) -> tuple[int, str]:
    """How many of a run's metrics were found again, and what is wrong with it."""
    for file in RESULT_FILES:
        result.read(file)  # of a pack: its checksum
    for file, known in result.summary.get("files", {}).items():  # older runs do not say
        content = result.read(file)
        if content is None or hashlib.sha256(content).hexdigest() != known:
            return 0, f"it has no {file}" if content is None else f"{file} is not what it was"
    config, summary = result.config, result.summary
    wanted = {"clients.csv": True, "rounds.csv": True, "partition.csv": "schema" in summary}  # older runs have no partition
    wanted |= {"trace.csv": bool(config.get("trace")) and summary["choices"]["mechanism"] != "standalone"}
    wanted |= {"online.csv": config.get("protocol") == "online", "unseen.csv": bool(config.get("unseen_clients"))}
    missing = [file for file, needed in wanted.items() if needed and result.read(file) is None]
    if missing:
        return 0, f"it has no {missing[0]}"
    if not result.name.endswith(f"-{digest_of(summary['identity'])}"):
        return 0, "its identity is not the one that it is named after"
    if not summary["seed"] == summary["identity"]["seed"] == config["seed"]:
        return 0, "its seed is not the same everywhere"
    for file in NUMBERS:
        if result.read(file) is not None and not len(result.frame(file.removesuffix(".csv"))):
            return 0, f"{file} is empty"
    if result.name != result.summary["run"]:
        return 0, f"its summary is that of {result.summary['run']}"
    found = recomputed(result.columns_by_file(), result.summary, result.config)
    checked = 0
    for name, value in found.items():
        try:
            stored = value_of(result.summary, name)
        except KeyError:  # it came later
            continue
        if not same(stored, value):
            return checked, f"its summary says {name} {stored}, its clients.csv gives {value}"
        checked += 1
    return checked, "" if checked else "no metric could be recomputed"


def same(a: Any, b: Any) -> bool:
    """Whether two values of a metric are one, but for rounding."""
    if a is None or b is None:
        return a is b
    return math.isclose(a, b, rel_tol=CLOSE, abs_tol=CLOSE) or (math.isnan(a) and math.isnan(b))
