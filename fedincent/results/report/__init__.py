"""`fedincent report`: one HTML page, self-contained, from whatever is in a results folder."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

from fedincent.results.report.collect import collect
from fedincent.store.files import write_text


def write_report(results_dir: Path, output: Path) -> None:
    """Gather the results and write the page; it opens from disk and needs no network."""
    data = collect(results_dir)
    runs = data.pop("runs")
    pieces = []
    while runs:  # one by one, so that they are not there twice
        pieces.append(as_text(runs.pop()))
    write_text(output, page(f'{as_text(data)[:-1]},"runs":[{",".join(reversed(pieces))}]}}'))


def as_text(values: Any) -> str:
    """JSON in which no text can become markup or script."""
    text = json.dumps(values, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    text = text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
    return text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")


def page(data: str) -> str:
    """The page around its data, which stand in a block of JSON: no text of a run can become markup or script."""
    folder = files("fedincent.results.report")
    parts = {name: (folder / f"page.{name}").read_text(encoding="utf-8") for name in ("html", "css", "js")}
    html = parts["html"].replace("/*STYLE*/", parts["css"]).replace("/*SCRIPT*/", parts["js"])
    before, _, after = html.partition("/*DATA*/")
    return "".join((before, data, after))
