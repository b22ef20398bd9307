"""Runs as Ray tasks, on this machine or on a cluster.

Where a worker sees the results folder (a shared file system, or this machine), it works there, and a run whose worker
died goes on from its checkpoint. Where it does not, it works in a folder of its own with a copy of the runs it builds
on, and the finished run's files come back through Ray.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import secrets
import socket
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from fedincent.campaigns.launcher import (
    DONE,
    FAILED,
    LOST,
    QUEUED,
    RUNNING,
    Launcher,
    Order,
    State,
    log_of,
    overrides_of,
    run_here,
)
from fedincent.config import option
from fedincent.errors import ConfigError
from fedincent.store.files import write_text
from fedincent.store.folder import receive
from fedincent.store.index import Index
from fedincent.store.result import Files, Result
from fedincent.training.processes import cores

log = logging.getLogger("fedincent")
HANDED_ON = (
    "FEDINCENT_DATA",
    "FEDINCENT_CACHE",
    "FEDINCENT_PLUGINS",
    "WANDB_API_KEY",
    "WANDB_MODE",
)  # of our environment, to the workers


@dataclass(kw_only=True)
class Ray(Launcher):
    """Tasks of a Ray cluster; Ray decides how many fit."""

    pause: ClassVar[float] = 0.2

    address: str = option(
        "local: a Ray of our own on this machine; auto: the cluster running here; else HOST:PORT or ray://…"
    )
    cpus: float = option("cores of a run", above=0)
    gpus: float = option("GPUs of a run; a fraction shares one", low=0)
    memory_gb: float | None = option("memory of a run; null: not reckoned with", above=0)
    store: str = option(
        "how results reach the results folder; auto: a worker that sees it writes there, else they come back through Ray",
        choices=("auto", "returned"),
    )

    def open(self, results_dir: Path, at_once: int | None) -> dict[str, str]:
        try:
            import ray
        except ImportError as error:
            raise ConfigError("launcher", "ray", "needs Ray: pip install 'fedincent[ray]'") from error
        self.ray, self.results_dir, self.at_once = ray, results_dir.resolve(), at_once
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # or Ray announces a change to come
        own: dict[str, Any] = {}
        if self.address == "local":
            own = {"num_cpus": math.ceil(at_once * self.cpus) if at_once else cores(), "include_dashboard": False}
        try:
            ray.init(
                address=self.address,
                log_to_driver=False,
                logging_level="ERROR",
                runtime_env={"env_vars": {name: os.environ[name] for name in HANDED_ON if name in os.environ}},
                **own,
            )
        except (ConnectionError, RuntimeError, ValueError) as error:
            first = str(error).strip().splitlines()[0]
            raise ConfigError("launcher.address", self.address, f"no Ray cluster is reached there: {first}") from error
        self.token = ""
        if self.store == "auto":
            self.token = secrets.token_hex(8)
            write_text(marker_of(self.results_dir, self.token), "a worker that sees this file sees the results folder\n")
        needs: dict[str, Any] = {"num_cpus": self.cpus, "num_gpus": self.gpus, "max_retries": 0}
        if self.memory_gb:
            needs["memory"] = int(self.memory_gb * 2**30)
        self.check_room({"CPU": self.cpus, "GPU": self.gpus, "memory": needs.get("memory", 0)})
        self.task = ray.remote(**needs)(carry)
        self.board = ray.remote(num_cpus=0)(Board).remote()
        self.index = Index(self.results_dir)
        self.flying: dict[str, tuple[Any, Order]] = {}
        return {}

    def check_room(self, needs: Mapping[str, float]) -> None:
        """An error where no node has what a run needs, which would wait for ever; a warning on a cluster, which may grow."""
        nodes = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]
        if any(all(node.get(name, 0) >= amount for name, amount in needs.items()) for node in nodes):
            return
        wanted = ", ".join(f"{amount:g} {name}" for name, amount in needs.items() if amount)
        if self.address == "local":
            self.close()
            raise ConfigError("launcher", "ray", f"this machine has not what a run is to have: {wanted}")
        log.warning("no node of the cluster has what a run is to have (%s): runs wait until one comes", wanted)

    def submit(self, orders: Sequence[Order]) -> list[str]:
        if any(self.index.get(key) is None for order in orders for key in order.builds_on):
            self.index = Index(self.results_dir)  # workers that see it have written there
        for order in orders:
            stored = [result for key in order.builds_on if (result := self.index.get(key)) is not None]
            others = {result.name: result.files() for result in stored}
            reference = self.task.remote(
                order, str(self.results_dir), self.token, os.getcwd(), self.gpus, others, self.board
            )
            self.flying[reference.hex()] = (reference, order)
        return list(self.flying)[-len(orders) :]

    def states(self, handles: Sequence[str]) -> dict[str, State]:
        errors = self.ray.exceptions
        at_work: Mapping[str, str] = {}
        with contextlib.suppress(errors.RayError):
            at_work = self.ray.get(self.board.all.remote(), timeout=5)
        ended, _ = self.ray.wait(
            [self.flying[handle][0] for handle in handles], num_returns=len(handles), timeout=0, fetch_local=False
        )
        over = {reference.hex() for reference in ended}
        found = {}
        for handle in handles:
            order = self.flying[handle][1]
            if handle in over:
                found[handle] = self.collect(handle)
            elif order.tag in at_work:
                found[handle] = State(RUNNING, at_work[order.tag])
            else:
                found[handle] = State(QUEUED)
        return found

    def collect(self, handle: str) -> State:
        """What a task that has ended brought: files for the store, its output for the log."""
        reference, order = self.flying.pop(handle)
        errors = self.ray.exceptions
        output_file = log_of(order, self.results_dir)
        self.board.forget.remote(order.tag)
        try:
            error, output, runs = self.ray.get(reference)
        except errors.RayTaskError as raised:
            write_text(output_file, str(raised))
            return State(FAILED, message=f"{str(raised).strip().splitlines()[-1]} (log: {output_file})")
        except errors.RayError as gone:  # the worker, its node, or what it brought
            return State(LOST, message=f"{type(gone).__name__}: {str(gone).strip().splitlines()[0]}")
        write_text(output_file, output)
        for name, files in runs.items():
            receive(self.results_dir, name, files)
        for name in runs:
            self.index.add(self.results_dir / "runs" / name)
        return State(DONE) if error is None else State(FAILED, message=f"{error} (log: {output_file})")

    def cancel(self, handles: Sequence[str]) -> None:
        for handle in handles:
            if handle in self.flying:
                self.ray.cancel(self.flying.pop(handle)[0], force=True)

    def close(self) -> None:
        if self.token:
            marker_of(self.results_dir, self.token).unlink(missing_ok=True)
        self.ray.shutdown()


def marker_of(results_dir: Path, token: str) -> Path:
    """The file by which a worker knows that it sees the results folder."""
    return results_dir / "launch" / f"store-{token}"


class Board:
    """An actor on which workers note what they are at."""

    def __init__(self) -> None:
        self.at_work: dict[str, str] = {}

    def note(self, tag: str, where: str) -> None:
        """A run has begun."""
        self.at_work[tag] = where

    def forget(self, tag: str) -> None:
        """A run has ended."""
        self.at_work.pop(tag, None)

    def all(self) -> dict[str, str]:
        """Where each run is carried out."""
        return self.at_work


def carry(
    order: Order, results_dir: str, token: str, folder: str, gpus: float, others: dict[str, Files], board: Any
) -> tuple[str | None, str, dict[str, Files]]:
    """In a worker: one run. Gives what went wrong (or none), its output, and its files where the store is not shared."""
    board.note.remote(order.tag, f"{socket.gethostname()}, process {os.getpid()}")
    if Path(folder).is_dir():
        os.chdir(folder)  # so that relative paths mean the same as on the command line
    if 0 < gpus < 1:
        os.environ["FEDINCENT_GPU_SHARE"] = str(gpus)  # others are on the same card
    there = Path(results_dir)
    if token and marker_of(there, token).is_file():
        error, output = run_here(overrides_of(order, there, gpus))
        return error, output, {}
    with tempfile.TemporaryDirectory(prefix="fedincent-") as scratch:
        here = Path(scratch)
        for name, files in others.items():
            receive(here, name, files)
        error, output = run_here(overrides_of(order, here, gpus))
        finished = [path.parent for path in (here / "runs").glob("*/summary.json")]
        return error, output, {path.name: Result(path, {}).files() for path in finished if path.name not in others}
