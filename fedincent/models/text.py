"""Models for text."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from fedincent.config import option
from fedincent.datasets import Data
from fedincent.datasets.vectors import read_vectors
from fedincent.errors import ConfigError
from fedincent.models.base import Model, refuse


@dataclass(kw_only=True)
class LSTM(Model):
    """Embedding, one bidirectional LSTM, dropout, fully connected 120, 84 and the classifier."""

    embedding: int = option("length of a word's vector", low=1)
    hidden: int = option("width of the LSTM in each direction", low=1)
    dropout: float = option("share of the sentence vector dropped in training", low=0, below=1)

    def build(self, data: Data) -> torch.nn.Module:
        if data.kind != "text":
            raise refuse("lstm", f"needs text, the data set holds {data.kind}; use model=cnn or model=mlp")
        from fedincent.models.sentences import SentenceLSTM

        return SentenceLSTM(data.vocabulary, self.embedding, self.hidden, self.dropout, data.n_outputs)


@dataclass(kw_only=True)
class WordModel(Model):
    """Base of models on a table of word vectors, which trains, and may start from a file."""

    embedding: int = option("length of a word's vector", low=1)
    dropout: float = option("share of what comes before the classifier dropped in training", low=0, below=1)
    vectors: str | None = option("file of word vectors to start from: .npz with words and vectors, or GloVe's text format")

    def identity(self) -> dict[str, Any]:
        """As ever, but what counts of a file is its content."""
        values = super().identity()
        if self.vectors is not None:
            values["vectors"] = hashlib.sha256(self.file().read_bytes()).hexdigest()
        return values

    def file(self) -> Path:
        """The file of word vectors; an error where there is none."""
        path = Path(str(self.vectors)).expanduser()
        if not path.is_file():
            raise ConfigError("model.vectors", self.vectors, "no such file")
        return path

    def assemble(self, data: Data) -> torch.nn.Module:
        """A module with the word table in `embedding`."""
        raise NotImplementedError

    def build(self, data: Data) -> torch.nn.Module:
        if data.kind != "text":
            name = type(self).__name__.lower()
            raise refuse(name, f"needs text, the data set holds {data.kind}; use model=cnn or model=mlp")
        module = self.assemble(data)
        if self.vectors is not None:
            if not data.words:
                raise ConfigError("model.vectors", self.vectors, "the data set does not name its words")
            self.start_from_vectors(module.embedding, data.words)  # type: ignore[arg-type]
        return module

    def start_from_vectors(self, table: torch.nn.Embedding, words: Sequence[str]) -> None:
        """Put the known words' vectors into the table; unknown words keep their random start."""
        known = read_vectors(self.file(), set(words))
        found = [(k, known[word]) for k, word in enumerate(words, start=2) if word in known]
        if not found:
            raise ConfigError("model.vectors", self.vectors, "holds none of the data set's words")
        length = len(found[0][1])
        if length != self.embedding:
            raise ConfigError("model.embedding", self.embedding, f"the vectors of {self.vectors} have length {length}")
        with torch.no_grad():
            table.weight[[k for k, _ in found]] = torch.from_numpy(np.stack([v for _, v in found]).astype(np.float32))


@dataclass(kw_only=True)
class TextCNN(WordModel):
    """Convolutions of several widths over words, the largest response of each filter, dropout, the classifier (Kim 2014)."""

    filters: int = option("filters of each width", low=1)
    widths: tuple[int, ...] = option("words that a filter sees", low=1)

    def assemble(self, data: Data) -> torch.nn.Module:
        from fedincent.models.sentences import SentenceCNN

        return SentenceCNN(data.vocabulary, self.embedding, self.filters, self.widths, self.dropout, data.n_outputs)


@dataclass(kw_only=True)
class WordMLP(WordModel):
    """The mean of a sentence's word vectors, then fully connected layers with relu."""

    hidden: tuple[int, ...] = option("widths of the hidden layers", low=1)

    def assemble(self, data: Data) -> torch.nn.Module:
        from fedincent.models.sentences import MeanOfWords

        return MeanOfWords(data.vocabulary, self.embedding, self.hidden, self.dropout, data.n_outputs)
