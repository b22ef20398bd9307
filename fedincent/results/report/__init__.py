"""`fedincent report`: one HTML page, self-contained, from whatever is in a results folder."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

from fedincent.results.report.collect import collect
from fedincent.store.files import write_text


def write_report(results_dir: Path, output: Path) -> None:
    """Gather the results and write the page; it opens from disk and needs no network."""
    write_text(output, page(json.dumps(collect(results_dir), ensure_ascii=False, separators=(",", ":"), allow_nan=False)))


def page(data: str) -> str:
    """The page around its data, which stand in a block of JSON: no text of a run can become markup or script."""
    folder = files("fedincent.results.report")
    parts = {name: (folder / f"page.{name}").read_text(encoding="utf-8") for name in ("html", "css", "js")}
    safe = data.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
    safe = safe.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    html = parts["html"].replace("/*STYLE*/", parts["css"]).replace("/*SCRIPT*/", parts["js"])
    return html.replace("/*DATA*/", safe)
