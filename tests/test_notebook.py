"""From Python, as in a notebook: the example notebook's cells in order, and what each thing shows."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

import fedincent
from fedincent.cli import main
from fedincent.errors import ConfigError
from tests.conftest import ROOT, TINY


def carried_out(source: str, names: dict[str, Any]) -> Any:
    """A cell's statements; the value of the last where that is an expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "cell", "exec"), names)
    return eval(compile(ast.Expression(last.value), "cell", "eval"), names) if isinstance(last, ast.Expr) else None


def test_the_example_notebook() -> None:
    cells = json.loads((ROOT / "docs" / "example.ipynb").read_text(encoding="utf-8"))["cells"]
    names: dict[str, Any] = {}
    shown = [carried_out("".join(cell["source"]), names) for cell in cells if cell["cell_type"] == "code"]
    result, clients, means, table, lines, figure = shown
    assert "IPR (accuracy)" in result._repr_html_() and len(clients) == 6
    assert set(means.index) == {"standalone", "iafl", "fedavg", "cgsv", "rank"} and means.loc["iafl", "accuracy_gain"] > 0
    assert "Dir(0.5)" in table._repr_html_() and "0.99" in table._repr_html_() and "missing" in table._repr_html_()
    assert lines.paper.notna().all() and lines["mean"].isna().all()
    assert figure._repr_png_().startswith(b"\x89PNG") and "iafl-1" in repr(table)


def test_a_folder_of_ones_own_and_a_text_where_a_list_belongs(own_table: str) -> None:
    table = fedincent.table("small", plugins=own_table)
    assert "A small table" in table._repr_html_() and len(table.frame) == 8
    with pytest.raises(ConfigError, match=r"must be a list of texts: \['mechanism=iafl'\]"):
        fedincent.run("mechanism=iafl")


def test_runs_as_a_frame(own_results: Path) -> None:
    fedincent.run([*TINY, "mechanism=fedavg"])
    frame = fedincent.load_runs("mechanism=fedavg")
    assert len(frame) == 1 and frame.accuracy_mean[0] > 0 and not frame.published[0]
    assert len(fedincent.load_runs()) == 2
    with pytest.raises(ConfigError, match="no such folder"):
        fedincent.load_runs(results=own_results / "none")
    with pytest.raises(ConfigError, match="no stored run has such a field"):
        fedincent.load_runs("mechansim=fedavg")


def test_labels_of_a_table_are_checked() -> None:
    one = fedincent.table("iafl-1", only={"dataset": "fmnist"})
    assert len(one.frame) == 25 and set(one.frame.dataset) == {"fmnist"}
    for only, words in (
        ({"datset": ["fmnist"]}, "must be one of dataset, setting, mechanism"),
        ({"dataset": ["fmist"]}, "did you mean 'fmnist'"),
        ("dataset=fmnist", "must be labels by kind"),
    ):
        with pytest.raises(ConfigError, match=words):
            fedincent.table("iafl-1", only=only)  # type: ignore[arg-type]


def test_a_result_is_a_line() -> None:
    assert repr(fedincent.run([*TINY, "mechanism=fedavg"])).startswith("<Result fedavg-digits-")


def test_published_audits_are_asked_for_by_behaviour(own_results: Path) -> None:
    small = [*TINY, "mechanism=fedavg", "reference=none", "keep_checkpoint=false"]
    fedincent.run(small)
    fedincent.run([*small, "behaviour=zeros"])
    assert len(fedincent.load_runs("mechanism=fedavg")) == 2  # one's own are never left out
    main(["pack", "audit", "--move"])
    assert len(fedincent.load_runs("mechanism=fedavg")) == 0
    assert fedincent.load_runs("behaviour=zeros,honest").behaviour.tolist() == ["honest", "zeros"]
