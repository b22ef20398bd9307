"""Checkpoints: tensors in one file with a checksum; no pickle."""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from fedincent.store.files import replacing

DTYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}


def save_tensors(path: Path, tensors: dict[str, torch.Tensor], facts: dict[str, Any]) -> None:
    """Tensors and facts as one safetensors file with a checksum, atomically."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    metadata = {"facts": json.dumps(facts), "crc32": str(checksum(tensors))}
    with replacing(path) as scratch:
        write_safetensors(scratch, tensors, metadata)


def write_safetensors(path: Path, tensors: dict[str, torch.Tensor], metadata: dict[str, str]) -> None:
    """The safetensors format, straight from the tensors' memory: the library copies all of them before it writes.

    Length of the header (8 bytes), the header as JSON (filled up with blanks to a multiple of 8), then the bytes of the
    tensors one after the other, the widest numbers first, so that each begins where its type may.
    """
    names = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    header: dict[str, Any] = {"__metadata__": metadata}
    begin = 0
    for name in names:
        tensor = tensors[name]
        end = begin + tensor.nbytes
        header[name] = {"dtype": DTYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [begin, end]}
        begin = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name in names:
            file.write(bytes_of(tensors[name]))


def load_tensors(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
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


def checksum(tensors: dict[str, torch.Tensor]) -> int:
    """CRC-32 over names and bytes."""
    crc = 0
    for name in sorted(tensors):
        crc = zlib.crc32(name.encode(), crc)
        crc = zlib.crc32(bytes_of(tensors[name]), crc)
    return crc


def bytes_of(tensor: torch.Tensor) -> memoryview:
    """A contiguous tensor's memory, not a copy of it."""
    return memoryview(tensor.view(-1).view(torch.uint8).numpy())
