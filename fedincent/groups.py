"""Where the YAML files are and what they offer; light enough for `--help` and `fedincent list`."""

from __future__ import annotations

import os
from pathlib import Path

from fedincent.errors import ConfigError


def conf_folder() -> Path:
    """conf/ as shipped inside the installed package, else beside the package in a checkout."""
    package = Path(__file__).resolve().parent
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
