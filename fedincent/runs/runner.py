"""One run, top to bottom: load → split → train alone → rounds → judge → store."""

from __future__ import annotations

import dataclasses
import logging
import platform
import time
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

import fedincent
from fedincent.config.run import Config
from fedincent.contributions import Baseline
from fedincent.contributions.cgsv import CosineImportance
from fedincent.errors import ConfigError, DivergenceError, FedincentError
from fedincent.evaluation.judgement import Judgement
from fedincent.federation import LocalTask, Round
from fedincent.mechanisms import Mechanism
from fedincent.mechanisms.standalone import Standalone
from fedincent.runs.stage import Stage
from fedincent.runs.view import View, view_for_terminal
from fedincent.store.folder import Result, RunFolder

log = logging.getLogger("fedincent")
BASELINE = {"mechanism": {"_target_": "fedincent.mechanisms.standalone.Standalone"}, "eval_every": 0, "force": False}


def run(config: Config, view: View | None = None) -> Result:
    """Carry out a run, or find it finished; whatever was begun before is resumed."""
    view = view or view_for_terminal()
    stage = Stage(config, view)
    try:
        return complete(stage, config.mechanism)
    finally:
        stage.close()
        view.close()


def complete(stage: Stage, mechanism: Mechanism) -> Result:
    """The result of a mechanism on a stage: found in the store, or made under the lock of its folder."""
    config = stage.config
    alone = isinstance(mechanism, Standalone)
    folder = stage.folder(mechanism)
    force = config.force and mechanism is config.mechanism
    found = folder.result(config.eval_every if mechanism is config.mechanism else 0)
    if found and not force:
        if mechanism is config.mechanism:
            stage.view.message("found finished; force=true runs it anew")
        return found
    _ = stage.split  # what cannot be dealt out is said before a folder is made
    with folder.locked(stage.view.message):
        found = folder.result(config.eval_every if mechanism is config.mechanism else 0)
        if found and not force:
            return found
        if folder.result():  # asked for anew, or there with too coarse a curve
            folder.forget_checkpoint()
        folder.save_config(config.raw if mechanism is config.mechanism else {**config.raw, **BASELINE})
        baseline = None if alone else complete(stage, Standalone())
        try:
            return Session(stage, mechanism, folder, baseline).play()
        except BaseException:
            config.logger.failed()
            raise


