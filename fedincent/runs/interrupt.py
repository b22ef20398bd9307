"""Ctrl-C, TERM and HUP: a run finishes its round, writes a checkpoint and stops; a second time it stops at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

SIGNALS = tuple(getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))


class Interrupt:
    """Whether somebody wants the run to stop."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.say, self.asked = say, False

    def hear(self, number: int, frame: Any) -> None:
        """A signal came."""
        if self.asked:
            raise KeyboardInterrupt
        self.asked = True
        self.say("stopping after this round, with a checkpoint; once more stops at once")


@contextmanager
def listening(say: Callable[[str], None]) -> Iterator[Interrupt]:
    """Hear signals while a run goes on; elsewhere than in the main thread nothing can be heard."""
    interrupt = Interrupt(say)
    if threading.current_thread() is not threading.main_thread():
        yield interrupt
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}
    try:
        for number in SIGNALS:
            if before[number] is not signal.SIG_IGN:  # under nohup a hang-up is nothing
                signal.signal(number, interrupt.hear)
        yield interrupt
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def end_like_ctrl_c() -> None:
    """Let TERM and HUP end a command as Ctrl-C does."""
    for number in SIGNALS[1:]:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler)
