"""From a line of Hydra overrides to the typed configuration of a run."""

from __future__ import annotations

import functools
import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from fedincent.config.groups import conf_folder, group_folders, options_of
from fedincent.config.run import Config
from fedincent.config.schema import build, fill
from fedincent.errors import ConfigError, suggest

UNKNOWN = object()
COMPONENTS = (
    *("dataset", "partition", "disturbance", "model", "mechanism", "contribution", "behaviour", "executor", "logger"),
)


def from_values(values: Mapping[str, Any], choices: Mapping[str, str]) -> Config:
    """The typed configuration from plain nested values; an error names the first field that cannot be used."""
    typed = dict(values)
    for name in COMPONENTS:
        node = typed.get(name)
        if not isinstance(node, Mapping):
            raise ConfigError(name, node, f"must be one of {', '.join(options_of(name))}")
        typed[name] = build(node, name)
    typed["training"] = build({"_target_": "fedincent.federation.Recipe", **typed["training"]}, "training")
    typed["stream"] = build({"_target_": "fedincent.partitions.Stream", **typed["stream"]}, "stream")
    config = fill(Config, typed)
    config.choices, config.raw = dict(choices), dict(values)
    return config


def compose(overrides: Sequence[str] = ()) -> Config:
    """What a line of Hydra overrides means, completely filled in and checked."""
    from hydra import compose as hydra_compose
    from hydra import initialize_config_dir
    from hydra.core.global_hydra import GlobalHydra
    from hydra.errors import HydraException
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    GlobalHydra.instance().clear()
    try:
        with initialize_config_dir(str(conf_folder()), version_base="1.3"):
            node = hydra_compose("config", overrides=[*overrides, *plugin_overrides()], return_hydra_config=True)
            choices = OmegaConf.to_container(node.hydra.runtime.choices)
            own = OmegaConf.masked_copy(node, [str(key) for key in node if key != "hydra"])
            values = OmegaConf.to_container(own, resolve=True)
    except (HydraException, OmegaConfBaseException) as error:
        raise explain(error, overrides) from error
    return from_values(values, own_choices(choices))  # type: ignore[arg-type]


@functools.lru_cache(maxsize=2000)
def composed_with(line: tuple[str, ...], plugins: str | None) -> Config:
    """What a line of overrides means, with a folder of plugins."""
    return compose(line)


def composed(line: Sequence[str]) -> Config:
    """What a line of overrides means; tables that share their runs ask for the same lines again and again."""
    return composed_with(tuple(line), os.environ.get("FEDINCENT_PLUGINS"))


def flat(node: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """A nested configuration as dotted names."""
    out: dict[str, Any] = {}
    for name, value in node.items():
        out |= flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return out


def line_of(config: Config) -> list[str]:
    """The shortest line of overrides that means a configuration: choices and fields that are not as usual."""
    words = [f"dataset={config.choices['dataset']}"]
    usual = composed(words)
    words += [f"{group}={name}" for group, name in config.choices.items() if usual.choices[group] != name]
    known = flat(composed(words).raw)
    for name, value in flat(config.raw).items():
        if name != "results_dir" and not name.endswith("_target_") and known.get(name, UNKNOWN) != value:
            words.append(f"{name}={word_of(value)}")
    return words


def word_of(value: Any) -> str:
    """A value as Hydra reads it."""
    plain = isinstance(value, str) and re.fullmatch(r"[\w./~%@:-]*[\w/~]", value)
    return str(value) if plain else json.dumps(value, ensure_ascii=False)


def own_choices(choices: Any) -> dict[str, str]:
    """Our groups' choices alone, without Hydra's own."""
    return {k: str(v) for k, v in choices.items() if k in COMPONENTS}


def plugin_overrides() -> list[str]:
    """Make the folder named in FEDINCENT_PLUGINS count: its Python files can be imported, its conf/ is searched."""
    folder = os.environ.get("FEDINCENT_PLUGINS")
    if not folder:
        return []
    path = Path(folder).expanduser().resolve()
    if not path.is_dir():
        raise ConfigError("--plugins", folder, "no such folder")
    if str(path) not in sys.path:
        sys.path.insert(0, str(path))
    return [f"hydra.searchpath=['file://{path / 'conf'}']"]


def explain(error: Exception, overrides: Sequence[str]) -> ConfigError:
    """A Hydra or OmegaConf error as one line that names the field, the value and what is allowed."""
    text = str(error)
    given = dict(part.lstrip("+~").split("=", 1) for part in overrides if "=" in part)
    missing = re.search(r"Could not find '([\w/]+)/([^/']+)'", text)
    if missing:
        group, name = missing.groups()
        known = options_of(group)
        return ConfigError(
            group, name, f"no such choice; {suggest(name, known)}known: {', '.join(known)} (one's own: --plugins DIR)"
        )
    key_match = re.search(r"Could not override '([^']+)'", text)
    if key_match:
        key = key_match.group(1)
        return unknown_field(key, given.get(key, "?"), given)
    if "Ambiguous value" in text:
        several = next((o for o in overrides if "," in o), " ".join(overrides))
        name, _, values = several.partition("=")
        return ConfigError(name, values, "several values are a sweep: fedincent run -m …")
    first = next((line for line in text.splitlines() if line.strip()), text)
    return ConfigError("override", " ".join(overrides), f"{first} (an override is NAME=VALUE)")


def unknown_field(key: str, value: str, given: Mapping[str, str]) -> ConfigError:
    """The error for a field that is in no YAML: what the node above it does have."""
    parent, _, name = key.rpartition(".")
    group = parent.split(".")[0]
    if group in COMPONENTS:
        choice = given.get(group) or default_choice(group, given)
        files = [f / f"{choice}.yaml" for f in group_folders(group) if (f / f"{choice}.yaml").is_file()]
        node = yaml.safe_load(files[0].read_text()) if files else {}
        known = [k for k in (node.get(group) or node) if not str(k).startswith("_") and k != "defaults"]
        place = f"no such field of {group}={choice}"
    else:
        node = yaml.safe_load((conf_folder() / "config.yaml").read_text())
        known = [*node.get(parent, {})] if parent else [k for k in node if k not in ("defaults", "hydra")] + [*COMPONENTS]
        place = "no such field"
    return ConfigError(key, value, f"{place}; {suggest(name, known)}known: {', '.join(known) or '-'}")


def default_choice(group: str, given: Mapping[str, str]) -> str:
    """What a group is set to when the command line does not say: a data set may choose its model."""
    main = yaml.safe_load((conf_folder() / "config.yaml").read_text())["defaults"]
    defaults = {k: v for entry in main if isinstance(entry, dict) for k, v in entry.items()}
    chosen = conf_folder() / "dataset" / f"{given.get('dataset', defaults['dataset'])}.yaml"
    if chosen.is_file():
        for entry in yaml.safe_load(chosen.read_text()).get("defaults", []):
            if isinstance(entry, dict):
                defaults |= {k.removeprefix("override /"): v for k, v in entry.items()}
    return str(defaults[group])
