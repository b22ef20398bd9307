"""Writing files so that they are either whole or not there."""

from __future__ import annotations

import contextlib
import csv
import json
import os
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

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


def read_frame(path: Path) -> pd.DataFrame:
    """A CSV file of numbers, each exactly as it was written: IPR compares for equality. An empty field is NaN."""
    import pandas as pd

    with path.open(newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    values = [[float("nan") if v == "" else int(v) if v.isdigit() else float(v) for v in row] for row in rows]
    return pd.DataFrame(values, columns=header)


def save_tensors(path: Path, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
    """Tensors and facts as one safetensors file with a checksum, atomically."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    metadata = {"facts": json.dumps(facts), "crc32": str(checksum(tensors))}
    with replacing(path) as scratch:
        save_file(tensors, scratch, metadata=metadata)


def load_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What `save_tensors` wrote; ValueError if the file is damaged."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        facts = json.loads(metadata["facts"])
    except (SafetensorError, KeyError, json.JSONDecodeError, OSError) as error:
        raise ValueError(f"{path} is damaged: {error}") from error
    if metadata.get("crc32") != str(checksum(tensors)):
        raise ValueError(f"{path} is damaged: its checksum does not fit")
    return tensors, facts


def checksum(tensors: dict[str, Tensor]) -> int:
    """CRC-32 over names and bytes."""
    crc = 0
    for name in sorted(tensors):
        crc = zlib.crc32(name.encode(), crc)
        crc = zlib.crc32(tensors[name].view(-1).view(torch.uint8).numpy(), crc)
    return crc
