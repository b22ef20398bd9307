"""How much of each paper was run, and how much of that agrees with print."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from fedincent.config.groups import options_of
from fedincent.errors import FedincentError
from fedincent.results.table import Cells, PaperTable, fill_cells, load_table
from fedincent.store.index import Index

PAPERS = {"iafl": "IAFL", "cgsv": "CGSV", "incfl": "IncFL", "fye": "FYE", "ipfl": "IP-FL"}


@dataclass
class Score:
    """What is known of a table, or of a paper's tables together."""

    name: str
    cells: int = 0
    run: int = 0
    compared: int = 0
    agree: int = 0
    seeds: set[int] = field(default_factory=set)  # how many seeds cells have
    orders: list[float] = field(default_factory=list)  # Kendall's τ of the mechanisms, ours and print's, row by row
    filled: tuple[PaperTable, Cells] | None = None  # of one table: what is counted, to be rendered

    def add(self, other: Score) -> None:
        """Take another table in."""
        for name in ("cells", "run", "compared", "agree"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.seeds |= other.seeds
        self.orders += other.orders

    @property
    def row(self) -> list[str]:
        """As people read it."""
        share = f"{self.agree} ({self.agree / self.compared:.0%})" if self.compared else "–"
        seeds = "–".join(map(str, sorted({min(self.seeds), max(self.seeds)}))) if self.seeds else "–"
        order = f"{sum(self.orders) / len(self.orders):+.2f}" if self.orders else "–"
        return [self.name, str(self.cells), str(self.run), seeds, str(self.compared), share, order]


HEADER = ["", "cells", "run", "seeds", "compared", "agree", "order τ"]
MEANING = (
    "cells: of all tables of a paper; run: with a run of ours; compared: those whose print is of the same task and unit; "
    "agree: within twice the joint standard error, or with one seed within 0.1 IPR, 0.15 ρ or 4 points (docs/tables.md); "
    "order τ: Kendall's rank correlation of the mechanisms within a row, ours and print's, averaged over rows."
)


def score_of(name: str, cells: Cells) -> Score:
    """The counts of one table."""
    score = Score(name, len(cells))
    rows: dict[tuple[str, str, str], list[tuple[float, float]]] = {}
    for (dataset, setting, _, metric), cell in cells.items():
        if not cell.done:
            continue
        score.run += 1
        score.seeds.add(cell.done)
        if cell.agrees is not None:
            score.compared += 1
            score.agree += cell.agrees
        if cell.compared and cell.mean is not None and cell.paper is not None and cell.paper.value is not None:
            rows.setdefault((dataset, setting, metric), []).append((cell.mean, cell.paper.value))
    score.orders = [found for pairs in rows.values() if (found := order_of(pairs)) is not None]
    return score


def order_of(pairs: Sequence[tuple[float, float]]) -> float | None:
    """Kendall's τ-b of two rankings; None with fewer than three places, or where a side has no order."""
    if len(pairs) < 3:
        return None
    signs = [((a > c) - (a < c), (b > d) - (b < d)) for place, (a, b) in enumerate(pairs) for c, d in pairs[place + 1 :]]
    untied = math.prod(sum(sign[side] != 0 for sign in signs) for side in (0, 1))
    return sum(a * b for a, b in signs) / math.sqrt(untied) if untied else None


def scoreboard(index: Index) -> dict[str, tuple[Score, list[Score]]]:
    """Each paper's score, and those of its tables of which anything was run."""
    found: dict[str, tuple[Score, list[Score]]] = {}
    for name in sorted(options_of("table"), key=place):
        paper = name.split("-")[0]
        if paper not in PAPERS:
            continue
        whole, tables = found.setdefault(paper, (Score(PAPERS[paper]), []))
        try:
            table = load_table(name)
            cells = fill_cells(table, index) if table.paper else {}
        except FedincentError:
            continue
        if cells:
            score = score_of(name, cells)
            score.filled = table, cells
            whole.add(score)
            tables += [score] if score.run else []
    return {paper: found[paper] for paper in PAPERS if paper in found}


def place(name: str) -> tuple[str, int]:
    """Tables in the order of their numbers."""
    paper, _, number = name.partition("-")
    return paper, int(number) if number.isdigit() else 0


def to_markdown(scores: dict[str, tuple[Score, list[Score]]]) -> str:
    """The page of a results folder: papers, then tables with links to where they are rendered."""
    head = f"| {' | '.join(HEADER)} |\n|{'---|' * len(HEADER)}\n"

    def lines(rows: Sequence[Sequence[str]]) -> str:
        return "".join(f"| {' | '.join(row)} |\n" for row in rows)

    parts = [
        "# Ours against print\n",
        "Made by `fedincent scoreboard`; not edited by hand.\n",
        head + lines([s.row for s, _ in scores.values()]),
    ]
    parts.append(f"{MEANING}\n")
    for paper, (_, tables) in scores.items():
        if tables:
            rows = [[f"[{score.name}](tables/{score.name}.md)", *score.row[1:]] for score in tables]
            parts.append(f"## {PAPERS[paper]}\n\n{head}{lines(rows)}")
    parts.append(
        "A table's page has every cell, ours above print. `fedincent list runs mechanism=… dataset=…` names the runs behind "
        "one, `fedincent unpack PAPER` lays out their files: config.yaml is what was run. `fedincent table NAME` renders a "
        "table again from the packs in `published/`; what disagrees and what we know of it: docs/reproducing.md.\n"
    )
    return "\n".join(parts)
