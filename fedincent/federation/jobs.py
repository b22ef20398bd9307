"""What a client does with a model in a round."""

from __future__ import annotations

from dataclasses import dataclass

from fedincent.federation.recipe import Recipe


@dataclass(frozen=True)
class LocalTask:
    """What one client does with the model it is given in one round."""

    lr: float
    epochs: int = 1
    steps: int | None = None  # so many steps instead of epochs; batches go on from pass to pass
    inner_rate: float = 0.0  # of Per-FedAvg: each step takes its gradient after a trial step of this rate on another batch
    proximal: float = 0.0  # µ of FedProx: µ/2·‖θ − incoming‖² is added to the loss
    frozen: tuple[tuple[int, int], ...] = ()  # column ranges that do not train
    incoming_loss: bool = False  # also report the loss of the incoming model on the client's training data

    @staticmethod
    def of(recipe: Recipe, round_index: int) -> LocalTask:
        """The recipe's task in a round."""
        return LocalTask(lr=recipe.rate(round_index), epochs=recipe.local_epochs, steps=recipe.local_steps or None)
