"""The runs that a run builds on: what its gains are measured against, and what its mechanism or contribution asks for."""

from __future__ import annotations

import copy
from typing import Any

from fedincent.config.groups import read_group
from fedincent.config.run import Config
from fedincent.config.schema import build

HONEST = "honest"
PLAIN: dict[str, Any] = {"eval_every": 0, "force": False}  # of every run that others build on
ALSO_PLAIN: dict[str, Any] = {
    "reference": "none",
    "trace": False,
    "trace_loss": False,
    "tune_epochs": 0,
    "tune_steps": 0,
    "ipr_strict": False,
}


def references(config: Config) -> dict[str, Config]:
    """The runs that must be there first, by name (standalone, fedavg); the one that gains are measured against is last."""
    if config.mechanism.alone:
        return {}
    wanted = ["standalone"] if needs_standalone(config) else []
    if config.reference != "none" and config.reference not in wanted:
        wanted.append(config.reference)
    found = {name: as_reference(config, name) for name in wanted}
    for group in ("mechanism", "behaviour"):
        for name, fields in getattr(config, group).builds_on().items():
            found = {name: with_fields(config, group, fields), **found}
    return found


def with_fields(config: Config, group: str, fields: dict[str, Any]) -> Config:
    """The same configuration with other fields of one component; a `_target_` among them: another component."""
    node = fields if "_target_" in fields else {**config.raw[group], **fields}
    other = copy.copy(config)
    for field, value in PLAIN.items():
        setattr(other, field, value)
    setattr(other, group, build(node, group))
    other.raw, other.choices = {**config.raw, **PLAIN, group: node}, {**config.choices}
    if "_target_" in fields:
        other.choices[group] = HONEST
    return other


def needs_standalone(config: Config) -> bool:
    """Whether anybody asks what the clients reach alone."""
    asks = config.mechanism.uses_contribution and config.contribution.needs_standalone
    return config.reference == "standalone" or asks or config.mechanism.needs_solo_losses


def as_reference(config: Config, name: str) -> Config:
    """The same stage under a mechanism as its YAML states it; everybody is honest, but for the data that they bring."""
    node = read_group("mechanism", name)
    plain = PLAIN if name == "standalone" else PLAIN | ALSO_PLAIN
    other = copy.copy(config)
    for field, value in plain.items():
        setattr(other, field, value)
    behaviour = read_group("behaviour", HONEST)
    other.mechanism, other.behaviour = build(node, "mechanism"), build(behaviour, "behaviour")
    if config.behaviour.of_data:  # they bring what they bring
        behaviour = {**config.raw["behaviour"], "paired": False}
        other.behaviour = copy.copy(config.behaviour)
        other.behaviour.paired = False  # type: ignore[attr-defined]
    other.raw = {**config.raw, **plain, "mechanism": node, "behaviour": behaviour}
    other.choices = {**config.choices, "mechanism": name}
    if not config.behaviour.of_data:
        other.choices["behaviour"] = HONEST
    return other
