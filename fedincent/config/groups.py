"""Where the YAML files are and what they offer; light enough for `--help` and `fedincent list`."""

from __future__ import annotations

import copy
import functools
import os
import re
from pathlib import Path
from typing import Any

from fedincent.errors import ConfigError, suggest


@functools.cache
def conf_folder() -> Path:
    """conf/ as shipped inside the installed package, else beside the package in a checkout."""
    package = Path(__file__).resolve().parent.parent
    return package / "conf" if (package / "conf").is_dir() else package.parent / "conf"


def group_folders(group: str) -> list[Path]:
    """The folders in which a group's YAML files are looked for: our own, and the user's plugins."""
    plugins = os.environ.get("FEDINCENT_PLUGINS")
    roots = [conf_folder(), *([Path(plugins).expanduser() / "conf"] if plugins else [])]
    return [root / group for root in roots]


def options_of(group: str) -> dict[str, str]:
    """The choices of a group, each with the first comment line of its YAML."""
    files = sorted(path for folder in group_folders(group) if folder.is_dir() for path in folder.glob("*.yaml"))
    if not files:
        raise ConfigError("group", group, "there are no YAML files for it")
    return {path.stem: headline(path) for path in files}


def is_option(group: str, name: str) -> bool:
    """Whether a group has such a choice."""
    return any((folder / f"{name}.yaml").is_file() for folder in group_folders(group))


def headline(path: Path) -> str:
    """The first comment line of a YAML file that is not an instruction to Hydra."""
    return headline_at(str(path), path.stat().st_mtime_ns)


@functools.lru_cache(maxsize=1000)
def headline_at(path: str, _changed: int) -> str:
    """The same, once for each state of the file."""
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        if line.startswith("#") and not line.startswith("# @"):
            return line.lstrip("# ").strip()
    return ""


def read_yaml(path: str | Path) -> Any:
    """What a YAML file says, read once for each state of the file; not to be changed."""
    return read_yaml_at(str(path), os.stat(path).st_mtime_ns)


@functools.lru_cache(maxsize=1000)
def read_yaml_at(path: str, _changed: int) -> Any:
    """The same."""
    import yaml

    return yaml.load(Path(path).read_text(encoding="utf-8"), Loader=yaml_loader())


@functools.cache
def yaml_loader() -> Any:
    """YAML's safe loader, for which 1e-3 is a number, as it is for Hydra."""
    import yaml

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        pass

    exponent = re.compile(r"[-+]?(\d[\d_]*)(\.[\d_]*)?[eE][-+]?\d+$")
    Loader.add_implicit_resolver("tag:yaml.org,2002:float", exponent, list("-+0123456789"))
    return Loader


def read_group(group: str, name: str, below: tuple[str, ...] = ()) -> dict[str, Any]:
    """A table's or figure's YAML, with what its `base` states where it does not; an error that lists the known ones.

    below: the names of those whose base it is.
    """
    import yaml

    for folder in group_folders(group):
        path = folder / f"{name}.yaml"
        if path.is_file():
            try:
                content = copy.deepcopy(read_yaml(path))
            except (yaml.YAMLError, UnicodeDecodeError) as error:
                where = getattr(error, "problem_mark", None)
                line = f"line {where.line + 1}: " if where is not None else ""
                why = getattr(error, "problem", None) or str(error).splitlines()[0]
                raise ConfigError(group, name, f"{path} is no YAML: {line}{why}") from error
            if not isinstance(content, dict):
                raise ConfigError(group, name, f"{path} must hold names and values (name: value)")
            if "base" not in content:
                return content
            base = content.pop("base")
            if base == name or base in below:
                raise ConfigError(f"{group} {name}: base", base, f"{path} builds on itself")
            return {**read_group(group, str(base), (*below, name)), **content}
    known = options_of(group)
    raise ConfigError(group, name, f"no such {group}; {suggest(name, known)}known: {', '.join(known)}")
