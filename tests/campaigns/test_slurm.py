"""SLURM for real: a cluster of one node on this machine (scripts/slurm_test_cluster.sh), and jobs through submitit."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fedincent.campaigns.slurm import note_of
from fedincent.cli import main
from tests.campaigns.conftest import table_command
from tests.conftest import ROOT

SCRIPT = ROOT / "scripts" / "slurm_test_cluster.sh"
FAST = ["launcher=slurm", "launcher.memory_gb=0.5", "launcher.poll_seconds=0.5", "launcher.grace_seconds=5"]
pytestmark = pytest.mark.slurm


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The test cluster; a test that needs it says that it was not run where SLURM is not installed."""
    pytest.importorskip("submitit", reason="not run: submitit is not installed (pip install 'fedincent[slurm]')")
    missing = [name for name in ("slurmctld", "slurmd", "munged", "sbatch") if shutil.which(name) is None]
    if missing or os.geteuid() != 0:
        pytest.skip(
            f"not run: {', '.join(missing) + ' not installed' if missing else 'only root can start a SLURM cluster'}"
        )
    folder = tmp_path_factory.mktemp("slurm")
    subprocess.run([SCRIPT, "up", folder], check=True)
    os.environ["SLURM_CONF"] = str(folder / "slurm.conf")
    yield
    subprocess.run([SCRIPT, "down", folder], check=True)
    del os.environ["SLURM_CONF"]


def jobs_of(results: Path) -> dict[str, str]:
    """Which run is which job, by the run's tag."""
    ledger = json.loads((results / "launch" / "slurm.json").read_text())
    return {tag: entry["job"] for tag, entry in ledger.items()}


def in_queue() -> list[str]:
    """The ids of all jobs that wait or run."""
    asked = subprocess.run(
        ["squeue", "--me", "--array", "--noheader", "--format=%i"], capture_output=True, text=True, check=True
    )
    return asked.stdout.split()


def state_of(job: str) -> str:
    """What SLURM says of a job."""
    asked = subprocess.run(
        ["squeue", f"--jobs={job}", "--noheader", "--format=%T"], capture_output=True, text=True, check=True
    )
    return asked.stdout.strip()


def equal_to_local(small_table: str, results: Path) -> None:
    """All six runs are there, byte for byte as launcher=local makes them."""
    main(table_command(small_table, results.parent / "local")[3:])
    folders = list((results.parent / "local" / "runs").iterdir())
    assert len(folders) == 6
    for folder in folders:
        assert (folder / "clients.csv").read_bytes() == (results / "runs" / folder.name / "clients.csv").read_bytes()


def test_a_cancelled_job_is_recovered(slurm: None, small_table: str, own_results: Path) -> None:
    driver = subprocess.Popen(
        table_command(small_table, own_results, 1, *FAST), stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True
    )
    assert driver.stderr is not None
    next(line for line in driver.stderr if line.startswith("[2/6 done") and "start" in line)
    running = subprocess.run(
        ["squeue", "--me", "--array", "--noheader", "--states=R", "--format=%i"], capture_output=True, text=True, check=True
    ).stdout.split()
    subprocess.run(["scancel", running[0]], check=True)
    rest = driver.stderr.read()
    assert driver.wait() == 0, rest
    assert "cancelled, or its node died" in rest and "[6/6 done, 0 running, 0 queued, 0 failed" in rest
    equal_to_local(small_table, own_results)


