"""What the clients make of the models: metrics for the summary, columns for clients.csv, unseen.csv and rounds.csv.

Every client's model is judged on the common test set; where clients keep tests of their own, on those too, by the clients
that trained and by those that did not. The measure of all is the client's own model, from standalone training.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from torch import Tensor

from fedincent.evaluation.metrics import correlations, own_metrics, summarise
from fedincent.federation import LocalTask
from fedincent.runs.stage import Stage
from fedincent.store.folder import Result

Judge = Callable[[Tensor, str], tuple[Tensor, Tensor]]  # models (N×D), which data: accuracy and loss (N each)


class Judgement:
    """Of models of one stage, against a baseline; without one, of standalone training itself."""

    def __init__(self, stage: Stage, baseline: Result | None, judge: Judge) -> None:
        self.stage, self.config, self.baseline, self.judge = stage, stage.config, baseline, judge

    def of_clients(self, models: Tensor, clients: pd.DataFrame, suffix: str, importance: Tensor | None) -> dict[str, Any]:
        """The metrics of the clients' models (N×D), with `suffix` in their names; columns go into clients.csv."""
        config, alone = self.config, None if self.baseline is None else self.baseline.clients
        accuracy, loss = (score.numpy() for score in self.judge(models, "test"))
        alone_accuracy, alone_loss = (accuracy, loss) if alone is None else (alone.accuracy, alone.loss)
        if not suffix:
            clients["contribution"] = accuracy if alone is None else config.contribution.values.numpy()
            clients["standalone_accuracy"], clients["standalone_loss"] = np.array(alone_accuracy), np.array(alone_loss)
        clients[f"accuracy{suffix}"], clients[f"loss{suffix}"] = accuracy, loss
        if alone is None and config.held_out > 0:
            clients["held_out_accuracy"] = self.judge(models, "held_out")[0].numpy()
        strict = config.ipr_strict and alone is not None
        metrics = summarise(accuracy, loss, np.array(alone_accuracy), np.array(alone_loss), strict=strict)
        if importance is not None:
            train_loss = self.judge(models, "train")[1].numpy()
            clients["importance"], clients[f"train_loss{suffix}"] = importance.numpy(), train_loss
            metrics |= correlations(importance.numpy(), accuracy, train_loss)
        if config.client_test_fraction > 0:
            own_accuracy, own_loss = (score.numpy() for score in self.stage.seen.judge(models, "test"))
            clients[f"own_accuracy{suffix}"], clients[f"own_loss{suffix}"] = own_accuracy, own_loss
            if alone is not None:
                clients[f"incentive_gap{suffix}"] = own_loss - alone.own_loss.to_numpy()
                metrics |= against(alone, own_accuracy, own_loss, "own")
        if alone is None:
            clients["own_train_loss"] = self.stage.seen.judge(models, "train")[1].numpy()
        return {f"{name}{suffix}": value for name, value in metrics.items()}

    def of_unseen(self, models: Tensor, unseen: pd.DataFrame, task: LocalTask | None) -> dict[str, Any]:
        """The common model by clients that did not train it, after they tuned it (`task`); columns go into unseen.csv."""
        config = self.config
        if not config.unseen_clients:
            return {}
        population, suffix = self.stage.unseen, "" if task is None else "_tuned"
        if self.baseline is None:
            start = self.stage.initial.expand(config.unseen_clients, -1)
            rows = population.trained(start, LocalTask(lr=config.training.lr, steps=config.solo_steps), 0)
        else:
            rows = models[:1].expand(config.unseen_clients, -1)
            rows = rows if task is None else population.trained(rows, task, config.rounds + 1)
        accuracy, loss = (score.numpy() for score in population.judge(rows, "test"))
        unseen["n_samples"] = population.train.sizes
        unseen[f"own_accuracy{suffix}"], unseen[f"own_loss{suffix}"] = accuracy, loss
        if self.baseline is None:
            return {}
        alone = self.baseline.unseen
        unseen["standalone_accuracy"], unseen["standalone_loss"] = alone.own_accuracy, alone.own_loss
        return {f"{name}{suffix}": value for name, value in against(alone, accuracy, loss, "unseen").items()}

    def on_the_way(self, models: Tensor) -> dict[str, float | None]:
        """How models (N×D) stand after a round, for curves."""
        accuracy, _ = self.judge(models, "test")
        row: dict[str, float | None] = {"accuracy_mean": float(accuracy.mean()), "accuracy_max": float(accuracy.max())}
        row |= {f"client_{i}": float(a) for i, a in enumerate(accuracy)}
        if self.baseline is None or self.config.client_test_fraction == 0:
            return row
        own_accuracy, own_loss = (score.numpy() for score in self.stage.seen.judge(models, "test"))
        row |= against(self.baseline.clients, own_accuracy, own_loss, "own")
        own_train_loss = float(self.stage.seen.judge(models, "train")[1].mean())
        return row | {"own_loss": own_loss.mean(), "own_train_loss": own_train_loss}


def against(alone: pd.DataFrame, accuracy: np.ndarray, loss: np.ndarray, whose: str) -> dict[str, float | None]:
    """IPR and the accuracy of the preferred model, a model's scores on clients' own tests (N) against their own models'."""
    metrics = own_metrics(loss, accuracy, alone.own_loss.to_numpy(), alone.own_accuracy.to_numpy())
    return {f"{name}_{whose}": value for name, value in metrics.items()}
