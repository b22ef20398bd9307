"""Runs as SLURM array jobs, through submitit. The results folder must be on a file system that all nodes share.

A ledger beside the results (launch/slurm.json) remembers which run is which job, so that a plan that was detached, or
killed, finds its jobs again. A job that ends by itself, well or not, leaves a note; one that is gone from the queue and
left none was cancelled, or its node died.
"""

from __future__ import annotations

import json
import logging
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from filelock import FileLock, Timeout

from fedincent.campaigns.launcher import DONE, FAILED, LOST, QUEUED, RUNNING, Launcher, Order, State, overrides_of, run_here
from fedincent.config import option
from fedincent.errors import ConfigError, FedincentError
from fedincent.store.files import write_json

log = logging.getLogger("fedincent")
WAITING = ("PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD")
AT_WORK = ("RUNNING", "CONFIGURING", "COMPLETING", "SUSPENDED", "STOPPED", "STAGE_OUT", "SIGNALING", "RESIZING")
LARGEST_ARRAY = 500  # SLURM's own default limit is 1,001
PATIENCE = 20  # times in a row that squeue may fail: a controller that restarts is not the end


@dataclass(kw_only=True)
class Slurm(Launcher):
    """Array jobs of one SLURM cluster, each run a job of its own."""

    chains: ClassVar[bool] = True

    partition: str | None = option("SLURM partition; null: the cluster's default")
    account: str | None = option("account to charge; null: one's default")
    minutes: int = option("time limit of a run; it goes on in a new job from its checkpoint when the limit is met", low=1)
    memory_gb: float = option("memory of a run", above=0)
    cpus: int = option("cores of a run; without a GPU a run uses one", low=1)
    gpus: int = option("GPUs of a run", low=0)
    preamble: tuple[str, ...] = option("shell lines before each run, such as [module load cuda]")
    extra: Mapping[str, Any] = option("further sbatch options, such as {qos: long, constraint: a100}")
    poll_seconds: float = option("seconds between two looks at the queue", above=0)
    grace_seconds: float = option(
        "so long a shared file system may hide the note of a job that has left the queue; then it counts as lost", above=0
    )

    def open(self, results_dir: Path, at_once: int | None) -> dict[str, str]:
        try:
            import submitit
        except ImportError as error:
            raise ConfigError("launcher", "slurm", "needs submitit: pip install 'fedincent[slurm]'") from error
        self.results_dir = results_dir.resolve()
        self.folder = self.results_dir / "launch"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.lock = FileLock(self.folder / "slurm.lock")
        try:
            self.lock.acquire(timeout=0)
        except Timeout as error:
            raise FedincentError(
                f"another fedincent is launching SLURM jobs from {self.results_dir}: wait for it"
            ) from error
        try:
            self.executor = submitit.SlurmExecutor(self.folder / "slurm" / "%j", max_num_timeout=1_000_000)
        except RuntimeError as error:
            raise ConfigError("launcher", "slurm", "there is no SLURM here (no srun on the PATH)") from error
        self.at_once, self.failures = at_once, 0
        self.ledger = read_ledger(self.results_dir)
        self.gone: dict[str, float] = {}
        alive = queue()
        return {tag: entry["job"] for tag, entry in self.ledger.items() if entry["job"] in alive}

    @property
    def pause(self) -> float:  # type: ignore[override]
        """Seconds between two looks."""
        return self.poll_seconds

    def submit(self, orders: Sequence[Order]) -> list[str]:
        """One array for all that wait for the same run (or several, if they are many)."""
        from submitit.core.utils import FailedJobError

        handles: dict[str, str] = {}
        batches = []
        for after in dict.fromkeys(order.after for order in orders):
            together = [order for order in orders if order.after == after]
            batches += [together[k : k + LARGEST_ARRAY] for k in range(0, len(together), LARGEST_ARRAY)]
        try:
            for batch in batches:
                self.executor.update_parameters(**self.parameters(batch[0].after))
                for order in batch:
                    self.note(order.tag).unlink(missing_ok=True)
                with self.executor.batch():
                    jobs = [self.executor.submit(self.task(order)) for order in batch]
                for order, job in zip(batch, jobs, strict=True):
                    handles[order.tag] = job.job_id
                    self.ledger[order.tag] = {"job": job.job_id, "label": order.label, "log": str(job.paths.stdout)}
                write_json(self.folder / "slurm.json", self.ledger)
        except FailedJobError as error:
            others = f" ({len(handles)} jobs before it were taken, and go on)" if handles else ""
            raise FedincentError(f"sbatch refused a job{others}: {str(error).strip()}") from error
        except KeyboardInterrupt:
            self.cancel(list(handles.values()))
            raise
        return [handles[order.tag] for order in orders]

    def task(self, order: Order) -> Task:
        """What the job of a run does."""
        return Task(overrides_of(order, self.results_dir, self.gpus), str(self.note(order.tag)))

    def parameters(self, after: Sequence[str]) -> dict[str, Any]:
        """What submitit is told of a job."""
        extra = {"kill-on-invalid-dep": "yes", **self.extra}
        return {
            "job_name": "fedincent",
            "time": self.minutes,
            "mem": f"{round(self.memory_gb * 1024)}M",
            "cpus_per_task": self.cpus,
            "gpus_per_node": self.gpus or None,
            "partition": self.partition,
            "account": self.account,
            "setup": list(self.preamble),
            "dependency": f"afterok:{':'.join(after)}" if after else None,
            "stderr_to_stdout": True,
            "additional_parameters": extra,
            "array_parallelism": LARGEST_ARRAY,  # the plan keeps to --jobs
        }

    def note(self, tag: str) -> Path:
        """Where a run's job says how it ended."""
        return note_of(self.results_dir, tag)

    def states(self, handles: Sequence[str]) -> dict[str, State]:
        try:
            waiting = queue()
            self.failures = 0
        except FedincentError as error:
            self.failures += 1
            if self.failures > PATIENCE:
                raise
            log.warning("%s; looking again", error)
            return {}
        tags = {entry["job"]: tag for tag, entry in self.ledger.items()}
        found = {handle: waiting.get(handle) or self.ended(handle, tags[handle]) for handle in handles}
        return {handle: state for handle, state in found.items() if state is not None}

    def ended(self, handle: str, tag: str) -> State | None:
        """How a job that has left the queue ended, by the note it left; none while that may still be on its way."""
        where = f"(job {handle}, log: {self.ledger[tag]['log']})"
        note = read_note(self.note(tag))
        if note is None:
            left = self.gone.setdefault(handle, time.monotonic())
            if time.monotonic() - left < self.grace_seconds:
                return None
            return State(LOST, message=f"cancelled, or its node died {where}")
        return State(DONE) if note["error"] is None else State(FAILED, message=f"{note['error']} {where}")

    def cancel(self, handles: Sequence[str]) -> None:
        if handles:
            asked = subprocess.run(["scancel", *handles], check=False, capture_output=True, text=True)
            if asked.returncode:
                log.warning("scancel failed, so jobs may still run: %s", asked.stderr.strip())
                return
            self.ledger = {tag: entry for tag, entry in self.ledger.items() if entry["job"] not in set(handles)}
            write_json(self.folder / "slurm.json", self.ledger)

    def close(self) -> None:
        self.lock.release()


