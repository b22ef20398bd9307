"""How the runs of a results folder stand: finished, under way and where, broken off; and SLURM's jobs among them."""

from __future__ import annotations

import contextlib
import shutil
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from fedincent.campaigns.slurm import note_of, queue, read_ledger, read_note
from fedincent.errors import FedincentError
from fedincent.store.index import Index


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
        saved, who = "no checkpoint yet", "another process"
        with contextlib.suppress(FileNotFoundError):
            saved = f"checkpoint {ago((folder / 'checkpoint.safetensors').stat().st_mtime)}"
        with contextlib.suppress(FileNotFoundError):
            who = (folder / "run.owner").read_text(encoding="utf-8")
        try:
            with FileLock(folder / "run.lock", timeout=0):
                yield Standing(
                    folder.name, "broken off", f"{saved}; the same command goes on with it, or says why it failed"
                )
        except Timeout:
            yield Standing(folder.name, "running", f"{who}, {saved}")


def slurm_jobs(results_dir: Path) -> Iterator[Standing]:
    """The jobs launched from this folder that are in SLURM's queue, have failed, or are gone without a word."""
    ledger = read_ledger(results_dir)
    if not ledger or shutil.which("squeue") is None:
        return
    waiting = queue()
    for tag, entry in ledger.items():
        note = read_note(note_of(results_dir, tag))
        job = f"job {entry['job']}"
        if entry["job"] in waiting:
            state = waiting[entry["job"]]
            yield Standing(entry["label"], state.phase, f"{job} {state.where or state.message}".strip())
        elif note is None:
            yield Standing(
                entry["label"], "gone", f"{job} left no word: it was cancelled, its node died, or what it waited for failed"
            )
        elif note["error"] is not None:
            yield Standing(entry["label"], "failed", f"{note['error']}; {job}, log: {entry['log']}")


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
    runs, jobs = list(unfinished(results_dir)), []
    try:
        jobs = list(slurm_jobs(results_dir))
    except FedincentError as error:
        print(f"SLURM jobs: not known, {error}")
    for title, found in (("runs", runs), ("SLURM jobs", jobs)):
        phases = Counter(standing.phase for standing in found)
        counts = ", ".join(f"{count} {phase}" for phase, count in phases.items())
        if title == "runs":
            published = sum(result.published for result in index.results.values())
            own = f"{len(index.results) - published} finished"
            counts = ", ".join([own, *([f"{published} published"] if published else []), *([counts] if counts else [])])
        if counts:
            print(f"{title}: {counts}")
        for standing in found:
            print(f"  {standing.phase:<10} {standing.name}  ({standing.where})")
    for damage in index.damaged:
        print(f"  damaged    {damage.name}: {damage.why}  ({damage.mend})")
