"""How the runs of a results folder stand: finished, under way and where, broken off; and SLURM's jobs among them."""

from __future__ import annotations

import shutil
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from fedincent.launchers.slurm import queue, read_ledger
from fedincent.results.index import Index


@dataclass(frozen=True)
class Standing:
    """One run that is not finished."""

    name: str
    phase: str
    where: str


def unfinished(results_dir: Path) -> Iterator[Standing]:
    """The runs that were begun and have no result: somebody is at them, or they were broken off."""
    for folder in sorted(path for path in (results_dir / "runs").glob("*") if not (path / "summary.json").is_file()):
        if not (folder / "run.lock").is_file():
            continue
        checkpoint = folder / "checkpoint.safetensors"
        saved = f"checkpoint {ago(checkpoint.stat().st_mtime)}" if checkpoint.is_file() else "no checkpoint yet"
        owner = folder / "run.owner"
        who = owner.read_text(encoding="utf-8") if owner.is_file() else "another process"
        try:
            with FileLock(folder / "run.lock", timeout=0):
                yield Standing(folder.name, "broken off", f"{saved}; the same command goes on with it")
        except Timeout:
            yield Standing(folder.name, "running", f"{who}, {saved}")


def slurm_jobs(results_dir: Path) -> Iterator[Standing]:
    """The jobs that are in SLURM's queue."""
    ledger = read_ledger(results_dir)
    if not ledger or shutil.which("squeue") is None:
        return
    waiting = queue()
    for entry in ledger.values():
        if entry["job"] in waiting:
            state = waiting[entry["job"]]
            yield Standing(entry["label"], state.phase, f"job {entry['job']} {state.where or state.message}".strip())


def ago(moment: float) -> str:
    """How long ago a moment was."""
    minutes = (time.time() - moment) / 60
    return (
        f"{60 * minutes:.0f} s ago"
        if minutes < 2
        else f"{minutes:.0f} min ago"
        if minutes < 120
        else f"{minutes / 60:.0f} h ago"
    )


def show(results_dir: Path) -> None:
    """Print how everything stands."""
    index = Index(results_dir)
    runs, jobs = list(unfinished(results_dir)), list(slurm_jobs(results_dir))
    for title, found in (("runs", runs), ("SLURM jobs", jobs)):
        phases = Counter(standing.phase for standing in found)
        counts = ", ".join(f"{count} {phase}" for phase, count in phases.items())
        if title == "runs":
            counts = ", ".join([f"{len(index.runs)} finished", *([counts] if counts else [])])
        if counts:
            print(f"{title}: {counts}")
        for standing in found:
            print(f"  {standing.phase:<10} {standing.name}  ({standing.where})")
    for path in index.damaged:
        print(f"  damaged    {path.parent.name}  (delete that folder and run again)")
