"""A table for the terminal, and as Markdown, CSV and LaTeX files."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from fedincent.evaluation.metrics import metric_of
from fedincent.results.table import Cell, Cells, PaperTable, best_methods
from fedincent.store.files import write_text

MARKS = {True: "✓", False: "✗", None: ""}
LEGEND = (
    "Each cell: ours ± standard error over the seeds done, below it the paper's. ✓ ✗: the two agree or not, within twice "
    "the joint standard error where both sides have one, else (shown as ±–) within 0.1 IPR, 0.15 ρ or 4 points. "
    "*: best of a row."
)
OWN_LEGEND = "Each cell: mean ± standard error over the seeds done (±– with one). *: best of a row."
NAMES = {
    "fedavg_finetune": "FedAvg-FT",
    "lg_fedavg": "LG-FedAvg",
    "cgsv": "CGSV",
    "rank": "Rank",
    "iafl": "IAFL",
    "cgsv_iafl": "CGSV+IAFL",
    "fedavg": "FedAvg",
    "qffl": "q-FFL",
    "cgsv_eu": "EU",
    "cgsv_beta1": "CGSV β1",
    "cgsv_beta1.2": "CGSV β1.2",
    "cgsv_beta1.5": "CGSV β1.5",
    "cgsv_beta2": "CGSV β2",
    "cffl": "CFFL",
    "eci": "ECI",
    "fedprox": "FedProx",
    "per_fedavg": "Per-FedAvg",
    "mw_fed": "MW-Fed",
    "incfl": "IncFL",
    "qffl_q1": "q-FFL 1",
    "qffl_q10": "q-FFL 10",
    "dw": "DW",
    "rr": "RR",
    "fye": "FYE",
    "fgfl": "FGFL",
    "gog": "GoG",
    "cons": "Cons",
    "standalone": "Standalone",
    "ipfl": "IP-FL",
    "ipfl_no_incentive": "no incentive",
    "ditto": "Ditto",
    "fedsoft": "FedSoft",
    "ifca": "IFCA",
    "fedem": "FedEM",
    "fedala": "FedALA",
    "fedfomo": "FedFomo",
    "fedproto": "FedProto",
}
NAMES |= {f"fye_beta{beta}": f"β {beta}" for beta in ("1/350", "1/150", "1/100", "1/50", "1/20", "1/10", "1", "10", "1000")}
SETTINGS = {"dirichlet": "Dir({})", "classes": "#C={}", "noise": "N({})", "quantity": "quantity Dir({})", "iid": "IID"}
SETTINGS |= {name: name.upper() for name in ("uni", "pow", "cla")} | {"by_user": "by user"}
SETTINGS |= {name: name.replace("_", ":") for name in ("10_90", "30_70", "40_60")} | {"feature_shift": "feature shift"}
SETTINGS |= {name: name.replace("_", " ") for name in ("feature_noise", "label_noise", "missing_values")}


def setting_name(setting: str) -> str:
    """A setting as papers write it."""
    name, _, value = setting.partition("_")
    known = SETTINGS.get(setting, setting) if not value or setting in SETTINGS else SETTINGS.get(name, setting)
    return setting if "{}" in known and not value else known.format(value)


def number(value: float | None, error: float | None, cell: Cell, plain_error: bool = True) -> str:
    """0.85 ±0.01, 76.0 ±1.2; ±– where there is no error."""
    if value is None:
        return "undefined"
    scientific, digits = metric_of(cell.metric).scientific, cell.digits
    if error is None:
        shown = f"{value:.1e}" if scientific else f"{value:.{digits}f}"
        return f"{shown} ±–" if plain_error else shown
    digits = max(digits, 1)
    return f"{value:.1e} ±{error:.0e}" if scientific else f"{value:.{digits}f} ±{error:.{digits}f}"


def ours_text(cell: Cell, best: bool) -> str:
    """Our side of a cell, with its mark and how many seeds are done."""
    if not cell.done:
        return "–" if cell.lacking else "missing"
    lost = f" ({cell.undefined} undefined)" if cell.undefined and cell.ours else ""
    text = number(cell.mean, cell.error, cell) + beside(cell.where)
    return f"{'*' if best else ''}{text}{lost} {MARKS[cell.agrees]}".rstrip()


def paper_text(cell: Cell) -> str:
    """The paper's side of a cell."""
    if cell.paper is None:
        return "–"
    best = re.search(r"best distribution=theta_(\d)", cell.paper.note)
    return number(cell.paper.value, cell.paper.error, cell, plain_error=False) + beside([int(best[1])] if best else [])


def beside(numbers: Sequence[int]) -> str:
    """What stands in brackets behind a number: one for all seeds, or one for each."""
    return f" ({','.join(map(str, numbers if len(set(numbers)) > 1 else numbers[:1]))})" if numbers else ""


def rows_of(cells: Cells) -> list[tuple[str, str]]:
    """The (data set, setting) pairs that there are cells for, in order."""
    return list(dict.fromkeys((dataset, setting) for dataset, setting, _, _ in cells))


