"""Text data sets: sentences become rows of token numbers, 0 for padding, 1 for words the training split does not know."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import re
import zipfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from fedincent.config import option
from fedincent.datasets.base import Dataset
from fedincent.datasets.vectors import read_vectors
from fedincent.errors import ConfigError, DataError

Sentences = list[tuple[list[str], int]]  # tokens and label


def encode(train: Sentences, test: Sentences, length: int, min_count: int) -> dict[str, Any]:
    """Token matrices (n×length) and labels; the vocabulary comes from the training split alone, commonest word first."""
    counts = Counter(token for tokens, _ in train for token in tokens)
    words = sorted((w for w, c in counts.items() if c >= min_count), key=lambda w: (-counts[w], w))
    number = {word: k for k, word in enumerate(words, start=2)}

    def matrix(sentences: Sentences) -> np.ndarray:
        rows = np.zeros((len(sentences), length), dtype=np.int32)
        for row, (tokens, _) in zip(rows, sentences, strict=True):
            known = [number.get(token, 1) for token in tokens[:length]]
            row[: len(known)] = known
        return rows

    return {
        "x_train": matrix(train),
        "y_train": np.array([label for _, label in train], dtype=np.int64),
        "x_test": matrix(test),
        "y_test": np.array([label for _, label in test], dtype=np.int64),
        "vocabulary": len(words) + 2,
        "words": words,
    }


@dataclass(kw_only=True)
class TextDataset(Dataset):
    """What all text data sets can be told."""

    length: int = option("tokens kept of a sentence; shorter ones are padded", low=1)
    min_count: int = option("a word rarer than this in the training split is unknown", low=1)


@dataclass(kw_only=True)
class SST(TextDataset):
    """Stanford Sentiment Treebank, whole sentences, five classes; 8,544 + 2,210 (the dev split is not used)."""

    name: ClassVar[str] = "sst"
    arrays_alone: ClassVar[bool] = True
    files: ClassVar[tuple[str, ...]] = ("sst/trainDevTestTrees_PTB.zip", "trees/train.txt with trees/test.txt")
    hint: ClassVar[str] = "Put the official trainDevTestTrees_PTB.zip there (nlp.stanford.edu/sentiment)."

    def find(self, root: Path) -> list[Path]:
        for folder in (root, root / "sst", root / "SST"):
            archive = folder / "trainDevTestTrees_PTB.zip"
            if archive.is_file():
                return [archive]
            plain = [folder / "trees" / "train.txt", folder / "trees" / "test.txt"]
            if all(path.is_file() for path in plain):
                return plain
        return []

    def read(self, paths: list[Path]) -> dict[str, Any]:
        if paths[0].suffix == ".zip":
            with zipfile.ZipFile(paths[0]) as archive:
                texts = [archive.read(f"trees/{split}.txt").decode() for split in ("train", "test")]
        else:
            texts = [path.read_text(encoding="utf-8") for path in paths]
        train, test = ([parse_tree(line) for line in text.splitlines() if line.strip()] for text in texts)
        return encode(train, test, self.length, self.min_count)


@dataclass(kw_only=True)
class MR(TextDataset):
    """Movie review sentences, positive or negative (Pang & Lee 2005): 10,662, one in ten of which is for testing."""

    name: ClassVar[str] = "mr"
    arrays_alone: ClassVar[bool] = True
    files: ClassVar[tuple[str, ...]] = ("mr/rt-polarity.pos with mr/rt-polarity.neg",)
    hint: ClassVar[str] = "Unpack the official rt-polaritydata.tar.gz there (cs.cornell.edu/people/pabo/movie-review-data)."

    def find(self, root: Path) -> list[Path]:
        for folder in (root, root / "mr", root / "MR", root / "rt-polaritydata"):
            pair = [folder / "rt-polarity.neg", folder / "rt-polarity.pos"]
            if all(path.is_file() for path in pair):
                return pair
        return []

    def read(self, paths: list[Path]) -> dict[str, Any]:
        sentences: Sentences = []
        for label, path in enumerate(paths):
            lines = path.read_text(encoding="latin-1").split("\n")
            sentences += [(line.lower().split(), label) for line in lines if line.strip()]
        if not sentences:
            raise ValueError("no sentences")
        order = np.random.default_rng(0).permutation(len(sentences))  # a split is not given: this one is always the same
        n_test = max(1, len(sentences) // 10)
        train, test = ([sentences[k] for k in sorted(part)] for part in (order[n_test:], order[:n_test]))
        return encode(train, test, self.length, self.min_count)


LEAF = re.compile(r"\(\d ([^()]+)\)")


def parse_tree(line: str) -> tuple[list[str], int]:
    """The words and the root's label of one bracketed tree: (3 (2 It) (4 works)) gives it, works and 3."""
    head = re.match(r"\((\d) ", line)
    if head is None:
        raise ValueError(f"not a tree in Penn brackets: {line[:60]!r}")
    return [word.lower() for word in LEAF.findall(line)], int(head.group(1))


