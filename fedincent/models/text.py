"""Models for text."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence

from fedincent.datasets import Data
from fedincent.models.base import Model, refuse
from fedincent.schema import option


@dataclass(kw_only=True)
class LSTM(Model):
    """Embedding, one bidirectional LSTM, dropout, fully connected 120, 84 and the classifier."""

    embedding: int = option("length of a word's vector", low=1)
    hidden: int = option("width of the LSTM in each direction", low=1)
    dropout: float = option("share of the sentence vector dropped in training", low=0, below=1)

    def build(self, data: Data) -> nn.Module:
        if data.kind != "text":
            raise refuse("lstm", f"needs text, the data set holds {data.kind}; use model=cnn or model=mlp")
        return SentenceLSTM(data.vocabulary, self.embedding, self.hidden, self.dropout, data.n_classes)


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
