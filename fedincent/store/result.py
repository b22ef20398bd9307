"""A finished run: its summary, and its files wherever they are kept."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from fedincent.errors import FedincentError
from fedincent.evaluation.metrics import one_line, shown_of, value_of
from fedincent.evaluation.recompute import recomputed
from fedincent.store.files import read_columns, read_frame

if TYPE_CHECKING:
    import pandas as pd

Files = dict[str, bytes]  # a finished run's files by name
RESULT_FILES = (
    *(
        "config.yaml",
        "partition.csv",
        "clients.csv",
        "rounds.csv",
        "online.csv",
        "trace.csv",
        "unseen.csv",
        "clusters.csv",
        "summary.json",
    ),
)
SCORES = ("accuracy", "mape", "online_accuracy", "online_mape", "own_accuracy")
NEEDED = ("identity", "choices", "seed", "eval_every", "notes", "seconds")  # of a summary


@dataclass(frozen=True)
class Result:
    """A finished run: one's own, in a folder, or a published one, in a pack."""

    path: Path  # its folder; of a published one the pack's file and, below it, the run's name
    summary: dict[str, Any]
    reader: Callable[[str], bytes | None] | None = None  # gives a published run's files

    @property
    def name(self) -> str:
        """The run's name, which ends in the hash of its identity."""
        return self.path.name

    @property
    def of_audit(self) -> bool:
        """Whether it is one of the thousands of small runs that the published audits are made of."""
        return self.published and self.path.parent.stem == "audit"

    @property
    def published(self) -> bool:
        """Whether it is read from a pack."""
        return self.reader is not None

    def __repr__(self) -> str:
        return f"<Result {self.name}: {one_line(self.summary)}>"

    def _repr_html_(self) -> str:
        """What a notebook shows of it."""
        rows = [(metric.title, metric.show(self.summary[metric.name])) for metric in shown_of(self.summary)]
        lines = "".join(f"<tr><td>{escape(name)}</td><td>{escape(value)}</td></tr>" for name, value in rows)
        return f"<b>{escape(self.name)}</b><table><tbody>{lines}</tbody></table>"

    def read(self, file: str) -> bytes | None:
        """The content of one of its files; None where there is none."""
        if self.reader is not None:
            return self.reader(file)
        path = self.path / file
        return path.read_bytes() if path.is_file() else None

    def text(self, file: str) -> str:
        """A file that it must have."""
        content = self.read(file)
        if content is None:
            raise FedincentError(f"{self.path} has no {file}")
        return content.decode()

    def files(self) -> Files:
        """All its files, as they are; not its checkpoint."""
        return {name: content for name in RESULT_FILES if (content := self.read(name)) is not None}

    @functools.cached_property
    def config(self) -> dict[str, Any]:
        """The whole configuration, as plain values."""
        try:
            found = yaml.load(self.text("config.yaml"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
        except (yaml.YAMLError, UnicodeDecodeError) as error:
            raise FedincentError(f"{self.path}/config.yaml cannot be read: {str(error).splitlines()[0]}") from error
        if not isinstance(found, dict):
            raise FedincentError(f"{self.path}/config.yaml is no configuration")
        return found

    def has_curve(self, eval_every: int) -> bool:
        """Whether the models were judged at least as often as asked for."""
        stored = self.summary["eval_every"]
        return eval_every == 0 or (stored > 0 and eval_every % stored == 0)

    def value(self, metric: str) -> float | None:
        """A metric by name: from the summary, else from the clients' columns; KeyError where the run does not have it."""
        try:
            return value_of(self.summary, metric)
        except KeyError:
            return recomputed(self.columns_by_file(), self.summary, self.config)[metric]

    def columns_by_file(self) -> dict[str, pd.DataFrame]:
        """What metrics are made of."""
        return {name: self.frame(name) for name in ("clients", "unseen") if self.read(f"{name}.csv") is not None}

    @property
    def score(self) -> str:
        """The column of clients.csv that tells how good each client's model is."""
        header = self.text("clients.csv").split("\n", 1)[0].strip().split(",")
        score = next((name for name in SCORES if name in header), None)
        if score is None:
            raise FedincentError(f"{self.path}/clients.csv tells no score")
        return score

    def frame(self, name: str) -> pd.DataFrame:
        """One of its tables."""
        try:
            return read_frame(self.text(f"{name}.csv"))
        except (ValueError, IndexError) as error:
            raise FedincentError(f"{self.path}/{name}.csv cannot be read: {error}") from error

    def columns(self, name: str) -> dict[str, list[float]]:
        """One of its tables as plain lists, which takes a tenth of the time of a data frame."""
        try:
            return read_columns(self.text(f"{name}.csv"))
        except (ValueError, IndexError) as error:
            raise FedincentError(f"{self.path}/{name}.csv cannot be read: {error}") from error

    @property
    def clients(self) -> pd.DataFrame:
        """One row per client: client, n_samples, contribution, standalone_accuracy, standalone_loss, accuracy, loss."""
        return self.frame("clients")

    @property
    def rounds(self) -> pd.DataFrame:
        """One row per round; where models were judged, also their accuracies."""
        return self.frame("rounds")

    @property
    def unseen(self) -> pd.DataFrame:
        """One row per unseen client, of a run that has any: its own tests by the common model and by its own model."""
        return self.frame("unseen")

    @property
    def online(self) -> pd.DataFrame:
        """One row per round and client, of a run with protocol=online: score and loss after that round."""
        return self.frame("online")

    @property
    def clusters(self) -> pd.DataFrame:
        """One row per cluster and round in which models of clusters were judged: its score on each distribution."""
        return self.frame("clusters")

    @property
    def trace(self) -> pd.DataFrame:
        """One row per round and client, of a run with trace=true: importance, train_loss, and what the mechanism notes."""
        return self.frame("trace")


def checked_summary(content: Any) -> dict[str, Any]:
    """A summary that has what every command asks of it; ValueError that says what is wrong."""
    if not isinstance(content, dict):
        raise ValueError("is no summary of a run")
    missing = [name for name in NEEDED if name not in content]
    if missing:
        raise ValueError(f"does not say {missing[0]}")
    if not isinstance(content["identity"], dict) or not isinstance(content["choices"], dict):
        raise ValueError("does not say what the run is")
    return content
