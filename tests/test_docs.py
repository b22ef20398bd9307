"""What the documentation shows works as shown."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from fedincent.cli import main
from tests.conftest import ROOT, TINY


def blocks(page: str, language: str) -> list[str]:
    """The code blocks of one language on a page."""
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / "docs" / page).read_text(encoding="utf-8"), flags=re.S)


def test_a_mechanism_of_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The page's two files and its commands, in an empty folder."""
    (python,), (yaml,), (commands,) = (blocks("add-a-mechanism.md", kind) for kind in ("python", "yaml", "sh"))
    assert len(python.splitlines()) <= 30
    (tmp_path / "my_folder" / "conf" / "mechanism").mkdir(parents=True)
    (tmp_path / "my_folder" / "proportional.py").write_text(python)
    (tmp_path / "my_folder" / "conf" / "mechanism" / "proportional.yaml").write_text(yaml)
    for command in commands.splitlines():
        program, *arguments = shlex.split(command)
        assert program == "fedincent"
        main([*arguments, *TINY])
        printed = capsys.readouterr().out
        assert "IPR" in printed
    assert printed.count("IPR") == 3  # the sweep over three mechanisms
    main(["list", "mechanisms", "--plugins", "my_folder"])
    assert "the mean update, scaled by contribution" in capsys.readouterr().out
    with pytest.raises(SystemExit) as ended:
        main(["run", "--plugins", "my_folder", "mechanism=proportional", "mechanism.floor=2"])
    assert ended.value.code == 2 and "mechanism.floor=2.0: must be ≥ 0 and ≤ 1" in capsys.readouterr().err


@pytest.mark.parametrize(
    "page", sorted(p.relative_to(ROOT).as_posix() for p in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
)
def test_links_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", text):
        assert ((ROOT / page).parent / target).exists(), f"{page} links to {target}"
