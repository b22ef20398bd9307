"""One configuration's rounds on a stage, from the first or from a checkpoint; then the judgement."""

from __future__ import annotations

import dataclasses
import logging
import platform
import time
from typing import Any

import numpy as np
import pandas as pd
import torch

from fedincent.config.run import Config
from fedincent.contributions import Baseline
from fedincent.contributions.cgsv import CosineImportance
from fedincent.errors import ConfigError, DivergenceError, FedincentError
from fedincent.evaluation.clusters import cluster_lines, cluster_scores, cluster_summary
from fedincent.evaluation.judgement import Given, Judgement, Reference, online_frame
from fedincent.evaluation.recompute import known_metrics
from fedincent.federation import Federation, LocalTask, Round
from fedincent.federation.jobs import Job, numbered
from fedincent.federation.round import Found
from fedincent.mechanisms import Mechanism
from fedincent.runs.interrupt import listening
from fedincent.runs.stage import Stage
from fedincent.store.folder import RunFolder
from fedincent.store.identity import SCHEMA, dataset_identity
from fedincent.store.result import Result
from fedincent.version import __version__

log = logging.getLogger("fedincent")
FAR_OFF = 20  # times the loss of a guess: from there on a finite model is none
NESTED = ("trace", "clusters")  # what is known of a round beside the numbers of rounds.csv


