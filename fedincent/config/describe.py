"""A configuration in words, for the terminal."""

from __future__ import annotations

import dataclasses
from typing import Any

from rich.console import Console
from rich.table import Table

from fedincent.config.run import Config


def print_config(config: Config) -> None:
    """Every field of a configuration with its value and meaning."""
    rows = described(config)
    console = Console()
    if not console.is_terminal:  # whoever reads this from a pipe wants a line a field
        wide = [max(len(row[k]) for row in rows) for k in (0, 1)]
        for name, value, help_text in rows:
            print(f"{name:<{wide[0]}}  {value:<{min(wide[1], 40)}}  {help_text}".rstrip())
        return
    table = Table(box=None)
    for column in ("field", "value", "meaning"):
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*row)
    console.print(table)


def described(thing: Any, prefix: str = "") -> list[tuple[str, str, str]]:
    """(field, value, meaning) of a dataclass of options and of the components in it."""
    rows = []
    for field in dataclasses.fields(thing):
        if "help" in field.metadata:
            value = getattr(thing, field.name)
            rows.append((prefix + field.name, "null" if value is None else str(value), field.metadata["help"]))
    for field in dataclasses.fields(thing):
        value = getattr(thing, field.name) if field.init else None
        if dataclasses.is_dataclass(value):
            choice = getattr(thing, "choices", {}).get(field.name)
            if choice:
                rows.append((field.name, choice, (type(value).__doc__ or "").splitlines()[0]))
            rows += described(value, f"{field.name}.")
    return rows
