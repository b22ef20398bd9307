"""A pretended GPU: the numbers are computed on the CPU, but every storage is marked as lying here or on the card.

    with PretendedGpu() as gpu:
        …                      # a program that computes on device=cuda
    gpu.refused                # what a real card would have refused, and where
    gpu.count("wait")          # how often the host waited for the card; also launch, up and down (copies)

Two modes watch: one above autograd, where Python asks for devices and copies, and one below it, where every operation on
plain tensors comes by. A marked storage is one whose address is in `there`.
"""

from __future__ import annotations

import contextlib
import sys
import weakref
from collections import Counter
from typing import Any
from unittest import mock

import torch
from torch import Tensor
from torch._C import _functorch as functorch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

CARD = torch.device("cuda", 0)
COPIES = {"copy_", "copy", "_to_copy", "clone", "to"}  # that may go from one side to the other
TAKE_HOST_INDICES = {"index", "index_put_", "index_put", "_index_put_impl_", "_unsafe_index", "_unsafe_index_put"}
HOST_LENGTHS = {"_pack_padded_sequence", "_pad_packed_sequence", "lstm", "_pack_padded_sequence_backward"}
WAITS = {"_local_scalar_dense", "item", "nonzero", "masked_select", "equal", "is_nonzero", "_unique2", "bincount"}
NO_KERNEL = {"detach", "alias", "empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "_unsafe_view"}


def plain(tensor: Tensor) -> Tensor:
    """The tensor below what vmap wraps around it."""
    while functorch.is_functorch_wrapped_tensor(tensor):
        tensor = functorch.get_unwrapped(tensor)
    return tensor


class PretendedGpu:
    """What is on the card, and what was asked of it; `memory`: bytes that it has."""

    def __init__(self, memory: int = 1 << 40) -> None:
        self.memory, self.used, self.peak = memory, 0, 0
        self.there: set[int] = set()
        self.refused: Counter[str] = Counter()
        self.events: Counter[tuple[str, str]] = Counter()
        self.asked: list[str] = [""]  # by which functions of Python's, the innermost last
        self.forced: list[bool | None] = []  # where new tensors go, by the innermost question that Python asks

    def count(self, kind: str) -> int:
        """How often something happened: wait, launch, up (to the card) or down."""
        return sum(number for (what, _), number in self.events.items() if what == kind)

    def holds(self, tensor: Tensor) -> bool:
        """Whether a tensor lies on the card."""
        with torch._C.DisableTorchFunction():
            try:
                return plain(tensor).untyped_storage()._cdata in self.there
            except (RuntimeError, NotImplementedError):
                return False

    def take(self, tensor: Tensor) -> Tensor:
        """Mark a tensor's storage as lying on the card, until it is freed."""
        with torch._C.DisableTorchFunction():
            storage = plain(tensor).untyped_storage()
            if storage._cdata not in self.there:
                size = storage.nbytes()
                if self.used + size > self.memory:
                    raise torch.OutOfMemoryError("the pretended card is full")
                self.there.add(storage._cdata)
                self.used += size
                self.peak = max(self.peak, self.used)
                weakref.finalize(storage, self.give_back, storage._cdata, size)
        return tensor

    def give_back(self, address: int, size: int) -> None:
        self.there.discard(address)
        self.used -= size

    def place(self) -> str:
        """The line of ours that asks."""
        frame = sys._getframe(1)
        while frame is not None:
            name = frame.f_code.co_filename
            if "/fedincent/" in name and "/tests/" not in name:
                return f"{name.rpartition('/fedincent/')[2]}:{frame.f_lineno}"
            frame = frame.f_back  # type: ignore[assignment]
        return "elsewhere"

    def note(self, kind: str) -> None:
        self.events[kind, self.place()] += 1

    def refuse(self, why: str) -> None:
        self.refused[f"{self.place()}: {why}"] += 1

    def seed(self, seed: int) -> None:
        torch.default_generator.manual_seed(seed)

    def __enter__(self) -> PretendedGpu:
        self.stack = contextlib.ExitStack()
        fakes: dict[str, Any] = {
            "is_available": lambda: True,
            "is_initialized": lambda: True,
            "device_count": lambda: 1,
            "current_device": lambda: 0,
            "synchronize": lambda *device: None,
            "empty_cache": lambda: None,
            "manual_seed": self.seed,
            "mem_get_info": lambda device=None: (self.memory - self.used, self.memory),
            "memory_reserved": lambda device=None: self.used,
            "memory_allocated": lambda device=None: self.used,
        }
        for name, fake in fakes.items():
            self.stack.enter_context(mock.patch.object(torch.cuda, name, fake))
        self.stack.enter_context(Below(self))
        self.stack.enter_context(Above(self))
        return self

    def __exit__(self, *error: object) -> None:
        self.stack.close()


def asks_for_card(device: Any) -> bool | None:
    """Whether an argument names the card; None: it names nothing."""
    if device is None:
        return None
    return isinstance(device, int) or torch.device(device).type == "cuda"


class Above(TorchFunctionMode):
    """What Python asks of tensors: their device, copies to a device, new tensors on one, their numbers."""

    def __init__(self, gpu: PretendedGpu) -> None:
        super().__init__()
        self.gpu = gpu

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        gpu, kwargs, name = self.gpu, dict(kwargs or {}), getattr(func, "__name__", "")
        owner = getattr(getattr(func, "__self__", None), "__name__", "")
        if name == "__get__" and owner in ("device", "is_cuda"):
            if not gpu.holds(args[0]):
                return func(*args, **kwargs)
            return CARD if owner == "device" else True
        if name in ("numpy", "__array__") and gpu.holds(args[0]):
            gpu.refuse(f"{name}() of a tensor on the card")
        if name == "tolist" and gpu.holds(args[0]):
            gpu.note("wait")
            with torch._C.DisableTorchFunction():
                return plain(args[0]).detach().clone().tolist()
        if name in ("to", "cpu", "cuda") and isinstance(args[0], Tensor):
            return self.moved(name, args[0], list(args[1:]), kwargs)
        if name in ("share_memory_", "pin_memory") and gpu.holds(args[0]):
            gpu.refuse(f"{name} of a tensor on the card")
        wanted = asks_for_card(kwargs.pop("device", None))
        mine = any(gpu.holds(leaf) for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor))
        gpu.forced.append(wanted if wanted is not None or not mine else True)
        gpu.asked.append(name)
        try:
            out = func(*args, **kwargs)
        finally:
            gpu.forced.pop()
            gpu.asked.pop()
        if wanted and isinstance(out, Tensor) and not gpu.holds(out):
            with torch._C.DisableTorchFunction():
                out = out.clone()
            gpu.take(out)
        return out

    def moved(self, name: str, tensor: Tensor, args: list[Any], kwargs: dict[str, Any]) -> Tensor:
        """A tensor on the side that is asked for, with the dtype that is asked for."""
        gpu, dtype = self.gpu, kwargs.get("dtype")
        target = {"cpu": False, "cuda": True}.get(name, asks_for_card(kwargs.get("device")))
        for argument in args:
            if isinstance(argument, Tensor):
                target, dtype = gpu.holds(argument), plain(argument).dtype
            elif isinstance(argument, torch.dtype):
                dtype = argument
            elif isinstance(argument, str | torch.device):
                target = asks_for_card(argument)
        here = gpu.holds(tensor)
        target = here if target is None else target
        gpu.forced.append(target)
        try:
            out = tensor.to(dtype) if dtype is not None else tensor
            if target == here:
                return out
            gpu.note("up" if target else "down")
            return gpu.take(out.clone()) if target else self.fetched(out)
        finally:
            gpu.forced.pop()

    def fetched(self, tensor: Tensor) -> Tensor:
        """A copy that lies here."""
        copy = tensor.clone()
        with torch._C.DisableTorchFunction():
            storage = plain(copy).untyped_storage()
            if storage._cdata in self.gpu.there:
                self.gpu.give_back(storage._cdata, 0)
        return copy


