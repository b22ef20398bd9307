"""Modules that are loaded when they are first used: looking at results, or refusing a line, must not wait for torch."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any


class Later(ModuleType):
    """Stands for a module until somebody asks it for something."""

    def __getattr__(self, name: str) -> Any:
        own = self.__dict__["__name__"]
        if sys.modules.get(own) is self:
            del sys.modules[own]
        real = importlib.import_module(own)
        found = getattr(real, name)
        self.__dict__.update(real.__dict__)  # from now on as fast as the module itself
        return found


def import_later(name: str) -> None:
    """From now on `import name` does not load the module before it is used."""
    if name not in sys.modules:
        sys.modules[name] = Later(name)
