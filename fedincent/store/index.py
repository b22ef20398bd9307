"""Finding stored runs by what they are: every finished run of a results folder, keyed by its identity."""

from __future__ import annotations

import json
from pathlib import Path

from fedincent.config.run import Config
from fedincent.store.folder import Result
from fedincent.store.identity import key_of, key_of_config


class Index:
    """All finished runs of a results folder; unreadable ones are remembered in `damaged`."""

    def __init__(self, results_dir: Path) -> None:
        self.runs: dict[str, Result] = {}
        self.damaged: list[Path] = []
        for path in sorted((results_dir / "runs").glob("*/summary.json"), key=lambda p: p.stat().st_mtime):
            self.add(path.parent)

    def add(self, folder: Path) -> None:
        """Know one more finished run."""
        path = folder / "summary.json"
        try:
            summary = json.loads(path.read_text(encoding="utf-8"))
            self.runs[key_of(summary["identity"], summary["choices"]["dataset"])] = Result(folder, summary)
        except (ValueError, KeyError, OSError):
            self.damaged.append(path)

    def find(self, config: Config) -> Result | None:
        """The run that a configuration describes, the newest if there are several."""
        return self.runs.get(key_of_config(config))
