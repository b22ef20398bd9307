"""What the clients make of the models: columns for clients.csv, unseen.csv and rounds.csv, and metrics for the summary.

Every client's model is judged on the common test set; where clients keep tests of their own, on those too, by the
clients that trained and by those that did not. What a gain is measured against is the reference: another run of the
same stage, standalone training as a rule.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch

from fedincent.evaluation.metrics import summarise
from fedincent.evaluation.population import Population
from fedincent.federation import LocalTask
from fedincent.federation.predictors import Predictor

if TYPE_CHECKING:
    from fedincent.config.run import Config

Given = torch.Tensor | Predictor  # what the clients are given: N×D, or what is no single row
Judge = Callable[..., tuple[torch.Tensor, torch.Tensor]]  # models, which data, own=…: score and loss (N each)


@dataclass(frozen=True)
class Reference:
    """The run that gains are measured against: its name, and its clients.csv and unseen.csv."""

    name: str
    clients: pd.DataFrame
    unseen: Callable[[], pd.DataFrame]


@dataclass
class Judgement:
    """Of models of one stage, against a reference; `alone`: of standalone training, which is its own reference."""

    config: Config
    judge: Judge
    score: str  # name of the score: accuracy, or mape
    reference: Reference | None
    alone: bool
    contribution: np.ndarray | None  # what is known of the clients' contributions (N), if anything
    truth: dict[str, np.ndarray]  # what is known of the clients themselves (N each)
    unseen: Callable[[], Population]
    initial: torch.Tensor  # θ_0 (D)

    def of_clients(
        self,
        models: Given,
        clients: pd.DataFrame,
        suffix: str,
        importance: torch.Tensor | None,
        online: torch.Tensor | None = None,
        outcomes: Mapping[str, torch.Tensor] | None = None,
    ) -> dict[str, Any]:
        """The metrics of the clients' models, with `suffix` in their names; columns go into clients.csv.

        online: score and loss after every round (T×2×N), where the run asks for it.
        outcomes: what the mechanism tells of the clients (N each).
        """
        columns = self.columns(models, importance)
        if not suffix:
            if self.alone:
                clients["contribution"] = columns[self.score]
            elif self.contribution is not None:
                columns["contribution"] = clients["contribution"] = self.contribution
            for what in (self.score, "loss"):
                if f"reference_{what}" in columns:
                    clients[f"{self.reference_name}_{what}"] = columns[f"reference_{what}"]
        for what in (self.score, "loss"):
            if what in columns:
                clients[f"{what}{suffix}"] = columns[what]
        if self.alone and self.config.held_out > 0:
            clients[f"held_out_{self.score}"] = self.judge(models, "held_out")[0].numpy()
        if importance is not None:
            clients["importance"], clients[f"train_loss{suffix}"] = columns["importance"], columns["train_loss"]
        if self.config.client_validation_fraction > 0:
            name = f"validation_{self.score}"
            columns[name] = clients[f"{name}{suffix}"] = self.judge(models, "validation", own=True)[0].numpy()
        if "own_loss" in columns:
            for what in (f"own_{self.score}", "own_loss"):
                clients[f"{what}{suffix}"] = columns[what]
            if not self.alone and "reference_own_loss" in columns:
                clients[f"incentive_gap{suffix}"] = columns["own_loss"] - columns["reference_own_loss"]
                if self.reference_name != "standalone":
                    clients[f"{self.reference_name}_own_{self.score}"] = columns[f"reference_own_{self.score}"]
        if self.alone:
            clients["own_train_loss"] = self.judge(models, "train", own=True)[1].numpy()
        if not suffix:
            for name, values in self.truth.items():
                columns[name] = clients[name] = values
        if online is not None:
            for place, what in enumerate((self.score, "loss")):
                columns[f"online_{what}"] = clients[f"online_{what}"] = online[:, place].mean(0).numpy()
            columns[f"final_{self.score}"] = clients[f"final_{self.score}"] = online[-1, 0].numpy()
        for name, told in (outcomes or {}).items():
            columns[name] = clients[name] = told.double().cpu().numpy()
        return summarise(columns, suffix)

    @property
    def judges_test(self) -> bool:
        """Whether anybody asks how the models do on the common test set.

        Not where they are judged online alone, nor where the partition deals everybody tests of its own.
        """
        if self.alone:
            return True
        asked = self.config.protocol == "final" or self.config.reference != "none"
        return asked and not self.config.partition.own_tests

    def shown(self, row: Mapping[str, Any]) -> float | None:
        """What of a round's numbers a progress bar shows."""
        return row.get(f"{self.score}_mean", row.get(f"own_{self.score}_mean"))

    @property
    def reference_name(self) -> str:
        """What the reference's columns are called by."""
        return "standalone" if self.alone or self.reference is None else self.reference.name

    def columns(self, models: Given, importance: torch.Tensor | None) -> dict[str, Any]:
        """All that metrics may ask for."""
        columns: dict[str, Any] = {"strict": self.config.ipr_strict and not self.alone}
        if self.judges_test:
            score, loss = (values.numpy() for values in self.judge(models, "test"))
            columns |= {self.score: score, "loss": loss}
            if self.alone:
                columns |= {f"reference_{self.score}": score, "reference_loss": loss}
        if not self.alone and self.reference is not None:
            for what in (self.score, "loss"):
                if what in self.reference.clients:
                    columns[f"reference_{what}"] = np.array(self.reference.clients[what])
        if importance is not None:
            columns |= {"importance": importance.numpy(), "train_loss": self.judge(models, "train")[1].numpy()}
        if self.config.own_tests:
            columns |= self.own(models)
        return columns

    def own(self, models: Given) -> dict[str, np.ndarray]:
        """Score and loss on the clients' own tests, and the reference's (N each)."""
        score, loss = (values.numpy() for values in self.judge(models, "own", own=True))
        columns = {f"own_{self.score}": score, "own_loss": loss}
        if not self.alone and self.reference is not None:
            for what in (f"own_{self.score}", "own_loss"):
                columns[f"reference_{what}"] = np.array(self.reference.clients[what])
        return columns

    def of_unseen(
        self,
        models: Given,
        unseen: pd.DataFrame,
        closing: LocalTask | None,
        task: LocalTask | None,
        given: torch.Tensor | None = None,
    ) -> dict[str, Any]:
        """The common model by clients that did not train it; columns go into unseen.csv.

        closing: what the mechanism has each client do with it first; task: the tuning, if that is to be judged.
        given: models of their own (U×D), where the mechanism has such for them.
        """
        config = self.config
        if not config.unseen_clients:
            return {}
        population, suffix = self.unseen(), "" if task is None else "_tuned"
        if self.alone:
            start = self.initial.expand(config.unseen_clients, -1)
            rows = population.trained(start, LocalTask(lr=config.training.lr, steps=config.solo_steps), 0)
        else:
            assert isinstance(models, torch.Tensor)
            rows = models[:1].expand(config.unseen_clients, -1) if given is None else given
            for work, index in ((closing, config.rounds), (task, config.rounds + 1)):
                rows = rows if work is None else population.trained(rows, work, index)
        score, loss = (values.numpy() for values in population.judge(rows))
        unseen["n_samples"] = population.train.sizes
        unseen[f"own_{self.score}{suffix}"], unseen[f"own_loss{suffix}"] = score, loss
        if self.alone or self.reference is None:
            return {}
        theirs = self.reference.unseen()
        columns = {f"unseen_{self.score}": score, "unseen_loss": loss}
        for what in (self.score, "loss"):
            columns[f"reference_unseen_{what}"] = np.array(theirs[f"own_{what}"])
            unseen[f"{self.reference_name}_{what}"] = theirs[f"own_{what}"]
        return summarise(columns, suffix)

    def on_the_way(self, models: Given) -> dict[str, float | None]:
        """How models stand after a round, for curves."""
        row: dict[str, float | None] = {}
        if self.judges_test:
            score, _ = self.judge(models, "test")
            row |= {f"{self.score}_mean": float(score.mean()), f"{self.score}_max": float(score.max())}
            row |= {f"client_{i}": float(a) for i, a in enumerate(score)}
        if self.config.partition.own_tests:
            score, loss = self.judge(models, "own", own=True)
            return row | {f"own_{self.score}_mean": float(score.mean()), "own_loss": float(loss.mean())}
        if self.alone or self.reference is None or not self.config.own_tests:
            return row
        columns = self.own(models)
        own = summarise(columns)
        row |= {name: own[name] for name in ("ipr_own", "preferred_own") if name in own}
        own_train_loss = float(self.judge(models, "train", own=True)[1].mean())
        return row | {"own_loss": columns["own_loss"].mean(), "own_train_loss": own_train_loss}


def online_frame(online: torch.Tensor, score: str) -> pd.DataFrame:
    """Score and loss after every round (T×2×N): a line per round and client."""
    rounds, _, n = online.shape
    where = torch.cartesian_prod(torch.arange(1, rounds + 1), torch.arange(n))
    columns = {"round": where[:, 0].numpy(), "client": where[:, 1].numpy()}
    return pd.DataFrame({**columns, score: online[:, 0].flatten().numpy(), "loss": online[:, 1].flatten().numpy()})
