"""Carries out the golden runs: `python scripts/golden.py FOLDER [OVERRIDE …]` keeps each one's CSV files below FOLDER.

Two commits on one machine must give the same bytes: run it with each, then `diff -r`. `--values FILE` also writes what
tests/golden/test_golden.py compares on every machine.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
from pathlib import Path

import fedincent
from tests.golden import CASES, line

KEPT = ("clients.csv", "rounds.csv", "trace.csv", "unseen.csv", "partition.csv")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("overrides", nargs="*", help="for all runs, such as executor=processes")
    parser.add_argument("--values", type=Path, help="also write the clients' numbers as JSON")
    parser.add_argument("--only", default="", help="cases whose name begins so")
    given = parser.parse_args()
    values = {}
    for case in CASES:
        if not case.startswith(given.only):
            continue
        with tempfile.TemporaryDirectory() as scratch:
            result = fedincent.run([*line(case), f"results_dir={scratch}", *given.overrides])
            target = given.folder / case
            target.mkdir(parents=True, exist_ok=True)
            for name in KEPT:
                if (result.path / name).is_file():
                    shutil.copy(result.path / name, target / name)
            (target / "name").write_text(f"{result.path.name}\n")
            values[case] = {"run": result.path.name, "clients": result.clients.to_dict(orient="list")}
        print(case, flush=True)
    if given.values:
        given.values.write_text(json.dumps(values, indent=0) + "\n")


if __name__ == "__main__":
    main()
