"""Where a run is also told about while it goes on."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, ClassVar

from fedincent.config import Component, option
from fedincent.errors import ConfigError


@dataclass(kw_only=True)
class Logger(Component):
    """Base of all loggers; this one tells nobody."""

    group: ClassVar[str] = "logger"

    def check(self) -> None:
        """Raise, before anything is computed, where the logger cannot be used."""

    def started(self, name: str, config: dict[str, Any]) -> None:
        """A run begins, or goes on."""

    def round_done(self, row: dict[str, Any]) -> None:
        """One row of rounds.csv."""

    def finished(self, summary: dict[str, Any]) -> None:
        """The run is over."""

    def failed(self) -> None:
        """The run stopped before its end."""


@dataclass(kw_only=True)
class Wandb(Logger):
    """Weights & Biases: config, rounds and summary; imported only when chosen."""

    project: str = option("name of the project there", identity=False)
    entity: str | None = option("user or team; null: the default one", identity=False)
    mode: str | None = option(
        "whether to upload at once; null: what WANDB_MODE says, else online",
        choices=("online", "offline", "disabled"),
        identity=False,
    )
    folder: str | None = option("where offline runs are kept; null: ./wandb", identity=False)

    def check(self) -> None:
        try:
            import wandb
        except ImportError as error:
            raise ConfigError("logger", "wandb", "is not installed: pip install 'fedincent[wandb]'") from error
        if self.effective_mode == "online" and not has_key(wandb):
            why = "there is no API key: `wandb login`, or logger.mode=offline (WANDB_MODE=offline)"
            raise ConfigError("logger", "wandb", why)

    @property
    def effective_mode(self) -> str:
        """The mode that was asked for, here or in the environment."""
        return self.mode or os.environ.get("WANDB_MODE") or "online"

    def started(self, name: str, config: dict[str, Any]) -> None:
        import wandb

        init: Any = wandb.init
        self.run = init(
            project=self.project,
            entity=self.entity,
            mode=self.effective_mode,
            dir=self.folder,
            name=name,
            config=config,
        )

    def round_done(self, row: dict[str, Any]) -> None:
        shown = {k: v for k, v in row.items() if isinstance(v, int | float) and not k.startswith("client_")}
        self.run.log(shown, step=int(row["round"]))

    def finished(self, summary: dict[str, Any]) -> None:
        self.run.summary.update(summary)
        self.run.finish()

    def failed(self) -> None:
        if hasattr(self, "run"):
            self.run.finish(exit_code=1)


def has_key(wandb: Any) -> bool:
    """Whether an API key is known; nobody is asked for one, and nothing is sent."""
    try:
        return bool(wandb.login(prompt=False, verify=False))
    except TypeError:  # a wandb that knows no such questions yet
        return bool(wandb.api.api_key)
