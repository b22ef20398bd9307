"""The runs that a table, figure or sweep still needs, and seeing to it that a launcher carries them out.

Runs that build on the same run (standalone training, say) wait for it instead of computing it twice. One that fails does not
stop the others; one whose worker died is started again. The store is the only meeting point: a plan that was killed goes on.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import sys
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from fedincent.campaigns.launcher import DONE, FAILED, LOST, QUEUED, RUNNING, Launcher, Order, State
from fedincent.config.compose import line_of
from fedincent.config.references import references
from fedincent.config.run import Config
from fedincent.errors import ConfigError, FedincentError
from fedincent.evaluation.recompute import known_metrics
from fedincent.runs.view import duration
from fedincent.store.identity import Key, key_of_config
from fedincent.store.index import Index
from fedincent.store.result import Result


class Wish(NamedTuple):
    """A run that somebody wants: its command line, what that means, and which metrics it is wanted for."""

    line: list[str]
    config: Config
    metrics: tuple[str, ...] = ()


@dataclass
class Job:
    """One run still to be done: its command line, the keys of the runs it builds on, and those of them among the jobs."""

    label: str
    overrides: list[str]
    builds_on: tuple[Key, ...] = ()
    needs: tuple[Key, ...] = ()


def outdated(found: Result, metrics: Iterable[str]) -> bool:
    """Whether a stored run lacks one of some metrics only because it was stored before there was such a metric."""
    if found.summary.get("metrics_known") == known_metrics():
        return False
    for metric in metrics:
        try:
            found.value(metric)
        except KeyError:
            return True
    return False


def missing_jobs(wishes: Iterable[Wish], index: Index, numerics: str = "") -> dict[Key, Job]:
    """The runs that are wanted and not stored, by key; what they build on and is missing comes as jobs of their own.

    numerics: in which what does not say will be computed; what it builds on must be there in the same.
    """
    jobs: dict[Key, Job] = {}
    for overrides, config, metrics in wishes:
        found = index.find(config)
        again = found is not None and outdated(found, metrics)
        if found and found.has_curve(config.eval_every) and not again and not config.force:
            continue
        others = {key_of_config(other): other for other in references(config).values()}
        missing = {key: other for key, other in others.items() if index.find(other, numerics) is None}
        for key, other in missing.items():
            if key not in jobs:
                line = line_of(other)
                jobs[key] = Job(" ".join(line), line)
        key = key_of_config(config)
        asked = last_of_each([*overrides, *(["force=true"] if again else [])])
        coarse = key in jobs and not any(word.startswith("eval_every=") for word in jobs[key].overrides)
        if (
            not others or key not in jobs or (coarse and config.eval_every)
        ):  # a run that others build on may itself be wanted, with a curve
            jobs[key] = Job(" ".join(asked), asked, tuple(others), tuple(missing))
    return jobs


def last_of_each(overrides: list[str]) -> list[str]:
    """Overrides without those that a later one of the same name undoes."""
    last = {override.split("=", 1)[0]: override for override in overrides}
    return [override for override in dict.fromkeys(overrides) if last[override.split("=", 1)[0]] == override]


def tag_of(key: Key) -> str:
    """A short name of a run, the same every time."""
    return hashlib.sha256(str(key).encode()).hexdigest()[:12]


class Plan:
    """Jobs on their way: waiting, in flight by handle, done, failed; a line is shown whenever one changes."""

    def __init__(self, jobs: dict[Key, Job], launcher: Launcher, in_flight: dict[str, str]) -> None:
        self.launcher, self.total = launcher, len(jobs)
        self.waiting = dict(jobs)
        self.flying: dict[str, tuple[Key, Job, State]] = {}  # by handle
        self.done: set[Key] = set()
        self.failures: list[str] = []
        self.losses = Counter[Key]()
        self.begun = time.monotonic()
        words = [set(job.overrides) for job in jobs.values()]
        self.shared = set.intersection(*words) if len(words) > 1 else set()
        if self.shared:
            all_with = " ".join(word for word in next(iter(jobs.values())).overrides if word in self.shared)
            print(f"{len(jobs)} runs, all with {all_with}", file=sys.stderr)
        for key in jobs:
            if tag_of(key) in in_flight:
                self.flying[in_flight[tag_of(key)]] = (key, self.waiting.pop(key), State(QUEUED))
        if self.flying:
            self.say("found", f"{len(self.flying)} that were launched before and go on")

    @property
    def unfinished(self) -> bool:
        """Whether anything waits or is in flight."""
        return bool(self.waiting or self.flying)

    def name(self, job: Job) -> str:
        """A run by what sets it apart from the others."""
        return " ".join(word for word in job.overrides if word not in self.shared) or job.label

    def say(self, event: str, words: str) -> None:
        """One line: what happened, and how the whole stands."""
        phases = Counter(state.phase for _, _, state in self.flying.values())
        ended = len(self.done) + len(self.failures)
        spent = time.monotonic() - self.begun
        left = f", {duration(spent / ended * (self.total - ended))} to go" if ended and ended < self.total else ""
        counts = (
            f"{len(self.done)}/{self.total} done, {phases[RUNNING]} running, {phases[QUEUED] + len(self.waiting)} queued"
        )
        print(f"[{counts}, {len(self.failures)} failed{left}] {event} {words}", file=sys.stderr, flush=True)

    def submit(self) -> None:
        """Order whatever can begin: what it builds on is there, or on its way where the engine can wait for it."""
        handles = {key: handle for handle, (key, _, _) in self.flying.items()}
        chosen: list[tuple[Key, Job, tuple[str, ...]]] = []
        room = self.launcher.room(len(self.flying))
        for key, job in list(self.waiting.items()):
            ahead = [base for base in job.needs if base not in self.done]
            if any(base not in self.waiting and base not in handles for base in ahead):
                del self.waiting[key]
                self.fail(job, "a run that it builds on failed")
                continue
            if any(base not in handles for base in ahead) or (ahead and not self.launcher.chains):
                continue
            if len(chosen) < room:
                chosen.append((key, job, tuple(handles[base] for base in ahead)))
        if not chosen:
            return
        orders = [Order(tag_of(k), j.label, tuple(j.overrides), j.builds_on, after) for k, j, after in chosen]
        for (key, job, _), handle in zip(chosen, self.launcher.submit(orders), strict=True):
            del self.waiting[key]
            self.flying[handle] = (key, job, State(QUEUED))

    def look(self) -> None:
        """See how the runs in flight stand."""
        for handle, state in self.launcher.states(list(self.flying)).items():
            key, job, before = self.flying[handle]
            if state.phase in (QUEUED, RUNNING):
                self.flying[handle] = (key, job, state)
                if state.phase == RUNNING and before.phase != RUNNING:
                    self.say("start ", f"{self.name(job)} ({state.where})" if state.where else self.name(job))
                continue
            del self.flying[handle]
            if state.phase == DONE:
                self.done.add(key)
                self.say("done  ", self.name(job))
            elif state.phase == FAILED:
                self.fail(job, state.message)
            elif state.phase == LOST:
                self.lose(key, job, state.message)

    def fail(self, job: Job, why: str) -> None:
        """A run that is given up."""
        self.failures.append(f"{job.label}: {why}")
        self.say("FAILED", f"{self.name(job)}: {why}")

    def lose(self, key: Key, job: Job, why: str) -> None:
        """A run whose worker is gone: once more, unless that happened too often. One that only waited has lost nothing."""
        if any(base not in self.done for base in job.needs):
            self.waiting[key] = job  # the engine dropped it with what it builds on
            return
        self.losses[key] += 1
        if self.losses[key] > self.launcher.retries:
            self.fail(job, f"its worker died {self.losses[key]} times; the last time: {why}")
        else:
            self.waiting[key] = job
            self.say("again ", f"{self.name(job)}: its worker died: {why}")


def carry_out(jobs: dict[Key, Job], launcher: Launcher, results_dir: Path, at_once: int | None, detach: bool) -> list[str]:
    """Have all jobs carried out; what is said at the end of those that failed. Ctrl-C ends the running ones too."""
    in_flight = launcher.open(results_dir, at_once)
    plan = Plan(jobs, launcher, in_flight)
    try:
        while plan.unfinished:
            while plan.waiting and launcher.room(len(plan.flying)) > 0:
                before = len(plan.waiting)
                plan.submit()
                if len(plan.waiting) == before:
                    break
            if detach:
                plan.look()
                look = f"`fedincent status --results {results_dir}` looks at them"
                plan.say("detached:", f"the jobs go on; {look}, the same command without --detach waits and renders")
                return plan.failures
            time.sleep(launcher.pause)
            plan.look()
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) or not launcher.chains:
            launcher.cancel(list(plan.flying))
            print(f"ended {len(plan.flying)} that were queued or running", file=sys.stderr)
        elif plan.flying:
            plan.say("stopped:", "the jobs go on; the same command finds them again")
        raise
    finally:
        launcher.close()
    return plan.failures


def run_missing(
    wishes: list[Wish],
    results_dir: Path,
    launcher: Launcher,
    at_once: int | None,
    dry_run: bool,
    detach: bool,
) -> None:
    """Do what is missing, or only list it; an error at the end if anything failed."""
    if detach and not launcher.chains:
        raise ConfigError("launcher", type(launcher).__name__.lower(), "only launcher=slurm goes on without us (--detach)")
    if detach and at_once:
        raise ConfigError(
            "--jobs", at_once, "cannot be kept to with --detach, which puts all jobs into SLURM's queue at once"
        )
    jobs = missing_jobs(wishes, Index(results_dir), launcher.numerics)
    if dry_run:
        folder = os.environ.get("FEDINCENT_PLUGINS")
        plugins = f"--plugins {shlex.quote(folder)} " if folder else ""
        place = f" results_dir={shlex.quote(str(results_dir))}" if results_dir != Path("results") else ""
        for job in jobs.values():
            print(f"fedincent run {plugins}{job.label}{place}")
        based = len({base for job in jobs.values() for base in job.needs})
        words = f", the runs that others build on among them ({based})" if based and based < len(jobs) else ""
        there = len(wishes) - sum(key_of_config(wish.config) in jobs for wish in wishes)
        print(f"{len(jobs)} runs to do{words}; of the {len(wishes)} that are wanted {there} are there", file=sys.stderr)
        return
    if not jobs:
        print(f"all {len(wishes)} runs are there", file=sys.stderr)
        return
    failures = carry_out(jobs, launcher, results_dir, at_once, detach)
    if failures:
        raise FedincentError(
            f"{len(failures)} of {len(jobs)} runs failed; the same command tries those again:\n  " + "\n  ".join(failures)
        )
