"""What a notebook shows: runs as a data frame, a table, a figure, each looking as it does elsewhere."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedincent.evaluation.metrics import SHOWN
from fedincent.results.render import counts, grid, notes_of, to_csv
from fedincent.results.table import Cells, PaperTable
from fedincent.store.index import Index

if TYPE_CHECKING:
    import pandas as pd


def runs_frame(filters: Sequence[str], results_dir: Path) -> pd.DataFrame:
    """A line for each stored run that passes all filters: its choices, its seed, its metrics."""
    import pandas as pd

    lines = []
    for result in Index(results_dir).select(filters):
        summary = result.summary
        metrics = {name: summary[name] for name in SHOWN if name in summary}
        facts = {"seed": summary["seed"], "n_clients": summary.get("n_clients"), "rounds": summary.get("rounds")}
        more = {"published": result.published, "seconds": summary["seconds"]["total"], "name": result.name}
        lines.append({**summary["choices"], **facts, **metrics, **more})
    return pd.DataFrame(lines)


@dataclass(frozen=True)
class ShownTable:
    """A paper's table as far as it was run; `frame` has a line for each cell."""

    table: PaperTable
    cells: Cells

    @property
    def frame(self) -> pd.DataFrame:
        """Ours, print's, and whether the two agree."""
        import io

        import pandas as pd

        return pd.read_csv(io.StringIO(to_csv(self.cells)))

    def __repr__(self) -> str:
        return f"{self.table.name}: {self.table.title} ({counts(self.cells)})"

    def _repr_html_(self) -> str:
        header, body, _ = grid(self.table, self.cells)
        rows = [[f"{html.escape(ours)}<br><small>{html.escape(paper)}</small>" for ours, paper in line] for line in body]
        notes = "".join(f"<p><small>{html.escape(note)}</small></p>" for note in notes_of(self.table, self.cells))
        title = html.escape(f"{self.table.name}: {self.table.title}")
        return f"<h4>{title}</h4>{as_html(header, rows)}{notes}<p>{html.escape(counts(self.cells))}</p>"


@dataclass(frozen=True)
class ShownFigure:
    """A figure's files; a notebook shows the picture."""

    paths: tuple[Path, ...]

    def _repr_png_(self) -> bytes:
        return next(path for path in self.paths if path.suffix == ".png").read_bytes()


def as_html(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in HTML; what is in the rows is markup already."""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in header)
    lines = ("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def shown_table(
    name: str, overrides: Sequence[str], only: Mapping[str, Sequence[str]], seeds: int | None, folder: Path
) -> Any:
    """A table by its name, from what is stored."""
    from fedincent.results.table import checked_only, fill_cells, load_table

    table = load_table(name, overrides)
    return ShownTable(table, fill_cells(table, Index(folder), seeds, checked_only(table, only)))


def shown_figure(name: str, overrides: Sequence[str], folder: Path) -> ShownFigure:
    """A figure by its name, drawn from what is stored."""
    from fedincent.results.figures import draw, load_figure

    return ShownFigure(tuple(draw(load_figure(name), overrides, folder, folder / "figures")))