class Task:
    """What a job does: one run, and a note of how it ended. Pickled by submitit, carried out on the node."""

    def __init__(self, arguments: list[str], note: str) -> None:
        self.arguments, self.note, self.leaving = arguments, note, False

    def __call__(self) -> None:
        error, _ = run_here(self.arguments)
        if self.leaving:  # in the queue again: this is not how the run ended
            raise SystemExit(1)
        write_json(Path(self.note), {"error": error})
        if error is not None:
            raise SystemExit(1)  # so that SLURM, and what waits for this job, knows too

    def checkpoint(self) -> Any:
        """Called by submitit before the time limit and at preemption: the same again, which goes on where it was."""
        import submitit

        self.leaving = True
        return submitit.helpers.DelayedSubmission(Task(self.arguments, self.note))


def note_of(results_dir: Path, tag: str) -> Path:
    """Where a run's job says how it ended."""
    return results_dir / "launch" / "ended" / f"{tag}.json"


def read_note(path: Path) -> dict[str, Any] | None:
    """What a job said of its end; none if it has not."""
    try:
        note: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    return note


def read_ledger(results_dir: Path) -> dict[str, dict[str, str]]:
    """Which run is which job: by tag, the job's id, the run's label and log."""
    try:
        ledger: dict[str, dict[str, str]] = json.loads((results_dir / "launch" / "slurm.json").read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return ledger


def queue() -> dict[str, State]:
    """One's own jobs that wait or run, by id."""
    try:
        asked = subprocess.run(
            ["squeue", "--me", "--array", "--noheader", "--format=%i|%T|%N|%r"], capture_output=True, text=True, check=False
        )
    except FileNotFoundError as error:
        raise ConfigError("launcher", "slurm", "there is no SLURM here (no squeue on the PATH)") from error
    if asked.returncode:
        why = " ".join(asked.stderr.split()) or f"exit code {asked.returncode}"
        raise FedincentError(f"squeue failed: {why} (is this a login node of the cluster, and SLURM_CONF right?)")
    found = {}
    for line in asked.stdout.splitlines():
        job, state, nodes, reason = line.strip().split("|", 3)
        if state in AT_WORK:
            found[job] = State(RUNNING, nodes)
        elif state in WAITING:
            found[job] = State(QUEUED, message=reason)
    return found
