"""What a plain line of overrides means: Hydra's composition of our YAML files, for lines that need no more than a merge.

    plain_values(["mechanism=cgsv", "training.lr=0.01"])  →  (values, choices)

Composing with Hydra takes some 50 ms, and a report asks for a thousand lines; this takes one. Whatever is beyond it (new
fields, sweeps, interpolations other than ${field} and ${oc.env:…}, errors) gives None, and Hydra says what it is.
tests/config compares the two on every line of every table and figure.
"""

from __future__ import annotations

import copy
import functools
import json
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import yaml

from fedincent.config.groups import conf_folder, group_folders, read_yaml

Values = dict[str, Any]
WORD = re.compile(r"([A-Za-z_/]|\.(?=[./A-Za-z]))[\w./%@:-]*(?<![:\s])$")  # a text that Hydra takes without quotes
NUMBER = re.compile(r"[+-]?((0|[1-9]\d*)(\.\d*)?|\.\d+)([eE][+-]?\d+)?$")
FIELD = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$")
REFERENCE = re.compile(r"\$\{([A-Za-z_][\w.]*)\}$")
VARIABLE = re.compile(r"\$\{oc\.env:(\w+),([\w./-]*)\}$")


class BeyondThisError(Exception):
    """Hydra has to say what a line means."""


def plain_values(overrides: Sequence[str]) -> tuple[Values, dict[str, str]] | None:
    """All values of a configuration and the choices of its groups; None for what only Hydra can tell."""
    try:
        groups = top()[1]
        asked, fields = sorted_out(overrides, groups)
        chosen = choices(groups, asked)
        values = copied(merged(chosen))
        for name, value in fields:
            put(values, name, value)
        resolved: Values = resolve(values, values)
    except BeyondThisError:
        return None
    return resolved, {group: str(name) for group, name in chosen.items()}


def top() -> tuple[Values, dict[str, str | None]]:
    """What config.yaml sets itself, and the choice of each group, in the order in which they count."""
    content = read(main_file())
    groups = {}
    for entry in content["defaults"]:
        if isinstance(entry, dict):
            ((name, value),) = entry.items()
            if not name.startswith("override"):
                groups[name] = value
    return {name: value for name, value in content.items() if name not in ("defaults", "hydra")}, groups


def sorted_out(
    overrides: Sequence[str], groups: dict[str, str | None]
) -> tuple[dict[str, str | None], list[tuple[str, Any]]]:
    """The choices and the fields that a line asks for."""
    asked: dict[str, str | None] = {}
    fields = []
    for word in overrides:
        name, sign, text = word.partition("=")
        if not sign or not FIELD.match(name):
            raise BeyondThisError(word)
        value = meaning(text)
        if name not in groups:
            fields.append((name, value))
        elif name in asked or not isinstance(value, str | None):
            raise BeyondThisError(word)
        else:
            asked[name] = value
    return asked, fields


def choices(groups: dict[str, str | None], asked: dict[str, str | None]) -> dict[str, str | None]:
    """What is chosen of each group: as asked, else as a chosen file says, else as usual."""
    chosen = {**groups, **asked}
    said: dict[str, str] = {}
    for group, name in list(chosen.items()):
        for entry in file_of(group, name).get("defaults", []):
            if not isinstance(entry, dict) or len(entry) != 1:
                raise BeyondThisError(f"{group}={name}")
            ((other, value),) = entry.items()
            other = other.removeprefix("override /")
            if other not in groups or other in said:
                raise BeyondThisError(f"{group}={name}")
            said[other] = value
    chosen |= {group: name for group, name in said.items() if group not in asked}
    if any(file_of(group, chosen[group]).get("defaults") for group in said):
        raise BeyondThisError("files that choose for one another")
    return chosen


def merged(chosen: dict[str, str | None]) -> Values:
    """The values of all chosen files on top of one another; not to be changed."""
    paths = [main_file(), *(path_of(group, name) for group, name in chosen.items() if name is not None)]
    return merged_at(tuple(chosen.items()), tuple((path, os.stat(path).st_mtime_ns) for path in paths))


@functools.lru_cache(maxsize=1000)
def merged_at(chosen: tuple[tuple[str, str | None], ...], _files: tuple[tuple[str, int], ...]) -> Values:
    """The same, once for each state of the files."""
    values = copy.deepcopy(top()[0])
    for group, name in chosen:
        content = {key: value for key, value in file_of(group, name).items() if key != "defaults"}
        merge(values, content if name is None or is_global(path_of(group, name)) else {group: content})
    return values