class Session:
    """One mechanism's rounds on a stage; others: the finished runs that it builds on, by name."""

    def __init__(self, stage: Stage, config: Config, folder: RunFolder, others: dict[str, Result]) -> None:
        self.stage, self.config, self.mechanism, self.folder = stage, config, config.mechanism, folder
        self.watched = config is stage.config  # else it is one that the run that is asked for builds on
        self.alone = self.mechanism.alone
        self.others, self.baseline = others, others.get("standalone")
        self.round_index = 0
        self.contribution = None if self.alone or not self.contribution_known() else config.contribution
        self.observer = CosineImportance(alpha=0.95) if config.trace and not self.alone else None
        self.judgement = self.make_judgement(others.get(config.reference))
        self.history: list[dict[str, Any]] = []
        self.online: list[torch.Tensor] = []  # score and loss after each round (2×N)
        self.seconds = {"training": 0.0, "mechanism": 0.0, "validation": 0.0, "judging": 0.0}
        self.begun = time.perf_counter()

    def contribution_known(self) -> bool:
        """Whether what the contribution measure asks for is there."""
        return self.baseline is not None or not self.config.contribution.needs_standalone

    def make_judgement(self, reference: Result | None) -> Judgement:
        """How this run's models are judged."""
        stage, config = self.stage, self.config
        against = None
        if reference is not None:
            against = Reference(config.reference, reference.clients, lambda: reference.unseen)
        truth = {name: np.array(values) for name, values in stage.deal.truth.items()}
        score, initial = stage.objective.score_name, stage.initial
        return Judgement(config, self.judge, score, against, self.alone, None, truth, lambda: stage.unseen, initial)

    def play(self) -> Result:
        """All rounds still to be done, the judgement, and the stored result."""
        config, view = self.config, self.stage.view
        self.start()
        self.resume()
        self.folder.save_partition(self.stage.class_counts)
        if self.watched:
            config.logger.started(self.folder.key, config.raw)
            for row in self.history:
                config.logger.round_done(row)
        rounds = 1 if self.alone and config.solo_steps else config.rounds
        view.stage(config.choices["mechanism"], rounds, len(self.history), self.stage.n)
        saved = time.monotonic()
        with listening(view.message) as interrupt:
            for index in range(len(self.history), rounds):
                self.history.append(self.play_round(index))
                ending = interrupt.asked  # who asks from here on is heard after the next round, with a checkpoint of that
                if ending or time.monotonic() - saved >= config.checkpoint_every or index + 1 == rounds:
                    self.save()
                    saved = time.monotonic()
                if self.watched:
                    config.logger.round_done(self.history[-1])
                view.round_done(self.judgement.shown(self.history[-1]))
                if ending:
                    raise KeyboardInterrupt
        result = self.judge_and_store()
        if self.watched:
            config.logger.finished(result.summary)
        return result

    def start(self) -> None:
        """Everything as it is before the first round."""
        config, mechanism = self.config, self.mechanism
        federation = self.federation()
        mechanism.start(federation)
        for state in mechanism.state_dict().values():
            if state.ndim == 2 and len(state) > 1 and state.shape[1] == self.stage.layout.dim:
                self.stage.executor.share(state)
        gives = type(mechanism).of_unseen is not Mechanism.of_unseen
        if config.unseen_clients and not self.alone and not gives and not one_model_for_all(mechanism.personal()):
            why = f"mechanism={config.choices['mechanism']} has no common model that they could judge"
            raise ConfigError("unseen_clients", config.unseen_clients, why)
        baseline = None if self.baseline is None else baseline_of(self.baseline, self.judgement.score)
        for measure in (self.contribution, self.observer):
            if measure is not None:
                measure.start(federation, baseline)
        known = None if self.contribution is None else self.contribution.values
        if not self.alone:
            config.behaviour.start(federation, known)
        self.stage.executor.load_state_dict({})

    def federation(self) -> Federation:
        """What the mechanism may know; its judging is bound to the round that is played, and to this run's clock."""
        executor = self.stage.executor
        return dataclasses.replace(
            self.stage.federation,
            sizes=self.reported(),
            judge=self.judge,
            solo_losses=self.solo_losses(),
            scores=lambda models, data, clients=None: self.timed(
                lambda: executor.scores(models, data, self.round_index, clients)
            ),
            judge_pairs=lambda models, pairs, data: self.timed(
                lambda: executor.judge_pairs(models, pairs, data, self.round_index)
            ),
            found={name: Found(result.summary, result.clients) for name, result in self.others.items()},
            gradient=lambda model, data, clients: self.timed(lambda: executor.gradient(model, data, clients)),
        )

    def reported(self) -> torch.Tensor:
        """How many samples the clients say they have (N)."""
        sizes = self.stage.federation.sizes
        return sizes if self.alone else self.config.behaviour.report(sizes, self.stage.streams)

    def solo_losses(self) -> torch.Tensor | None:
        """F_k(ŵ_k) (N), for a mechanism that asks for it."""
        if self.baseline is None or not self.mechanism.needs_solo_losses:
            return None
        alone = self.baseline.clients
        if "own_train_loss" not in alone:
            raise FedincentError(
                f"{self.baseline.name} was stored before training losses were: run it again, with mechanism=standalone "
                "force=true"
            )
        return torch.from_numpy(np.array(alone.own_train_loss, dtype=np.float64))

    def play_round(self, index: int) -> dict[str, Any]:
        """One round: who joins, what they train, what they send, rewards; what rounds.csv says of it."""
        mechanism, recipe, config = self.mechanism, self.config.training, self.config
        self.round_index = index
        round = self.new_round(index, recipe.rate(index))
        round.joined = mechanism.invite(round)
        if not self.alone:
            config.behaviour.come(round)
        pool, jobs = mechanism.jobs(round, recipe)
        round.jobs = numbered(jobs)
        if self.alone and config.solo_steps:
            solo = LocalTask(lr=recipe.lr, steps=config.solo_steps)
            round.jobs = [dataclasses.replace(job, task=solo) for job in round.jobs]
        updates = self.train(round, pool)
        self.wait()
        if not self.alone:  # who trains alone sends nothing
            config.behaviour.send(round, updates, pool)
        if self.observer is not None:
            importance = self.observer.measure(round, mechanism.scattered(round, updates))
            round.note("importance", lambda: importance)
        begun, judging = time.perf_counter(), self.seconds["judging"]
        mechanism.receive(round, updates)
        self.wait()
        validation = self.seconds["judging"] - judging
        self.seconds["judging"] = judging
        self.seconds["validation"] += validation
        self.seconds["mechanism"] += time.perf_counter() - begun - validation - round.aside_seconds
        return self.row_of(round)

    def row_of(self, round: Round) -> dict[str, Any]:
        """What is kept of a round: a line of rounds.csv, what was noted, and how the models stand where that is wanted."""
        config = self.config
        losses = round.losses[round.joined]
        row: dict[str, Any] = {
            "round": round.index + 1,
            "lr": round.lr,
            "joined": int(round.joined.sum()),
            "train_loss": float(losses.mean()) if len(losses) else None,
            **round.told,
        }
        if config.eval_every and (round.index + 1) % config.eval_every == 0:
            row |= self.judgement.on_the_way(self.given())
            clusters = self.judge_clusters(round.index + 1)
            row |= {"clusters": clusters["lines"]} if clusters else {}
        if config.protocol == "online":
            data = "arriving" if "arriving" in self.stage.executor.work.judged else "test"
            self.online.append(torch.stack(self.judge(self.given(), data)))
        if round.trace is not None:
            round.note("train_loss", lambda: round.losses)
            if config.trace_loss:
                overall = self.judge(self.given(), "train")[1]
                round.note("overall_loss", lambda: overall)
            row["trace"] = {name: values.tolist() for name, values in round.trace.items()}
        return row

    def given(self) -> Given:
        """What the mechanism gives the clients, one each."""
        given, wanted = self.mechanism.personal(), (self.stage.n, self.stage.layout.dim)
        shape = tuple(given.shape) if isinstance(given, torch.Tensor) else (len(given), given.models.shape[1])
        if shape != wanted:
            raise FedincentError(
                f"{type(self.mechanism).__name__} left models of shape {shape}, not {wanted} (clients × parameters)"
            )
        return given

    def new_round(self, index: int, lr: float) -> Round:
        """A round in which nobody has joined yet."""
        n = self.stage.n
        unknown = torch.full((n,), torch.nan)
        trace: dict[str, torch.Tensor] | None = {} if self.observer is not None else None
        nobody = torch.zeros(n, dtype=torch.bool)
        return Round(index, lr, self.stage.streams, nobody, unknown, unknown.clone(), trace)

    def train(self, round: Round, pool: torch.Tensor) -> torch.Tensor:
        """The updates (J×D) of the round's jobs; losses go into the round; who diverged stops the run or is left out."""
        begun = time.perf_counter()
        updates, reports = self.stage.executor.train(round.index, pool, round.jobs, self.stage.view.client_done)
        looking = sum(report.incoming_seconds for report in reports) / self.stage.executor.parallel
        self.seconds["validation"] += looking  # at the incoming model, which is no training
        self.seconds["training"] += time.perf_counter() - begun - looking
        round.reports = reports
        lengths = (
            torch.linalg.vector_norm(updates, ord=torch.inf, dim=1).tolist() if len(updates) else []
        )  # nan and inf show
        for job, report, update, length in zip(round.jobs, reports, updates, lengths, strict=True):
            client = job.client
            if job.slot == 0:
                round.losses[client] = report.loss
                round.incoming_losses[client] = report.incoming_loss
            if not (np.isfinite(report.loss) and np.isfinite(length)):
                facts = f"client {client} diverged in round {round.index + 1} at learning rate {job.task.lr:g}"
                if not bool(pool[job.row].isfinite().all()):
                    raise DivergenceError(
                        f"the model that client {client} is given in round {round.index + 1} is not finite: look at "
                        f"{type(self.mechanism).__name__}.reward"
                    )
                if self.config.on_divergence == "stop":
                    raise DivergenceError(
                        f"{facts} (loss {report.loss}).\nLower training.lr, or set on_divergence=drop to go on without it."
                    )
                log.warning("%s: its update is dropped", facts)
                update.zero_()
                round.joined[client] = False
        return updates

    def judge(self, models: Given, data: str, own: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
        """Score and loss of models, with the time it takes accounted for."""
        return self.timed(lambda: self.stage.executor.judge(models, data, self.round_index, own))

    def wait(self) -> None:
        """Until a GPU has done what was asked of it: else its work would be booked on whoever looks next."""
        if self.stage.device.type == "cuda":
            torch.cuda.synchronize()

    def end(self) -> None:
        """Let go of what holds on to one another, so that memory is free when the last name for it is gone."""
        for part in self.stateful().values():
            part.__dict__.pop("federation", None)
        self.__dict__.pop("judgement")

    def timed(self, judging: Any) -> Any:
        """What judging gives, with its time accounted for."""
        begun = time.perf_counter()
        found = judging()
        self.seconds["judging"] += time.perf_counter() - begun
        return found

    def judge_and_store(self) -> Result:
        """Fine-tune where the mechanism says so, judge every client's model, and write everything down."""
        config, mechanism, judgement = self.config, self.mechanism, self.judgement
        common = models = self.given()
        closing = mechanism.closing_task(config.training)
        work = mechanism.closing_jobs(config.training)
        if work is not None:
            models = self.worked(*work, config.rounds)
        if self.contribution is not None:
            judgement.contribution = self.contribution.values.numpy()
        clients = pd.DataFrame({"client": range(self.stage.n), "n_samples": self.stage.federation.sizes.numpy()})
        unseen = pd.DataFrame({"client": range(config.unseen_clients)})
        importance = None if self.observer is None else self.observer.values
        online = torch.stack(self.online) if self.online else None
        outcomes = mechanism.outcomes() if self.alone else {**mechanism.outcomes(), **config.behaviour.outcomes()}
        summary = judgement.of_clients(models, clients, "", importance, online, outcomes)
        given = mechanism.of_unseen(self.stage.unseen.by_client) if config.unseen_clients else None
        summary |= judgement.of_unseen(common, unseen, closing, None, given)
        clusters = self.judge_clusters(config.rounds)
        lines = [line for row in self.history for line in row.get("clusters", []) if line["round"] < config.rounds]
        lines += clusters.pop("lines", [])
        summary |= clusters
        if not self.alone and (config.tune_epochs or config.tune_steps):
            lr, steps = config.training.rate(config.rounds - 1), config.tune_steps or None
            task = LocalTask(lr=lr, epochs=config.tune_epochs, steps=steps)
            tuned = self.tuned(models, task, config.rounds + 1)
            summary |= judgement.of_clients(tuned, clients, "_tuned", importance)
            summary |= judgement.of_unseen(common, unseen, closing, task, given)
        history = [{name: value for name, value in row.items() if name not in NESTED} for row in self.history]
        more = {"trace": pd.concat([trace_frame(row) for row in self.history])} if self.observer is not None else {}
        more |= {"unseen": unseen} if config.unseen_clients else {}
        more |= {"online": online_frame(online, judgement.score)} if online is not None else {}
        more |= {"clusters": pd.DataFrame(lines)} if lines else {}
        told = {} if self.alone else config.behaviour.facts()
        facts = {**summary, **self.facts(), **mechanism.facts(), **told}
        facts["notes"] = [*facts["notes"], *self.blown_up(clients)]
        return self.folder.finish(facts, clients, pd.DataFrame(history), config.keep_checkpoint, more)

    def blown_up(self, clients: pd.DataFrame) -> list[str]:
        """A sentence where the models are finite, but so far off that the run tells nothing: no guess loses so much."""
        column = next((name for name in ("loss", "own_loss", "online_loss") if name in clients), None)
        guessing = self.stage.objective.guessing_loss(self.stage.data.n_classes)
        if column is None or not clients[column].median() > FAR_OFF * guessing:
            return []
        rate = self.config.training.lr
        why = f"blew up: half of the clients have a loss {FAR_OFF} times that of guessing; lower training.lr={rate:g}"
        log.warning("%s %s", self.folder.key, why)
        return [why]

    def tuned(self, models: Given, task: LocalTask, index: int) -> torch.Tensor:
        """The models (N×D) after every client has worked on its own, in what counts as round `index` for random draws."""
        if not isinstance(models, torch.Tensor):
            name = type(self.mechanism).__name__
            raise ConfigError("tune_epochs", task.epochs, f"{name} gives its clients no single model that they could tune")
        return self.worked(models, [Job(client, client, task) for client in range(self.stage.n)], index)

    def worked(self, pool: torch.Tensor, jobs: list[Job], index: int) -> torch.Tensor:
        """What the clients (N×D) make of the models of a pool (P×D), in what counts as round `index` for random draws."""
        closing = self.new_round(index, jobs[0].task.lr)
        closing.jobs, closing.joined = jobs, torch.ones(self.stage.n, dtype=torch.bool)
        rows = pool[[job.row for job in jobs]]
        return rows.add_(self.train(closing, pool))

    def judge_clusters(self, round_number: int) -> dict[str, Any]:
        """How good the models of clusters are on each distribution, where there are such; for summary and clusters.csv."""
        models, distributions = self.mechanism.cluster_models(), list(self.stage.deal.distributions)
        if models is None or not distributions:
            return {}
        scores = cluster_scores(models, distributions, self.judge)
        return {"lines": cluster_lines(round_number, scores, distributions), **cluster_summary(scores, distributions)}

    def facts(self) -> dict[str, Any]:
        """What a summary says beside the metrics."""
        config = self.config
        parts = (self.mechanism, config.contribution) if self.mechanism.uses_contribution else (self.mechanism,)
        seconds = {**self.seconds, "total": self.seconds.get("total", 0.0) + time.perf_counter() - self.begun}
        seconds["overhead"] = seconds["mechanism"] + seconds["validation"]
        seconds["overhead_share"] = seconds["overhead"] / max(seconds["training"], 1e-9)
        seconds["overhead_of_all"] = seconds["overhead"] / max(seconds["overhead"] + seconds["training"], 1e-9)
        return {
            "run": self.folder.key,
            "schema": SCHEMA,
            "dataset": dataset_identity(config, self.stage.data.fingerprint),
            "metrics_known": known_metrics(),
            "choices": config.choices,
            "seed": config.seed,
            "n_clients": config.n_clients,
            "rounds": config.rounds,
            "eval_every": config.eval_every,
            "notes": [note for note in (part.reads_test() for part in parts) if note],
            "seconds": {name: round(value, 6) for name, value in seconds.items()},
            "versions": {
                "fedincent": __version__,
                "torch": torch.__version__,
                "numpy": np.__version__,
                "python": platform.python_version(),
            },
        }

    def stateful(self) -> dict[str, Any]:
        """Everything whose state goes into a checkpoint, by name."""
        parts = {
            "mechanism": self.mechanism,
            "contribution": self.contribution,
            "observer": self.observer,
            "behaviour": None if self.alone else self.config.behaviour,  # who trains alone sends nothing
            "executor": self.stage.executor,
        }
        return {name: part for name, part in parts.items() if part is not None}

    def save(self) -> None:
        """Write a checkpoint."""
        tensors = {f"{name}.{k}": v for name, part in self.stateful().items() for k, v in part.state_dict().items()}
        if self.online:
            tensors["session.online"] = torch.stack(self.online)
        total = self.seconds.get("total", 0.0) + time.perf_counter() - self.begun
        facts = {"history": self.history, "seconds": {**self.seconds, "total": total}, "eval_every": self.config.eval_every}
        self.folder.save_checkpoint(tensors, facts)

    def resume(self) -> None:
        """Go on where a checkpoint stands, if there is one that fits."""
        found = self.folder.checkpoint()
        if found is None or found.facts["eval_every"] != self.config.eval_every:
            return
        self.history, self.seconds = found.facts["history"], found.facts["seconds"]
        for name, part in self.stateful().items():
            prefix = f"{name}."
            part.load_state_dict({k.removeprefix(prefix): v for k, v in found.tensors.items() if k.startswith(prefix)})
        if "session.online" in found.tensors:
            self.online = list(found.tensors["session.online"])


def one_model_for_all(given: Given) -> bool:
    """Whether everybody is given the same row."""
    return isinstance(given, torch.Tensor) and given.stride(0) == 0


def baseline_of(result: Result, score: str) -> Baseline:
    """What contributions may know of standalone training."""
    clients = result.clients
    columns = (clients[score], clients.loss, clients.get(f"held_out_{score}", []))
    return Baseline(*(torch.from_numpy(np.array(column, dtype=np.float64)) for column in columns))


def trace_frame(row: dict[str, Any]) -> pd.DataFrame:
    """What was noted of one round: a line per client."""
    notes = row["trace"]
    clients = range(len(next(iter(notes.values()))))
    return pd.DataFrame({"round": row["round"], "client": clients, **notes})
