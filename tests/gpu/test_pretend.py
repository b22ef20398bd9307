"""The pretended GPU refuses what a real one refuses, allows what it allows, and counts."""

from __future__ import annotations

import gc

import pytest
import torch
from torch.func import vmap

from tests.gpu.pretend import PretendedGpu


def test_where_things_are() -> None:
    with PretendedGpu() as gpu:
        here, there = torch.ones(3), torch.zeros(3, device="cuda")
        assert here.device.type == "cpu" and there.device.type == "cuda" and there.is_cuda
        assert (there + 1).device.type == "cuda" and there[1:].device.type == "cuda"
        assert there.new_zeros(2).is_cuda and torch.zeros_like(there).is_cuda and not torch.zeros_like(here).is_cuda
        assert here.to("cuda").is_cuda and not there.cpu().is_cuda and here.to(there).is_cuda
        assert torch.tensor([1.0], device="cuda").is_cuda and there.to(torch.float64).is_cuda
        assert vmap(lambda row: row * 2)(torch.ones(2, 3, device="cuda")).is_cuda
        leaf = torch.ones(3, device="cuda", requires_grad=True)
        (leaf * leaf).sum().backward()
        assert leaf.grad is not None and leaf.grad.is_cuda
        assert not gpu.refused
        assert gpu.count("up") == 2 and gpu.count("down") == 1


@pytest.mark.parametrize(
    "mistake",
    [
        lambda here, there: here + there,
        lambda here, there: there.add_(here),
        lambda here, there: here.copy_(there) if False else here.add_(there),
        lambda here, there: torch.stack([here, there]),
        lambda here, there: here @ there,
        lambda here, there: there.numpy(),
        lambda here, there: here[there.long()],
        lambda here, there: there.__setitem__(torch.tensor([0, 1]), here[:2]),
        lambda here, there: torch.where(there > 0, here, there),
    ],
)
def test_what_is_refused(mistake) -> None:  # type: ignore[no-untyped-def]
    with PretendedGpu() as gpu:
        mistake(torch.ones(3), torch.zeros(3, device="cuda"))
        assert gpu.refused


def test_what_is_allowed() -> None:
    with PretendedGpu() as gpu:
        here, there = torch.ones(3), torch.zeros(3, device="cuda")
        there.copy_(here)
        here.copy_(there)
        there * torch.tensor(2.0)
        there[torch.tensor([0, 2])] = 1.0
        there[torch.tensor([0, 2])]
        there.tolist()
        assert not gpu.refused
        assert gpu.count("wait") == 1


def test_waits_and_memory() -> None:
    with PretendedGpu(memory=1000) as gpu:
        there = torch.ones(100, device="cuda")
        float(there.sum())
        bool((there > 0).any())
        there[there > 0]
        assert gpu.count("wait") == 3
        with pytest.raises(torch.OutOfMemoryError):
            torch.ones(200, device="cuda")
        del there
        gc.collect()
        torch.ones(200, device="cuda")
        assert gpu.peak <= 1000
