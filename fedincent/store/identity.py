"""What a run is: everything that can change its numbers, and nothing else (docs/identity.md)."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from fedincent.config.run import Config
from fedincent.config.schema import counts
from fedincent.datasets.cache import load

SCHEMA = 1  # of identities; raise it when what follows changes its form, and say below how to read the older one
STAGE = (
    *("seed", "n_clients", "rounds", "held_out", "on_divergence", "client_test_fraction", "unseen_clients", "solo_steps"),
    *("client_test_from", "client_validation_fraction", "protocol", "fast_gpu", "deal_seed"),
)
TOGETHER = ("participation", "per_round", "ipr_strict", "trace", "trace_loss", "tune_epochs", "tune_steps", "reference")
STAGE_PARTS = ("training", "partition", "model", "stream", "disturbance")
TOGETHER_PARTS = ("mechanism", "behaviour", "contribution")


class Key(NamedTuple):
    """By what a stored run is found: all but what the finder cannot know without the data."""

    data: str  # which data set: its class and fields; of a file of one's own, its content
    rest: str
    numerics: tuple[str, ...] = ()  # any of exact, vectorized, cuda; empty: all the same to the finder

    def __str__(self) -> str:
        return json.dumps(self)


def identity_of(config: Config) -> dict[str, Any]:
    """What of a configuration can change its run's numbers. Standalone training depends on the stage alone: all share it.

    A field or component that was added later is named only where it is not neutral, so that results made before stay found.
    """
    plain, parts = [*STAGE], [*STAGE_PARTS]
    if not config.mechanism.alone:
        plain += TOGETHER
        parts += TOGETHER_PARTS
    elif config.mechanism.identity() != {"class": "Standalone", "version": 1}:
        parts.append("mechanism")  # another way of training alone than ours
    if config.mechanism.alone and config.behaviour.of_data:
        parts.append("behaviour")  # what clients bring, they train on alone, too
    fields = {field.name: field for field in dataclasses.fields(config)}
    values = {name: getattr(config, name) for name in plain if counts(fields[name], getattr(config, name))}
    components = {name: getattr(config, name) for name in parts}
    return {**values, **{name: part.identity() for name, part in components.items() if not part.neutral()}}


def dataset_identity(config: Config, fingerprint: str | None = None) -> dict[str, Any]:
    """What tells a configuration's data set from others: its fields, and of a file of one's own the content.

    fingerprint: of what was loaded, where it was; else it is looked up.
    """
    if not config.dataset.own_file:
        return config.dataset.identity()
    return {**config.dataset.identity(), "data": fingerprint or load(config.dataset).fingerprint}


def key_of_config(config: Config) -> Key:
    """The key under which a configuration's run is found."""
    return Key(plain(dataset_identity(config)), plain(identity_of(config)), asked_numerics(config))


def keys_of_seeds(config: Config, seeds: Iterable[int]) -> list[Key]:
    """The keys of a configuration's runs with other seeds."""
    data, identity = plain(dataset_identity(config)), identity_of(config)
    return [Key(data, plain({**identity, "seed": seed}), asked_numerics(config)) for seed in seeds]


def asked_numerics(config: Config) -> tuple[str, ...]:
    """In which numerics a configuration may be computed; empty where it leaves that open."""
    if config.device == "cuda":
        return ("cuda",)
    if config.executor.numerics == "any":
        return ()
    return (config.executor.numerics,) if config.device == "cpu" else (config.executor.numerics, "cuda")


def key_of_summary(summary: Mapping[str, Any], config: Mapping[str, Any] | None) -> Key:
    """The key of a stored run; config: its config.yaml, for one that was stored before summaries named the data set."""
    identity = summary["identity"]
    dataset = summary.get("dataset")
    if dataset is None:
        assert config is not None
        node = {name: value for name, value in config["dataset"].items() if name not in ("_target_", "root", "file")}
        own = {"data": identity["data"]} if config["dataset"].get("file") else {}
        dataset = {"class": config["dataset"]["_target_"].rpartition(".")[2], "version": 1, **node, **own}
    rest = {name: value for name, value in identity.items() if name not in ("data", "numerics")}
    return Key(plain(dataset), plain(rest))


def plain(values: Mapping[str, Any]) -> str:
    """Values as one text, whatever their order."""
    return json.dumps(values, sort_keys=True)


def builds_on(base: Mapping[str, Any], other: Mapping[str, Any], reference: str) -> bool:
    """Whether a run of identity `other`, with gains against `reference`, was measured against one of identity `base`."""

    def stage(identity: Mapping[str, Any]) -> dict[str, Any]:
        return {name: value for name, value in identity.items() if name not in (*TOGETHER, *TOGETHER_PARTS)}

    kind = base.get("mechanism", {}).get("class", "Standalone")
    return "mechanism" in other and stage(base) == stage(other) and kind.lower() == reference
