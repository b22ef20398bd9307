"""The networks that read sentences."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence


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
