"""What the documentation shows works as shown."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path

import numpy as np
import pytest
import yaml

from fedincent import run
from fedincent.campaigns.sweep import combinations
from fedincent.cli import main
from fedincent.config.compose import compose
from fedincent.config.groups import options_of
from tests.conftest import ROOT, TINY


def blocks(page: str, language: str) -> list[str]:
    """The code blocks of one language on a page."""
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / "docs" / page).read_text(encoding="utf-8"), flags=re.S)


def own_folder(name: str, python: str, settings: str) -> None:
    """my_folder with a mechanism's two files."""
    Path("my_folder/conf/mechanism").mkdir(parents=True, exist_ok=True)
    Path(f"my_folder/{name}.py").write_text(python)
    Path(f"my_folder/conf/mechanism/{name}.yaml").write_text(settings)


def test_a_mechanism_of_ones_own(capsys: pytest.CaptureFixture[str]) -> None:
    """The page's first two files and its commands, in an empty folder."""
    python, settings, commands = (blocks("add-a-mechanism.md", kind)[0] for kind in ("python", "yaml", "sh"))
    assert len(python.splitlines()) <= 30
    own_folder("proportional", python, settings)
    for command in commands.splitlines():
        program, *arguments = shlex.split(command)
        assert program == "fedincent"
        main([*arguments, *TINY])
        printed = capsys.readouterr().out
        assert "IPR" in printed
    assert printed.count("IPR") == 3 + 1  # the sweep over three mechanisms, and its table
    main(["list", "mechanisms", "--plugins", "my_folder"])
    assert "the mean update, scaled by contribution" in capsys.readouterr().out
    with pytest.raises(SystemExit) as ended:
        main(["run", "--plugins", "my_folder", "mechanism=proportional", "mechanism.floor=2"])
    assert ended.value.code == 2 and "mechanism.floor=2.0: must be ≥ 0 and ≤ 1" in capsys.readouterr().err


def test_a_mechanism_with_two_jobs_per_client() -> None:
    """The page's Ditto: at µ = 0 a client's own model is trained alone, and the common one is FedAvg's, whatever µ."""
    python, settings, command = (blocks("add-a-mechanism.md", kind)[1] for kind in ("python", "yaml", "sh"))
    assert len(python.splitlines()) <= 45
    own_folder("my_ditto", python, settings)
    overrides = [*shlex.split(command)[4:], *TINY]
    os.environ["FEDINCENT_PLUGINS"] = "my_folder"
    pulled = run([*overrides, "executor=serial"])
    assert {"own_accuracy_gain", "opt_outs"} <= set(pulled.summary) and "fedavg_own_accuracy" in pulled.clients
    spread = run([*overrides, "executor=processes", "results_dir=other"])
    assert (spread.path / "clients.csv").read_bytes() == (pulled.path / "clients.csv").read_bytes()
    free = run([*overrides, "mechanism.mu=0"])
    alone = run(["mechanism=standalone", "client_test_fraction=0.3", *TINY])
    np.testing.assert_array_equal(free.clients.own_loss, alone.clients.own_loss)
    hard = run([*overrides, "mechanism.mu=300", "training.optimizer=sgd"])
    gaps = [abs(one.clients.own_loss - one.clients.fedavg_loss).mean() for one in (hard, free)]
    assert gaps[0] < gaps[1]


