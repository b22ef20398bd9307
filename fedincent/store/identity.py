"""What a run is: everything that can change its numbers, and nothing else."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from fedincent.config.run import Config
from fedincent.config.schema import counts

STAGE = (
    *("seed", "n_clients", "rounds", "held_out", "on_divergence", "client_test_fraction", "unseen_clients", "solo_steps"),
    *("client_test_from", "client_validation_fraction", "protocol"),
)
TOGETHER = ("participation", "per_round", "ipr_strict", "trace", "tune_epochs", "tune_steps", "reference")


def identity_of(config: Config) -> dict[str, Any]:
    """What of a configuration can change its run's numbers. Standalone training depends on the stage alone: all share it.

    A field or component that was added later is named only where it is not neutral, so that results made before stay found.
    """
    plain, parts = [*STAGE], ["training", "partition", "model", "stream", "disturbance"]
    if not config.mechanism.alone:
        plain += TOGETHER
        parts += ["mechanism", "behaviour"]
        if config.reference == "standalone" or config.mechanism.uses_contribution:
            parts.append("contribution")
    fields = {field.name: field for field in dataclasses.fields(config)}
    values = {name: getattr(config, name) for name in plain if counts(fields[name], getattr(config, name))}
    components = {name: getattr(config, name) for name in parts}
    return {**values, **{name: part.identity() for name, part in components.items() if not part.neutral()}}


def key_of(identity: dict[str, Any], dataset: str) -> str:
    """An identity without the data's fingerprint and the numerics class, which a table does not ask about."""
    kept = {name: value for name, value in identity.items() if name not in ("data", "numerics")}
    return json.dumps([dataset, kept], sort_keys=True)


def key_of_config(config: Config) -> str:
    """The key under which a configuration's run is found."""
    return key_of(identity_of(config), config.choices["dataset"])
