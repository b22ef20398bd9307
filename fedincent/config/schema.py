"""The typed configuration: every field documented, checked, with its unit or range.

A *component* (data set, partition, model, mechanism, contribution, executor, logger) is a dataclass whose fields are made
by `option`. Its YAML names the class in `_target_` and gives every field a value: YAML is the only home of defaults, the
dataclass the only home of types, ranges and help texts. `build` brings the two together.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import importlib
import inspect
import math
import re
import sys
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from fedincent.errors import ConfigError, suggest

if TYPE_CHECKING:
    import torch

T = TypeVar("T")


def option(
    help: str,
    *,
    low: float | None = None,
    high: float | None = None,
    above: float | None = None,
    below: float | None = None,
    choices: Sequence[str] | None = None,
    identity: bool = True,
    neutral: Any = None,
) -> Any:
    """A documented field: bounds low ≤ v ≤ high, above < v < below, or a list of choices.

    identity: whether the value can change a run's numbers (paths and worker counts cannot).
    neutral: for a field added later, the value that leaves earlier results valid.
    """
    limits = {"low": low, "high": high, "above": above, "below": below, "choices": choices}
    return dataclasses.field(metadata={"help": help, "identity": identity, "neutral": neutral, **limits})


def counts(field: dataclasses.Field, value: Any) -> bool:
    """Whether a field's value is part of an identity: not if it leaves results valid that were made without the field."""
    neutral = field.metadata.get("neutral")
    return neutral is None or value != neutral


@dataclass(kw_only=True)
class Component:
    """Base of everything a YAML file can name."""

    group: ClassVar[str] = ""  # the group of YAML files whose choices it is one of
    version: ClassVar[int] = 1  # raise it when a fix changes numbers: old results are then not found any more

    def neutral(self) -> bool:
        """Whether it leaves everything as it was before there were such components: then no identity names it."""
        return False

    def identity(self) -> dict[str, Any]:
        """What of this component can change a run's numbers."""
        values = {}
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.metadata.get("identity", True) and counts(field, value):
                values[field.name] = list(value) if isinstance(value, tuple) else value
        return {**class_identity(type(self).__module__, type(self).__qualname__), "version": self.version, **values}


@functools.cache
def class_identity(module: str, name: str) -> dict[str, str]:
    """Which class it is: one of ours by its name, one from elsewhere by its module and all code of its folder."""
    if module.split(".")[0] == "fedincent":
        return {"class": name}
    file = getattr(sys.modules.get(module), "__file__", None)
    files = sorted(Path(file).parent.glob("*.py")) if file and Path(file).is_file() else []
    code = b"".join(path.name.encode() + path.read_bytes() for path in files)
    return {"class": f"{module}.{name}", "code": hashlib.sha256(code).hexdigest()[:16]}


@dataclass(kw_only=True)
class Stateful(Component):
    """A component that changes from round to round: its tensors named in `saved` go into checkpoints."""

    saved: ClassVar[tuple[str, ...]] = ()

    def state_dict(self) -> dict[str, torch.Tensor]:
        """The state as tensors."""
        return {name: getattr(self, name) for name in self.saved}

    def load_state_dict(self, state: Mapping[str, torch.Tensor]) -> None:
        """Put back, in place, what `state_dict` gave; called after `start`."""
        for name in self.saved:
            getattr(self, name).copy_(state[name])

    def builds_on(self) -> dict[str, dict[str, Any]]:
        """Runs of the same configuration, but for these fields of this component, that must be there first, by name.

        Their summaries and clients are in `federation.found`.
        """
        return {}

    def reads_test(self) -> str:
        """A sentence where this component looks at test data while it trains, for the notes of a table."""
        return ""

    def needs_held_out(self) -> bool:
        """Whether this component judges models on held-out training data."""
        return False