@pytest.mark.parametrize(
    "page", sorted(p.relative_to(ROOT).as_posix() for p in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
)
def test_links_lead_somewhere(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", text):
        assert ((ROOT / page).parent / target).exists(), f"{page} links to {target}"


PAGES = sorted(p.relative_to(ROOT).as_posix() for p in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
SHELL = [(page, block) for page in PAGES for block in re.findall(r"```sh\n(.*?)```", (ROOT / page).read_text(), flags=re.S)]
WITH_FILES = ("--plugins", "mine.npz")  # carried out below, with the files that their pages show
LINES = [(page, line) for page, block in SHELL for line in block.replace("\\\n", " ").splitlines() if line.strip()]
COMMANDS = [(page, line) for page, line in LINES if not any(word in line for word in WITH_FILES)]


@pytest.mark.parametrize(("page", "line"), COMMANDS)
def test_every_command_of_the_docs(page: str, line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On the embedded digits a command is carried out, made small; what needs other data or days is checked, not done."""
    program, *words = shlex.split(line, comments=True)
    if program == "make":
        subprocess.run(["make", "--dry-run", *words], cwd=ROOT, check=True, capture_output=True)
        return
    if program == "python":
        assert (ROOT / words[0]).is_file()
        return
    assert program == "fedincent", line
    others = any(word.startswith("dataset=") and word != "dataset=digits" for word in words)
    if words[:2] == ["run", "-m"] and others:
        assert all(compose(line) for line in combinations(words[2:]))
        return
    if "--sweep" in words and others:
        with pytest.raises(SystemExit):
            main(words)
        assert "no stored run" in capsys.readouterr().err
        return
    if words[0] == "run":
        small = [] if "--show" in words else ["rounds=2", "model=logistic", "executor=serial"]
        small += ["n_clients=4"] if not any(word.startswith("n_clients") for word in words) else []
        main([*words, *small, *(["--show"] if others and "-m" not in words else [])])
    elif words[0] in ("table", "figure") and "--run" in words:
        main(["--dry-run" if word == "--run" else word for word in words])
    elif words[0] == "audit":
        main([*words, "--dry-run"])
    elif words[0] == "compare":
        for name in words[1:]:
            mechanism, _, partition = name.split("-")
            main(["run", f"mechanism={mechanism}", f"partition={partition}", "n_clients=4", "rounds=2", "model=logistic"])
        main(words)
    elif words[0] in ("report", "scoreboard", "pack", "unpack", "rm") or "--sweep" in words:
        main(["run", "n_clients=4", "rounds=2", "model=logistic", "executor=serial"])
        if words[0] == "unpack":
            main(["pack", words[1], "--move"])
        main([word for word in words if word != "--open"])
    else:
        main(words)
    assert capsys.readouterr().out


def test_data_and_a_partition_of_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """add-data.md: its files, and its commands as they stand but for the rounds."""
    data, partition = blocks("add-data.md", "python")
    (settings,) = blocks("add-data.md", "yaml")
    exec(data, {})
    (tmp_path / "my_folder" / "conf" / "partition").mkdir(parents=True)
    (tmp_path / "my_folder" / "halves.py").write_text(partition)
    (tmp_path / "my_folder" / "conf" / "partition" / "halves.yaml").write_text(settings)
    for command in blocks("add-data.md", "sh"):
        main([*shlex.split(command)[1:], "rounds=2", "executor=serial"])
        assert "IPR" in capsys.readouterr().out


def test_a_table_of_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = blocks("tables.md", "yaml")[0]
    (tmp_path / "my_folder" / "conf" / "table").mkdir(parents=True)
    (tmp_path / "my_folder" / "conf" / "table" / "mine.yaml").write_text(settings)
    main(["table", "mine", "--plugins", "my_folder", "--dry-run"])
    assert len(capsys.readouterr().out.splitlines()) == 2 * 2 * (3 + 1)  # settings × seeds × (mechanisms and baseline)
    main(["table", "mine", "--plugins", "my_folder"])
    out = capsys.readouterr().out
    assert "times best by IPR" in out and "(paper)" not in out and out.count("missing") == 18


def test_a_figure_of_ones_own(own_results: Path) -> None:
    """tables.md: its file and its command, made small: two panels, two lines, three seeds."""
    settings = blocks("tables.md", "yaml")[1]
    Path("my_folder/conf/figure").mkdir(parents=True)
    Path("my_folder/conf/figure/gains.yaml").write_text(settings)
    (command,) = [line for line in LINES if "figure gains" in line[1]]
    main([*shlex.split(command[1])[1:], "n_clients=4", "rounds=4", "model=logistic"])
    assert (own_results / "figures" / "gains.png").stat().st_size > 10_000
    assert len(list((own_results / "runs").glob("*/summary.json"))) == 2 * 2 * 3 + 2 * 3  # and their baselines


def test_a_behaviour_of_ones_own(capsys: pytest.CaptureFixture[str]) -> None:
    """audit.md: its two files and its command, made small; and a mechanism of one's own beside it."""
    (python,), (settings,) = blocks("audit.md", "python"), blocks("audit.md", "yaml")
    Path("my_folder/conf/behaviour").mkdir(parents=True)
    Path("my_folder/half.py").write_text(python)
    Path("my_folder/conf/behaviour/part.yaml").write_text(settings)
    mechanism, choice = blocks("add-a-mechanism.md", "python")[0], blocks("add-a-mechanism.md", "yaml")[0]
    own_folder("audited", mechanism, choice.replace("proportional.", "audited."))
    command = blocks("audit.md", "sh")[1].strip().replace("mechanism=fedavg,cgsv", "mechanism=fedavg,audited")
    main([*shlex.split(command)[1:], "n_clients=6", "rounds=2", "model=logistic"])
    out = capsys.readouterr().out
    assert "part" in out and "zeros" in out and "audited" in out and "–" not in out.split("Gain of one client")[0]


def test_the_worked_example_of_the_metrics() -> None:
    from fedincent.evaluation.metrics import summarise

    alone, final = np.array([0.5, 0.6, 0.7, 0.8]), np.array([0.6, 0.7, 0.68, 0.9])
    columns = {"accuracy": final, "loss": 1 - final, "reference_accuracy": alone, "reference_loss": 1 - alone}
    found = summarise({**columns, "strict": False})
    assert (found["ipr_accuracy"], found["accuracy_mean"], found["accuracy_max"]) == (0.75, pytest.approx(0.72), 0.9)
    assert found["pearson"] == pytest.approx(0.89, abs=0.005) and found["accuracy_gain"] == pytest.approx(0.07)


@pytest.mark.parametrize("name", sorted(options_of("mechanism")))
def test_every_mechanism_has_its_page_with_every_knob(name: str) -> None:
    text = (ROOT / "docs" / "mechanisms" / f"{name}.md").read_text(encoding="utf-8")
    content = yaml.safe_load((ROOT / "conf" / "mechanism" / f"{name}.yaml").read_text(encoding="utf-8"))
    knobs = content.get("mechanism", content)
    for knob, value in knobs.items():
        if knob != "_target_":
            shown = {None: "null"}.get(value, str(value))
            wanted = rf"\| `{knob}` \| {'.*' if '$' in shown else re.escape(shown)} \|"
            assert re.search(wanted, text), f"{knob}={shown} is not in the table"
    assert f"({name}.md)" in (ROOT / "docs" / "mechanisms" / "README.md").read_text(encoding="utf-8")
