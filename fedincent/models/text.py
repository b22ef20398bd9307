"""Models for text."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

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

    def build(self, data: Data) -> nn.Module:
        if data.kind != "text":
            raise refuse("lstm", f"needs text, the data set holds {data.kind}; use model=cnn or model=mlp")
        return SentenceLSTM(data.vocabulary, self.embedding, self.hidden, self.dropout, data.n_outputs)


class SentenceLSTM(nn.Module):
    """Reads a sentence in both directions and classifies the two final states; padding (token 0) is not read."""

    def __init__(self, vocabulary: int, embedding: int, hidden: int, dropout: float, n_classes: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedding, padding_idx=0)
        self.lstm = nn.LSTM(embedding, hidden, batch_first=True, bidirectional=True)
        self.dropout = nn.Dropout(dropout)
        self.fc1 = nn.Linear(2 * hidden, 120)
        self.fc2 = nn.Linear(120, 84)
        self.classifier = nn.Linear(84, n_classes)

    def forward(self, tokens: Tensor) -> Tensor:
        """tokens: batch×length → batch×classes."""
        lengths = (tokens != 0).sum(1).clamp(min=1).cpu()
        packed = pack_padded_sequence(self.embedding(tokens), lengths, batch_first=True, enforce_sorted=False)
        _, (state, _) = self.lstm(packed)
        x = self.dropout(torch.cat([state[0], state[1]], dim=1))
        x = F.relu(self.fc1(x))
        x = F.relu(self.fc2(x))
        return self.classifier(x)


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

    def assemble(self, data: Data) -> nn.Module:
        """A module with the word table in `embedding`."""
        raise NotImplementedError

    def build(self, data: Data) -> nn.Module:
        if data.kind != "text":
            name = type(self).__name__.lower()
            raise refuse(name, f"needs text, the data set holds {data.kind}; use model=cnn or model=mlp")
        module = self.assemble(data)
        if self.vectors is not None:
            if not data.words:
                raise ConfigError("model.vectors", self.vectors, "the data set does not name its words")
            self.start_from_vectors(module.embedding, data.words)  # type: ignore[arg-type]
        return module

    def start_from_vectors(self, table: nn.Embedding, words: Sequence[str]) -> None:
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

    def assemble(self, data: Data) -> nn.Module:
        return SentenceCNN(data.vocabulary, self.embedding, self.filters, self.widths, self.dropout, data.n_outputs)


@dataclass(kw_only=True)
class WordMLP(WordModel):
    """The mean of a sentence's word vectors, then fully connected layers with relu."""

    hidden: tuple[int, ...] = option("widths of the hidden layers", low=1)

    def assemble(self, data: Data) -> nn.Module:
        return MeanOfWords(data.vocabulary, self.embedding, self.hidden, self.dropout, data.n_outputs)


class MeanOfWords(nn.Module):
    """Fully connected layers on the mean of a sentence's word vectors; padding does not count."""

    def __init__(self, vocabulary: int, embedding: int, hidden: Sequence[int], dropout: float, n_classes: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedding, padding_idx=0)
        widths = [embedding, *hidden]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise(widths))
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(widths[-1], n_classes)

    def forward(self, tokens: Tensor) -> Tensor:
        """tokens: batch×length → batch×classes."""
        count = (tokens != 0).sum(1, keepdim=True).clamp(min=1)
        x = self.embedding(tokens).sum(1) / count
        for layer in self.layers:
            x = F.relu(layer(x))
        return self.classifier(self.dropout(x))


class SentenceCNN(nn.Module):
    """The largest response of each filter anywhere in a sentence; windows that begin in the padding do not count."""

    def __init__(
        self, vocabulary: int, embedding: int, filters: int, widths: Sequence[int], dropout: float, n_classes: int
    ) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, embedding, padding_idx=0)
        self.convolutions = nn.ModuleList(nn.Conv1d(embedding, filters, width) for width in widths)
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(filters * len(widths), n_classes)
        self.widest = max(widths)

    def forward(self, tokens: Tensor) -> Tensor:
        """tokens: batch×length → batch×classes. The sentences are laid end to end, so that no padding is computed on."""
        inside = tokens != 0
        lengths = inside.sum(1)
        gap = self.widest - 1  # after each sentence, so that no window sees two
        starts = torch.cumsum(lengths + gap, 0) - lengths - gap
        row, place = inside.nonzero(as_tuple=True)
        at = starts[row] + place
        line = tokens.new_zeros(int(lengths.sum()) + gap * len(tokens) + 1)
        line[at] = tokens[row, place]
        words = self.embedding(line).T[None]  # 1×embedding×(all words and gaps)
        best = []
        for convolution in self.convolutions:
            response = F.relu(convolution(words)[0].T[at])  # words×filters: of the window that begins at each word
            by_sentence = response.new_zeros(len(tokens), max(int(lengths.max()), 1), response.shape[1])
            by_sentence[row, place] = response
            best.append(by_sentence.amax(1))
        return self.classifier(self.dropout(torch.cat(best, dim=1)))