@functools.cache
def main_file() -> str:
    """Where config.yaml is."""
    return str(conf_folder() / "config.yaml")


def path_of(group: str, name: str) -> str:
    """Where a choice is written down."""
    for path in candidates(group, name, os.environ.get("FEDINCENT_PLUGINS")):
        if os.path.isfile(path):
            return path
    raise BeyondThisError(f"{group}={name}")


@functools.lru_cache(maxsize=2000)
def candidates(group: str, name: str, _plugins: str | None) -> list[str]:
    """Where it may be."""
    return [str(folder / f"{name}.yaml") for folder in group_folders(group)]


def file_of(group: str, name: str | None) -> Values:
    """What a choice's file says."""
    return {} if name is None else read(path_of(group, name))


def is_global(path: str) -> bool:
    """Whether a file's values are for the whole configuration, not for its group."""
    packages = packages_at(path, os.stat(path).st_mtime_ns)
    if packages not in ([], ["_global_"]):
        raise BeyondThisError(path)
    return bool(packages)


@functools.lru_cache(maxsize=1000)
def packages_at(path: str, _changed: int) -> list[str]:
    """Where a file says that its values belong, once for each state of the file."""
    return re.findall(r"^#\s*@package\s+(\S+)", Path(path).read_text(encoding="utf-8"), flags=re.M)


def read(path: str) -> Values:
    """A YAML file as Hydra reads it."""
    try:
        content = read_yaml(path)
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise BeyondThisError(path) from error
    if not isinstance(content, dict) or not all(isinstance(key, str) for key in content):
        raise BeyondThisError(path)
    return content


def merge(into: Values, more: Values) -> None:
    """Nested values on top of others."""
    for name, value in more.items():
        if isinstance(value, dict) and isinstance(into.get(name), dict):
            merge(into[name], value)
        else:
            into[name] = copy.deepcopy(value)


def copied(values: Values) -> Values:
    """A copy whose fields can be set."""
    return {name: copied(value) if isinstance(value, dict) else value for name, value in values.items()}


def put(values: Values, name: str, value: Any) -> None:
    """Set a field that is there."""
    *parents, last = name.split(".")
    node: Any = values
    for parent in parents:
        node = node.get(parent) if isinstance(node, dict) else None
    if not isinstance(node, dict) or last not in node or isinstance(node[last], dict):
        raise BeyondThisError(name)
    node[last] = value


def resolve(value: Any, values: Values) -> Any:
    """A value with what it refers to."""
    if isinstance(value, dict):
        return {name: resolve(part, values) for name, part in value.items()}
    if isinstance(value, list):
        return [resolve(part, values) for part in value]
    if not isinstance(value, str) or "${" not in value:
        return value
    variable, reference = VARIABLE.match(value), REFERENCE.match(value)
    if variable:
        return meaning(os.environ.get(variable[1], variable[2]))
    if not reference:
        raise BeyondThisError(value)
    node: Any = values
    for part in reference[1].split("."):
        node = node.get(part) if isinstance(node, dict) else None
    if node is None or (isinstance(node, str) and "${" in node):
        raise BeyondThisError(value)
    return resolve(node, values)


def numbers(text: str) -> Any:
    """Lists of whole numbers in lists."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise BeyondThisError(text) from error


def meaning(text: str) -> Any:
    """A value as Hydra reads it from a command line."""
    if text.startswith("[") and text.endswith("]"):
        inner = text[1:-1].strip()
        if re.fullmatch(r"[\d,\[\]-]*", inner) and "[" in inner:
            return numbers(text)
        if "[" in inner or "{" in inner:
            raise BeyondThisError(text)
        return [meaning(part.strip()) for part in inner.split(",")] if inner else []
    quoted = re.fullmatch(r"'([^'\\$]*)'|\"([^\"\\$]*)\"", text)
    if quoted:
        return quoted[1] if quoted[1] is not None else quoted[2]
    if text.lower() in ("null", "true", "false"):
        return {"null": None, "true": True, "false": False}[text.lower()]
    if re.fullmatch(r"[+-]?(0|[1-9]\d*)", text):
        return int(text)
    if NUMBER.match(text):
        return float(text)
    if REFERENCE.match(text) or (WORD.match(text) and text.lower() not in ("nan", "inf", "-inf")):
        return text
    raise BeyondThisError(text)
