"""The store: one folder per run, found by what can change its numbers, locked while it is worked on, resumed if half done.

    <results_dir>/runs/<readable-name>-<hash>/
        config.yaml  summary.json  clients.csv  rounds.csv  partition.csv  checkpoint.safetensors
        and, where a run has them, online.csv  trace.csv  unseen.csv
summary.json is written last: a folder that has one is finished. Published runs are in packs (pack.py), by the same names.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml
from filelock import FileLock, Timeout

from fedincent.store.files import replacing, write_json, write_text
from fedincent.store.pack import published_result
from fedincent.store.result import RESULT_FILES, Files, Result, checked_summary

if TYPE_CHECKING:
    import pandas as pd
    import torch

log = logging.getLogger("fedincent")


@dataclass(frozen=True)
class Checkpoint:
    """A half-done run: its tensors, how many rounds are done, and what was noted of them."""

    tensors: dict[str, torch.Tensor]
    facts: dict[str, Any]


class RunFolder:
    """One run's place in the store."""

    def __init__(self, results_dir: Path, name: str, identity: dict[str, Any]) -> None:
        self.key = f"{name}-{digest_of(identity)}"
        self.results_dir = results_dir
        self.path = results_dir / "runs" / self.key
        self.identity = identity

    def result(self, eval_every: int = 0) -> Result | None:
        """The finished run, one's own or a published one, if there is one whose curve is at least as fine as asked for."""
        found = [result for result in (self.own(), published_result(self.results_dir, self.key)) if result is not None]
        return next((result for result in found if result.has_curve(eval_every)), None)

    def own(self) -> Result | None:
        """The finished run in this folder."""
        path = self.path / "summary.json"
        try:
            return Result(self.path, checked_summary(json.loads(path.read_text(encoding="utf-8"))))
        except FileNotFoundError:
            return None
        except ValueError as error:
            log.warning("%s is damaged (%s): the run is made anew", path, error)
            return None

    def finished(self) -> bool:
        """Whether this folder holds a result, readable or not."""
        return (self.path / "summary.json").is_file()

    @contextlib.contextmanager
    def locked(self, on_wait: Callable[[str], None]) -> Iterator[None]:
        """Hold this run for oneself; whoever comes second is told so and waits. The system frees it if we are killed."""
        self.path.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self.path / "run.lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            who = "another process"
            with contextlib.suppress(FileNotFoundError):
                who = (self.path / "run.owner").read_text()
            on_wait(f"{self.key} is being run by {who}; waiting for it")
            lock.acquire()
        try:
            write_text(self.path / "run.owner", f"process {os.getpid()} on {socket.gethostname()}")
            for leftover in self.path.glob(".*.*"):  # scratch files of a killed process
                leftover.unlink(missing_ok=True)
            yield
        finally:
            (self.path / "run.owner").unlink(missing_ok=True)
            lock.release()

    def begun(self) -> bool:
        """Whether anything was computed that could be lost: a checkpoint, or a result."""
        return self.finished() or (self.path / "checkpoint.safetensors").is_file()

    def forget_checkpoint(self) -> None:
        """Begin from the first round; a finished result stays until the new one takes its place."""
        (self.path / "checkpoint.safetensors").unlink(missing_ok=True)

    def checkpoint(self) -> Checkpoint | None:
        """Where a half-done run stopped; a damaged checkpoint is put aside with a warning."""
        path = self.path / "checkpoint.safetensors"
        if not path.is_file():
            return None
        try:
            from fedincent.store.tensors import load_tensors  # and torch with it

            return Checkpoint(*load_tensors(path))
        except ValueError as error:
            log.warning("%s; starting this run anew", error)
            path.rename(path.with_suffix(".damaged"))
            return None

    def save_checkpoint(self, tensors: dict[str, torch.Tensor], facts: dict[str, Any]) -> None:
        """Remember where the run stands."""
        from fedincent.store.tensors import save_tensors

        save_tensors(self.path / "checkpoint.safetensors", tensors, facts)

    def save_config(self, values: dict[str, Any]) -> None:
        """Write config.yaml: the whole configuration, but for where on this machine the results go."""
        portable = {name: value for name, value in values.items() if name != "results_dir"}
        write_text(self.path / "config.yaml", yaml.safe_dump(portable, sort_keys=False, allow_unicode=True))

    def save_partition(self, counts: np.ndarray) -> None:
        """Write partition.csv: who holds how many samples of which class (N×classes)."""
        names = ",".join(f"class_{k}" for k in range(counts.shape[1])) if counts.shape[1] > 1 else "samples"
        lines = [f"{client},{','.join(map(str, row))}" for client, row in enumerate(counts.tolist())]
        write_text(self.path / "partition.csv", "\n".join([f"client,{names}", *lines, ""]))

    def finish(
        self,
        summary: dict[str, Any],
        clients: pd.DataFrame,
        rounds: pd.DataFrame,
        keep_checkpoint: bool,
        more: Mapping[str, pd.DataFrame],
    ) -> Result:
        """Write the result's files (`more`: further ones by name), summary.json last."""
        for name, frame in more.items():
            write_text(self.path / f"{name}.csv", frame.to_csv(index=False))
        write_text(self.path / "clients.csv", clients.to_csv(index=False))
        write_text(self.path / "rounds.csv", rounds.to_csv(index=False))
        beside = [self.path / name for name in RESULT_FILES if name != "summary.json"]
        sums = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in beside if path.is_file()}
        told = {**summary, "identity": self.identity, "files": sums}
        write_json(self.path / "summary.json", told)
        if not keep_checkpoint:
            (self.path / "checkpoint.safetensors").unlink(missing_ok=True)
        return Result(self.path, told)


def digest_of(identity: dict[str, Any]) -> str:
    """The end of a run's name."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:10]


def receive(results_dir: Path, name: str, files: Files) -> None:
    """Put a finished run that was carried out elsewhere into a store, summary.json last."""
    folder = results_dir / "runs" / name
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / "run.lock"):
        for file in RESULT_FILES:
            if file in files:
                with replacing(folder / file) as scratch:
                    scratch.write_bytes(files[file])
