"""What a mechanism is: it says who trains from which model with which task, receives the updates G, and rewards.

A mechanism is tensor algebra on N×D matrices. It knows nothing of data, devices, processes or files; what it needs of
the world (sizes, random streams, a judge of models, the contribution measure) is in the Federation it is given.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import torch

from fedincent.config.schema import Stateful
from fedincent.federation import Federation, Job, LocalTask, Recipe, Round
from fedincent.federation.predictors import Predictor

ByClient: TypeAlias = "Callable[[torch.Tensor, str], tuple[list[torch.Tensor], list[torch.Tensor]]]"


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

    def check(self, n_clients: int, per_round: int) -> None:
        """Raise, before anything is computed, where it does not go with so many clients, or so many of them a round."""

    def invite(self, round: Round) -> torch.Tensor:
        """Who trains in this round (N, boolean): so many drawn at random, or each client by its own participation rate."""
        rates, count = self.federation.participation, self.federation.per_round
        if count:
            return torch.from_numpy(round.stream("participation").permutation(len(rates)) < count)
        return torch.from_numpy(round.stream("participation").random(len(rates))) < rates

    def task(self, recipe: Recipe, round: Round, client: int) -> LocalTask:
        """What a client does in this round; by default what the recipe says."""
        return LocalTask.of(recipe, round.index)

    def incoming(self, round: Round) -> torch.Tensor:
        """The models the clients start the round from (N×D)."""
        return self.models

    def jobs(self, round: Round, recipe: Recipe) -> tuple[torch.Tensor, list[Job]]:
        """The round's work: a pool of models (P×D), and who trains which row of it with which task.

        By default one job for each client that joined, from its own row of `incoming`.
        """
        rows = self.incoming(round)
        one_for_all = rows.stride(0) == 0
        joined = round.joined.nonzero().flatten().tolist()
        jobs = [Job(i, 0 if one_for_all else i, self.task(recipe, round, i)) for i in joined]
        return (rows[:1] if one_for_all else rows), jobs

    def receive(self, round: Round, updates: torch.Tensor) -> None:
        """Take the updates (J×D) of the round's jobs; by default `reward` sees those of clients' first jobs as G."""
        self.reward(round, self.scattered(round, updates))

    def scattered(self, round: Round, updates: torch.Tensor) -> torch.Tensor:
        """The updates of each client's first job as G (N×D), zero rows for those who have none."""
        firsts = [place for place, job in enumerate(round.jobs) if job.slot == 0]
        clients = [round.jobs[place].client for place in firsts]
        if len(updates) == self.federation.n and clients == list(range(self.federation.n)):
            return updates
        rows = updates.new_zeros(self.federation.n, updates.shape[1])
        rows[clients] = updates[firsts]
        return rows

    def reward(self, round: Round, updates: torch.Tensor) -> None:
        """Receive the updates G (N×D, zero rows for absentees; may be overwritten) and change the models."""
        raise NotImplementedError

    def personal(self) -> torch.Tensor | Predictor:
        """What each client is given (N×D, or a predictor where that is no single row); asked for only to be judged."""
        return self.models

    def facts(self) -> dict[str, Any]:
        """What is to be known of the whole run, for its summary."""
        return {}

    def outcomes(self) -> dict[str, torch.Tensor]:
        """What is to be known of each client at the end (N each), for clients.csv."""
        return {}

    def needs_validation(self) -> bool:
        """Whether clients need samples of their own to validate on."""
        return False

    def cluster_models(self) -> torch.Tensor | None:
        """The models of clusters (K×D), to be judged on each distribution of the data; None: there are no clusters."""
        return None

    def of_unseen(self, by_client: ByClient) -> torch.Tensor | None:
        """What clients that did not train are given (U×D); None: the common model.

        by_client: models (M×D), a set → their scores and losses on those clients' samples, client by client (M×n_i each).
        """
        return None

    def closing_task(self, recipe: Recipe) -> LocalTask | None:
        """What each client does with its final model before it is judged (fine-tuning), if anything."""
        return None

    def closing_jobs(self, recipe: Recipe) -> tuple[torch.Tensor, list[Job]] | None:
        """The same as jobs from a pool of models (P×D), one for each client in their order."""
        task, given = self.closing_task(recipe), self.personal()
        if task is None or not isinstance(given, torch.Tensor):
            return None
        return given, [Job(i, i, task) for i in range(self.federation.n)]
