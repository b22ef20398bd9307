"""What a mechanism is: it says who trains from which model with which task, receives the updates G, and rewards.

A mechanism is tensor algebra on N×D matrices. It knows nothing of data, devices, processes or files; what it needs of
the world (sizes, random streams, a judge of models, the contribution measure) is in the Federation it is given.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fedincent.config.schema import Stateful
from fedincent.federation import Federation, LocalTask, Recipe, Round


@dataclass(kw_only=True)
class Mechanism(Stateful):
    """Base of all mechanisms; the default one is: everybody invited trains from the row `models` holds for it.

    Fields are the mechanism's parameters. What changes from round to round lives in attributes set by `start`; those
    named in `saved` are tensors that go into a checkpoint and come back from it.
    """

    group: ClassVar[str] = "mechanism"

    saved: ClassVar[tuple[str, ...]] = ("models",)
    uses_contribution: ClassVar[bool] = False  # whether it asks for the contributions, for the notes of a table
    alone: ClassVar[bool] = False  # whether clients train without one another
    needs_solo_losses: ClassVar[bool] = False  # whether it asks what each client's own model reaches on its training data

    def start(self, federation: Federation) -> None:
        """Set the state before the first round; by default a model of its own for each client."""
        self.federation = federation
        self.models = federation.replicas()

    def invite(self, round: Round) -> Tensor:
        """Who trains in this round (N, boolean): so many drawn at random, or each client by its own participation rate."""
        rates, count = self.federation.participation, self.federation.per_round
        if count:
            return torch.from_numpy(round.stream("participation").permutation(len(rates)) < count)
        return torch.from_numpy(round.stream("participation").random(len(rates))) < rates

    def task(self, recipe: Recipe, round: Round, client: int) -> LocalTask:
        """What a client does in this round; by default what the recipe says."""
        return LocalTask.of(recipe, round.index)

    def incoming(self, round: Round) -> Tensor:
        """The models the clients start the round from (N×D)."""
        return self.models

    def reward(self, round: Round, updates: Tensor) -> None:
        """Receive the updates G (N×D, zero rows for absentees; may be overwritten) and change the models."""
        raise NotImplementedError

    def closing_task(self, recipe: Recipe) -> LocalTask | None:
        """What each client does with its final model before it is judged (fine-tuning), if anything."""
        return None
