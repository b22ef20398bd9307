"""Models: their shapes, their parameters, and that pooling of our own is pooling."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from fedincent.config.compose import compose
from fedincent.config.groups import options_of
from fedincent.datasets import Data, load
from fedincent.errors import ConfigError
from fedincent.federation import Layout
from fedincent.models.pooling import halve


def data(kind: str, shape: tuple[int, ...], classes: int = 10) -> Data:
    dtype = {"image": np.uint8, "features": np.float32, "text": np.int32}[kind]
    x, y = np.zeros((2, *shape), dtype), np.zeros(2, int)
    return Data("d", x, y, x, y, kind, classes, vocabulary=50 if kind == "text" else 0)


def build(model: str, given_data: Data, *overrides: str) -> nn.Module:
    return compose([f"model={model}", *overrides]).model.build(given_data)


@pytest.mark.parametrize(
    ("side", "channels", "classes", "dim"),
    [
        (28, 1, 10, 156 + 2416 + 120 * 257 + 84 * 121 + 10 * 85),  # 16·4·4 features
        (32, 3, 10, 456 + 2416 + 120 * 401 + 84 * 121 + 10 * 85),  # 16·5·5 features
        (16, 1, 10, 156 + 2416 + 120 * 17 + 84 * 121 + 10 * 85),
    ],
)
def test_cnn(side: int, channels: int, classes: int, dim: int) -> None:
    module = build("cnn", data("image", (side, side, channels), classes))
    assert Layout(module).dim == dim
    assert module(torch.zeros(3, channels, side, side)).shape == (3, classes)


@pytest.mark.parametrize(("side", "channels", "classes", "dim"), [(32, 3, 10, 496_074), (28, 1, 52, 500_916)])
def test_cnn4_is_the_papers(side: int, channels: int, classes: int, dim: int) -> None:
    """3,136 numbers go into the fully connected layer at both sizes, 128 into the last; no dropout when judged."""
    module = build("cnn4", data("image", (side, side, channels), classes))
    assert Layout(module).dim == dim
    images = torch.randn(3, channels, side, side)
    module.eval()
    with torch.no_grad():
        torch.testing.assert_close(module(images), module(images))
        first = module(images)
    with torch.inference_mode():
        torch.testing.assert_close(module(images).clone(), first, rtol=1e-3, atol=1e-4)
    module.train()
    assert not torch.equal(module(images), module(images))
    with pytest.raises(ConfigError, match="must be two shares"):
        build("cnn4", data("image", (28, 28, 1)), "model.dropout=[0.5]")


def test_resnet18_has_the_papers_norms_and_stem() -> None:
    module = build("resnet18", data("image", (32, 32, 3), 100))
    norms = [m for m in module.modules() if isinstance(m, nn.GroupNorm)]
    assert {(m.num_channels, m.num_groups) for m in norms} == {(64, 4), (128, 8), (256, 16), (512, 32)}
    assert module.conv1.kernel_size == (3, 3) and module.conv1.stride == (1, 1)
    assert module(torch.zeros(2, 3, 32, 32)).shape == (2, 100)
    assert Layout(module).linear == ["fc"]


def test_dense_models() -> None:
    for numbers in (data("image", (8, 8, 1)), data("features", (64,))):
        x = torch.zeros(3, *numbers.shape)
        assert build("mlp", numbers)(x).shape == (3, 10)
        assert Layout(build("logistic", numbers)).dim == 650


def test_lstm_does_not_read_padding() -> None:
    module = build("lstm", data("text", (12,), 5)).eval()
    short, long = torch.tensor([[3, 4, 0, 0]]), torch.tensor([[3, 4, 0, 0, 0, 0, 0, 0]])
    torch.testing.assert_close(module(short), module(long))
    assert module(torch.zeros(2, 6, dtype=torch.int64)).isfinite().all()  # an empty sentence
    assert Layout(module).linear == ["fc1", "fc2", "classifier"]


@pytest.mark.parametrize(
    ("model", "kind", "shape", "words"),
    [
        ("cnn", "features", (5,), "needs images"),
        ("cnn", "image", (8, 8, 1), "at least 16×16"),
        ("resnet18", "text", (5,), "needs images"),
        ("mlp", "text", (5,), "model=lstm"),
        ("logistic", "text", (5,), "model=lstm"),
        ("lstm", "image", (8, 8, 1), "needs text"),
    ],
)
def test_a_model_that_cannot_take_the_data_says_so(model: str, kind: str, shape: tuple[int, ...], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        build(model, data(kind, shape))


@given(st.integers(2, 9), st.integers(2, 9), st.integers(0, 99))
def test_halving_is_max_pooling_and_relu(height: int, width: int, seed: int) -> None:
    x = torch.from_numpy(np.random.default_rng(seed).standard_normal((2, 3, height, width))).requires_grad_()
    ours, theirs = halve(x), F.relu(F.max_pool2d(x, 2))
    weights = torch.randn_like(theirs)
    assert torch.equal(ours, theirs)
    with torch.no_grad():
        assert torch.equal(halve(x), theirs)
    gradients = [torch.autograd.grad(y, x, weights)[0] for y in (ours, theirs)]
    assert torch.equal(*gradients)


def test_among_equals_exactly_one_gets_the_gradient() -> None:
    x = torch.ones(1, 1, 4, 4, requires_grad=True)
    (gradient,) = torch.autograd.grad(halve(x).sum(), x)
    assert gradient.sum() == 4
    assert set(gradient.flatten().tolist()) == {0.0, 1.0}


def test_pooling_before_the_relu_is_the_papers_network() -> None:
    torch.manual_seed(0)
    module = build("cnn", data("image", (28, 28, 1)))
    x = torch.randn(4, 1, 28, 28)
    h = F.max_pool2d(F.relu(module.conv1(x)), 2)
    h = F.max_pool2d(F.relu(module.conv2(h)), 2).flatten(1)
    expected = module.classifier(F.relu(module.fc2(F.relu(module.fc1(h)))))
    torch.testing.assert_close(module(x), expected)
    with torch.inference_mode():  # another memory layout
        torch.testing.assert_close(module(x), expected)


def test_where_dropout_is() -> None:
    def parts(after: str) -> list[str]:
        line = ["model=mlp", "model.hidden=[64,30]", "model.dropout=0.2", f"model.dropout_after={after}"]
        return [type(part).__name__ for part in compose(line).model.build(load(compose([]).dataset))]

    assert parts("all") == ["Flatten", "Linear", "ReLU", "Dropout", "Linear", "ReLU", "Dropout", "Linear"]
    assert parts("first") == ["Flatten", "Linear", "ReLU", "Dropout", "Linear", "ReLU", "Linear"]


def test_the_fye_papers_networks() -> None:
    """Sizes as its published code has them."""

    def count(*line: str) -> int:
        return sum(p.numel() for p in compose(list(line)).model.build(shaped(line[0])).parameters())

    def shaped(name: str):  # type: ignore[no-untyped-def]
        side, channels = (28, 1) if "tanh" in name else (32, 3)
        x = np.zeros((2, side, side, channels), dtype=np.uint8)
        y = np.arange(2)
        return Data("x", x, y, x, y, "image", 10, mean=(0.1,) * channels, std=(0.3,) * channels)

    assert count("model=cnn_tanh") == 104_242 and count("model=cnn_wide") == 121_182
    x = np.zeros((2, 520), dtype=np.float32)
    load_data = Data("x", x, np.zeros(2), x, np.zeros(2), "features", 0, mean=(0.0,) * 520, std=(1.0,) * 520)
    module = compose(["model=mlp_load"]).model.build(load_data)
    assert sum(p.numel() for p in module.parameters()) == 57_201
    assert [type(part).__name__ for part in module] == ["Flatten", "Linear", "ReLU", "Linear", "Linear"]


@pytest.mark.parametrize("name", sorted(set(options_of("model")) - {"lstm", "textcnn", "wordmlp"}))
def test_models_can_go_to_worker_processes(name: str) -> None:
    size = [] if name in ("mlp", "logistic", "mlp_load") else ["dataset.size=32"]
    config = compose([f"model={name}", *size])
    module = config.model.build(load(config.dataset))
    again = pickle.loads(pickle.dumps(module))
    assert [tuple(p.shape) for p in again.parameters()] == [tuple(p.shape) for p in module.parameters()]
