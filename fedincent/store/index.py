"""Finding stored runs by what they are: one's own below runs/, and the published ones in packs."""

from __future__ import annotations

import contextlib
import json
import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fedincent.config.run import Config
from fedincent.datasets.cache import fingerprint_here
from fedincent.errors import ConfigError, FedincentError
from fedincent.store.identity import SCHEMA, Key, key_of_config, key_of_summary
from fedincent.store.pack import PackError, open_pack, packs
from fedincent.store.result import Result, checked_summary

log = logging.getLogger("fedincent")


@dataclass(frozen=True)
class Damage:
    """Something in the store that cannot be read: where, why, and what helps."""

    name: str
    why: str
    mend: str


class Index:
    """All finished runs of a results folder, one's own before published ones; what cannot be read is in `damaged`."""

    def __init__(self, results_dir: Path) -> None:
        self.results_dir = results_dir
        self.results: dict[str, Result] = {}  # by name
        self.damaged: list[Damage] = []
        self.by_key: dict[tuple[str, str], list[Result]] = {}
        self.prints: dict[str, Counter[str]] = {}  # of each data set, the fingerprints that runs were made on
        self.here: dict[str, str | None] = {}  # of each data set that was asked for, the fingerprint of the files here
        for path in packs(results_dir):
            try:
                pack = open_pack(path)
            except PackError as error:
                self.damaged.append(Damage(path.name, str(error), "get that file again; its runs are passed over"))
                continue
            for name in pack.runs:
                try:
                    self.know(pack.result(name))
                except (ValueError, FedincentError) as error:
                    self.damaged.append(Damage(f"{path.name}/{name}", str(error), "get that file again"))
        for path in sorted((results_dir / "runs").glob("*/summary.json"), key=lambda path: path.stat().st_mtime):
            self.add(path.parent)

    def add(self, folder: Path) -> None:
        """Know one more finished run of one's own."""
        try:
            summary = checked_summary(json.loads((folder / "summary.json").read_text(encoding="utf-8")))
            self.know(Result(folder, summary))
        except (ValueError, KeyError, AttributeError, OSError, FedincentError) as error:
            mend = f"delete {folder} and run again, or run the same command with force=true"
            self.damaged.append(Damage(folder.name, f"summary.json: {error}", mend))

    def know(self, result: Result) -> None:
        """Take a run in; it counts before all that were known by the same name or key."""
        summary = result.summary
        if summary.get("schema", 1) > SCHEMA:
            raise FedincentError("was made by a newer fedincent")
        key = key_of_summary(summary, None if "dataset" in summary else result.config)
        before = self.results.pop(result.name, None)
        if before is not None:
            self.by_key[key.data, key.rest].remove(before)
        else:
            self.prints.setdefault(key.data, Counter())[summary["identity"]["data"]] += 1
        self.results[result.name] = result
        self.by_key.setdefault((key.data, key.rest), []).append(result)

    def find(self, config: Config) -> Result | None:
        """The run that a configuration describes, the newest if there are several."""
        key = key_of_config(config)
        if len(self.prints.get(key.data, ())) > 1 and key.data not in self.here:
            self.here[key.data] = fingerprint_here(config.dataset)
        return self.get(key)

    def get(self, key: Key) -> Result | None:
        """The same by key."""
        found = self.by_key.get((key.data, key.rest), [])
        if key.numerics:
            found = [result for result in found if result.summary["identity"].get("numerics", "exact") in key.numerics]
        prints = self.prints.get(key.data, Counter())
        if len(prints) > 1:
            found = [result for result in found if result.summary["identity"]["data"] == self.chosen_print(key.data)]
        return found[-1] if found else None

    def chosen_print(self, data: str) -> str:
        """Where one data set's runs were made on different files: which of them count, so that no mean mixes two."""
        prints, here = self.prints[data], self.here.get(data)
        if here is not None and here in prints:
            return here
        return min(prints, key=lambda fingerprint: (-prints[fingerprint], fingerprint))

    def select(self, filters: Sequence[str]) -> list[Result]:
        """The runs that pass all filters: NAME=VALUE[,VALUE…] of any field or choice, or a part of a run's name."""
        chosen = []
        for result in self.results.values():
            with contextlib.suppress(ValueError, FedincentError):
                if all(passes(result, word) for word in filters):
                    chosen.append(result)
        return chosen


def passes(result: Result, word: str) -> bool:
    """Whether a run passes one filter."""
    name, sign, values = word.partition("=")
    if not sign:
        return word.strip("/") in (result.name, str(result.path)) or word in result.name
    wanted = values.split(",")
    summary = result.summary
    known: Any = summary["choices"].get(name, summary.get(name) if name in ("seed", "n_clients", "rounds") else None)
    if known is None:
        known = value_at(result.config, name)
    return str(known) in wanted


def value_at(config: dict[str, Any], name: str) -> Any:
    """A field of a plain configuration by its dotted name; None where there is none."""
    value: Any = config
    for part in name.split("."):
        if not isinstance(value, dict) or part not in value:
            return None
        value = value[part]
    return value


def parse_filters(filters: Sequence[str]) -> None:
    """Raise where a filter cannot be one."""
    for word in filters:
        if word.startswith("=") or word.endswith("="):
            raise ConfigError("filter", word, "must be NAME=VALUE, or a part of a run's name")