class Session:
    """One mechanism's rounds on a stage, from the first or from a checkpoint."""

    def __init__(self, stage: Stage, mechanism: Mechanism, folder: RunFolder, baseline: Result | None) -> None:
        self.stage, self.config, self.mechanism, self.folder = stage, stage.config, mechanism, folder
        self.watched = mechanism is stage.config.mechanism  # else it is the baseline of the run that is asked for
        self.eval_every = self.config.eval_every if self.watched else 0
        self.baseline = baseline
        self.contribution = None if baseline is None else self.config.contribution
        self.judgement = Judgement(stage, baseline, self.judge)
        self.observer = CosineImportance(alpha=0.95) if self.config.trace and baseline is not None else None
        self.history: list[dict[str, Any]] = []
        self.seconds = {"training": 0.0, "mechanism": 0.0, "validation": 0.0, "judging": 0.0}
        self.begun = time.perf_counter()

    def play(self) -> Result:
        """All rounds still to be done, the judgement, and the stored result."""
        mechanism, config, view = self.mechanism, self.config, self.stage.view
        federation = dataclasses.replace(self.stage.federation, judge=self.judge, solo_losses=self.solo_losses())
        mechanism.start(federation)
        if config.unseen_clients and self.baseline is not None and mechanism.models.stride(0) != 0:
            why = f"mechanism={config.choices['mechanism']} has no common model that they could judge"
            raise ConfigError("unseen_clients", config.unseen_clients, why)
        for measure in (self.contribution, self.observer):
            if measure is not None:
                measure.start(federation, baseline_of(self.baseline))
        self.resume()
        self.folder.save_partition(self.stage.class_counts)
        if self.watched:
            config.logger.started(self.folder.key, config.raw)
            for row in self.history:
                config.logger.round_done(row)
        name = "standalone" if self.baseline is None else config.choices["mechanism"]
        rounds = 1 if self.baseline is None and config.solo_steps else config.rounds
        view.stage(name, rounds, len(self.history), config.n_clients)
        saved = time.monotonic()
        for index in range(len(self.history), rounds):
            self.history.append(self.play_round(index))
            if time.monotonic() - saved >= config.checkpoint_every or index + 1 == rounds:
                self.save()
                saved = time.monotonic()
            if self.watched:
                config.logger.round_done(self.history[-1])
            view.round_done(self.history[-1].get("accuracy_mean"))
        result = self.judge_and_store()
        if self.watched:
            config.logger.finished(result.summary)
        return result

    def solo_losses(self) -> Tensor | None:
        """F_k(ŵ_k) (N), for a mechanism that asks for it."""
        if self.baseline is None or not self.mechanism.needs_solo_losses:
            return None
        alone = self.baseline.clients
        if "own_train_loss" not in alone:
            raise FedincentError(
                f"{self.baseline.path.name} was stored before training losses were: run it again, with mechanism=standalone "
                "force=true"
            )
        return torch.from_numpy(np.array(alone.own_train_loss, dtype=np.float64))

    def play_round(self, index: int) -> dict[str, Any]:
        """One round: who joins, from which models, local training, rewards; what rounds.csv says of it."""
        mechanism, recipe = self.mechanism, self.config.training
        round = self.new_round(index, recipe.rate(index))
        round.joined = mechanism.invite(round)
        incoming = mechanism.incoming(round)
        tasks = {i: mechanism.task(recipe, round, i) for i in round.joined.nonzero().flatten().tolist()}
        if self.baseline is None and self.config.solo_steps:
            tasks = dict.fromkeys(tasks, LocalTask(lr=recipe.lr, steps=self.config.solo_steps))
        updates = self.train(index, incoming, tasks, round)
        if self.observer is not None:
            importance = self.observer.measure(round, updates)
            round.note("importance", lambda: importance)
        begun, judging = time.perf_counter(), self.seconds["judging"]
        mechanism.reward(round, updates)
        if mechanism.models.shape != incoming.shape:
            raise FedincentError(
                f"{type(mechanism).__name__}.reward left models of shape {tuple(mechanism.models.shape)}, not "
                f"{tuple(incoming.shape)} (clients × parameters)"
            )
        validation = self.seconds["judging"] - judging
        self.seconds["judging"] = judging
        self.seconds["validation"] += validation
        self.seconds["mechanism"] += time.perf_counter() - begun - validation
        losses = round.losses[round.joined]
        row: dict[str, Any] = {
            "round": index + 1,
            "lr": round.lr,
            "joined": int(round.joined.sum()),
            "train_loss": float(losses.mean()) if len(losses) else None,
        }
        if self.eval_every and (index + 1) % self.eval_every == 0:
            row |= self.judgement.on_the_way(mechanism.models)
        if round.trace is not None:
            round.note("train_loss", lambda: round.losses)
            row["trace"] = {name: values.tolist() for name, values in round.trace.items()}
        return row

    def new_round(self, index: int, lr: float) -> Round:
        """A round in which nobody has joined yet."""
        n = self.config.n_clients
        unknown = torch.full((n,), torch.nan)
        trace: dict[str, Tensor] | None = {} if self.observer is not None else None
        nobody = torch.zeros(n, dtype=torch.bool)
        return Round(index, lr, self.stage.streams, nobody, unknown, unknown.clone(), trace)

    def train(self, index: int, incoming: Tensor, tasks: dict[int, LocalTask], round: Round) -> Tensor:
        """The updates G (N×D); losses go into the round; a client that diverged stops the run or is left out."""
        begun = time.perf_counter()
        updates, reports = self.stage.executor.train(index, incoming, tasks, self.stage.view.client_done)
        self.seconds["training"] += time.perf_counter() - begun
        for client, report in reports.items():
            round.losses[client] = report.loss
            round.incoming_losses[client] = report.incoming_loss
            if not (np.isfinite(report.loss) and bool(updates[client].isfinite().all())):
                facts = f"client {client} diverged in round {index + 1} at learning rate {tasks[client].lr:g}"
                if not bool(incoming[client].isfinite().all()):
                    raise DivergenceError(
                        f"the model that client {client} is given in round {index + 1} is not finite: look at "
                        f"{type(self.mechanism).__name__}.reward"
                    )
                if self.config.on_divergence == "stop":
                    raise DivergenceError(
                        f"{facts} (loss {report.loss}).\nLower training.lr, or set on_divergence=drop to go on without it."
                    )
                log.warning("%s: its update is dropped", facts)
                updates[client] = 0
                round.joined[client] = False
        return updates

    def judge(self, models: Tensor, data: str) -> tuple[Tensor, Tensor]:
        """Accuracy and loss of models (N×D), with the time it takes accounted for."""
        begun = time.perf_counter()
        scores = self.stage.executor.judge(models, data)
        self.seconds["judging"] += time.perf_counter() - begun
        return scores

    def judge_and_store(self) -> Result:
        """Fine-tune where the mechanism says so, judge every client's model, and write everything down."""
        config, mechanism = self.config, self.mechanism
        models = mechanism.models
        task = mechanism.closing_task(config.training)
        if task is not None:
            models = self.tuned(models, task, config.rounds)
        clients = pd.DataFrame({"client": range(config.n_clients), "n_samples": self.stage.federation.sizes.numpy()})
        unseen = pd.DataFrame({"client": range(config.unseen_clients)})
        judgement, importance = self.judgement, None if self.observer is None else self.observer.values
        summary = judgement.of_clients(models, clients, "", importance) | judgement.of_unseen(models, unseen, None)
        if self.baseline is not None and (config.tune_epochs or config.tune_steps):
            lr, steps = config.training.rate(config.rounds - 1), config.tune_steps or None
            task = LocalTask(lr=lr, epochs=config.tune_epochs, steps=steps)
            tuned = self.tuned(models, task, config.rounds + 1)
            summary |= judgement.of_clients(tuned, clients, "_tuned", importance)
            summary |= judgement.of_unseen(models, unseen, task)
        history = [{name: value for name, value in row.items() if name != "trace"} for row in self.history]
        more = {"trace": pd.concat([trace_frame(row) for row in self.history])} if self.observer is not None else {}
        more |= {"unseen": unseen} if config.unseen_clients else {}
        facts = {**summary, **self.facts()}
        return self.folder.finish(facts, clients, pd.DataFrame(history), config.keep_checkpoint, more)

    def tuned(self, models: Tensor, task: LocalTask, index: int) -> Tensor:
        """The models (N×D) after every client has worked on its own, in what counts as round `index` for random draws."""
        n = self.config.n_clients
        closing = self.new_round(index, task.lr)
        closing.joined = torch.ones(n, dtype=torch.bool)
        return self.train(index, models, dict.fromkeys(range(n), task), closing).add_(models)

    def facts(self) -> dict[str, Any]:
        """What a summary says beside the metrics."""
        config = self.config
        choices = config.choices if self.baseline is not None else {**config.choices, "mechanism": "standalone"}
        parts = (self.mechanism, config.contribution) if self.mechanism.uses_contribution else (self.mechanism,)
        seconds = {**self.seconds, "total": self.seconds.get("total", 0.0) + time.perf_counter() - self.begun}
        seconds["overhead"] = seconds["mechanism"] + seconds["validation"]
        seconds["overhead_share"] = seconds["overhead"] / max(seconds["training"], 1e-9)
        return {
            "run": self.folder.key,
            "choices": choices,
            "seed": config.seed,
            "n_clients": config.n_clients,
            "rounds": config.rounds,
            "eval_every": self.eval_every,
            "notes": [note for note in (part.reads_test() for part in parts) if note],
            "seconds": {name: round(value, 6) for name, value in seconds.items()},
            "versions": {
                "fedincent": fedincent.__version__,
                "torch": torch.__version__,
                "numpy": np.__version__,
                "python": platform.python_version(),
            },
        }

    def save(self) -> None:
        """Write a checkpoint."""
        tensors = {f"mechanism.{k}": v for k, v in self.mechanism.state_dict().items()}
        for name, measure in (("contribution", self.contribution), ("observer", self.observer)):
            if measure is not None:
                tensors |= {f"{name}.{k}": v for k, v in measure.state_dict().items()}
        total = self.seconds.get("total", 0.0) + time.perf_counter() - self.begun
        facts = {"history": self.history, "seconds": {**self.seconds, "total": total}, "eval_every": self.eval_every}
        self.folder.save_checkpoint(tensors, facts)

    def resume(self) -> None:
        """Go on where a checkpoint stands, if there is one that fits."""
        found = self.folder.checkpoint()
        if found is None or found.facts["eval_every"] != self.eval_every:
            return
        self.history, self.seconds = found.facts["history"], found.facts["seconds"]
        parts = {"mechanism": self.mechanism, "contribution": self.contribution, "observer": self.observer}
        for name, part in parts.items():
            if part is not None:
                prefix = f"{name}."
                state = {k.removeprefix(prefix): v for k, v in found.tensors.items() if k.startswith(prefix)}
                part.load_state_dict(state)


def baseline_of(result: Result | None) -> Baseline:
    """What contributions may know of standalone training."""
    assert result is not None
    clients = result.clients
    columns = (clients.accuracy, clients.loss, clients.get("held_out_accuracy", []))
    return Baseline(*(torch.from_numpy(np.array(column, dtype=np.float64)) for column in columns))


def trace_frame(row: dict[str, Any]) -> pd.DataFrame:
    """What was noted of one round: a line per client."""
    notes = row["trace"]
    clients = range(len(next(iter(notes.values()))))
    return pd.DataFrame({"round": row["round"], "client": clients, **notes})