def build(node: Mapping[str, Any], group: str) -> Any:
    """The component of a group that a config node describes."""
    where = group
    target = node.get("_target_")
    if not isinstance(target, str) or not re.fullmatch(r"[^\W\d]\w*(\.[^\W\d]\w*)+", target):
        raise ConfigError(f"{where}._target_", target, f"must be the dotted path of a class of the group {group}")
    module_name, _, class_name = target.rpartition(".")
    try:
        cls = getattr(importlib.import_module(module_name), class_name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"{where}._target_", target, f"cannot be imported: {error}") from error
    if not (isinstance(cls, type) and issubclass(cls, Component) and cls.group == group):
        raise ConfigError(f"{where}._target_", target, f"is no class of the group {group}")
    return fill(cls, {k: v for k, v in node.items() if k != "_target_"}, where)


def fill(cls: type[T], values: Mapping[str, Any], where: str = "") -> T:
    """An instance of a dataclass of options from plain values, every one of them checked."""
    prefix = f"{where}." if where else ""
    fields = {f.name: f for f in dataclasses.fields(cls) if f.init}  # type: ignore[arg-type]
    for name in values:
        if name not in fields:
            hint = suggest(name, fields)
            raise ConfigError(f"{prefix}{name}", values[name], f"no such field; {hint}known: {', '.join(fields) or '-'}")
    missing = [name for name in fields if name not in values]
    if missing:
        raise ConfigError(f"{prefix}{missing[0]}", "(missing)", "must be given a value in the YAML file")
    checked = {}
    for name, field in fields.items():
        checked[name] = values[name]
        if "help" in field.metadata:  # all others are components, built and checked already
            checked[name] = convert(values[name], hint_of(cls, name), f"{prefix}{name}")  # type: ignore[arg-type]
            check_limits(checked[name], field.metadata, f"{prefix}{name}")
    return cls(**checked)


@functools.cache
def hint_of(cls: type, name: str) -> Any:
    """The annotated type of a field, whichever class of the family states it."""
    owner = next(base for base in cls.__mro__ if name in inspect.get_annotations(base))
    annotation = inspect.get_annotations(owner)[name]
    return eval(annotation, vars(sys.modules[owner.__module__])) if isinstance(annotation, str) else annotation


def convert(value: Any, hint: Any, field: str) -> Any:
    """The value as the annotated type (bool, int, float, str, None, unions of them, lists as tuples); else an error."""
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        members = typing.get_args(hint)
        for member in members:
            if fits(value, member):
                return convert(value, member, field)
        raise ConfigError(field, value, f"must be {' or '.join(type_name(m) for m in members)}")
    if origin is tuple:
        if isinstance(value, str) or not isinstance(value, Sequence):
            raise ConfigError(field, value, "must be a list")
        return tuple(convert(v, typing.get_args(hint)[0], field) for v in value)
    if dataclasses.is_dataclass(hint) or origin is Mapping:
        return value
    if not fits(value, hint):
        endless = hint is float and isinstance(value, float) and math.isinf(value)
        raise ConfigError(field, value, "must be a finite number" if endless else f"must be {type_name(hint)}")
    return float(value) if hint is float else value


def fits(value: Any, hint: Any) -> bool:
    """Whether a plain value may stand for the annotated type without loss (an int may stand for a float)."""
    if hint is type(None):
        return value is None
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, hint)


def type_name(hint: Any) -> str:
    """How a type is called in messages."""
    names = {int: "a whole number", float: "a number", bool: "true or false", str: "a text", type(None): "null"}
    return names.get(hint, str(hint))


def check_limits(value: Any, limits: Mapping[str, Any], field: str) -> None:
    """Raise unless the value keeps to the option's bounds or choices."""
    if isinstance(value, tuple):
        for part in value:
            check_limits(part, limits, field)
        return
    choices = limits.get("choices")
    if choices is not None and isinstance(value, str) and value not in choices:
        raise ConfigError(field, value, f"must be one of {', '.join(choices)}")
    if not isinstance(value, int | float) or isinstance(value, bool):
        return
    bounds = {"low": "≥", "high": "≤", "above": ">", "below": "<"}
    wanted = " and ".join(f"{sign} {limits[key]:g}" for key, sign in bounds.items() if limits.get(key) is not None)
    inside = (
        (limits.get("low") is None or value >= limits["low"])
        and (limits.get("high") is None or value <= limits["high"])
        and (limits.get("above") is None or value > limits["above"])
        and (limits.get("below") is None or value < limits["below"])
    )
    if not inside:
        raise ConfigError(field, value, f"must be {wanted}")
