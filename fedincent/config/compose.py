"""From a line of Hydra overrides to the typed configuration of a run."""

from __future__ import annotations

import functools
import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from fedincent.config.groups import conf_folder, group_folders, is_option, options_of
from fedincent.config.plain import plain_values
from fedincent.config.run import Config
from fedincent.config.schema import build, fill
from fedincent.errors import ConfigError, suggest

UNKNOWN = object()
COMPONENTS = (
    *("dataset", "partition", "disturbance", "model", "mechanism", "contribution", "behaviour", "executor", "logger"),
)


def from_values(
    values: Mapping[str, Any], choices: Mapping[str, str], made: Callable[[Mapping[str, Any], str], Any] = build
) -> Config:
    """The typed configuration from plain nested values; an error names the first field that cannot be used.

    made: gives the component of a group that a node describes.
    """
    typed = dict(values)
    for name in COMPONENTS:
        node = typed.get(name)
        if not isinstance(node, Mapping):
            raise ConfigError(name, node, f"must be one of {', '.join(options_of(name))}")
        typed[name] = made(node, name)
    for name, target in (("training", "fedincent.federation.Recipe"), ("stream", "fedincent.partitions.Stream")):
        if not isinstance(typed[name], Mapping):
            raise ConfigError(name, typed[name], "must be fields with values")
        typed[name] = made({"_target_": target, **typed[name]}, name)
    config = fill(Config, typed)
    config.choices, config.raw = dict(choices), dict(values)
    config.check()
    return config


def compose(overrides: Sequence[str] = ()) -> Config:
    """What a line of Hydra overrides means, completely filled in and checked."""
    return from_values(*values_of(overrides))


def values_of(overrides: Sequence[str]) -> tuple[dict[str, Any], dict[str, str]]:
    """All values of a configuration and the choices of its groups; by Hydra where a plain merge cannot tell."""
    if isinstance(overrides, str):
        raise ConfigError("overrides", overrides, f"must be a list of texts: [{overrides!r}]")
    add_plugins()
    for word in overrides:
        group, _, choice = word.partition("=")
        if group in COMPONENTS and (choice == "" or choice.startswith("[")):
            why = "several choices are a sweep: fedincent run -m …" if choice else f"known: {', '.join(options_of(group))}"
            raise ConfigError(group, choice or "(nothing)", why)
    known = plain_values(overrides)
    return by_hydra(overrides) if known is None else (known[0], own_choices(known[1]))


def by_hydra(overrides: Sequence[str]) -> tuple[dict[str, Any], dict[str, str]]:
    """All values of a configuration and the choices of its groups, as Hydra composes them; its errors in our words."""
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
    return values, own_choices(choices)  # type: ignore[return-value]


@functools.lru_cache(maxsize=2000)
def composed_with(line: tuple[str, ...], plugins: str | None) -> Config:
    """What a line of overrides means, with a folder of plugins."""
    return from_values(*values_of(line), made=shared)


def shared(node: Mapping[str, Any], group: str) -> Any:
    """A component that several configurations may have in common, as nobody runs them."""
    return shared_at(json.dumps(node), group)


@functools.lru_cache(maxsize=5000)
def shared_at(node: str, group: str) -> Any:
    """The same, by its description."""
    return build(json.loads(node), group)


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
    return ["=".join(pair) for pair in unusual(config.choices, config.raw)]


def unusual(choices: Mapping[str, str], raw: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The same in pairs of a name and a value, for choices and plain values; a choice that is no more is left out."""
    pairs: list[tuple[str, str]] = []
    words: list[str] = []
    for group in ("dataset", "mechanism", *choices):  # these two may choose for others
        name = choices[group]
        asked = group == "dataset" or values_of(words)[1].get(group) != name
        if (group, name) not in pairs and asked and is_option(group, name):
            pairs.append((group, name))
            words.append(f"{group}={name}")
    known = flat(values_of(words)[0])
    for name, value in flat(dict(raw)).items():
        if name != "results_dir" and not name.endswith("_target_") and known.get(name, UNKNOWN) != value:
            pairs.append((name, word_of(value)))
    return pairs


def word_of(value: Any) -> str:
    """A value as Hydra reads it."""
    plain = isinstance(value, str) and re.fullmatch(r"[\w./%@:-]*[\w/]", value)
    return str(value) if plain else json.dumps(value, ensure_ascii=False)


def own_choices(choices: Any) -> dict[str, str]:
    """Our groups' choices alone, without Hydra's own."""
    return {k: str(v) for k, v in choices.items() if k in COMPONENTS}


def add_plugins() -> Path | None:
    """The folder named in FEDINCENT_PLUGINS, whose Python files can be imported from now on."""
    folder = os.environ.get("FEDINCENT_PLUGINS")
    if not folder:
        return None
    path = Path(folder).expanduser().resolve()
    if not path.is_dir():
        raise ConfigError("--plugins", folder, "no such folder")
    if str(path) not in sys.path:
        sys.path.insert(0, str(path))
    return path


def plugin_overrides() -> list[str]:
    """Make Hydra search the conf/ of that folder."""
    path = add_plugins()
    return [f"hydra.searchpath=['file://{path / 'conf'}']"] if path else []


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