def grid(table: PaperTable, cells: Cells) -> tuple[list[str], list[list[tuple[str, str]]], list[str]]:
    """Header, body (an upper and a lower text per cell: ours, the paper's), and the foot: how often each method is best."""
    methods = [m for m in table.columns if any(key[2] == m for key in cells)]
    header = ["setting", "seeds", *(NAMES.get(method, method) for method in methods)]
    body, wins = [], {m: [0, 0] for m in methods}
    for dataset, setting in rows_of(cells):
        for metric in table.metrics:
            row = {m: cells[dataset, setting, m, metric] for m in methods}
            best = [best_methods(row, paper) for paper in (False, True)]
            for method in methods:
                for side in (0, 1):
                    wins[method][side] += method in best[side] and metric == next(iter(table.metrics))
            done = sorted({cell.done for cell in row.values()})
            progress = "–".join(map(str, dict.fromkeys((done[0], done[-1]))))
            kind = f", {metric_of(metric).label}" if len(table.metrics) > 1 else ""
            line = [(dataset, setting_name(setting) + kind), (f"{progress}/{row[methods[0]].wanted}", "")]
            printed = table.paper is not None
            line += [(ours_text(cell, m in best[0]), paper_text(cell) if printed else "") for m, cell in row.items()]
            body.append(line)
    return header, body, [f"{wins[m][0]} ({wins[m][1]})" if table.paper else str(wins[m][0]) for m in methods]


def foot_label(table: PaperTable) -> str:
    """What the foot counts."""
    by = f" by {metric_of(next(iter(table.metrics))).label}" if len(table.metrics) > 1 else ""
    return f"times best{by}{' (paper)' if table.paper else ''}"


def notes_of(table: PaperTable, cells: Cells) -> list[str]:
    """What a reader must know: the legend, the table's own note, and who looks at test data."""
    reading: dict[str, set[str]] = {}
    for (_, _, method, _), cell in cells.items():
        for note in cell.notes:
            reading.setdefault(note, set()).add(method)
    notes = [f"{', '.join(sorted(methods))}: {note}" for note, methods in sorted(reading.items())]
    legend = OWN_LEGEND
    if table.paper:
        closer = "4 points, and within the deviation of the row's printed values."
        legend = LEGEND.replace("4 points.", closer) if table.within_spread else LEGEND
    return [legend, *([table.note] if table.note else []), *notes]


def counts(cells: Cells) -> str:
    """How much of a table there is, and how much of it agrees."""
    known = [cell for cell in cells.values() if cell.done]
    judged = [cell.agrees for cell in known if cell.agrees is not None]
    if not judged:
        return f"{len(known)} of {len(cells)} cells have runs"
    return f"{len(known)} of {len(cells)} cells have runs; {sum(judged)} of {len(judged)} compared agree with the paper"


def to_terminal(table: PaperTable, cells: Cells) -> None:
    """Print the table so that it fits a terminal: ours above the paper's in each cell."""
    header, body, foot = grid(table, cells)
    shown = Table(title=f"{table.name}: {table.title}", title_justify="left", show_lines=True)
    for place, name in enumerate(header):
        shown.add_column(name, justify="left" if place < 2 else "right")
    for line in body:
        shown.add_row(*(f"{ours}\n[dim]{paper}[/dim]" if paper else ours for ours, paper in line))
    shown.add_row(foot_label(table), "", *foot)
    console = Console()
    console.print(shown)
    for note in notes_of(table, cells):
        console.print(note, style="dim", highlight=False)
    console.print(counts(cells), highlight=False)


def to_markdown(table: PaperTable, cells: Cells) -> str:
    """The table in GitHub's Markdown."""
    header, body, foot = grid(table, cells)
    lines = [f"# {table.name}: {table.title}", "", f"| {' | '.join(header)} |", f"|{'---|' * len(header)}"]
    for line in body:
        lines.append("| " + " | ".join(f"{ours}<br>{paper}" if paper else ours for ours, paper in line) + " |")
    lines.append(f"| {foot_label(table)} | | {' | '.join(foot)} |")
    return "\n".join([*lines, "", *(f"- {note}" for note in notes_of(table, cells)), "", f"{counts(cells)}.", ""])


def to_csv(cells: Cells) -> str:
    """One line per cell."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(
        [
            "dataset",
            "setting",
            "method",
            "metric",
            "mean",
            "error",
            "seeds_done",
            "seeds_wanted",
            "undefined",
            "paper",
            "paper_error",
            "agrees",
        ]
    )
    for (dataset, setting, method, metric), cell in cells.items():
        paper = (cell.paper.value, cell.paper.error) if cell.paper else (None, None)
        writer.writerow(
            [
                dataset,
                setting,
                method,
                metric,
                cell.mean,
                cell.error,
                cell.done,
                cell.wanted,
                cell.undefined,
                *paper,
                cell.agrees,
            ]
        )
    return out.getvalue()


def escaped(texts: Sequence[str]) -> str:
    """A line of a LaTeX table."""
    changes = {"_": r"\_", "%": r"\%", "#": r"\#", "±": r"$\pm$", "–": "--", "✓": r"$\checkmark$", "✗": r"$\times$"}
    changes |= {"ρ": r"$\rho$", "β": r"$\beta$", "*": r"$^*$", "−": "$-$", "&": r"\&"}
    return " & ".join("".join(changes.get(sign, sign) for sign in text) for text in texts) + r" \\"


def to_latex(table: PaperTable, cells: Cells) -> str:
    """The table with booktabs rules; the paper's numbers in brackets."""
    header, body, foot = grid(table, cells)
    columns = "ll" + "r" * len(foot)
    lines = [f"% {table.name}: {table.title}", rf"\begin{{tabular}}{{{columns}}}", r"\toprule", escaped(header), r"\midrule"]
    lines += [escaped([f"{upper} ({lower})" if lower else upper for upper, lower in line]) for line in body]
    lines += [r"\midrule", escaped([foot_label(table), "", *foot])]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def to_files(table: PaperTable, cells: Cells, folder: Path) -> list[Path]:
    """Write Markdown, CSV and LaTeX into a folder."""
    contents = {"md": to_markdown(table, cells), "csv": to_csv(cells), "tex": to_latex(table, cells)}
    for ending, text in contents.items():
        write_text(folder / f"{table.name}.{ending}", text)
    return [folder / f"{table.name}.{ending}" for ending in contents]
