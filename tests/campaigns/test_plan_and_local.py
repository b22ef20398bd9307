"""Carrying out a plan: what is ordered when, what is done again and what is not; and processes of this machine."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import pytest

import fedincent
from fedincent.campaigns.launcher import (
    DONE,
    FAILED,
    LOST,
    RUNNING,
    Launcher,
    Order,
    State,
    last_words,
    load_launcher,
    overrides_of,
)
from fedincent.campaigns.local import Local
from fedincent.campaigns.plan import Job, Wish, carry_out, missing_jobs, tag_of
from fedincent.cli import main
from fedincent.config.compose import compose
from fedincent.errors import ConfigError, FedincentError
from fedincent.store.index import Index
from tests.campaigns.conftest import table_command


@dataclass(kw_only=True)
class Scripted(Launcher):
    """An engine whose runs end as a script says: for each tag the phases of its attempts, done where there are none."""

    chains: ClassVar[bool] = False
    pause: ClassVar[float] = 0.0

    script: dict[str, list[str]] = field(default_factory=dict)
    orders: list[Order] = field(default_factory=list)
    cancelled: list[str] = field(default_factory=list)
    in_flight: dict[str, str] = field(default_factory=dict)
    closed: bool = False

    def open(self, results_dir: Path, at_once: int | None) -> dict[str, str]:
        self.at_once = at_once or 100
        return self.in_flight

    def submit(self, orders: Sequence[Order]) -> list[str]:
        self.orders += orders
        return [f"{order.tag}#{len(self.orders)}-{place}" for place, order in enumerate(orders)]

    def states(self, handles: Sequence[str]) -> dict[str, State]:
        endings = [self.script.get(handle.split("#")[0], []) for handle in handles]
        return {h: State(e.pop(0) if e else DONE, message="so it was") for h, e in zip(handles, endings, strict=True)}

    def cancel(self, handles: Sequence[str]) -> None:
        self.cancelled += handles

    def close(self) -> None:
        self.closed = True


class Chaining(Scripted):
    """The same, but runs can be ordered to wait for others."""

    chains: ClassVar[bool] = True


def jobs() -> dict[str, Job]:
    """A baseline with two runs on it, and one that stands alone."""
    return {
        "base": Job("base", ["x=0"]),
        "a": Job("a", ["x=1"], ("base",), ("base",)),
        "b": Job("b", ["x=2"], ("base",), ("base",)),
        "c": Job("c", ["x=3"]),
    }


def labels(launcher: Scripted) -> list[str]:
    """What was ordered, in order."""
    return [order.label for order in launcher.orders]


def test_runs_wait_for_their_baseline(tmp_path: Path) -> None:
    launcher = Scripted(retries=2, script={tag_of("base"): [RUNNING, RUNNING]})
    assert carry_out(jobs(), launcher, tmp_path, None, False) == []
    assert labels(launcher) == ["base", "c", "a", "b"] and launcher.closed
    assert [order.builds_on for order in launcher.orders] == [(), (), ("base",), ("base",)]
    assert not any(order.after for order in launcher.orders)


def test_an_engine_that_can_wait_gets_all_at_once(tmp_path: Path) -> None:
    launcher = Chaining(retries=2)
    carry_out(jobs(), launcher, tmp_path, None, True)
    assert sorted(labels(launcher)) == ["a", "b", "base", "c"] and launcher.cancelled == []
    after = {order.label: order.after for order in launcher.orders}
    assert after["base"] == after["c"] == () and after["a"] == after["b"] == (f"{tag_of('base')}#2-0",)


def test_no_more_at_once_than_asked_for(tmp_path: Path) -> None:
    launcher = Scripted(retries=2, script={tag_of("base"): [RUNNING] * 5})
    assert carry_out(jobs(), launcher, tmp_path, 1, False) == []
    assert labels(launcher) == ["base", "a", "b", "c"]


def test_a_lost_run_is_tried_again_but_not_for_ever(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    launcher = Scripted(retries=2, script={tag_of("c"): [LOST, LOST, LOST, LOST], tag_of("base"): [LOST]})
    failures = carry_out(jobs(), launcher, tmp_path, None, False)
    assert labels(launcher).count("c") == 3 and labels(launcher).count("base") == 2
    assert failures == ["c: its worker died 3 times; the last time: so it was"]
    assert capsys.readouterr().err.count("again") == 3


def test_a_run_that_fails_by_itself_is_not_tried_again(tmp_path: Path) -> None:
    launcher = Scripted(retries=2, script={tag_of("base"): [FAILED]})
    failures = carry_out(jobs(), launcher, tmp_path, None, False)
    assert labels(launcher) == ["base", "c"]
    assert failures == ["base: so it was", "a: a run that it builds on failed", "b: a run that it builds on failed"]


def test_runs_that_waited_for_a_lost_baseline_have_lost_no_try(tmp_path: Path) -> None:
    """The engine drops what waits for a run that is gone; only the gone one has used up a try."""
    tries = {tag_of("base"): [LOST], tag_of("a"): [LOST], tag_of("b"): [LOST]}
    launcher = Chaining(retries=1, script=tries)
    assert carry_out(jobs(), launcher, tmp_path, None, False) == []
    tries = {tag_of("base"): [RUNNING, LOST], tag_of("a"): [LOST, LOST, DONE]}
    launcher = Chaining(retries=1, script=tries)
    assert carry_out(jobs(), launcher, tmp_path, None, False) == []


def test_what_is_in_flight_is_not_ordered_again(tmp_path: Path) -> None:
    launcher = Chaining(retries=2, in_flight={tag_of("base"): f"{tag_of('base')}#old", "stranger": "x"})
    assert carry_out(jobs(), launcher, tmp_path, None, False) == []
    assert sorted(labels(launcher)) == ["a", "b", "c"]
    assert {order.after for order in launcher.orders} == {(f"{tag_of('base')}#old",), ()}


def test_an_error_of_ours_leaves_jobs_that_can_go_on_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    class Refusing(Chaining):
        def states(self, handles: Sequence[str]) -> dict[str, State]:
            raise FedincentError("the queue does not answer")

    launcher = Refusing(retries=2)
    with pytest.raises(FedincentError):
        carry_out(jobs(), launcher, tmp_path, None, False)
    assert launcher.cancelled == [] and launcher.closed and "the jobs go on" in capsys.readouterr().err


def test_what_a_failed_run_said() -> None:
    assert last_words("round 3\nfedincent: client 3 diverged\nLower training.lr") == "client 3 diverged Lower training.lr"
    assert last_words("Traceback\n  File x\nValueError: no") == "ValueError: no" and last_words("") == "no output"


def test_a_wanted_standalone_run_keeps_its_curve(tmp_path: Path) -> None:
    common = ["n_clients=5", "rounds=2", "model=logistic", "eval_every=1"]
    lines = [[*common, f"mechanism={name}"] for name in ("iafl", "standalone")]
    planned = missing_jobs([Wish(line, compose(line)) for line in lines], Index(tmp_path))
    assert len(planned) == 2 and all("eval_every=1" in job.overrides for job in planned.values())


def test_an_interruption_ends_what_is_in_flight(tmp_path: Path) -> None:
    class Interrupted(Scripted):
        def states(self, handles: Sequence[str]) -> dict[str, State]:
            raise KeyboardInterrupt

    launcher = Interrupted(retries=2)
    with pytest.raises(KeyboardInterrupt):
        carry_out(jobs(), launcher, tmp_path, None, False)
    assert len(launcher.cancelled) == 2 and launcher.closed


def test_where_a_run_computes() -> None:
    """On one core, also where there is a GPU that nobody asked for; or on the GPU that the engine gave it."""
    order = Order("t", "l", ("seed=1",))
    assert overrides_of(order, Path("r"), 0) == [
        "seed=1", "executor=serial", "device=cpu", "keep_checkpoint=false", "results_dir=r",
    ]  # fmt: skip
    own = overrides_of(Order("t", "l", ("device=cuda", "executor=vectorized", "keep_checkpoint=true")), Path("r"), 0)
    assert own == ["device=cuda", "executor=vectorized", "keep_checkpoint=true", "results_dir=r"]
    assert "device=cuda" in overrides_of(order, Path("r"), 0.5) and "executor=serial" not in overrides_of(
        order, Path("r"), 0.5
    )


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["launcher=rya"], "did you mean 'ray'"),
        (["launcher=slurm", "launcher.partitions=x"], "did you mean 'partition'"),
        (["launcher=slurm", "launcher.minutes=0"], "launcher.minutes=0: must be ≥ 1"),
        (["launcher.retries=often"], "launcher.retries=often: must be a whole number"),
        (["launcher=ray", "launcher.store=here"], "must be one of auto, returned"),
        (["launcher"], "must be launcher=NAME or launcher.FIELD=VALUE"),
        (["launcher.retries=[1"], "cannot be read"),
    ],
)
def test_a_wrong_launcher_is_named(words: list[str], message: str) -> None:
    with pytest.raises(ConfigError, match=message.replace("[", r"\[")):
        load_launcher(words)


def test_launchers_and_runs_share_a_line() -> None:
    launcher, rest = load_launcher(["seed=1", "launcher.retries=5", "training.lr=0.1"])
    assert isinstance(launcher, Local) and launcher.retries == 5 and rest == ["seed=1", "training.lr=0.1"]
    launcher, _ = load_launcher(
        ["launcher=slurm", "launcher.preamble=[module load cuda, source x]", "launcher.extra={qos: long}"]
    )
    assert launcher.preamble == ("module load cuda", "source x") and launcher.extra == {"qos": "long"}  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "line",
    [
        ["table", "iafl-1", "launcher=local"],
        ["run", "launcher=local"],
        ["run", "--detach"],
        ["table", "small", "--run", "--detach"],
        ["run", "-m", "seed=0,1", "--jobs", "2"],
        ["table", "small", "--run", "--detach", "--jobs", "2", "launcher=slurm"],
    ],
)
def test_a_launcher_without_runs_to_launch_is_refused(
    line: list[str], small_table: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*line, "--plugins", small_table])
    assert ended.value.code == 2
    words = capsys.readouterr().err
    assert "goes with" in words or "only launcher=slurm" in words or "cannot be kept to" in words


def process_of(line: str) -> int:
    """The process that a line on a start names."""
    return int(line.rsplit("process ", 1)[1].rstrip(")\n"))


def runs(process: int) -> bool:
    """Whether a process is there."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_a_killed_process_is_started_again(small_table: str, own_results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """kill -9 of a run's process: it goes on from its checkpoint, and the result is that of a run nobody disturbed."""
    driver = subprocess.Popen(table_command(small_table, own_results), stderr=subprocess.PIPE, text=True)
    assert driver.stderr is not None
    victim = next(line for line in driver.stderr if "start" in line)
    os.kill(process_of(victim), signal.SIGKILL)
    rest = driver.stderr.read()
    assert driver.wait() == 0 and "ended by signal 9" in rest and "[6/6 done" in rest
    main(table_command(small_table, own_results / "again")[3:])
    for folder in (own_results / "again" / "runs").iterdir():
        assert (folder / "clients.csv").read_bytes() == (own_results / "runs" / folder.name / "clients.csv").read_bytes()


