"""Print docs/reproducing.md's block of a paper table: ours, and the paper's in brackets, from results/.

python scripts/readme_table.py iafl-1 fmnist [training.lr=0.01 …]
"""

from __future__ import annotations

import sys
from pathlib import Path

from fedincent.results.render import MARKS, NAMES, number, paper_text, setting_name
from fedincent.results.table import fill_cells, load_table
from fedincent.store.index import Index


def main(name: str, dataset: str, *overrides: str) -> None:
    """One Markdown table: settings × mechanisms, all metrics of the table in a cell; – for what was not run."""
    table = load_table(name, overrides)
    cells = fill_cells(table, Index(Path("results")), None, {"dataset": [dataset]})
    print(f"| {dataset} | " + " | ".join(NAMES[method] for method in table.columns) + " |")
    print("|---" * (len(table.columns) + 1) + "|")
    for setting in dict.fromkeys(key[1] for key in cells):
        line = []
        for method in table.columns:
            own = [cells[dataset, setting, method, metric] for metric in table.metrics]
            ours = " / ".join(number(c.mean, c.error, c.metric, plain_error=False) if c.done else "–" for c in own)
            paper = " / ".join(paper_text(c).split(" ")[0] for c in own)
            line.append(f"{ours} ({paper}) {MARKS[own[0].agrees]}" if own[0].done else "–")
        print(f"| {setting_name(setting)} | " + " | ".join(line) + " |")


if __name__ == "__main__":
    main(*sys.argv[1:])
