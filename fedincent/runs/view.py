"""What a person sees while a run goes on: a progress bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from typing import Any


def duration(seconds: float) -> str:
    """40 s, 3 min 20 s, 2 h 05 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60:02d} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60:02d} min"


class View:
    """Base of all views; this one shows nothing."""

    def message(self, text: str) -> None:
        """One line worth knowing."""

    def stage(self, name: str, rounds: int, done: int, clients: int) -> None:
        """A stretch of rounds begins, `done` of them are done already."""

    def client_done(self) -> None:
        """One more client of this round has trained."""

    def round_done(self, accuracy: float | None) -> None:
        """A round is over; the mean accuracy where the models were judged."""

    def close(self) -> None:
        """The run is over."""


class Lines(View):
    """Plain lines for logs and pipes: one every tenth of the rounds."""

    def message(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)

    def stage(self, name: str, rounds: int, done: int, clients: int) -> None:
        self.name, self.rounds, self.done, self.first = name, rounds, done, done
        self.begun = time.monotonic()
        resumed = f", resumed after round {done}" if done else ""
        self.message(f"{name}: {rounds} rounds, {clients} clients{resumed}")

    def round_done(self, accuracy: float | None) -> None:
        self.done += 1
        if self.done % max(1, self.rounds // 10) == 0 or self.done == self.rounds:
            spent = time.monotonic() - self.begun
            left = spent / (self.done - self.first) * (self.rounds - self.done)
            shown = f", mean accuracy {accuracy:.1%}" if accuracy is not None else ""
            self.message(f"{self.name}: round {self.done}/{self.rounds}, {duration(spent)}, {duration(left)} to go{shown}")


class Bar(View):
    """A progress bar with round, clients, time to go and the last mean accuracy."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        self.console = Console(stderr=True)
        self.progress = Progress(
            TextColumn("{task.description:<18}"),
            BarColumn(bar_width=24),
            TextColumn(
                "round {task.fields[round]}/{task.fields[rounds]}  client {task.fields[client]}/{task.fields[clients]}"
            ),
            TimeElapsedColumn(),
            TextColumn("to go"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[accuracy]}"),
            console=self.console,
        )
        self.task: Any = None

    def message(self, text: str) -> None:
        self.console.print(text, markup=False, highlight=False)

    def stage(self, name: str, rounds: int, done: int, clients: int) -> None:
        self.progress.start()
        if done:
            self.message(f"{name}: resumed after round {done} of {rounds}")
        self.done, self.client = done, 0
        self.task = self.progress.add_task(
            name,
            total=rounds * clients,
            completed=done * clients,
            round=done,
            rounds=rounds,
            client=0,
            clients=clients,
            accuracy="",
        )

    def client_done(self) -> None:
        self.client += 1
        self.progress.update(self.task, advance=1, client=self.client)

    def round_done(self, accuracy: float | None) -> None:
        self.done += 1
        task = self.progress.tasks[self.task]
        fields: dict[str, Any] = {"accuracy": f"accuracy {accuracy:.1%}"} if accuracy is not None else {}
        completed = self.done * task.fields["clients"]
        self.client = 0
        self.progress.update(self.task, completed=completed, round=self.done, client=0, **fields)

    def close(self) -> None:
        self.progress.stop()


def view_for_terminal() -> View:
    """A bar where a person looks on, lines elsewhere."""
    return Bar() if sys.stderr.isatty() else Lines()
