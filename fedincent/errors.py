"""The errors a user can meet; each is shown as its message alone, without a stack trace."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class FedincentError(Exception):
    """Anything that went wrong in a way that a message explains; exit code 1."""

    exit_code = 1


class UsageError(FedincentError):
    """Options or words that do not go together; exit code 2."""

    exit_code = 2


class ConfigError(FedincentError):
    """A setting that cannot be used: names the field, the value and what is allowed; exit code 2."""

    exit_code = 2

    def __init__(self, field: str, value: object, allowed: str) -> None:
        self.field, self.value, self.allowed = field, value, allowed
        super().__init__(f"{field}={value}: {allowed}")

    def __reduce__(self) -> tuple[type[ConfigError], tuple[str, object, str]]:
        """How it comes back from another process."""
        return ConfigError, (self.field, self.value, self.allowed)


class DataError(FedincentError):
    """A data set that is not there, or a file that is damaged."""

    exit_code = 2


class DivergenceError(FedincentError):
    """A client's training produced NaN or infinity."""


class WorkerError(FedincentError):
    """A worker process died or raised."""


def suggest(word: str, known: Iterable[str]) -> str:
    """'did you mean …? ' for a close match among the known names, else nothing."""
    close = difflib.get_close_matches(word, list(known), n=1)
    return f"did you mean '{close[0]}'? " if close else ""
