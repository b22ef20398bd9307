"""Finding stored runs by what they are: one's own below runs/, and the published ones in packs."""

from __future__ import annotations

import contextlib
import json
import logging
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from fedincent.config.run import Config
from fedincent.datasets.cache import fingerprint_here
from fedincent.errors import ConfigError, FedincentError
from fedincent.store.identity import SCHEMA, Key, key_of_config, key_of_summary, keys_of_seeds
from fedincent.store.pack import PackError, open_pack, packs
from fedincent.store.result import Result, checked_summary

log = logging.getLogger("fedincent")
UNKNOWN = object()


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
        sums: dict[str, tuple[str, dict[str, str]]] = {}  # of published runs: in which pack, and the numbers' checksums
        for path in packs(results_dir):
            try:
                pack = open_pack(path)
            except PackError as error:
                self.damaged.append(Damage(path.name, str(error), "get that file again; its runs are passed over"))
                continue
            for name in pack.runs:
                there, own = sums.get(name), pack.sums(name)
                if there is not None:  # the first pack counts, everywhere
                    if there[1] != own:
                        why = f"has other numbers than in {there[0]}"
                        self.damaged.append(Damage(f"{path.name}/{name}", why, "remove one of the two"))
                    continue
                try:
                    self.know(pack.result(name))
                    sums[name] = (path.name, own)
                except (ValueError, FedincentError) as error:
                    self.damaged.append(Damage(f"{path.name}/{name}", str(error), "get that file again"))
        for path in sorted((results_dir / "runs").glob("*/summary.json"), key=when):
            self.add(path.parent)

    def add(self, folder: Path) -> None:
        """Know one more finished run of one's own."""
        try:
            summary = checked_summary(json.loads((folder / "summary.json").read_text(encoding="utf-8")))
            self.know(Result(folder, summary))
        except FileNotFoundError:  # somebody has just removed or packed it
            return
        except (ValueError, KeyError, AttributeError, OSError, FedincentError) as error:
            mend = f"delete {folder} and run again, or run the same command with force=true"
            self.damaged.append(Damage(folder.name, f"summary.json: {error}", mend))

    def know(self, result: Result) -> None:
        """Take a run in; it counts before all that were known by the same name or key."""
        summary = result.summary
        if summary.get("schema", 1) > SCHEMA:
            raise FedincentError("was made by a newer fedincent")
        key = key_of_summary(summary, None if "dataset" in summary else result.config)
        if self.results.pop(result.name, None) is None:
            self.prints.setdefault(key.data, Counter())[summary["identity"]["data"]] += 1
        self.results[result.name] = result
        self.by_key.setdefault((key.data, key.rest), []).append(result)

    def find(self, config: Config, numerics: str = "") -> Result | None:
        """The run that a configuration describes, the newest if there are several; in some numerics where it names none."""
        key = key_of_config(config)
        if numerics and (not key.numerics or numerics in key.numerics):
            key = key._replace(numerics=(numerics,))
        self.look_at_files(key, config)
        return self.get(key, config.eval_every)

    def find_seeds(self, config: Config, seeds: Iterable[int]) -> list[Result | None]:
        """The runs that a configuration describes with other seeds, as `find` does."""
        keys = keys_of_seeds(config, seeds)
        for key in keys:
            self.look_at_files(key, config)
        return [self.get(key, config.eval_every) for key in keys]

    def look_at_files(self, key: Key, config: Config) -> None:
        """Which of several data sets under one name is here, where that has to be known."""
        if len(self.prints.get(key.data, ())) > 1 and key.data not in self.here:
            self.here[key.data] = fingerprint_here(config.dataset)

    def get(self, key: Key, eval_every: int = 0) -> Result | None:
        """The same by key; of one's own and a published one that which has the curve, if only one has."""
        found = self.by_key.get((key.data, key.rest), [])
        if key.numerics:
            found = [result for result in found if result.summary["identity"].get("numerics", "exact") in key.numerics]
        prints = self.prints.get(key.data, Counter())
        if len(prints) > 1:
            found = [result for result in found if result.summary["identity"]["data"] == self.chosen_print(key.data)]
        fine = [result for result in found if result.has_curve(eval_every)]
        chosen = fine or found
        return chosen[-1] if chosen else None

    def chosen_print(self, data: str) -> str:
        """Where one data set's runs were made on different files: which of them count, so that no mean mixes two."""
        prints, here = self.prints[data], self.here.get(data)
        if here is not None and here in prints:
            return here
        return min(prints, key=lambda fingerprint: (-prints[fingerprint], fingerprint))

    def select(self, filters: Sequence[str]) -> list[Result]:
        """The runs that pass all filters: NAME=VALUE[,VALUE…] of any field or choice, or a part of a run's name.

        Those of the published audits are left out, unless a filter names a behaviour.
        """
        audits = any(word.partition("=")[0] == "behaviour" for word in filters)
        parse_filters(filters)
        chosen = []
        for name in (word.partition("=")[0] for word in filters if "=" in word):
            if self.results and not any(knows(result, name) for result in self.results.values()):
                raise ConfigError("filter", name, "no stored run has such a field or choice")
        for result in self.results.values():
            if result.of_audit and not audits:
                continue
            with contextlib.suppress(ValueError, FedincentError):
                if all(passes(result, word) for word in filters):
                    chosen.append(result)
        return chosen


def when(summary: Path) -> float:
    """When a run was finished; 0 if it has just gone."""
    try:
        return summary.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def named(result: Result, word: str) -> bool:
    """Whether a word is a run's whole name, or its folder."""
    return Path(word).name == result.name and (Path(word).name == word or Path(word).resolve() == result.path.resolve())


def passes(result: Result, word: str) -> bool:
    """Whether a run passes one filter."""
    name, sign, values = word.partition("=")
    if not sign:
        return named(result, word) or word in result.name
    known = field_of(result, name)
    if str(known) == values:
        return True
    return any(str(known) == value or known == as_value(value) for value in values.split(","))


def as_value(text: str) -> Any:
    """A value as one writes it on a command line."""
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        return text
    with contextlib.suppress(ValueError, TypeError):
        return float(value) if isinstance(value, str) else value  # 1e-3 is a text to YAML
    return value


def field_of(result: Result, name: str) -> Any:
    """A run's choice or field by its dotted name; UNKNOWN where it has none."""
    summary = result.summary
    if name in summary["choices"]:
        return summary["choices"][name]
    if name in ("seed", "n_clients", "rounds") and name in summary:
        return summary[name]
    value: Any = result.config
    for part in name.split("."):
        if not isinstance(value, dict) or part not in value:
            return UNKNOWN
        value = value[part]
    return value


def knows(result: Result, name: str) -> bool:
    """Whether a run has such a choice or field; one that cannot be read has not."""
    try:
        return field_of(result, name) is not UNKNOWN
    except FedincentError:
        return False


def parse_filters(filters: Sequence[str]) -> None:
    """Raise where a filter cannot be one."""
    for word in filters:
        if not word or word.startswith("=") or word.endswith("="):
            raise ConfigError("filter", word, "must be NAME=VALUE, or a part of a run's name")
