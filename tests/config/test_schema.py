"""The typed configuration: what is accepted, what is refused, and in which words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest

from fedincent.config.schema import Component, build, fill, option
from fedincent.errors import ConfigError


@dataclass(kw_only=True)
class Thing(Component):
    """A component for the tests."""

    share: float = option("a share", low=0, high=1)
    count: int | None = option("a count", low=1)
    rule: str = option("a rule", choices=("max", "median"))
    sizes: tuple[int, ...] = option("sizes")
    place: str = option("a path", identity=False)


GOOD = {"share": 1, "count": None, "rule": "max", "sizes": [3, 4], "place": "here"}


def test_values_become_their_types() -> None:
    thing = fill(Thing, GOOD, "thing")
    assert (thing.share, type(thing.share), thing.count, thing.sizes) == (1.0, float, None, (3, 4))


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("share", 1.5, "≥ 0 and ≤ 1"),
        ("share", "much", "a number"),
        ("share", True, "a number"),
        ("share", float("nan"), "a number"),
        ("count", 0, "≥ 1"),
        ("count", 1.5, "a whole number or null"),
        ("rule", "mean", "max, median"),
        ("sizes", 3, "a list"),
        ("sizes", [1.5], "a whole number"),
    ],
)
def test_bad_values_name_field_value_and_what_is_allowed(field: str, value: object, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        fill(Thing, {**GOOD, field: value}, "thing")
    assert caught.value.field == f"thing.{field}"
    assert str(value).strip("[]") in str(caught.value)
    assert words in str(caught.value)


def test_unknown_and_missing_fields() -> None:
    with pytest.raises(ConfigError, match="did you mean 'share'"):
        fill(Thing, {**GOOD, "shar": 1}, "thing")
    with pytest.raises(ConfigError, match=r"thing\.rule.*must be given"):
        fill(Thing, {k: v for k, v in GOOD.items() if k != "rule"}, "thing")


def test_target_must_be_importable_and_of_the_right_kind() -> None:
    for target in (None, "nowhere", "nowhere.Thing", "fedincent.errors.Nothing", "fedincent.evaluation.metrics.pearson"):
        with pytest.raises(ConfigError, match=r"thing\._target_"):
            build({"_target_": target}, "thing")


def test_identity_is_what_can_change_numbers() -> None:
    here, there = fill(Thing, GOOD, ""), fill(Thing, {**GOOD, "place": "there"}, "")
    assert here.identity() == there.identity()
    assert here.identity() != fill(Thing, {**GOOD, "share": 0.5}, "").identity()


def test_a_field_added_later_leaves_old_results_valid() -> None:
    @dataclass(kw_only=True)
    class Old(Component):
        __qualname__ = "Same"
        a: int = option("a")

    @dataclass(kw_only=True)
    class New(Old):
        __qualname__ = "Same"
        b: float = option("b", neutral=0.0)

    assert Old(a=1).identity() == New(a=1, b=0.0).identity()
    assert Old(a=1).identity() != New(a=1, b=0.5).identity()


def test_a_new_version_is_a_new_identity() -> None:
    @dataclass(kw_only=True)
    class Mended(Thing):
        __qualname__ = "Thing"
        version: ClassVar[int] = 2

    assert fill(Thing, GOOD, "").identity() != fill(Mended, GOOD, "").identity()
