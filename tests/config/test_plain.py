"""Composing without Hydra: the same values in the same order, or nothing said."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fedincent.config.compose import by_hydra, compose, own_choices
from fedincent.config.groups import options_of
from fedincent.config.plain import BeyondThisError, meaning, plain_values
from fedincent.config.schema import Component
from fedincent.errors import ConfigError
from fedincent.results.figures import load_figure
from fedincent.results.table import load_table

GROUPS = ("mechanism", "dataset", "partition", "experiment", "contribution", "behaviour", "model", "disturbance", "executor")
CHOICES = [f"{group}={name}" for group in GROUPS for name in options_of(group)]


def all_lines() -> list[tuple[str, ...]]:
    """Of every table and figure."""
    tables = [load_table(name) for name in options_of("table")]
    lines = {tuple(table.line(*row, method)) for table in tables for row in table.rows for method in table.columns}
    for name in options_of("figure"):
        figure = load_figure(name)
        lines |= {(*figure.overrides, *words) for words in figure.panels.values()}
    return sorted(lines)


def assert_same(line: tuple[str, ...]) -> None:
    known = plain_values(line)
    assert known is not None, line
    values, choices = by_hydra(line)
    assert json.dumps(known[0]) == json.dumps(values), line  # with the order of the fields
    assert own_choices(known[1]) == choices, line


@pytest.mark.parametrize("start", range(0, len(CHOICES), 30))
def test_every_choice_is_what_hydra_makes_of_it(start: int) -> None:
    for choice in CHOICES[start : start + 30 : 5]:
        assert_same((choice,))


def test_lines_of_tables_are_what_hydra_makes_of_them() -> None:
    for line in all_lines()[::90]:
        assert_same(line)


@pytest.mark.slow
def test_all_lines_of_tables_and_figures() -> None:
    for line in [*all_lines(), *((choice,) for choice in CHOICES)]:
        assert_same(line)


texts = st.one_of(
    st.from_regex(r"[-+]?[0-9.eE_]{1,6}", fullmatch=True),
    st.from_regex(r"[A-Za-z0-9_./~%@:' +-]{0,8}", fullmatch=True),
    st.lists(st.sampled_from(["1", "a", "0.5", "[1]", "'x y'", " 2", "", "null"]), max_size=3).map(
        lambda p: f"[{','.join(p)}]"
    ),
    st.sampled_from(
        ["null", "True", "nan", "inf", "1e-3", ".5", "5.", "007", "1_0", "a,b", "{a: 1}", "'it''s'", '"a"', "a b"]
    ),
)


@settings(max_examples=300, deadline=None)
@given(texts)
def test_values_mean_what_hydra_says_or_are_left_to_it(text: str) -> None:
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.errors import HydraException

    try:
        ours = meaning(text)
    except BeyondThisError:
        return
    try:
        override = OverridesParser.create().parse_override(f"training.lr={text}")
        theirs = override.value()
    except HydraException as error:
        raise AssertionError(f"{text!r} means nothing to Hydra") from error
    assert not override.is_sweep_override()
    assert json.dumps(ours) == json.dumps(theirs, default=str) and type(ours) is type(theirs)


@pytest.mark.parametrize(
    "line",
    [
        ["+new=1"],
        ["~seed"],
        ["seed"],
        ["mechanism=nothing"],
        ["training.rate=1"],
        ["training={}"],
        ["mechanism=iafl", "mechanism=cgsv"],
        ["results_dir=${oc.decode:x}"],
        ["seed=1,2"],
    ],
)
def test_what_is_beyond_it_is_left_to_hydra(line: list[str]) -> None:
    assert plain_values(line) is None
    if line[0] not in ("training={}", "mechanism=iafl", "results_dir=${oc.decode:x}"):  # those mean something
        with pytest.raises(ConfigError):
            compose(line)


def test_a_file_that_changes_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "conf" / "mechanism"
    folder.mkdir(parents=True)
    monkeypatch.setenv("FEDINCENT_PLUGINS", str(tmp_path))
    for part in (0.25, 0.75):
        (folder / "own.yaml").write_text(f"_target_: fedincent.mechanisms.iafl.IAFL\nkappa: {part}\nq: 0.0\nceiling: null\n"
                                         "reference: max\n")  # fmt: skip
        config = compose(["mechanism=own"])
        assert config.mechanism.kappa == part and isinstance(config.mechanism, Component)
