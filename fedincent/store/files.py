"""Writing files so that they are either whole or not there."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A scratch path beside `path` that takes its place, flushed to disk, when the block ends well."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    os.close(handle)
    scratch = Path(name)
    try:
        yield scratch
        with scratch.open("rb+") as file:
            os.fsync(file.fileno())
        scratch.chmod(0o644)
        os.replace(scratch, path)
    finally:
        scratch.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Replace a text file atomically."""
    with replacing(path) as scratch:
        scratch.write_text(text, encoding="utf-8")


def write_json(path: Path, content: Any) -> None:
    """Replace a JSON file atomically."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def read_columns(text: str) -> dict[str, list[float]]:
    """A CSV file of numbers, each exactly as it was written: IPR compares for equality. An empty field is NaN."""
    header, *rows = csv.reader(io.StringIO(text))
    values = [[float("nan") if v == "" else int(v) if v.isdigit() else float(v) for v in row] for row in rows]
    if any(len(row) != len(header) for row in values):
        raise ValueError("lines of unequal length")
    return {name: [row[k] for row in values] for k, name in enumerate(header)}


def read_frame(text: str) -> pd.DataFrame:
    """The same as a data frame."""
    import pandas as pd

    return pd.DataFrame(read_columns(text))
