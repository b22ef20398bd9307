"""Looking at data sets and partitions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from fedincent.config import compose
from fedincent.datasets import load
from fedincent.datasets import verify as verify_arrays
from fedincent.datasets.cache import locate
from fedincent.errors import FedincentError
from fedincent.groups import options_of
from fedincent.stage import Stage
from fedincent.view import View


def list_all() -> None:
    """Every data set, whether its files are here, and where."""
    known = options_of("dataset")
    for name, line in known.items():
        try:
            dataset = compose([f"dataset={name}"]).dataset
            paths = locate(dataset, dataset.folder())
            state = f"here: {paths[0]}" if paths else "not here"
        except FedincentError as error:
            state = str(error).splitlines()[0]
        print(f"{name:<14} {line}\n{'':<14} {state}")


def fetch(name: str) -> None:
    """Get a data set's files, parse them into the cache, and say what there is."""
    data = load(compose([f"dataset={name}"]).dataset)
    print(f"{name}: {len(data.y_train):,} + {len(data.y_test):,} samples of {data.shape}, {data.n_classes} classes")


def verify(name: str) -> None:
    """Check a data set's arrays against their checksum."""
    print(f"{name}: sha256 {verify_arrays(compose([f'dataset={name}']).dataset)}: as it should be")


def show(overrides: Sequence[str], output: Path) -> None:
    """Who holds what under a configuration: sizes in words, and a client × class heat map as a picture."""
    stage = Stage(compose(overrides), View())
    shares = stage.split.train
    labels = np.asarray(stage.data.y_train)
    held = np.stack([np.bincount(labels[share], minlength=stage.data.n_classes) for share in shares])
    sizes, kinds = held.sum(1), (held > 0).sum(1)
    choices = stage.config.choices
    print(f"{choices['dataset']}, {choices['partition']}, {len(shares)} clients, seed {stage.config.seed}")
    print(f"samples per client: {sizes.min()} to {sizes.max()}, median {int(np.median(sizes))}, {sizes.sum():,} in all")
    print(f"classes per client: {kinds.min()} to {kinds.max()} of {stage.data.n_classes}")
    draw(held, f"{choices['dataset']}, {choices['partition']}, seed {stage.config.seed}", output)
    print(f"picture: {output}")


def draw(held: np.ndarray, title: str, output: Path) -> None:
    """The heat map of samples held (clients×classes), with each client's total beside it."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    n_clients, n_classes = held.shape
    height = float(np.clip(0.14 * n_clients, 3, 12))
    figure, (left, right) = plt.subplots(1, 2, figsize=(8, height), width_ratios=(4, 1), sharey=True, layout="constrained")
    image = left.imshow(held, aspect="auto", cmap="viridis", interpolation="nearest")
    figure.colorbar(image, ax=left, label="samples", pad=0.02)
    left.set(xlabel="class", ylabel="client", title=title)
    if n_classes <= 20:
        left.set_xticks(range(n_classes))
    right.barh(range(n_clients), held.sum(1), color="0.45")
    right.set(xlabel="samples in all")
    right.spines[["top", "right"]].set_visible(False)
    output.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(output, dpi=150)
    plt.close(figure)
