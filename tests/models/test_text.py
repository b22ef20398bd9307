"""The text CNN: what it computes, what padding does to it, and where its word vectors come from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from fedincent.config.compose import compose
from fedincent.datasets import Data, load
from fedincent.errors import ConfigError
from fedincent.models.sentences import MeanOfWords, SentenceCNN
from fedincent.models.text import TextCNN


def tiny_cnn(**changes) -> SentenceCNN:  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    values = {"vocabulary": 20, "embedding": 6, "filters": 4, "widths": (3, 4, 5), "dropout": 0.5, "n_classes": 2}
    return SentenceCNN(**{**values, **changes}).eval()


def sentences(words: tuple[str, ...] = ("good", "bad", "film")) -> Data:
    x = np.array([[2, 3, 4, 0], [4, 2, 0, 0]], dtype=np.int32)
    return Data("s", x, np.array([0, 1]), x, np.array([0, 1]), "text", 2, vocabulary=5, words=words)


def model(**changes) -> TextCNN:  # type: ignore[no-untyped-def]
    values = {"embedding": 3, "filters": 2, "widths": (3, 4, 5), "dropout": 0.5, "vectors": None}
    return TextCNN(**{**values, **changes})


def test_by_hand() -> None:
    """One filter of width 2 that adds up the second word's number: sentence 1, 3, 2 → windows 3, 2, (padding) 0 → 3."""
    net = tiny_cnn(embedding=1, filters=1, widths=(2,), dropout=0.0)
    with torch.no_grad():
        net.embedding.weight.copy_(torch.arange(20.0)[:, None])
        net.convolutions[0].weight.copy_(torch.tensor([[[0.0, 1.0]]]))
        net.convolutions[0].bias.zero_()
        net.classifier.weight.copy_(torch.tensor([[1.0], [-1.0]]))
        net.classifier.bias.zero_()
    assert net(torch.tensor([[1, 3, 2, 0, 0]])).tolist() == [[3.0, -3.0]]


def test_a_sentence_is_read_alike_whoever_it_is_batched_with() -> None:
    net = tiny_cnn()
    with torch.no_grad():
        for part in net.convolutions:
            part.bias.fill_(5.0)  # windows in the padding would win if they counted
    short = torch.tensor([[3, 7, 0, 0, 0, 0, 0, 0]])
    long = torch.randint(1, 20, (1, 8))
    torch.testing.assert_close(net(torch.cat([short, long]))[:1], net(short))
    torch.testing.assert_close(net(torch.cat([short, torch.zeros_like(short)], dim=1)), net(short))
    assert net(torch.zeros(1, 8, dtype=torch.int64)).isfinite().all()


def test_laying_sentences_end_to_end_changes_nothing() -> None:
    """The same as a convolution over each padded sentence on its own, gradients too."""
    net = tiny_cnn()
    tokens = torch.tensor([[3, 7, 0, 0, 0, 0], [1, 2, 3, 4, 5, 6], [9, 0, 0, 0, 0, 0]])
    plain = []
    for sentence, length in zip(tokens, (2, 6, 1), strict=True):
        words = net.embedding(torch.nn.functional.pad(sentence[:length], (0, 4))).T[None]
        plain.append(torch.cat([torch.relu(c(words)[..., :length]).amax(2) for c in net.convolutions], dim=1))
    expected = net.classifier(torch.cat(plain))
    torch.testing.assert_close(net(tokens), expected)
    weight = net.convolutions[1].weight
    (wanted,) = torch.autograd.grad(expected.sum(), weight, retain_graph=True)
    torch.testing.assert_close(torch.autograd.grad(net(tokens).sum(), weight)[0], wanted)


def test_the_papers_shape() -> None:
    config = compose(["dataset=mr"])
    assert config.model == TextCNN(embedding=300, filters=100, widths=(3, 4, 5), dropout=0.5, vectors=None)


@pytest.mark.parametrize("form", ["npz", "txt"])
def test_word_vectors_from_a_file(tmp_path: Path, form: str) -> None:
    path = tmp_path / f"vectors.{form}"
    vectors = np.array([[1, 2, 3], [4, 5, 6], [7, 8, 9]], dtype=np.float32)
    if form == "npz":
        np.savez(path, words=np.array(["film", "good", "elsewhere"]), vectors=vectors)
    else:
        path.write_text("film 1 2 3\ngood 4 5 6\nelsewhere 7 8 9\n")
    torch.manual_seed(0)
    plain = model().build(sentences()).embedding.weight
    torch.manual_seed(0)
    table = model(vectors=str(path)).build(sentences()).embedding.weight
    assert table[2].tolist() == [4, 5, 6] and table[4].tolist() == [1, 2, 3]
    assert torch.equal(table[3], plain[3]) and table[0].abs().sum() == 0  # an unknown word; padding
    assert table.requires_grad


def test_what_cannot_be_used_is_said(tmp_path: Path) -> None:
    good = tmp_path / "v.npz"
    np.savez(good, words=np.array(["film"]), vectors=np.ones((1, 5)))
    other = tmp_path / "other.npz"
    np.savez(other, words=np.array(["x"]), vectors=np.ones((1, 3)))
    with pytest.raises(ConfigError, match=r"model.embedding=3.*length 5"):
        model(vectors=str(good)).build(sentences())
    with pytest.raises(ConfigError, match="none of the data set's words"):
        model(vectors=str(other)).build(sentences())
    with pytest.raises(ConfigError, match="no such file"):
        model(vectors="nowhere.npz").build(sentences())
    with pytest.raises(ConfigError, match="does not name its words"):
        model(vectors=str(good)).build(sentences(words=()))
    (tmp_path / "bad.npz").write_bytes(b"nonsense")
    with pytest.raises(ConfigError, match="not a file of word vectors"):
        model(vectors=str(tmp_path / "bad.npz")).build(sentences())


def test_a_runs_identity_knows_the_content_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "v.txt"
    path.write_text("film 1 2 3\n")
    first = model(vectors=str(path)).identity()
    path.write_text("film 1 2 4\n")
    assert model(vectors=str(path)).identity() != first
    assert model().identity()["vectors"] is None


def test_the_mean_of_words() -> None:
    """Embedding = the token's number, one linear layer that doubles: the mean of 3 and 5 is 4; padding does not count."""
    net = MeanOfWords(20, 1, [1], 0.0, 1).eval()
    with torch.no_grad():
        net.embedding.weight.copy_(torch.arange(20.0)[:, None])
        for layer in (net.layers[0], net.classifier):
            layer.weight.fill_(2.0)
            layer.bias.zero_()
    assert net(torch.tensor([[3, 5, 0, 0]])).tolist() == [[16.0]]
    assert net(torch.zeros(1, 4, dtype=torch.int64)).tolist() == [[0.0]]


def test_a_deep_head() -> None:
    data = load(compose([]).dataset)
    net = compose(["model=cnn_fc"]).model.build(data)
    widths = [part.out_features for part in net.modules() if isinstance(part, torch.nn.Linear)]
    assert widths == [120, 100, 84, 50, 10]
    assert net(torch.zeros(2, 1, 16, 16)).shape == (2, 10)
