"""Files: whole or not there, and numbers exactly as they were written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from fedincent.store.files import read_frame, replacing, write_text
from fedincent.store.tensors import load_tensors, save_tensors


def test_numbers_come_back_exactly(tmp_path: Path) -> None:
    numbers = np.random.default_rng(0).random(2000)
    frame = pd.DataFrame({"client": range(2000), "loss": numbers, "gap": [None, 1.5] * 1000})
    write_text(tmp_path / "a.csv", frame.to_csv(index=False))
    back = read_frame((tmp_path / "a.csv").read_text())
    assert (back.loss.to_numpy() == numbers).all() and back.client.dtype.kind == "i" and back.gap.isna().sum() == 1000


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    write_text(tmp_path / "a.txt", "old")
    with pytest.raises(RuntimeError), replacing(tmp_path / "a.txt") as scratch:
        scratch.write_text("half")
        raise RuntimeError
    assert (tmp_path / "a.txt").read_text() == "old" and [p.name for p in tmp_path.iterdir()] == ["a.txt"]


def test_tensors_and_their_checksum(tmp_path: Path) -> None:
    path = tmp_path / "a.safetensors"
    save_tensors(path, {"a": torch.arange(5.0), "b": torch.ones(3, dtype=torch.float64).expand(2, 3)}, {"round": 3})
    tensors, facts = load_tensors(path)
    assert facts == {"round": 3} and tensors["a"].tolist() == [0, 1, 2, 3, 4] and tensors["b"].shape == (2, 3)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match="checksum"):
        load_tensors(path)
    path.write_bytes(content[:40])
    with pytest.raises(ValueError, match="damaged"):
        load_tensors(path)
