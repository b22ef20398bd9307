"""Checkpoints: tensors in one file with a checksum; no pickle."""

from __future__ import annotations

import json
import os
import re
import zlib
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from fedincent.store.files import replacing


def save_tensors(path: Path, tensors: dict[str, torch.Tensor], facts: dict[str, Any]) -> None:
    """Tensors and facts as one safetensors file with a checksum, atomically."""
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    metadata = {"facts": json.dumps(facts), "crc32": str(checksum(tensors))}
    with replacing(path) as scratch:
        try:
            save_file(tensors, scratch, metadata=metadata)
        except SafetensorError as error:
            known = re.search(r"os error (\d+)", str(error))
            if known is None:
                raise
            raise OSError(int(known[1]), os.strerror(int(known[1])), str(path)) from error


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
        crc = zlib.crc32(tensors[name].view(-1).view(torch.uint8).numpy(), crc)
    return crc