def test_ctrl_c_leaves_nothing_running(small_table: str, own_results: Path) -> None:
    driver = subprocess.Popen(table_command(small_table, own_results), stderr=subprocess.PIPE, text=True)
    assert driver.stderr is not None
    process = process_of(next(line for line in driver.stderr if "start" in line))
    assert runs(process)
    driver.send_signal(signal.SIGINT)
    assert driver.wait(20) == 130
    deadline = time.monotonic() + 10
    while runs(process) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not runs(process)


def test_a_sweep_through_a_launcher(own_results: Path, tiny: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    main(["run", "-m", *tiny, f"results_dir={own_results}", "mechanism.kappa=0,1", "seed=range(0,2)", "launcher=local"])
    printed = capsys.readouterr()
    lines = [line for line in printed.out.splitlines() if line.startswith(tiny[0])]
    assert "[6/6 done" in printed.err and len(lines) == 4 and "mechanism.kappa=1" in printed.out


def test_status(own_results: Path, tiny: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    main(["status"])
    assert "0 finished" in capsys.readouterr().out
    running = subprocess.Popen(
        [sys.executable, "-m", "fedincent", "run", *tiny, "mechanism=standalone", "rounds=100000"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while not list(own_results.glob("runs/*/checkpoint.safetensors")):
        assert running.poll() is None
        time.sleep(0.1)
    main(["status"])
    shown = capsys.readouterr().out
    assert "1 running" in shown and f"process {running.pid}" in shown and "checkpoint" in shown
    running.kill()
    running.wait()
    main(["status"])
    assert "broken off" in capsys.readouterr().out


LONG = """
title: "A long table"
paper: null
metrics: [ipr_accuracy]
seeds: 1
overrides: [n_clients=3, rounds=1000000, model=logistic, reference=none, checkpoint_every=1]
rows: {iid: [digits]}
columns: {a: [mechanism=fedavg], b: [mechanism=fedavg, mechanism.weighting=equal]}
"""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGKILL", "SIGHUP", "SIGINT"])
def test_workers_end_with_whoever_ordered_them(name: str, tmp_path: Path) -> None:
    """However the command ends; and each writes a checkpoint first."""
    (tmp_path / "mine/conf/table").mkdir(parents=True)
    (tmp_path / "mine/conf/table/long.yaml").write_text(LONG)
    command = [sys.executable, "-m", "fedincent", "table", "long", "--plugins", "mine", "--run", "--jobs", "2"]
    with Path("err").open("w") as err:
        parent = subprocess.Popen(command, stderr=err, stdout=err, cwd=tmp_path, start_new_session=True)

    def workers() -> list[int]:
        return [int(found) for found in re.findall(r"\(process (\d+)\)", Path("err").read_text())]

    def checkpoints() -> list[Path]:
        return list(Path("results/runs").glob("*/checkpoint.safetensors"))

    try:
        until(lambda: len(workers()) == 2 and len(checkpoints()) == 2, 120)
        before = [path.stat().st_mtime_ns for path in checkpoints()]
        os.kill(parent.pid, getattr(signal, name))
        parent.wait(60)
        until(lambda: not any(Path(f"/proc/{worker}").exists() for worker in workers()), 60)
        assert all(path.stat().st_mtime_ns > moment for path, moment in zip(checkpoints(), before, strict=True))
        assert not list(Path("results/runs").glob("*/summary.json"))
    finally:
        for left in (parent.pid, *workers()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(left, signal.SIGKILL)


def until(true: Callable[[], bool], seconds: float) -> None:
    """Wait for something, but not for ever."""
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.05)


def test_a_run_that_is_stopped_writes_a_checkpoint_and_goes_on_to_the_same_numbers(tmp_path: Path) -> None:
    line = ["n_clients=20", "rounds=400", "model=logistic", "mechanism=iafl", "reference=none", "contribution=data_size"]
    line += ["executor=serial", "checkpoint_every=1000"]
    command = [sys.executable, "-m", "fedincent", "run", *line, "results_dir=stopped"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    assert process.stderr is not None
    next(text for text in process.stderr if "round" in text and "/400" in text)  # it is under way
    process.send_signal(signal.SIGTERM)
    assert "stopping after this round" in process.communicate(timeout=60)[1] and process.returncode == 130
    assert len(list(Path("stopped/runs").glob("*/checkpoint.safetensors"))) == 1
    whole, gone_on = (fedincent.run([*line, f"results_dir={folder}"]) for folder in ("whole", "stopped"))
    assert whole.read("clients.csv") == gone_on.read("clients.csv")
