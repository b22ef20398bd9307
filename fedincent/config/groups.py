"""Where the YAML files are and what they offer; light enough for `--help` and `fedincent list`."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from fedincent.errors import ConfigError, suggest


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


def headline(path: Path) -> str:
    """The first comment line of a YAML file that is not an instruction to Hydra."""
    for line in path.read_text(encoding="utf-8").splitlines():
        if line.startswith("#") and not line.startswith("# @"):
            return line.lstrip("# ").strip()
    return ""


def read_group(group: str, name: str) -> dict[str, Any]:
    """A table's or figure's YAML, with what its `base` states where it does not; an error that lists the known ones."""
    import yaml

    for folder in group_folders(group):
        path = folder / f"{name}.yaml"
        if path.is_file():
            content = yaml.safe_load(path.read_text(encoding="utf-8"))
            return {**read_group(group, content.pop("base")), **content} if "base" in content else content
    known = options_of(group)
    raise ConfigError(group, name, f"no such {group}; {suggest(name, known)}known: {', '.join(known)}")
