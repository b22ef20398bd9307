"""Checkpoints: what is written straight from memory is what the library reads, and damage is found."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from fedincent.store.tensors import DTYPES, load_tensors, save_tensors, write_safetensors


@settings(max_examples=40, deadline=None)
@given(
    st.dictionaries(
        st.text(min_size=1, max_size=8).filter(lambda name: name != "__metadata__"),
        st.tuples(st.sampled_from(list(DTYPES)), st.lists(st.integers(0, 4), max_size=3)),
        max_size=6,
    )
)
def test_the_library_reads_what_we_write(shapes: dict[str, tuple[torch.dtype, list[int]]]) -> None:
    tensors = {name: (torch.rand(shape) * 100).to(dtype) for name, (dtype, shape) in shapes.items()}
    path = Path("ours.safetensors")
    write_safetensors(path, tensors, {"a": "b"})
    found = load_file(path)
    assert set(found) == set(tensors)
    for name, tensor in tensors.items():
        assert found[name].dtype == tensor.dtype and torch.equal(found[name], tensor)


def test_there_and_back_and_damage() -> None:
    path = Path("checkpoint.safetensors")
    tensors = {"models": torch.rand(3, 5)[:, ::2], "seen": torch.tensor([True, False])}  # one that is not contiguous
    save_tensors(path, tensors, {"round": 3})
    found, facts = load_tensors(path)
    assert facts == {"round": 3} and all(torch.equal(found[name], tensors[name]) for name in tensors)
    content = path.read_bytes()
    path.write_bytes(content[:-3] + bytes([content[-3] ^ 1]) + content[-2:])
    with pytest.raises(ValueError, match="checksum does not fit"):
        load_tensors(path)
    path.write_bytes(content[:40])
    with pytest.raises(ValueError, match="damaged"):
        load_tensors(path)


def test_checkpoints_of_the_librarys_own_are_read() -> None:
    save_tensors(Path("ours"), {"x": torch.arange(3.0)}, {})
    from safetensors import safe_open

    with safe_open("ours", framework="pt") as file:
        save_file({"x": file.get_tensor("x")}, "theirs", metadata=file.metadata())
    assert torch.equal(load_tensors(Path("theirs"))[0]["x"], torch.arange(3.0))
