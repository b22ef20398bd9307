"""What a data set is to the rest of the project: four arrays in memory and a little about them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from fedincent.config import Component, option
from fedincent.errors import ConfigError, DataError


@dataclass(frozen=True)
class Data:
    """A data set's arrays.

    Images are n×height×width×channels (uint8, or float), features n×d (float), text n×length token numbers (0 pads).
    """

    name: str
    x_train: np.ndarray
    y_train: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    kind: str  # image, features or text
    n_classes: int  # 0 where the targets are numbers: regression
    vocabulary: int = 0  # number of token ids, for text
    groups: np.ndarray | None = None  # whom each training sample is from (n), where the data set knows: users, writers
    words: tuple[str, ...] = ()  # the words of token ids 2, 3, …, where the data set knows them
    mean: tuple[float, ...] = ()  # per channel (images) or feature, of the training set
    std: tuple[float, ...] = ()
    fingerprint: str = ""  # tells this data from all other
    checksum: str = ""  # sha256 of the four arrays

    @property
    def n_outputs(self) -> int:
        """How many numbers a model says of a sample: a score for each class, or one prediction."""
        return self.n_classes or 1

    @property
    def shape(self) -> tuple[int, ...]:
        """One sample's shape as a model sees it: channels×height×width, features, or tokens."""
        sample = self.x_train.shape[1:]
        return (sample[2], sample[0], sample[1]) if self.kind == "image" else tuple(sample)


@dataclass(kw_only=True)
class Dataset(Component):
    """A named data set; subclasses say where its files are and how they are read."""

    group: ClassVar[str] = "dataset"

    name: ClassVar[str] = ""
    hint: ClassVar[str] = ""  # how to get the files, for the error message
    arrays_alone: ClassVar[bool] = False  # whether its fingerprint is of the arrays alone, as results stored before have it
    reads_npz: ClassVar[bool] = False  # whether its official file is an .npz with arrays of other names than ours
    files: ClassVar[tuple[str, ...]] = ()  # what is looked for below the root, for the error message

    root: str | None = option("folder of data sets; null means FEDINCENT_DATA, then the user's cache folder", identity=False)

    @property
    def own_file(self) -> bool:
        """Whether it is a file that the user names, so that its fields do not tell what is in it."""
        return getattr(self, "file", None) is not None

    def folder(self) -> Path:
        """The data root: `dataset.root`, else FEDINCENT_DATA, else the user's cache folder."""
        given = self.root or os.environ.get("FEDINCENT_DATA")
        if not given:
            return cache_folder() / "data"
        path = Path(given).expanduser()
        if not path.is_dir():
            field = "dataset.root" if self.root else "FEDINCENT_DATA"
            raise ConfigError(field, given, "no such folder")
        return path

    def find(self, root: Path) -> list[Path]:
        """The official files below a root, or an empty list when they are not all there."""
        raise NotImplementedError

    def read(self, paths: list[Path]) -> dict[str, Any]:
        """x_train, y_train, x_test, y_test (and `vocabulary` for text) from the files that `find` named."""
        raise NotImplementedError

    def download(self, root: Path) -> None:
        """Fetch the official files, checksums verified, into a writable root."""
        raise self.not_found()

    def not_found(self) -> DataError:
        """The error that says what was looked for, where, and how to get it."""
        wanted = " or ".join((f"{self.name}.npz", *self.files))
        return DataError(f"dataset={self.name}: found no {wanted} below {self.folder()}.\n{self.hint}")


def cache_folder() -> Path:
    """FEDINCENT_CACHE, else fedincent/ in the user's cache folder."""
    given = os.environ.get("FEDINCENT_CACHE")
    if given:
        return Path(given).expanduser()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache").expanduser() / "fedincent"