@dataclass(kw_only=True)
class Sent140(TextDataset):
    """Tweets, positive or negative (Sentiment140): the official csv of six columns."""

    name: ClassVar[str] = "sent140"
    official: ClassVar[tuple[str, str]] = (
        "training.1600000.processed.noemoticon.csv",
        "testdata.manual.2009.06.14.csv",
    )
    files: ClassVar[tuple[str, ...]] = ("training.1600000.processed.noemoticon.csv[.gz]", "sent140.csv[.gz]")
    hint: ClassVar[str] = "Unpack the official trainingandtestdata.zip there, or set dataset.file to a csv of its format."

    file: str | None = option("path of another csv of the same six columns, plain or gzipped", identity=False)
    test_fraction: float = option("share held out for testing where the official test csv is missing", above=0, below=1)

    def find(self, root: Path) -> list[Path]:
        if self.file:
            path = Path(self.file).expanduser()
            if not path.is_file():
                raise DataError(f"dataset.file={self.file}: no such file")
            return [path]
        for folder in (root, root / "sent140"):
            for name in (self.official[0], f"{self.official[0]}.gz", "sent140.csv", "sent140.csv.gz"):
                if (folder / name).is_file():
                    test = folder / self.official[1]
                    return [folder / name, test] if test.is_file() else [folder / name]
        return []

    def read(self, paths: list[Path]) -> dict[str, Any]:
        parts = [list(read_tweets(path)) for path in paths]
        if len(parts) == 1:  # one tweet in every 1/test_fraction, evenly over the file
            every = max(2, round(1 / self.test_fraction))
            tweets = parts[0]
            parts = [[t for k, t in enumerate(tweets) if k % every], tweets[::every]]
        train, test = ([(tokens, label) for tokens, label, _ in part] for part in parts)
        users = np.unique([user for _, _, user in parts[0]], return_inverse=True)[1]
        return {**encode(train, test, self.length, self.min_count), "groups": users}


@dataclass(kw_only=True)
class Sent140Vectors(Sent140):
    """Tweets as the means of their words' pre-trained vectors, which never change (IncFL paper, appendix F.1)."""

    name: ClassVar[str] = "sent140_vectors"

    vectors: str | None = option("file of word vectors: GloVe's text format (glove.twitter.27B.200d.txt), or .npz")

    def vectors_file(self) -> Path:
        """The file; an error that says what it should be."""
        if not self.vectors:
            why = (
                "which file? GloVe's official glove.twitter.27B.200d.txt, say; dataset=sent140 model=wordmlp trains vectors"
            )
            raise ConfigError("dataset.vectors", "null", why)
        path = Path(self.vectors).expanduser()
        if not path.is_file():
            raise ConfigError("dataset.vectors", self.vectors, "no such file")
        return path

    def identity(self) -> dict[str, Any]:
        """As ever, but what counts of the file is its content."""
        values = super().identity()
        if self.vectors is not None:
            values["vectors"] = hashlib.sha256(self.vectors_file().read_bytes()).hexdigest()
        return values

    def read(self, paths: list[Path]) -> dict[str, Any]:
        found = super().read(paths)
        words: list[str] = found["words"]
        known = read_vectors(self.vectors_file(), set(words))
        if not known:
            raise ConfigError("dataset.vectors", self.vectors, "holds none of the data set's words")
        table = np.zeros((len(words) + 2, len(next(iter(known.values())))), dtype=np.float32)
        for k, word in enumerate(words, start=2):
            if word in known:
                table[k] = known[word]
        has = np.abs(table).sum(1) > 0

        def means(tokens: np.ndarray) -> np.ndarray:
            count = np.maximum(has[tokens].sum(1, keepdims=True), 1)
            return (
                np.concatenate([table[part].sum(1) for part in np.array_split(tokens, max(1, len(tokens) // 4096))]) / count
            )

        samples = {name: means(found[name]).astype(np.float32) for name in ("x_train", "x_test")}
        return {**samples, "y_train": found["y_train"], "y_test": found["y_test"], "groups": found["groups"]}


def read_tweets(path: Path) -> Iterable[tuple[list[str], int, str]]:
    """Tokens, label (0 negative, 1 positive) and user of each tweet; the official test file's neutral ones are left out."""
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        text = content.decode("latin-1")  # the official files
    for row in csv.reader(io.StringIO(text)):
        if len(row) != 6 or row[0] not in ("0", "2", "4"):
            raise ValueError(f"not Sentiment140's six columns: {','.join(row)[:60]!r}")
        if row[0] != "2":
            yield tokens_of(row[5]), int(row[0] == "4"), row[4]


def tokens_of(tweet: str) -> list[str]:
    """Lower-case words and signs; links and user names become one token each."""
    text = re.sub(r"https?://\S+", " <url> ", tweet.lower())
    text = re.sub(r"@\w+", " <user> ", text)
    return re.findall(r"<url>|<user>|[a-z0-9']+|[^\sa-z0-9']", text)
