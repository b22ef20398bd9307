"""A picture of who holds what."""

from __future__ import annotations

from pathlib import Path

import numpy as np


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
