"""Packs: what was packed comes back as it was; what is damaged is refused, and the rest goes on."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path

import pytest

import fedincent
from fedincent.cli import main
from fedincent.config.compose import compose
from fedincent.store.index import Index
from fedincent.store.pack import DIGEST, Pack, PackError, write_pack
from fedincent.store.result import RESULT_FILES


@pytest.fixture
def two_runs(tiny: list[str], own_results: Path) -> Path:
    """A results folder with iafl (with a trace) and the standalone run that it builds on."""
    fedincent.run([*tiny, "trace=true", "keep_checkpoint=false"])
    return own_results


def contents(folder: Path) -> dict[str, dict[str, bytes]]:
    return {
        path.name: {f.name: f.read_bytes() for f in path.iterdir() if f.name in RESULT_FILES} for path in folder.iterdir()
    }


def test_packed_and_unpacked(two_runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = contents(two_runs / "runs")
    main(["pack", "mine", "--move"])
    assert "2 runs added, 0 were there; 2 runs in" in capsys.readouterr().out
    assert not list((two_runs / "runs").iterdir())
    index = Index(two_runs)
    assert {r.name: r.files() for r in index.results.values()} == before and all(r.published for r in index.results.values())
    main(["unpack", "mine", "mechanism=iafl"])
    (name,) = contents(two_runs / "runs")
    assert contents(two_runs / "runs")[name] == before[name] and name.startswith("iafl-")
    assert not Index(two_runs).results[name].published  # one's own counts first


def test_the_same_runs_give_the_same_bytes(two_runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pack = two_runs / "published" / "mine.zip"
    main(["pack", "mine", "mechanism=iafl"])
    main(["pack", "mine", "mechanism=standalone"])
    one = pack.read_bytes()
    pack.unlink()
    main(["pack", "mine"])
    main(["pack", "mine"])
    assert pack.read_bytes() == one
    assert "0 runs added, 2 were there" in capsys.readouterr().out


def test_other_numbers_of_the_same_run_are_an_error(two_runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["pack", "mine"])
    clients = next((two_runs / "runs").glob("iafl-*/clients.csv"))
    clients.write_text(clients.read_text().replace("0.", "0.1", 1))
    for command in (["pack", "mine"], ["unpack", "mine"]):
        with pytest.raises(SystemExit):
            main(command)
        error = capsys.readouterr().err
        assert "has other numbers in" in error and "mine.zip" in error and "results/runs" in error and "clients.csv" in error


def test_tables_and_everything_else_read_packs(
    own_table: str, capsys: pytest.CaptureFixture[str], own_results: Path
) -> None:
    main(["table", "small", "--plugins", own_table, "--run"])
    before = {path.name: path.read_bytes() for path in (own_results / "tables").iterdir()}
    shown = capsys.readouterr().out
    main(["pack", "mine", "--move"])
    shutil.rmtree(own_results / "tables")
    capsys.readouterr()
    main(["table", "small", "--plugins", own_table, "--run"])
    printed = capsys.readouterr()
    assert printed.out == shown and "all 8 runs are there" in printed.err
    assert {path.name: path.read_bytes() for path in (own_results / "tables").iterdir()} == before
    names = sorted(name for name in Index(own_results).results if name.startswith("iafl"))[:2]
    main(["compare", *names])
    assert "(published, mine.zip)" in capsys.readouterr().out
    main(["report"])
    assert '"published":"mine"' in (own_results / "report.html").read_text()
    main(["status"])
    assert "runs: 0 finished, 12 published" in capsys.readouterr().out
    main(["table", "--sweep", "mechanism", "--metric", "accuracy_mean"])
    assert capsys.readouterr().out.count("(4)") == 2
    main(["list", "runs", "mechanism=iafl", "seed=1"])
    assert capsys.readouterr().out.splitlines()[-1] == "2 of 12 runs"


def test_a_run_builds_on_published_ones_and_never_writes_them(two_runs: Path, tiny: list[str]) -> None:
    main(["pack", "mine", "--move"])
    pack = (two_runs / "published" / "mine.zip").read_bytes()
    found = fedincent.run([*tiny, "trace=true"])
    assert found.published and not list((two_runs / "runs").iterdir())
    other = fedincent.run([*tiny, "mechanism=fedavg"])
    assert [path.name for path in (two_runs / "runs").iterdir()] == [other.name]  # the standalone run was there
    anew = fedincent.run([*tiny, "trace=true", "force=true"])
    assert not anew.published and anew.clients.equals(found.clients)
    finer = fedincent.run([*tiny, "trace=true", "eval_every=1"])
    assert not finer.published and "accuracy_mean" in finer.rounds
    assert (two_runs / "published" / "mine.zip").read_bytes() == pack


def flipped(content: bytes, place: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]


@pytest.mark.parametrize("damage", ["start", "middle", "end", "cut", "empty", "words"])
def test_a_damaged_pack_is_refused_and_the_rest_goes_on(
    damage: str, two_runs: Path, tiny: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    main(["pack", "good", "mechanism=standalone"])
    main(["pack", "bad", "mechanism=iafl", "--move"])
    path = two_runs / "published" / "bad.zip"
    content = path.read_bytes()
    damaged = {
        "start": flipped(content, 3),
        "middle": flipped(content, len(content) // 2),
        "end": flipped(content, len(content) - 1),
        "cut": content[: len(content) // 2],
        "empty": b"",
        "words": b"these are not the runs you are looking for" * 9,
    }
    path.write_bytes(damaged[damage])
    capsys.readouterr()
    main(["status"])
    out = capsys.readouterr().out
    assert "1 finished" in out and "bad.zip is damaged" in out and "get that file again" in out
    with pytest.raises(SystemExit) as ended:
        main(["verify"])
    printed = capsys.readouterr()
    assert ended.value.code == 1 and "1 runs of one's own and 1 published" in printed.out and "bad.zip" in printed.err
    main(["list", "runs"])
    assert not fedincent.run(tiny).published  # made anew


@pytest.mark.parametrize("name", ["../evil.csv", "/etc/evil", "iafl-x/../../evil.csv", "iafl-x/run.sh", "loose.csv"])
def test_a_pack_with_a_strange_path_is_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "published" / "bad.zip"
    write_pack(path, {})
    with zipfile.ZipFile(path, "w") as archive:
        archive.comment = b"0" * DIGEST
        archive.writestr("runs.json", json.dumps({"format": 1, "runs": {}}))
        archive.writestr(name, "x")
    sealed(path)
    with pytest.raises(PackError, match=r"bad\.zip is refused: it holds .*, which is no file of a run"):
        Pack(path)
    assert "refused" in Index(tmp_path).damaged[0].why


def test_a_pack_whose_manifest_names_a_strange_path_is_refused(tmp_path: Path, two_runs: Path) -> None:
    main(["pack", "mine"])
    runs = Pack(two_runs / "published" / "mine.zip").files()
    (name,) = [name for name in runs if name.startswith("iafl")]
    write_pack(tmp_path / "published" / "bad.zip", {"../evil": runs[name]})
    with pytest.raises(PackError, match="refused"):
        Pack(tmp_path / "published" / "bad.zip")


def sealed(path: Path) -> None:
    """Give a file the checksum that it should end in."""
    import hashlib

    content = path.read_bytes()[:-DIGEST]
    path.write_bytes(content + hashlib.sha256(content).hexdigest().encode())


def test_verify_recomputes_the_summary(two_runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["verify"])
    assert "2 runs of one's own and 0 published ones are right" in capsys.readouterr().out
    path = next((two_runs / "runs").glob("iafl-*/summary.json"))
    summary = json.loads(path.read_text())
    path.write_text(json.dumps({**summary, "accuracy_mean": summary["accuracy_mean"] + 0.01}))
    with pytest.raises(SystemExit):
        main(["verify"])
    assert "its summary says accuracy_mean" in capsys.readouterr().err


@pytest.mark.parametrize("content", ["[]", "{}", "{half", "null", '{"identity": 3}', ""])
def test_one_damaged_run_stops_nothing(
    content: str, two_runs: Path, tiny: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    next((two_runs / "runs").glob("iafl-*/summary.json")).write_text(content)
    for command in (["status"], ["report"], ["list", "runs"], ["table", "iafl-1", "--only", "dataset=fmnist"]):
        main(command)
    assert "1 of 1 runs" in capsys.readouterr().out
    assert fedincent.run([*tiny, "trace=true", "force=true"]).summary["accuracy_mean"] > 0


def test_rm(two_runs: Path, tiny: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    fedincent.run([*tiny, "mechanism=fedavg", "keep_checkpoint=false"])
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(["rm", "mechanism=standalone"])
    printed = capsys.readouterr()
    assert ended.value.code == 2 and "2 other runs were measured against it" in printed.out and "--yes" in printed.err
    main(["rm", "mechanism=standalone", "--yes"])
    assert sorted(name.split("-")[0] for name in Index(two_runs).results) == ["fedavg", "iafl"]
    main(["pack", "mine", "--move"])
    with pytest.raises(SystemExit):
        main(["rm", "mechanism=fedavg", "--yes"])  # published ones are not deleted
    assert len(Index(two_runs).results) == 2


def test_a_run_of_a_newer_fedincent_is_left_alone(two_runs: Path) -> None:
    path = next((two_runs / "runs").glob("iafl-*/summary.json"))
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema": 99}))
    index = Index(two_runs)
    assert len(index.results) == 1 and "newer fedincent" in index.damaged[0].why


@pytest.mark.parametrize("word", ["", "s", "iafl", "no-such-run"])
def test_rm_takes_whole_names_alone(word: str, two_runs: Path) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["rm", word, "--yes"])
    assert ended.value.code == 2 and len(Index(two_runs).results) == 2
    folder = next((two_runs / "runs").glob("iafl-*"))
    main(["rm", str(folder), "--yes"])
    assert not folder.exists()


def test_two_packs_with_other_numbers_are_told(two_runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["pack", "a"])
    folder = next((two_runs / "runs").glob("iafl-*"))
    (folder / "clients.csv").write_text((folder / "clients.csv").read_text().replace("0.", "0.1", 1))
    main(["pack", "b", "--move"])
    (damage,) = Index(two_runs).damaged
    assert damage.name.startswith("b.zip/iafl") and "other numbers than in a.zip" in damage.why
    with pytest.raises(SystemExit):
        main(["verify"])
    assert "b.zip/iafl" in capsys.readouterr().err


def test_final_models_are_not_lost_by_packing(two_runs: Path, tiny: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    kept = fedincent.run([*tiny, "mechanism=fedavg", "keep_checkpoint=true"])
    main(["pack", "mine", "--move"])
    assert "1 kept their folders: they hold final models" in capsys.readouterr().out
    assert (kept.path / "checkpoint.safetensors").is_file() and len(list((two_runs / "runs").iterdir())) == 1


def test_a_run_under_way_is_not_packed_away(two_runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from filelock import FileLock

    folder = next((two_runs / "runs").glob("iafl-*"))
    with FileLock(folder / "run.lock"):
        main(["pack", "mine", "--move"])
    assert "being worked on" in capsys.readouterr().out and (folder / "summary.json").is_file()


def test_the_finer_curve_stays_and_a_newer_summary_counts(two_runs: Path, tiny: list[str]) -> None:
    main(["pack", "mine", "--move"])
    fine = fedincent.run([*tiny, "trace=true", "eval_every=1", "keep_checkpoint=false"])
    main(["pack", "mine", "--move"])
    found = Index(two_runs).results[fine.name]
    assert found.published and found.has_curve(1)
    coarse = fedincent.run([*tiny, "trace=true", "force=true", "keep_checkpoint=false"])
    assert not coarse.has_curve(1) and Index(two_runs).find(compose([*tiny, "trace=true", "eval_every=1"])).has_curve(1)  # type: ignore[union-attr]
    path = coarse.path / "summary.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "later": 1}))
    main(["unpack", "mine"])
    assert "later" in path.read_text()  # one's own is not overwritten


def test_many_pack_at_once(two_runs: Path) -> None:
    import subprocess
    import sys

    for name in ("iafl", "standalone"):
        folder = next((two_runs / "runs").glob(f"{name}-*"))
        for k in range(40):
            copy = folder.parent / f"{name}{k}-{folder.name}"
            shutil.copytree(folder, copy)
    command = [sys.executable, "-m", "fedincent", "pack", "mine", "--results", str(two_runs)]
    both = [subprocess.Popen([*command, f"mechanism={name}"]) for name in ("iafl", "standalone")]
    assert [process.wait() for process in both] == [0, 0]
    assert len(Pack(two_runs / "published" / "mine.zip").runs) == 82


@pytest.mark.parametrize("damage", ["config: [", "[1, 2]", "\udcff", ""])
def test_one_unreadable_configuration_stops_nothing(
    damage: str, two_runs: Path, tiny: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    next((two_runs / "runs").glob("iafl-*/config.yaml")).write_bytes(damage.encode(errors="surrogateescape"))
    fedincent.run([*tiny, "mechanism=fedavg"])
    for command in (
        ["status"],
        ["report"],
        ["list", "runs", "dataset.size=16"],
        ["table", "--sweep", "mechanism", "--metric", "accuracy_mean"],
        ["rm", "mechanism=fedavg", "--yes"],
    ):
        main(command)
    with pytest.raises(SystemExit):
        main(["verify"])
    assert "iafl-digits" in capsys.readouterr().err


def test_verify_asks_whether_a_run_is_what_it_is_called(two_runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = next((two_runs / "runs").glob("iafl-*"))
    text = (folder / "summary.json").read_text()
    (folder / "summary.json").write_text(text.replace('"seed": 0', '"seed": 7'))
    with pytest.raises(SystemExit):
        main(["verify"])
    assert "named after" in capsys.readouterr().err
    (folder / "summary.json").write_text(text)
    (folder / "rounds.csv").unlink()
    with pytest.raises(SystemExit):
        main(["verify"])
    assert "it has no rounds.csv" in capsys.readouterr().err


@pytest.mark.parametrize(
    "manifest", ['{"format": 1}', '{"format": 1, "runs": []}', '{"format": 1, "runs": {"a": {}}}', "[]", "3"]
)
def test_a_manifest_that_is_none(manifest: str, tmp_path: Path) -> None:
    path = tmp_path / "published" / "bad.zip"
    write_pack(path, {})
    with zipfile.ZipFile(path, "w") as archive:
        archive.comment = b"0" * DIGEST
        archive.writestr("runs.json", manifest)
    sealed(path)
    assert len(Index(tmp_path).damaged) == 1


def test_a_pack_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "published").mkdir()
    (tmp_path / "published" / "x.zip").symlink_to("/nowhere/at/all")
    assert "cannot be read" in Index(tmp_path).damaged[0].why


def test_filters_by_value(two_runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for word, count in (("trace=true", 2), ("dataset.root=null", 2), ("training.lr=5e-3", 2), ("seed=1,2", 0), ("iafl", 1)):
        assert len(Index(two_runs).select([word])) == count, word
    with pytest.raises(SystemExit):
        main(["list", "runs", "mecanism=iafl"])
    assert "no stored run has such a field" in capsys.readouterr().err
