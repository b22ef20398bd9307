"""Published results: the finished runs of a paper, say, as one file that is read as it is.

    results/published/NAME.zip
        runs.json                what runs there are: their summaries, and the checksum of every file
        RUN/config.yaml  RUN/clients.csv  RUN/rounds.csv  …
The file ends in the checksum of all that comes before. The same runs give the same bytes. No run ever writes here.
"""

from __future__ import annotations

import functools
import hashlib
import json
import re
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fedincent.errors import FedincentError
from fedincent.store.files import read_frame, replacing
from fedincent.store.result import RESULT_FILES, Files, Result, checked_summary

FORMAT = 1
FOLDER = "published"
MANIFEST = "runs.json"
DIGEST = 64  # signs of the checksum at the file's end
NUMBERS = tuple(name for name in RESULT_FILES if name.endswith(".csv"))  # the files in which a run's numbers are
RUN_NAME = re.compile(r"[\w+=-][\w.+=-]*")


class PackError(FedincentError):
    """A pack that is not as it was written."""


class Pack:
    """A pack, its checksum verified."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            check_digest(path)
            with zipfile.ZipFile(path) as archive:
                names = archive.namelist()
                manifest = json.loads(archive.read(MANIFEST))
            self.runs = self.check(manifest, names)
        except (OSError, ValueError, KeyError, AttributeError, TypeError, zlib.error, zipfile.BadZipFile) as error:
            raise PackError(f"{path} is damaged: {error}") from error

    def check(self, manifest: Any, names: list[str]) -> dict[str, dict[str, Any]]:
        """The runs that a manifest names; an error where the pack holds anything else than their files."""
        if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
            raise PackError(f"{self.path} is no pack of format {FORMAT}; a newer fedincent may read it")
        runs: dict[str, dict[str, Any]] = manifest["runs"]
        wanted = {f"{run}/{file}" for run, entry in runs.items() for file in entry["files"] if file != "summary.json"}
        strange = [name for name in names if name not in wanted and name != MANIFEST]
        strange += [run for run in runs if not RUN_NAME.fullmatch(run)]
        strange += [file for entry in runs.values() for file in entry["files"] if file not in RESULT_FILES]
        if strange or len(names) != len(wanted) + 1:
            what = f"holds {strange[0]}, which is no file of a run" if strange else "does not hold all files of its runs"
            raise PackError(f"{self.path} is refused: it {what}")
        return runs

    def results(self) -> dict[str, Result]:
        """All its runs by name; ValueError where a summary is not one."""
        return {name: self.result(name) for name in self.runs}

    def result(self, name: str) -> Result:
        """One of its runs."""
        try:
            summary = checked_summary(json.loads(self.runs[name]["summary"]))
        except (ValueError, KeyError, TypeError) as error:
            raise PackError(f"{self.path}: the summary of {name} {error}") from error
        return Result(self.path / name, summary, functools.partial(self.read, name))

    def read(self, run: str, file: str) -> bytes | None:
        """The content of a run's file, its checksum verified; None where there is none."""
        entry = self.runs[run]
        if file not in entry["files"]:
            return None
        if file == "summary.json":
            content = entry["summary"].encode()
        else:
            try:
                content = self.archive.read(f"{run}/{file}")
            except (OSError, KeyError, zlib.error, zipfile.BadZipFile) as error:
                raise PackError(f"{self.path} is damaged at {run}/{file}: {error}") from error
        if hashlib.sha256(content).hexdigest() != entry["files"][file]:
            raise PackError(f"{self.path} is damaged: the checksum of {run}/{file} does not fit")
        return content

    def sums(self, name: str) -> dict[str, str]:
        """The checksums of the files in which a run's numbers are."""
        return {file: value for file, value in self.runs[name]["files"].items() if file in NUMBERS}

    @functools.cached_property
    def archive(self) -> zipfile.ZipFile:
        """The open file."""
        return zipfile.ZipFile(self.path)

    def files(self) -> dict[str, Files]:
        """All files of all runs."""
        return {run: {file: self.read(run, file) or b"" for file in entry["files"]} for run, entry in self.runs.items()}


