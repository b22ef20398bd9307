"""How a client trains in a round."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from fedincent.config import Component, option


@dataclass(kw_only=True)
class Recipe(Component):
    """How a client trains in a round; a data set's YAML sets the paper's values."""

    group: ClassVar[str] = "training"

    optimizer: str = option("local optimizer", choices=("adam", "sgd"))
    lr: float = option("learning rate of the first round", above=0)
    decay: float = option("factor on the learning rate from one round to the next", above=0, high=1)
    batch_size: int = option("samples in a local step", low=1)
    local_epochs: int = option("passes over the client's data in a round", low=1)
    local_steps: int = option("so many steps in a round instead of passes; 0: passes", low=0, neutral=0)
    momentum: float = option("of sgd: how much of the last step goes into the next", low=0, below=1, neutral=0.0)
    weight_decay: float = option("weight decay: so much of the model is added to its gradient", low=0, neutral=0.0)
    carry: bool = option(
        "whether a client's optimizer remembers from round to round; else it is fresh in every round", neutral=False
    )
    augment: str = option("what is done to a training image at each pass", choices=("none", "crop_flip"))

    def rate(self, round_index: int) -> float:
        """lr_t = lr_0 · decay^t, t = 0 in the first round."""
        return self.lr * self.decay**round_index
