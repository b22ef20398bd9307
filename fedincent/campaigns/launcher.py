"""What a launcher is: it takes orders for runs, and tells how they stand. The store is where results meet.

The plan (plan.py) decides what is run and what again; a launcher only knows how to start runs on its engine, how
to look at them and how to end them. A run that ends by itself, well or not, is never repeated; one whose worker is gone
("lost") is, and goes on from its checkpoint.
"""

from __future__ import annotations

import contextlib
import io
import logging
import sys
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, TextIO

import yaml

from fedincent.config.groups import read_group
from fedincent.config.schema import Component, build, option
from fedincent.errors import ConfigError, FedincentError
from fedincent.evaluation.metrics import one_line
from fedincent.store.identity import Key

QUEUED, RUNNING, DONE, FAILED, LOST = "queued", "running", "done", "failed", "lost"


@dataclass(frozen=True)
class Order:
    """One run to be carried out."""

    tag: str  # short, the same whenever the same run is ordered
    label: str  # for people, and for the log's name
    overrides: tuple[str, ...]
    builds_on: tuple[Key, ...] = ()  # keys in the store of the runs it builds on
    after: tuple[str, ...] = ()  # handles of runs in flight that must end well first; only where the engine `chains`


@dataclass(frozen=True)
class State:
    """How a run stands."""

    phase: str
    where: str = ""
    message: str = ""  # of a failed or lost one: why, and where its log is


@dataclass(kw_only=True)
class Launcher(Component):
    """Base of all launchers."""

    group: ClassVar[str] = "launcher"

    chains: ClassVar[bool] = False  # whether the engine itself can hold a run back until another has ended
    pause: ClassVar[float] = 0.05  # seconds between two looks

    retries: int = option("how often a run is started again whose worker or node died", low=0)

    def __post_init__(self) -> None:
        self.at_once: int | None = None

    @property
    def on_gpu(self) -> bool:
        """Whether the runs are carried out on GPUs, where they do not say."""
        return bool(getattr(self, "gpus", 0))

    @property
    def numerics(self) -> str:
        """In which numerics runs are computed that do not say: what they build on must be in the same."""
        return "cuda" if self.on_gpu else "exact"

    def open(self, results_dir: Path, at_once: int | None) -> dict[str, str]:
        """Get ready to carry out runs, so many at once (none: as the engine likes); the handles of those still in flight
        from an earlier time, by tag."""
        raise NotImplementedError

    def room(self, in_flight: int) -> int:
        """How many more runs may be ordered now; `at_once` is set by `open`, none where the queue is the engine's."""
        return (self.at_once or 1_000_000) - in_flight

    def submit(self, orders: Sequence[Order]) -> list[str]:
        """Order runs; a handle of each."""
        raise NotImplementedError

    def states(self, handles: Sequence[str]) -> dict[str, State]:
        """How the runs stand; one that has ended is not asked about again."""
        raise NotImplementedError

    def cancel(self, handles: Sequence[str]) -> None:
        """End runs that are in flight."""
        raise NotImplementedError

    def close(self) -> None:
        """Let go of the engine."""


def overrides_of(order: Order, results_dir: Path, gpus: float) -> list[str]:
    """The overrides by which a worker carries out a run: on one core, or on the GPU that the engine has given it.

    Where the order itself says where to compute, or what to keep, that holds.
    """
    given = {word.split("=", 1)[0].split(".")[0] for word in order.overrides}
    where = ["device=cuda"] if gpus else ["executor=serial", "device=cpu"]
    words = [] if given & {"executor", "device"} else where
    words += [] if "keep_checkpoint" in given else ["keep_checkpoint=false"]
    return [*order.overrides, *words, f"results_dir={results_dir}"]


class Tee(io.StringIO):
    """Keeps what is written, and passes it on."""

    def __init__(self, onto: TextIO) -> None:
        super().__init__()
        self.onto = onto

    def write(self, text: str) -> int:
        self.onto.write(text)
        self.onto.flush()
        return super().write(text)


def run_here(overrides: list[str]) -> tuple[str | None, str]:
    """In a worker: one run in this process. Gives what went wrong (or none), and its whole output."""
    from fedincent.config.compose import compose
    from fedincent.runs.runner import run

    heard = Tee(sys.stdout)
    failed = True
    with contextlib.redirect_stdout(heard), contextlib.redirect_stderr(heard):
        logging.basicConfig(format="%(levelname)s: %(message)s", level=logging.WARNING, force=True)  # onto this output
        try:
            result = run(compose(overrides))
            print(f"{one_line(result.summary)}\nfiles: {result.path}")
            failed = False
        except FedincentError as error:
            print(f"fedincent: {error}")
        except KeyboardInterrupt:
            print("fedincent: interrupted; the same command goes on from the last checkpoint")
        except Exception:
            traceback.print_exc()
    output = heard.getvalue()
    return last_words(output) if failed else None, output


def last_words(output: str) -> str:
    """What a run that failed said of it: its last message, which may have several lines, else its last line."""
    lines = output.strip().splitlines() or ["no output"]
    messages = [place for place, line in enumerate(lines) if line.startswith("fedincent: ")]
    return " ".join(lines[messages[-1] :]).removeprefix("fedincent: ") if messages else lines[-1]


def log_of(order: Order, results_dir: Path) -> Path:
    """Where a run's output goes."""
    name = "".join(c if c.isalnum() or c in "=._-" else "-" for c in order.label)[:180]
    return results_dir / "logs" / f"{name}.log"


def load_launcher(overrides: Sequence[str]) -> tuple[Launcher, list[str]]:
    """The launcher that `launcher=NAME launcher.FIELD=VALUE` among some overrides describe, and the other overrides."""
    own = [o for o in overrides if o.split("=", 1)[0].split(".")[0] == "launcher"]
    rest = [o for o in overrides if o not in own]
    name, fields = "local", {}
    for override in own:
        key, sign, text = override.partition("=")
        if not sign:
            raise ConfigError("launcher", override, "must be launcher=NAME or launcher.FIELD=VALUE")
        if key == "launcher":
            name = text
        else:
            try:
                fields[key.removeprefix("launcher.")] = yaml.safe_load(text)
            except yaml.YAMLError as error:
                raise ConfigError(
                    key, text, "cannot be read; a list is [A, B], a text with special signs is quoted"
                ) from error
    try:
        return build({**read_group("launcher", name), **fields}, "launcher"), rest
    except ConfigError as error:
        if not error.allowed.startswith("no such field"):
            raise
        at_once = "; how many at once: --jobs" if "job" in error.field else ""
        why = error.allowed.replace("no such field", f"no such field of launcher={name}", 1)
        raise ConfigError(error.field, error.value, f"{why}{at_once}") from error
