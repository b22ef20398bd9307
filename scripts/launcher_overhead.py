"""What a launcher costs: 24 tiny runs through each, wall time beside the sum of the runs; into results/bench/launchers.md.

Usage: python scripts/launcher_overhead.py    (Ray and SLURM are measured where they are installed; SLURM needs root)
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from fedincent.training.processes import cores

ROOT = Path(__file__).resolve().parent.parent
RUNS = 24
TINY = ["mechanism=standalone", "n_clients=5", "rounds=20", "model=logistic", f"seed=range(0,{RUNS})"]
CLUSTER = ROOT / "scripts" / "slurm_test_cluster.sh"


def measure(launcher: list[str], folder: Path) -> tuple[float, float]:
    """Wall time of the sweep, and the sum of what its runs report, in seconds."""
    results = folder / launcher[0].replace("=", "-")
    begun = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "fedincent", "run", "-m", *TINY, f"results_dir={results}", *launcher],
        check=True,
        capture_output=True,
    )
    wall = time.perf_counter() - begun
    summaries = [json.loads(path.read_text()) for path in results.glob("runs/*/summary.json")]
    assert len(summaries) == RUNS
    return wall, sum(summary["seconds"]["total"] for summary in summaries)


def main() -> None:
    """Measure what is there, and write the table."""
    lines = ["| launcher | wall, s | sum of the runs, s | cores | wall · cores − sum, per run, s |", "|---|---|---|---|---|"]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        launchers = {
            "one process after the other (`fedincent run -m`)": ([], 1),
            "`launcher=local`": (["launcher=local"], cores()),
        }
        if importlib.util.find_spec("ray"):
            launchers["`launcher=ray`"] = (["launcher=ray"], cores())
        slurm = importlib.util.find_spec("submitit") and shutil.which("slurmctld") and os.geteuid() == 0
        if slurm:
            os.environ["SLURM_TEST_CPUS"] = str(cores())
            subprocess.run([CLUSTER, "up", folder / "slurm"], check=True)
            os.environ["SLURM_CONF"] = str(folder / "slurm" / "slurm.conf")
            launchers["`launcher=slurm`"] = (
                ["launcher=slurm", "launcher.memory_gb=0.5", "launcher.poll_seconds=1"],
                cores(),
            )
        try:
            for name, (launcher, used) in launchers.items():
                wall, total = measure(launcher or ["hydra/launcher=basic"], folder)
                lines.append(f"| {name} | {wall:.1f} | {total:.1f} | {used} | {(wall * used - total) / RUNS:.2f} |")
                print(lines[-1])
        finally:
            if slurm:
                subprocess.run([CLUSTER, "down", folder / "slurm"], check=True)
    output = ROOT / "results" / "bench" / "launchers.md"
    output.write_text("\n".join(lines) + "\n")
    print("file:", output.relative_to(ROOT))


if __name__ == "__main__":
    main()
