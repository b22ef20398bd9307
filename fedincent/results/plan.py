"""Carrying out the runs that a table or figure still needs: as many at once as there are cores, each on one core.

Runs that share a standalone baseline wait for it instead of computing it twice. Every run is a process of its own with a
log of its own; one that fails does not stop the others. The store is the only meeting point: a plan that was killed goes on.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from fedincent.config import Config
from fedincent.errors import FedincentError
from fedincent.results.index import Index, key_of


@dataclass
class Job:
    """One run still to be done: its command line, and the job that must be done before it."""

    label: str
    overrides: list[str]
    needs: str | None = None  # the key of the baseline


def missing_jobs(wishes: Iterable[tuple[list[str], Config]], index: Index) -> dict[str, Job]:
    """The runs that are wanted and not stored, by key; baselines that are missing come as jobs of their own."""
    jobs: dict[str, Job] = {}
    for overrides, config in wishes:
        found = index.find(config)
        if found and found.has_curve(config.eval_every):
            continue
        dataset = config.choices["dataset"]
        base = None
        if config.choices["mechanism"] != "standalone" and index.find(config, alone=True) is None:
            base = key_of(config.identity(alone=True), dataset)
            plain = [o for o in overrides if not o.startswith(("mechanism", "contribution", "participation", "eval_every"))]
            alone = last_of_each([*plain, "mechanism=standalone"])
            jobs.setdefault(base, Job(" ".join(alone), alone))
        key = key_of(config.identity(alone=False), dataset)
        asked = last_of_each(overrides)
        jobs.setdefault(key, Job(" ".join(asked), asked, base))
    return jobs


def last_of_each(overrides: list[str]) -> list[str]:
    """Overrides without those that a later one of the same name undoes."""
    last = {override.split("=", 1)[0]: override for override in overrides}
    return [override for override in dict.fromkeys(overrides) if last[override.split("=", 1)[0]] == override]


class Progress:
    """What a person sees: a line whenever a run starts, ends or fails, with the state of the whole."""

    def __init__(self, total: int) -> None:
        self.total, self.done, self.failed = total, 0, 0
        self.begun = time.monotonic()

    def say(self, event: str, label: str, running: int) -> None:
        """One line: what happened, and done, running, failed, time to go."""
        spent = time.monotonic() - self.begun
        ended = self.done + self.failed
        left = f", {spent / ended * (self.total - ended) / 60:.0f} min to go" if ended else ""
        state = f"[{self.done}/{self.total} done, {running} running, {self.failed} failed{left}]"
        print(f"{state} {event} {label}", file=sys.stderr, flush=True)


def carry_out(jobs: dict[str, Job], results_dir: Path, at_once: int) -> list[str]:
    """Do all jobs; what is said at the end of those that failed. Ctrl-C ends the running ones too."""
    waiting, ended, failures = dict(jobs), set[str](), []
    progress = Progress(len(jobs))
    logs = results_dir / "logs"
    with running_processes() as running:
        while waiting or running:
            ready = [key for key, job in waiting.items() if job.needs not in waiting and job.needs not in running]
            for key in ready[: max(0, at_once - len(running))]:
                job = waiting.pop(key)
                if job.needs is not None and job.needs not in ended:
                    progress.failed += 1
                    failures.append(f"{job.label}: its standalone baseline failed")
                    continue
                running[key] = (start(job, results_dir, logs), job)
                progress.say("start", job.label, len(running))
            for key in [key for key, (process, _) in running.items() if process.poll() is not None]:
                process, job = running.pop(key)
                if process.returncode == 0:
                    ended.add(key)
                    progress.done += 1
                    progress.say("done ", job.label, len(running))
                else:
                    progress.failed += 1
                    log = log_of(job, logs)
                    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines() or ["no output"]
                    failures.append(f"{job.label}: {lines[-1]} (log: {log})")
                    progress.say("FAILED", failures[-1], len(running))
            time.sleep(0.05)
    return failures


@contextlib.contextmanager
def running_processes() -> Iterator[dict[str, tuple[subprocess.Popen, Job]]]:
    """The processes under way; whatever ends the block ends them."""
    running: dict[str, tuple[subprocess.Popen, Job]] = {}
    try:
        yield running
    finally:
        for process, _ in running.values():
            process.terminate()
        for process, _ in running.values():
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=10)


def log_of(job: Job, logs: Path) -> Path:
    """Where a job's output goes."""
    return logs / ("".join(c if c.isalnum() or c in "=._-" else "-" for c in job.label)[:180] + ".log")


def start(job: Job, results_dir: Path, logs: Path) -> subprocess.Popen:
    """Start a run on one core."""
    logs.mkdir(parents=True, exist_ok=True)
    fixed = ["executor=serial", "keep_checkpoint=false", f"results_dir={results_dir}"]
    command = [sys.executable, "-m", "fedincent", "run", *job.overrides, *fixed]
    with log_of(job, logs).open("w", encoding="utf-8") as log:
        return subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL)


def run_missing(wishes: list[tuple[list[str], Config]], results_dir: Path, at_once: int, dry_run: bool) -> None:
    """Do what is missing, or only list it; an error at the end if anything failed."""
    jobs = missing_jobs(wishes, Index(results_dir))
    if dry_run:
        folder = os.environ.get("FEDINCENT_PLUGINS")
        plugins = f"--plugins {shlex.quote(folder)} " if folder else ""
        for job in jobs.values():
            print(f"fedincent run {plugins}{job.label}")
        alone = len(jobs) - sum(job.needs is not None for job in jobs.values())
        words = f", the standalone runs they build on among them ({alone})" if alone and alone < len(jobs) else ""
        print(f"{len(jobs)} runs to do{words}; the whole is {len(wishes)}", file=sys.stderr)
        return
    if not jobs:
        print(f"all {len(wishes)} runs are there", file=sys.stderr)
        return
    failures = carry_out(jobs, results_dir, at_once)
    if failures:
        raise FedincentError(
            f"{len(failures)} of {len(jobs)} runs failed; the same command tries those again:\n  " + "\n  ".join(failures)
        )
