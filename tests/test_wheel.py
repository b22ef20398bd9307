"""The built wheel, installed away from the checkout, has everything it needs to run."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

from tests.conftest import ROOT, TINY


def test_the_wheel_runs_without_the_checkout(tmp_path: Path) -> None:
    """The dependencies are lent to the empty environment by path; fedincent itself comes from the wheel alone."""
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path / "dist"), str(ROOT)]
    subprocess.run(build, check=True, capture_output=True)
    wheel = next((tmp_path / "dist").glob("fedincent-*.whl"))
    venv.create(tmp_path / "empty", with_pip=True)
    python = tmp_path / "empty" / "bin" / "python"
    subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", wheel], check=True)
    site = Path(
        subprocess.run(
            [python, "-c", "import site; print(site.getsitepackages()[0])"], capture_output=True, text=True, check=True
        ).stdout.strip()
    )
    environment = {**os.environ, "PYTHONPATH": f"{site}{os.pathsep}{sysconfig.get_paths()['purelib']}"}
    where = subprocess.run(
        [python, "-c", "import fedincent; print(fedincent.__file__)"],
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
    )
    assert str(tmp_path) in where.stdout
    run = subprocess.run(
        [tmp_path / "empty" / "bin" / "fedincent", "run", *TINY],
        capture_output=True,
        text=True,
        env=environment,
        cwd=tmp_path,
    )
    assert run.returncode == 0, run.stderr
    assert "Pearson ρ" in run.stdout
