"""What all runs of one data set, partition, model, recipe and seed share."""

from __future__ import annotations

import copy
import dataclasses
from functools import cached_property
from pathlib import Path

import numpy as np
import torch

from fedincent.config.run import Config
from fedincent.datasets import Data, load
from fedincent.errors import ConfigError
from fedincent.evaluation.population import Population
from fedincent.federation import Federation, Judged, Layout, Shards, Streams, make_shards, standardise
from fedincent.federation.shards import disturb, gathered
from fedincent.objectives import objective_of
from fedincent.partitions import Deal, Table
from fedincent.runs.view import View
from fedincent.store.folder import RunFolder
from fedincent.store.identity import identity_of
from fedincent.training import Executor, Workload
from fedincent.training.auto import Auto
from fedincent.training.loop import Supervised


class Stage:
    """What all runs of one data set, partition, model, recipe and seed share; its costly parts are made when first used."""

    def __init__(self, config: Config, view: View) -> None:
        self.config, self.view = config, view
        self.data: Data = load(config.dataset)
        self.objective = objective_of(self.data)
        self.check()
        self.device = pick_device(config.device)
        if self.device.type == "cuda":
            repeatable(not config.fast_gpu)
        self.streams = Streams(config.seed)
        self.dealing = self.streams if config.deal_seed < 0 else Streams(config.deal_seed)
        self.module = self.build("model")
        self.layout = Layout(self.module)
        self.initial = self.layout.flatten(self.module).to(self.device)
        self.chosen = self.choose_executor()

    def check(self) -> None:
        """Raise, before anything is computed, where the parts of a configuration do not go together."""
        config, data = self.config, self.data
        if config.partition.by_label and not data.n_classes:
            name = config.choices["partition"]
            raise ConfigError("partition", name, "goes by label, the data set has numbers as targets; use iid or quantity")
        for part in (config.partition, config.disturbance):
            part.check(data.kind, data.n_classes)
        needy = [name for name in ("mechanism", "contribution") if getattr(config, name).needs_held_out()]
        if needy and config.held_out == 0:
            raise ConfigError("held_out", config.held_out, f"{needy[0]} judges on held-out data: set held_out=0.1, say")
        if config.per_round > config.n_clients:
            raise ConfigError("per_round", config.per_round, f"there are {config.n_clients} clients (n_clients)")
        config.mechanism.check(self.n, config.per_round)
        if config.partition.own_tests and (config.client_test_fraction or config.stream.per_round):
            name = config.choices["partition"]
            why = "deals clients tests of their own; it goes with neither client_test_fraction nor stream.per_round"
            raise ConfigError("partition", name, why)
        if config.mechanism.needs_validation() and config.client_validation_fraction == 0:
            why = (
                f"mechanism={config.choices['mechanism']} asks clients to validate: set client_validation_fraction=0.2, say"
            )
            raise ConfigError("client_validation_fraction", 0, why)
        if config.unseen_clients and not config.own_tests:
            raise ConfigError(
                "unseen_clients", config.unseen_clients, "they need tests of their own: client_test_fraction=0.4"
            )
        if config.unseen_clients and config.solo_steps == 0:
            raise ConfigError("unseen_clients", config.unseen_clients, "say how they train alone: solo_steps=100")
        if config.solo_steps and config.stream.per_round:
            raise ConfigError("solo_steps", config.solo_steps, "where data arrive, clients train alone on what arrives")
        if config.unseen_clients and config.stream.per_round:
            raise ConfigError("unseen_clients", config.unseen_clients, "cannot be had where data arrive (stream.per_round)")
        if config.client_test_fraction > 0 and config.partition.min_size < 2:
            raise ConfigError("partition.min_size", config.partition.min_size, "a client needs 2 samples to test on one")
        if config.mechanism.alone and getattr(config.behaviour, "paired", False):
            raise ConfigError("behaviour.paired", True, "who trains alone is rewarded by nobody")
        if self.n != config.n_clients and (not config.disturbance.neutral() or self.partition_disturbs()):
            name = config.choices["behaviour"]
            raise ConfigError("behaviour", name, "goes with no disturbance or noise, which are dealt out seat by seat")

    @property
    def n(self) -> int:
        """How many take part: the clients, and more where some come under several names."""
        return self.config.behaviour.seats(self.config.n_clients)

    def partition_disturbs(self) -> bool:
        """Whether the partition makes some clients' samples worse."""
        partition, n = self.config.partition, self.config.n_clients
        return bool(partition.noise(n).any() or partition.label_noise(n).any())

    def build(self, purpose: str) -> torch.nn.Module:
        """A module with the initial weights that a random stream gives."""
        torch.manual_seed(self.streams.torch_seed(purpose))
        return self.config.model.build(self.data)

    def choose_executor(self) -> Executor:
        """The executor to use, `auto` having been decided."""
        executor = self.config.executor
        if isinstance(executor, Auto):
            executor = executor.choose(len(self.data.y_train), self.device.type)
        if self.device.type not in executor.devices:
            raise ConfigError("executor", self.config.choices["executor"], f"does not run on device={self.device.type}")
        return executor

    def folder(self, config: Config) -> RunFolder:
        """A run's place in the store."""
        names = config.choices
        numerics = self.chosen.numerics if self.device.type == "cpu" else self.device.type
        identity = {**identity_of(config), "data": self.data.fingerprint, "numerics": numerics}
        parts = (names["mechanism"], names["dataset"], names["partition"], names["model"], f"s{config.seed}")
        return RunFolder(Path(config.results_dir).expanduser(), "-".join(parts), identity)

    @cached_property
    def held(self) -> np.ndarray:
        """The training samples that are held out, in random order, and behind them (n_held) those that are dealt out."""
        order = self.dealing("held_out").permutation(len(self.data.y_train))
        if self.config.held_out > 0 and self.n_held == 0:
            raise ConfigError("held_out", self.config.held_out, f"is less than one of {len(order)} training samples")
        return order

    @property
    def n_held(self) -> int:
        """How many training samples are held out."""
        return round(self.config.held_out * len(self.data.y_train))

    @cached_property
    def deals(self) -> tuple[Deal, Deal]:
        """Who holds which samples: the clients that train, and those that only judge."""
        config = self.config
        n, kept = config.n_clients, np.sort(self.held[self.n_held :])
        table = Table(
            self.data,
            kept,
            n + config.unseen_clients,
            self.dealing,
            config.client_test_fraction,
            config.client_test_from,
            config.client_validation_fraction,
            config.unseen_clients,
        )
        deal = config.partition.deal(table)
        seen, unseen = deal.of(slice(0, n)), deal.of(slice(n, None))
        if config.stream.per_round:
            if config.stream.order == "given":
                order = config.stream.in_time(np.sort(np.concatenate(seen.train)), n)
            else:
                order = [self.streams("arrivals", client=i).permutation(share) for i, share in enumerate(seen.train)]
            seen = dataclasses.replace(seen, train=order)
        truth = {**seen.truth, **config.disturbance.truth(n)}
        return config.behaviour.bring(dataclasses.replace(seen, truth=truth), self.streams), unseen

    @property
    def deal(self) -> Deal:
        """Who holds which samples, of the clients that train; in the order of arrival where data arrive."""
        return self.deals[0]

    @cached_property
    def counts(self) -> np.ndarray | None:
        """Where data arrive: how many samples each client has got before each round (N×(T+2))."""
        stream, held = self.config.stream, np.array([len(share) for share in self.deal.train])
        return stream.counts(held, self.config.rounds) if stream.per_round else None

    @cached_property
    def shares(self) -> list[np.ndarray]:
        """The samples that each client trains on: all it holds, or those that arrive before the last round is over."""
        if self.counts is None:
            return self.deal.train
        return [share[: self.counts[i, -2]] for i, share in enumerate(self.deal.train)]

    @property
    def class_counts(self) -> np.ndarray:
        """How many samples of each class each client trains on (N×classes, or N×1), wrong labels not counted in."""
        if not self.data.n_classes:
            return np.array([[len(share)] for share in self.shares])
        labels = np.asarray(self.data.y_train)
        return np.stack([np.bincount(labels[share], minlength=self.data.n_classes) for share in self.shares])

    def training_shards(self) -> Shards:
        """What the clients train on, disturbed as the configuration says."""
        config = self.config
        shards = make_shards(self.data, self.shares, config.partition, self.streams, self.deal.turns)
        disturb(shards, config.disturbance, config.disturbance.shares(self.n), self.data.n_classes, self.streams)
        config.behaviour.spoil(shards, self.data.n_classes, self.streams)
        if self.counts is not None:
            shards.arrivals = self.counts[:, :-1].tolist()
        return self.placed(shards)

    def placed(self, shards: Shards) -> Shards:
        """Samples where the computing is done."""
        return dataclasses.replace(shards, x=shards.x.to(self.device), y=shards.y.to(self.device))

    def own_set(self, shares: list[np.ndarray], purpose: str, official_test: bool = False) -> Judged:
        """Samples that each client judges its model on: clean, unless a disturbance is part of what the client is."""
        config = self.config
        shards = gathered(self.data, shares, self.objective, official_test, self.deal.turns)
        if config.disturbance.own_tests:
            streams = Streams(self.streams.torch_seed(purpose))
            disturb(shards, config.disturbance, config.disturbance.shares(len(shares)), self.data.n_classes, streams)
        shards = self.placed(shards)
        return Judged(shards.x, shards.y, clients=shards.bounds)

    def judged_sets(self, train: Shards) -> dict[str, Judged]:
        """All that models are judged on, by name."""
        data, deal = self.data, self.deal

        def common(x: np.ndarray, y: np.ndarray) -> Judged:
            return Judged(standardise(data, x).to(self.device), self.objective.targets_of(y).to(self.device))

        judged = {"test": common(data.x_test, data.y_test), "train": Judged(train.x, train.y, clients=train.bounds)}
        if self.n_held:
            held = np.sort(self.held[: self.n_held])
            judged["held_out"] = common(data.x_train[held], data.y_train[held])
        if deal.test:
            judged["own"] = self.own_set(deal.test, "own", self.config.tests_are_official)
        if deal.fresh:
            judged["fresh"] = self.own_set(deal.fresh, "fresh", official_test=True)
        if deal.validation:
            judged["validation"] = self.own_set(deal.validation, "validation")
        if self.counts is not None:
            pools = [
                np.concatenate([share[c[t + 1] : c[t + 2]] for share, c in zip(deal.train, self.counts, strict=True)])
                for t in range(self.config.rounds)
            ]
            pool = np.concatenate(pools)
            bounds = [0, *np.cumsum([len(part) for part in pools]).tolist()]
            judged["arriving"] = dataclasses.replace(common(data.x_train[pool], data.y_train[pool]), rounds=bounds)
        for name, indices in deal.distributions.items():
            part = self.placed(gathered(data, [indices], self.objective, official_test=True, turns=deal.turns))
            judged[name] = Judged(part.x, part.y)
        return judged

    @cached_property
    def unseen(self) -> Population:
        """The clients that only judge."""
        streams, deal = Streams(self.streams.torch_seed("unseen")), self.deals[1]
        train = self.placed(make_shards(self.data, deal.train, self.config.partition, streams, deal.turns))
        judged = {"own": self.own_set(deal.test, "unseen", self.config.tests_are_official)}
        for name, shares, official in (("validation", deal.validation, False), ("fresh", deal.fresh, True)):
            if shares:
                judged[name] = self.own_set(shares, f"unseen {name}", official)
        return Population(train, judged, self.executor.work, streams, copy.copy(self.chosen))

    @cached_property
    def executor(self) -> Executor:
        """The executor, at work on this stage's clients."""
        shards = self.training_shards()
        judged = self.judged_sets(shards)
        work = Workload(self.module, shards, judged, self.config.training, self.streams, self.objective, Supervised)
        self.chosen.open(work)
        return self.chosen

    def close(self) -> None:
        """Let the executor go, if it was ever used, and all that is large: a sweep's next run wants the memory."""
        if "unseen" in self.__dict__:
            self.unseen.close()
        if "executor" in self.__dict__:
            self.executor.close()
            del self.executor.work
        for name in ("executor", "federation", "unseen", "initial"):
            self.__dict__.pop(name, None)

    @cached_property
    def federation(self) -> Federation:
        """What a mechanism may know."""
        config, executor = self.config, self.executor
        rates = torch.ones(self.n, dtype=torch.float64)
        if config.participation == "linear":
            rates = 0.5 * (1 + torch.arange(1, self.n + 1, dtype=torch.float64) / self.n)
        elif not isinstance(config.participation, str):
            rates *= config.participation
        return Federation(
            initial=self.initial,
            layout=self.layout,
            sizes=torch.tensor([len(share) for share in self.shares]),
            participation=rates,
            streams=self.streams,
            contribution=config.contribution,
            judge=executor.judge,
            cores=executor.parallel,
            higher_is_better=self.objective.higher_is_better,
            per_round=config.per_round,
            scores=executor.scores,
            gradient=executor.gradient,
            fresh=self.fresh,
            segments=self.segments,
            judge_pairs=executor.judge_pairs,
        )

    def fresh(self, number: int) -> torch.Tensor:
        """A further initial model (D) beside θ_0, which is number 0."""
        if number == 0:
            return self.initial.clone()
        return self.layout.flatten(self.build(f"model {number}")).to(self.device)

    def segments(self, data: str) -> list[int]:
        """Where each client's part of a judged set begins, and the end of the last."""
        bounds = self.executor.work.judged[data].clients
        assert bounds is not None, f"the set {data} is not grouped by client"
        return bounds


def repeatable(wanted: bool) -> None:
    """Whether a GPU computes in full float32, by kernels that repeat to the bit: IPR and resuming ask for it."""
    torch.backends.cuda.matmul.allow_tf32 = not wanted
    torch.backends.cudnn.allow_tf32 = not wanted
    torch.backends.cudnn.deterministic = wanted
    torch.backends.cudnn.benchmark = not wanted


def pick_device(name: str) -> torch.device:
    """`auto` is the GPU where there is one."""
    available = torch.cuda.is_available()
    if name == "cuda" and not available:
        raise ConfigError("device", name, "torch finds no CUDA device here; use device=cpu or device=auto")
    return torch.device("cuda" if name == "cuda" or (name == "auto" and available) else "cpu")