def test_detached_jobs_go_on_and_are_found_again(
    slurm: None, small_table: str, own_results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(table_command(small_table, own_results, 1, *FAST, "--detach")[3:])
    assert "detached" in capsys.readouterr().err
    first = jobs_of(own_results)
    assert len(first) == 6
    main(["status", "--results", str(own_results)])
    assert "SLURM jobs: " in capsys.readouterr().out
    main(table_command(small_table, own_results, 1, *FAST)[3:])
    printed = capsys.readouterr().err
    assert "that were launched before and go on" in printed and "0 failed" in printed
    assert jobs_of(own_results) == first, "a run that was in the queue was launched twice"
    equal_to_local(small_table, own_results)


def test_a_killed_driver_leaves_its_jobs_to_the_next(slurm: None, small_table: str, own_results: Path) -> None:
    driver = subprocess.Popen(table_command(small_table, own_results, 1, *FAST), stderr=subprocess.PIPE, text=True)
    assert driver.stderr is not None
    next(line for line in driver.stderr if "start" in line)
    driver.send_signal(signal.SIGKILL)
    driver.wait()
    first = jobs_of(own_results)
    main(table_command(small_table, own_results, 1, *FAST)[3:])
    assert jobs_of(own_results) == first
    assert len(list(own_results.glob("runs/*/summary.json"))) == 6


def test_ctrl_c_leaves_nothing_in_the_queue(slurm: None, small_table: str, own_results: Path) -> None:
    driver = subprocess.Popen(table_command(small_table, own_results, 1, *FAST), stderr=subprocess.PIPE, text=True)
    assert driver.stderr is not None
    next(line for line in driver.stderr if "start" in line)
    driver.send_signal(signal.SIGINT)
    assert driver.wait(20) == 130
    deadline = time.monotonic() + 20
    while in_queue() and time.monotonic() < deadline:
        time.sleep(0.5)
    assert in_queue() == []


def test_a_job_that_meets_its_time_limit_goes_on(slurm: None, small_table: str, own_results: Path) -> None:
    """submitit's signal before the limit, here sent by hand: the job is queued again and resumes from its checkpoint."""
    longer = Path(small_table) / "conf" / "table" / "small.yaml"
    longer.write_text(longer.read_text().replace("rounds=40", "rounds=400"))
    command = table_command(small_table, own_results, 1, "--only", "mechanism=iafl", "--only", "setting=iid", *FAST)
    driver = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    assert driver.stderr is not None
    next(line for line in driver.stderr if line.startswith("[1/2 done") and "start" in line)
    folder = next(own_results.glob("runs/iafl*"), None)
    while folder is None or not (folder / "checkpoint.safetensors").is_file():
        assert driver.poll() is None
        time.sleep(0.1)
        folder = next(own_results.glob("runs/iafl*"), None)
    (job,) = in_queue()
    subprocess.run(["scancel", "--signal=USR2", job], check=True)
    while "REQUEUE" not in (state := state_of(job)) and "PENDING" not in state:
        assert driver.poll() is None
        time.sleep(0.1)
    assert not [tag for tag, own in jobs_of(own_results).items() if own == job and note_of(own_results, tag).is_file()]
    rest = driver.stderr.read()
    assert driver.wait() == 0, rest
    assert "[2/2 done" in rest and "its worker died" not in rest
    assert len(set(jobs_of(own_results).values())) == 2
    log = next((own_results / "launch" / "slurm").glob(f"{job}*/*log.out")).read_text()
    assert "resumed after round" in log


def test_a_run_that_fails_by_itself_is_not_tried_again(
    slurm: None, small_table: str, own_results: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(small_table) / "conf" / "table" / "small.yaml"
    path.write_text(
        path.read_text().replace("rounds=40", "rounds=2") + "  wild: [mechanism=rank, mechanism.validation=held_out]\n"
    )
    line = table_command(small_table, own_results, 1, "--only", "setting=iid", "--only", "mechanism=wild,iafl", *FAST)
    with pytest.raises(SystemExit) as ended:
        main(line[3:])
    printed = capsys.readouterr().err
    assert ended.value.code == 1 and "1 of 3 runs failed" in printed and "held_out=0" in printed
    assert "its worker died" not in printed and len(set(jobs_of(own_results).values())) == 3
    main(["status", "--results", str(own_results)])
    shown = capsys.readouterr().out
    assert "SLURM jobs: 1 failed" in shown and "held_out=0" in shown


def test_a_refused_job_says_why(slurm: None, small_table: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(table_command(small_table, Path("results"), 1, *FAST, "launcher.partition=nowhere")[3:])
    assert ended.value.code == 1 and "sbatch refused a job" in capsys.readouterr().err
    assert in_queue() == []


def test_without_slurm(small_table: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("submitit", reason="not run: submitit is not installed (pip install 'fedincent[slurm]')")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SystemExit) as ended:
        main(table_command(small_table, Path("results"), 1, *FAST)[3:])
    assert ended.value.code == 2 and "there is no SLURM here" in capsys.readouterr().err
