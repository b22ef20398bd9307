"""Runs as processes of this machine, each on one core; forked from a server that has imported everything once."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import torch

from fedincent.campaigns.launcher import (
    DONE,
    FAILED,
    LOST,
    RUNNING,
    Launcher,
    Order,
    State,
    last_words,
    log_of,
    overrides_of,
    run_here,
)
from fedincent.training.processes import cores

PRELOADED = ["fedincent.config.compose", "fedincent.runs.runner", "hydra._internal.hydra", "hydra.errors", "pandas"]

GRACE = 10.0  # seconds for the checkpoint of a run that is to end
SERVER_GONE = 255  # what multiprocessing says of a process whose fork server died


def gpu_here() -> bool:
    """Whether this machine has a GPU that torch can use; where there is no driver, torch need not be asked."""
    if not any(Path(device).exists() for device in ("/dev/nvidiactl", "/dev/dxg", "/dev/kfd")):
        return False

    return torch.cuda.is_available()


@dataclass(kw_only=True)
class Local(Launcher):
    """As many processes at once as there are cores (or --jobs); where there is a GPU, one after the other on that."""

    @property
    def on_gpu(self) -> bool:
        return gpu_here()

    def open(self, results_dir: Path, at_once: int | None) -> dict[str, str]:
        self.results_dir, self.at_once = results_dir, at_once or (1 if self.on_gpu else cores())
        self.processes: dict[str, tuple[ForkServerProcess, Order]] = {}
        self.context = multiprocessing.get_context("forkserver")
        self.context.set_forkserver_preload(PRELOADED)
        self.listened, self.alive = self.context.Pipe(duplex=False)  # closed by the system when we end, however we end
        return {}

    def submit(self, orders: Sequence[Order]) -> list[str]:
        handles = []
        for order in orders:
            log = log_of(order, self.results_dir)
            log.parent.mkdir(parents=True, exist_ok=True)
            arguments = overrides_of(order, self.results_dir, int(self.on_gpu))
            process = self.context.Process(target=carry, args=(arguments, str(log), dict(os.environ), self.listened))
            process.start()
            handles.append(str(process.pid))
            self.processes[handles[-1]] = (process, order)
        return handles

    def states(self, handles: Sequence[str]) -> dict[str, State]:
        return {handle: self.state(handle) for handle in handles}

    def state(self, handle: str) -> State:
        """How a process stands: ended by a signal, it is lost."""
        process, order = self.processes[handle]
        if process.exitcode is None:
            return State(RUNNING, f"process {handle}")
        del self.processes[handle]
        if process.exitcode == 0:
            return State(DONE)
        log = log_of(order, self.results_dir)
        if process.exitcode < 0:
            return State(LOST, message=f"ended by signal {-process.exitcode} (log: {log})")
        if process.exitcode == SERVER_GONE or not log.is_file():
            return State(LOST, message="its process could not be watched")
        return State(FAILED, message=f"{last_words(log.read_text(encoding='utf-8', errors='replace'))} (log: {log})")

    def cancel(self, handles: Sequence[str]) -> None:
        ending = [self.processes.pop(handle)[0] for handle in handles if handle in self.processes]
        for process in ending:
            process.terminate()
        for process in ending:
            process.join(GRACE)
            if process.exitcode is None:
                process.kill()

    def close(self) -> None:
        self.cancel(list(self.processes))


def end_with(parent: Connection) -> None:
    """End this process, as TERM would, when the one that ordered the run is gone and its end of the pipe closes."""
    with contextlib.suppress(EOFError, OSError):
        parent.recv()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE)
    os._exit(1)


def carry(arguments: list[str], log: str, environment: dict[str, str], parent: Connection) -> None:
    """In a process of its own: one run, its output in its log. The server's environment is that of the first run."""
    threading.Thread(target=end_with, args=(parent,), daemon=True).start()
    os.environ.clear()
    os.environ.update(environment)
    with open(log, "w", encoding="utf-8") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    error, _ = run_here(arguments)
    sys.exit(0 if error is None else 1)
