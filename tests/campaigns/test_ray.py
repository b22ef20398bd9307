"""Ray for real: a cluster of two nodes on this machine, one of which is killed in the middle of a table."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from fedincent.cli import main
from fedincent.store.folder import receive
from fedincent.store.result import Result
from tests.campaigns.conftest import table_command

pytest.importorskip("ray", reason="not run: Ray is not installed (pip install 'fedincent[ray]')")
pytestmark = pytest.mark.xdist_group("ray")  # one after the other: a cluster of one test would be found by another


def test_no_cluster_at_an_address(small_table: str, capsys: pytest.CaptureFixture[str]) -> None:
    """First in this file: a cluster of another test may take a while to be gone."""
    with pytest.raises(SystemExit) as ended:
        main(table_command(small_table, Path("results"), 1, "launcher=ray", "launcher.address=auto")[3:])
    assert ended.value.code == 2 and "no Ray cluster is reached there" in capsys.readouterr().err


@pytest.fixture
def cluster() -> Iterator[Any]:
    """A Ray cluster whose head has one core; a second node can be added and killed."""
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    yield made
    made.shutdown()


def same_results(one: Path, other: Path) -> None:
    """All files of all runs byte for byte, the summaries but for timings."""
    folders = sorted(path.name for path in (one / "runs").iterdir())
    assert folders == sorted(path.name for path in (other / "runs").iterdir())
    for name in folders:
        for file in ("clients.csv", "partition.csv", "rounds.csv", "config.yaml"):
            assert (one / "runs" / name / file).read_bytes() == (other / "runs" / name / file).read_bytes(), (name, file)
        first, second = (json.loads((store / "runs" / name / "summary.json").read_text()) for store in (one, other))
        assert first.pop("seconds") and second.pop("seconds") and first == second


def worker_of(node: Any, line: str) -> bool:
    """Whether a line on a start names a worker process of a node."""
    process = line.rsplit("process ", 1)[1].rstrip(")\n")
    parent = subprocess.run(["ps", "-o", "ppid=", "-p", process], capture_output=True, text=True, check=False).stdout.strip()
    return parent == str(node.all_processes["raylet"][0].process.pid)


@pytest.mark.parametrize("store", ["auto", "returned"])
def test_a_node_that_dies_costs_no_result(store: str, cluster: Any, small_table: str, own_results: Path) -> None:
    """12 runs on two nodes, one killed after the third result: all 12 there, equal to those of launcher=local."""
    longer = Path(small_table) / "conf" / "table" / "small.yaml"
    longer.write_text(longer.read_text().replace("rounds=40", "rounds=100"))
    node = cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    command = table_command(
        small_table, own_results, 2, "launcher=ray", f"launcher.address={cluster.address}", f"launcher.store={store}"
    )
    driver = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    assert driver.stderr is not None
    next(line for line in driver.stderr if line.startswith("[3/12 done"))
    next(line for line in driver.stderr if "start" in line and worker_of(node, line))
    cluster.remove_node(node, allow_graceful=False)
    rest = driver.stderr.read()
    assert driver.wait() == 0, rest
    assert "[12/12 done, 0 running, 0 queued, 0 failed" in rest and "its worker died" in rest, rest
    main(table_command(small_table, own_results.parent / "local", 2)[3:])
    same_results(own_results, own_results.parent / "local")


def test_a_run_that_fails_by_itself(small_table: str, own_results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = Path(small_table) / "conf" / "table" / "small.yaml"
    content = yaml.safe_load(path.read_text())
    content["overrides"][1] = "rounds=2"
    content["columns"]["wild"] = ["mechanism=rank", "mechanism.validation=held_out"]  # there is no held-out data
    path.write_text(yaml.safe_dump(content))
    with pytest.raises(SystemExit) as ended:
        main(table_command(small_table, own_results, 1, "launcher=ray")[3:])
    printed = capsys.readouterr().err
    assert ended.value.code == 1 and "2 of 8 runs failed" in printed and "held_out=0" in printed
    assert "again" not in printed.replace("tries those again", "")


def test_a_run_that_could_never_start_is_refused(small_table: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(table_command(small_table, Path("results"), 1, "launcher=ray", "launcher.gpus=64")[3:])
    assert ended.value.code == 2 and "this machine has not what a run is to have: 1 CPU, 64 GPU" in capsys.readouterr().err


def test_files_of_a_run_can_be_sent(tmp_path: Path, tiny: list[str]) -> None:
    import fedincent

    there = fedincent.run(tiny).path
    receive(tmp_path / "elsewhere", there.name, Result(there, {}).files())
    arrived = tmp_path / "elsewhere" / "runs" / there.name
    assert {p.name for p in arrived.iterdir()} - {"run.lock"} == set(Result(there, {}).files())
    assert all((arrived / name).read_bytes() == content for name, content in Result(there, {}).files().items())