class Below(TorchDispatchMode):
    """Every operation on plain tensors: may it mix sides, what does it cost, where is what comes out."""

    def __init__(self, gpu: PretendedGpu) -> None:
        super().__init__()
        self.gpu = gpu

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        gpu, kwargs = self.gpu, kwargs or {}
        name = func._schema.name.partition("::")[2]
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        sides = [gpu.holds(tensor) for tensor in tensors]
        if any(sides):
            if not all(sides):
                self.mixed(func, name, args, tensors, sides)
            if name in WAITS:
                gpu.note("wait")
            if name in TAKE_HOST_INDICES and gpu.holds(args[0]):
                for index in (index for index in args[1] if index is not None):
                    if not gpu.holds(index):
                        gpu.note("up")
                    elif index.dtype == torch.bool:
                        gpu.note("wait")  # the number of rows must be known
            if not func.is_view and name not in NO_KERNEL:
                gpu.note("launch")
        out = func(*args, **kwargs)
        known = {tensor.untyped_storage()._cdata for tensor in tensors}
        new = [leaf for leaf in tree_leaves(out) if isinstance(leaf, Tensor)]
        for leaf in new:
            if leaf.untyped_storage()._cdata not in known and self.belongs_there(name, tensors, sides, leaf):
                gpu.take(leaf)
        return out

    def belongs_there(self, name: str, tensors: list[Tensor], sides: list[bool], out: Tensor) -> bool:
        """Whether what an operation made lies on the card."""
        if name == "_pack_padded_sequence" and out.dtype == torch.int64:
            return False
        if tensors:
            return any(sides)
        return bool(self.gpu.forced and self.gpu.forced[-1])

    def mixed(self, func: Any, name: str, args: Any, tensors: list[Tensor], sides: list[bool]) -> None:
        """Refuse what a card refuses: operands on both sides, but for copies, host indices and single numbers."""
        gpu = self.gpu
        if name in COPIES:
            if name == "copy_":
                gpu.note("up" if sides[0] else "down")
            return
        if name in HOST_LENGTHS or (name in ("index_fill_", "masked_fill_") and gpu.asked[-1] == "__setitem__"):
            return  # the latter are short cuts of x[index] = number that torch takes where all is on one side
        if name in TAKE_HOST_INDICES:
            target = gpu.holds(args[0])
            if not target and any(gpu.holds(index) for index in args[1] if index is not None):
                gpu.refuse("a tensor here is indexed by one on the card")
            elif name != "index" and len(args) > 2 and gpu.holds(args[2]) != target and args[2].dim():
                gpu.refuse("values lie on another side than what they are put into")
            return
        strays = [tensor for tensor, side in zip(tensors, sides, strict=True) if not side]
        written = [
            argument
            for argument, schema in zip(args, func._schema.arguments, strict=False)
            if schema.alias_info is not None and schema.alias_info.is_write and isinstance(argument, Tensor)
        ]
        if any(tensor.dim() for tensor in strays) or any(not gpu.holds(tensor) for tensor in written):
            shapes = ", ".join(f"{'card' if s else 'host'}{tuple(t.shape)}" for t, s in zip(tensors, sides, strict=True))
            gpu.refuse(f"{name} of {shapes}")