def check_digest(path: Path) -> None:
    """ValueError unless a file ends in the checksum of what comes before."""
    with path.open("rb") as file:
        left = file.seek(0, 2) - DIGEST
        file.seek(0)
        digest = hashlib.sha256()
        while left > 0:
            piece = file.read(min(left, 1 << 20))
            digest.update(piece)
            left -= len(piece) or left
        if file.read() != digest.hexdigest().encode():
            raise ValueError("its checksum does not fit")


def packs(results_dir: Path) -> list[Path]:
    """The packs of a results folder."""
    return sorted((results_dir / FOLDER).glob("*.zip"))


@functools.lru_cache(maxsize=32)
def opened(path: Path, stamp: tuple[int, int]) -> Pack:
    """A pack as it was at a moment (time and size)."""
    return Pack(path)


def open_pack(path: Path) -> Pack:
    """A pack, read once as long as it does not change."""
    try:
        stat = path.stat()
    except OSError as error:
        raise PackError(f"{path} cannot be read: {error.strerror}") from error
    return opened(path, (stat.st_mtime_ns, stat.st_size))


def published_result(results_dir: Path, name: str) -> Result | None:
    """The published run of a name; packs that cannot be read are passed over: `verify` names them."""
    for path in packs(results_dir):
        try:
            pack = open_pack(path)
            if name in pack.runs:
                return pack.result(name)
        except (PackError, ValueError):
            continue
    return None


def write_pack(path: Path, runs: Mapping[str, Files]) -> None:
    """Some runs' files as a pack, atomically; the same runs give the same bytes."""
    manifest: dict[str, Any] = {"format": FORMAT, "runs": {}}
    for name in sorted(runs):
        sums = {file: hashlib.sha256(runs[name][file]).hexdigest() for file in RESULT_FILES if file in runs[name]}
        manifest["runs"][name] = {"summary": runs[name]["summary.json"].decode(), "files": sums}
    with replacing(path) as scratch:
        with zipfile.ZipFile(scratch, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            archive.comment = b"0" * DIGEST
            put(archive, MANIFEST, json.dumps(manifest, indent=1, ensure_ascii=False).encode())
            for name, entry in manifest["runs"].items():
                for file in entry["files"]:
                    if file != "summary.json":
                        put(archive, f"{name}/{file}", runs[name][file])
        with scratch.open("rb+") as file:
            content = file.read()
            file.seek(len(content) - DIGEST)
            file.write(hashlib.sha256(content[:-DIGEST]).hexdigest().encode())


def put(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    """One file, the same whenever and wherever it is written."""
    entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    entry.compress_type, entry.create_system, entry.external_attr = zipfile.ZIP_DEFLATED, 3, 0o644 << 16
    archive.writestr(entry, content)


def merge(into: dict[str, Files], more: Mapping[str, Files], places: tuple[str, str], replace: bool = False) -> int:
    """Add runs to those of a pack, or put them in the place of the same ones; how many are new.

    The same run with other numbers is an error that names both places, unless it is to be replaced. Of two with the same
    numbers the one with the finer curve stays, else the one that comes.
    """
    new = 0
    for name, files in more.items():
        there = into.get(name)
        if there is not None and not replace:
            apart = [file for file in NUMBERS if differ(there, files, file)]
            if apart:
                raise FedincentError(
                    f"{name} has other numbers in {places[1]} than in {places[0]} ({', '.join(apart)}); remove one of them, "
                    "or run it anew to see which is right (fedincent pack --replace takes the new one)"
                )
            if columns(there) > columns(files):
                continue
        into[name] = dict(files)
        new += there is None
    return new


def columns(files: Files) -> int:
    """How many columns rounds.csv has: more where curves were judged."""
    return files.get("rounds.csv", b"").split(b"\n", 1)[0].count(b",")


def differ(a: Files, b: Files, file: str) -> bool:
    """Whether two runs' numbers in one file are not the same; a curve that only one of them has is no difference."""
    if a.get(file) == b.get(file):
        return False
    if file != "rounds.csv" or file not in a or file not in b:
        return True
    one, other = (read_frame(files[file].decode()) for files in (a, b))
    shared = [name for name in one if name in other]
    return len(one) != len(other) or not one[shared].equals(other[shared])
