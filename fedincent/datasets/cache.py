"""From a data set's files to memory-mapped arrays: parsed once, kept in the cache folder, never half-written."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import tempfile
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock

from fedincent.datasets.base import Data, Dataset, cache_folder
from fedincent.errors import DataError, FedincentError

ARRAYS = ("x_train", "y_train", "x_test", "y_test")
FORMAT = 5  # raise it when what is written below changes


def load(dataset: Dataset) -> Data:
    """The arrays of a data set, memory-mapped; the first time its files are found (or fetched) and parsed."""
    folder = dataset.folder()
    paths = locate(dataset, folder)
    if not paths:
        target = folder if os.access(folder, os.W_OK) else cache_folder() / "data"
        target.mkdir(parents=True, exist_ok=True)
        with FileLock(target / f".{dataset.name}.lock"):
            paths = locate(dataset, target)
            if not paths:
                dataset.download(target)
                paths = locate(dataset, target)
        if not paths:
            raise dataset.not_found()
    return from_cache(dataset, paths)


def locate(dataset: Dataset, root: Path) -> list[Path]:
    """`<root>/<name>.npz` where somebody put one, else the official files."""
    own = root / f"{dataset.name}.npz"
    return [own] if dataset.name and own.is_file() else dataset.find(root)


def from_cache(dataset: Dataset, paths: list[Path]) -> Data:
    """Parse the files into the cache unless that was done for these very files before; then map the arrays."""
    entry = entry_of(dataset, paths)
    if not (entry / "meta.json").is_file():
        entry.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{entry}.lock"):
            if not (entry / "meta.json").is_file():
                write_entry(entry, dataset, paths)
    try:
        meta = json.loads((entry / "meta.json").read_text())
        arrays = {name: np.load(entry / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in ARRAYS}
        groups = np.load(entry / "groups.npy", allow_pickle=False) if (entry / "groups.npy").is_file() else None
    except (OSError, ValueError) as error:
        raise DataError(f"the cached arrays in {entry} are damaged ({error}); delete that folder and run again") from error
    return Data(
        name=dataset.name,
        **arrays,
        kind=meta["kind"],
        n_classes=meta["n_classes"],
        vocabulary=meta["vocabulary"],
        groups=groups,
        words=tuple(meta["words"]),
        mean=tuple(meta["mean"]),
        std=tuple(meta["std"]),
        fingerprint=meta["fingerprint"],
        checksum=meta["checksum"],
    )


def fingerprint_here(dataset: Dataset) -> str | None:
    """The fingerprint of a data set whose files are here and were read before; None else."""
    try:
        paths = locate(dataset, dataset.folder())
        entry = entry_of(dataset, paths) if paths else None
        return None if entry is None else json.loads((entry / "meta.json").read_text())["fingerprint"]
    except (FedincentError, OSError, ValueError, KeyError):
        return None


def entry_of(dataset: Dataset, paths: list[Path]) -> Path:
    """The folder of the cache that holds what was read from some files."""
    return cache_folder() / "arrays" / f"{dataset.name}-{source_key(dataset, paths)}"


def source_key(dataset: Dataset, paths: list[Path]) -> str:
    """Tells one set of source files from another by path, size and time, and one way of reading them from another."""
    stats = [(str(p.resolve()), p.stat().st_size, p.stat().st_mtime_ns) for p in paths]
    return hashlib.sha256(repr((FORMAT, dataset.identity(), stats)).encode()).hexdigest()[:12]


def write_entry(entry: Path, dataset: Dataset, paths: list[Path]) -> None:
    """Parse, check and describe the arrays in a scratch folder, then move it into place."""
    raw = read_files(dataset, paths)
    arrays = {name: np.ascontiguousarray(raw[name]) for name in ARRAYS}
    meta = {**describe(arrays, int(raw.get("vocabulary", 0)), paths), "words": raw.get("words", [])}
    meta["checksum"] = meta["fingerprint"]
    own = dataset.own_file or paths[0].suffix == ".npz"
    if own or not dataset.arrays_alone:
        meta["fingerprint"] = with_more(meta["fingerprint"], raw)
    if not raw.get("standardised", True):  # as they are
        meta |= {"mean": [0.0] * len(meta["mean"]), "std": [1.0] * len(meta["std"])}
        meta["fingerprint"] = hashlib.sha256(f"{meta['fingerprint']} as it is".encode()).hexdigest()
    scratch = Path(tempfile.mkdtemp(prefix=f".{dataset.name}-", dir=entry.parent))
    try:
        for name, array in arrays.items():
            np.save(scratch / f"{name}.npy", array, allow_pickle=False)
        if raw.get("groups") is not None:
            np.save(scratch / "groups.npy", raw["groups"], allow_pickle=False)
        (scratch / "meta.json").write_text(json.dumps(meta, indent=1))
        shutil.rmtree(entry, ignore_errors=True)
        scratch.rename(entry)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def with_more(fingerprint: str, raw: dict[str, Any]) -> str:
    """A fingerprint that also tells apart by vocabulary, words and whom samples are from, where a data set has such."""
    digest = hashlib.sha256(fingerprint.encode())
    for name in ("vocabulary", "words", "groups"):
        value = raw.get(name)
        if value is None or (name == "vocabulary" and not value):
            continue
        digest.update(name.encode() + (np.asarray(value).tobytes() if name == "groups" else json.dumps(value).encode()))
        fingerprint = digest.hexdigest()
    return fingerprint


def read_files(dataset: Dataset, paths: list[Path]) -> dict[str, Any]:
    """The four arrays as the files hold them; a file that cannot be read as what it should be is reported as damaged."""
    names = ", ".join(str(p) for p in paths[:2]) + (", …" if len(paths) > 2 else "")
    try:
        if len(paths) == 1 and paths[0].suffix == ".npz" and not dataset.reads_npz:
            return read_npz(paths[0])
        return dataset.read(paths)
    except (OSError, ValueError, KeyError, EOFError, IndexError, zipfile.BadZipFile) as error:
        raise DataError(f"dataset={dataset.name}: {names} is damaged or not of the expected format: {error}") from error


def read_npz(path: Path) -> dict[str, Any]:
    """x_train, y_train, x_test, y_test of an npz file; three-dimensional images get their one channel."""
    try:
        opened = np.load(path, allow_pickle=False)
    except ValueError as error:  # NumPy advises to load pickles
        raise ValueError("it is no .npz file of plain arrays") from error
    if not hasattr(opened, "files"):
        raise ValueError("it holds one array, not the four of numpy.savez")
    with opened as archive:
        missing = [name for name in ARRAYS if name not in archive.files]
        if missing:
            raise ValueError(f"no array named {missing[0]} (there are: {', '.join(archive.files)})")
        arrays = {name: archive[name] for name in ARRAYS}
        vocabulary = int(archive["vocabulary"]) if "vocabulary" in archive.files else 0
    for name in ("x_train", "x_test"):
        if arrays[name].ndim == 3:
            arrays[name] = arrays[name][..., None]
    for name in ("y_train", "y_test"):
        numbers = np.issubdtype(arrays[name].dtype, np.floating) and bool((arrays[name] % 1).any())
        arrays[name] = arrays[name].reshape(-1).astype(np.float64 if numbers else np.int64)
    if arrays["y_train"].dtype != arrays["y_test"].dtype:
        arrays |= {name: arrays[name].astype(np.float64) for name in ("y_train", "y_test")}
    for name, array in arrays.items():
        if np.issubdtype(array.dtype, np.floating) and not np.isfinite(array).all():
            raise ValueError(f"{name} holds NaN or infinite values")
    check_labels(arrays["y_train"], arrays["y_test"])
    for name in ("x_train", "x_test"):
        if arrays[name].ndim == 2 and np.issubdtype(arrays[name].dtype, np.integer) and not vocabulary:
            arrays[name] = arrays[name].astype(np.float32)  # numbers, not words: those come with a vocabulary
    return {**arrays, "vocabulary": vocabulary}


def check_labels(train: np.ndarray, test: np.ndarray) -> None:
    """ValueError unless labels are 0 … K−1, each of them among the training samples; numeric targets are anything."""
    if np.issubdtype(train.dtype, np.floating) or not len(train) or not len(test):
        return
    known = np.unique(train)
    if known[0] != 0 or known[-1] != len(known) - 1:
        some = ", ".join(map(str, known[:4])) + (", …" if len(known) > 4 else "")
        raise ValueError(f"labels must be 0, 1, … {len(known) - 1}; y_train holds {some}: number the classes anew")
    only = np.setdiff1d(test, known)
    if len(only):
        raise ValueError(f"class {only[0]} is in y_test, but not in y_train")


def describe(arrays: dict[str, np.ndarray], vocabulary: int, paths: list[Path]) -> dict[str, Any]:
    """Kind, classes, standardisation and fingerprint of four arrays that fit together; an error where they do not."""
    x_train, y_train, x_test, y_test = (arrays[name] for name in ARRAYS)
    if len(x_train) != len(y_train) or len(x_test) != len(y_test) or not len(x_train) or not len(x_test):
        sizes = ", ".join(f"{k} {len(v)}" for k, v in arrays.items())
        raise DataError(f"{paths[0]}: samples and labels do not match: {sizes}")
    if x_train.shape[1:] != x_test.shape[1:]:
        raise DataError(f"{paths[0]}: training samples are {x_train.shape[1:]}, test samples {x_test.shape[1:]}")
    if x_train.ndim not in (2, 4) or 0 in x_train.shape:
        wanted = "n×d features, n×height×width (×channels) images or n×length tokens"
        raise DataError(f"{paths[0]}: x_train has shape {x_train.shape}; samples are {wanted}")
    regression = np.issubdtype(y_train.dtype, np.floating)
    if not regression and (y_train.min() < 0 or y_test.min() < 0):
        raise DataError(f"{paths[0]}: labels must be 0, 1, …; found {min(y_train.min(), y_test.min())}")
    kind = "image" if x_train.ndim == 4 else "text" if np.issubdtype(x_train.dtype, np.integer) else "features"
    mean, std = ((), ()) if kind == "text" else moments(x_train)
    digest = hashlib.sha256()
    for name in ARRAYS:
        digest.update(repr((name, arrays[name].dtype.str, arrays[name].shape)).encode())
        digest.update(arrays[name])
    return {
        "kind": kind,
        "n_classes": 0 if regression else int(max(y_train.max(), y_test.max())) + 1,
        "vocabulary": max(vocabulary, int(x_train.max()) + 1, int(x_test.max()) + 1) if kind == "text" else 0,
        "mean": list(mean),
        "std": list(std),
        "fingerprint": digest.hexdigest(),
        "source": [str(p) for p in paths[:8]],
    }


def moments(x: np.ndarray) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Mean and standard deviation per last axis (channel or feature); a constant one gets deviation 1."""
    axes = tuple(range(x.ndim - 1))
    total, square = np.zeros(x.shape[-1]), np.zeros(x.shape[-1])
    for start in range(0, len(x), 4096):  # in pieces: float64 of a whole image set would not fit a laptop
        piece = x[start : start + 4096].astype(np.float64)
        total += piece.sum(axes)
        square += (piece**2).sum(axes)
    count = x.size / x.shape[-1]
    mean = total / count
    std = np.sqrt(np.maximum(square / count - mean**2, 0.0))
    return tuple(mean.tolist()), tuple(np.where(std > 1e-8, std, 1.0).tolist())


def verify(dataset: Dataset) -> str:
    """Compare the cached arrays with the checksum taken when they were written; the checksum, or an error."""
    data = load(dataset)
    arrays = {name: np.asarray(getattr(data, name)) for name in ARRAYS}
    found = describe(arrays, data.vocabulary, [Path(dataset.name)])["fingerprint"]
    if found != data.checksum:
        raise DataError(f"dataset={dataset.name}: the cached arrays have sha256 {found}, expected {data.checksum}")
    return data.checksum
