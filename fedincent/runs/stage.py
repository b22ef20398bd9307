"""What all runs of one data set, partition, model, recipe and seed share."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from fedincent.config.run import Config
from fedincent.datasets import Data, load
from fedincent.errors import ConfigError
from fedincent.evaluation.population import Population, split_off
from fedincent.federation import Federation, Layout, Shards, Streams, make_shards, standardise
from fedincent.mechanisms import Mechanism
from fedincent.mechanisms.standalone import Standalone
from fedincent.partitions import assign
from fedincent.runs.view import View
from fedincent.store.folder import RunFolder
from fedincent.training import Executor
from fedincent.training.auto import Auto
from fedincent.training.loop import Workload


@dataclass(frozen=True)
class Split:
    """Sample indices: per client to train on and for its own tests, those of unseen clients, and the held-out ones."""

    train: list[np.ndarray]
    test: list[np.ndarray]  # empty where clients have no tests of their own
    unseen_train: list[np.ndarray]
    unseen_test: list[np.ndarray]
    held: np.ndarray


class Stage:
    """What all runs of one data set, partition, model, recipe and seed share; its costly parts are made when first used."""

    def __init__(self, config: Config, view: View) -> None:
        self.config, self.view = config, view
        self.data: Data = load(config.dataset)
        config.partition.check(self.data.kind, self.data.n_classes)
        needy = [name for name in ("mechanism", "contribution") if getattr(config, name).needs_held_out()]
        if needy and config.held_out == 0:
            raise ConfigError("held_out", config.held_out, f"{needy[0]} judges on held-out data: set held_out=0.1, say")
        if config.per_round > config.n_clients:
            raise ConfigError("per_round", config.per_round, f"there are {config.n_clients} clients (n_clients)")
        if config.unseen_clients and config.client_test_fraction == 0:
            raise ConfigError(
                "unseen_clients", config.unseen_clients, "they need tests of their own: client_test_fraction=0.4"
            )
        if config.unseen_clients and config.solo_steps == 0:
            raise ConfigError("unseen_clients", config.unseen_clients, "say how they train alone: solo_steps=100")
        config.logger.check()
        self.device = pick_device(config.device)
        self.streams = Streams(config.seed)
        torch.manual_seed(self.streams.torch_seed("model"))
        self.module = config.model.build(self.data)
        self.layout = Layout(self.module)
        self.initial = self.layout.flatten(self.module).to(self.device)
        self.chosen = self.choose_executor()

    def choose_executor(self) -> Executor:
        """The executor to use, `auto` having been decided."""
        executor = self.config.executor
        if isinstance(executor, Auto):
            executor = executor.choose(len(self.data.y_train), self.device.type)
        if self.device.type not in executor.devices:
            raise ConfigError("executor", self.config.choices["executor"], f"does not run on device={self.device.type}")
        return executor

    def folder(self, mechanism: Mechanism) -> RunFolder:
        """A mechanism's place in the store."""
        config, names = self.config, self.config.choices
        alone = isinstance(mechanism, Standalone)
        numerics = self.chosen.numerics if self.device.type == "cpu" else self.device.type
        identity = {**config.identity(alone), "data": self.data.fingerprint, "numerics": numerics}
        name = "standalone" if alone else names["mechanism"]
        parts = (name, names["dataset"], names["partition"], names["model"], f"s{config.seed}")
        return RunFolder(Path(config.results_dir).expanduser(), "-".join(parts), identity)

    @cached_property
    def split(self) -> Split:
        """Who holds which samples."""
        config = self.config
        order = self.streams("held_out").permutation(len(self.data.y_train))
        n_held = round(config.held_out * len(order))
        if config.held_out > 0 and n_held == 0:
            raise ConfigError("held_out", config.held_out, f"is less than one of {len(order)} training samples")
        held, kept = order[:n_held], np.sort(order[n_held:])
        labels, groups = np.asarray(self.data.y_train)[kept], self.data.groups
        if groups is not None:
            groups = np.asarray(groups)[kept]
        count = config.n_clients + config.unseen_clients
        shares = assign(config.partition, labels, self.data.n_classes, count, self.streams("partition"), groups)
        train = [kept[share] for share in shares]
        test: list[np.ndarray] = []
        if config.client_test_fraction > 0:
            if config.partition.min_size < 2:
                raise ConfigError("partition.min_size", config.partition.min_size, "a client needs 2 samples to test on one")
            train, test = split_off(train, config.client_test_fraction, self.streams)
        n = config.n_clients
        return Split(train[:n], test[:n], train[n:], test[n:], np.sort(held))

    @cached_property
    def seen(self) -> Population:
        """The clients that train, with their own tests where they have any; they share the executor's training samples."""
        test = self.shards_of(self.split.test, self.streams, clean=True) if self.split.test else None
        return Population(self.executor.work.shards, test, self.module, self.config.training, self.streams)

    @cached_property
    def unseen(self) -> Population:
        """The clients that only judge."""
        streams = Streams(self.streams.torch_seed("unseen"))
        train = self.shards_of(self.split.unseen_train, streams, clean=False)
        test = self.shards_of(self.split.unseen_test, streams, clean=True)
        return Population(train, test, self.module, self.config.training, streams)

    def shards_of(self, shares: list[np.ndarray], streams: Streams, clean: bool) -> Shards:
        """Some clients' samples, where the computing is done."""
        shards = make_shards(self.data, shares, self.config.partition, streams, clean)
        return dataclasses.replace(shards, x=shards.x.to(self.device), y=shards.y.to(self.device))

    @property
    def class_counts(self) -> np.ndarray:
        """How many samples of each class each client holds (N×classes), wrong labels not counted in."""
        labels = np.asarray(self.data.y_train)
        return np.stack([np.bincount(labels[share], minlength=self.data.n_classes) for share in self.split.train])

    @cached_property
    def executor(self) -> Executor:
        """The executor, at work on this stage's clients."""
        config, data = self.config, self.data
        shards, held = self.shards_of(self.split.train, self.streams, clean=False), self.split.held
        judged = {"test": (standardise(data, data.x_test), labels_of(data.y_test))}
        if len(held):
            judged["held_out"] = (standardise(data, data.x_train[held]), labels_of(data.y_train[held]))
        if config.trace:
            judged["train"] = (shards.x, shards.y)
        if self.device.type != "cpu":
            judged = {k: (x.to(self.device), y.to(self.device)) for k, (x, y) in judged.items()}
        self.chosen.open(Workload(self.module, shards, judged, config.training, self.streams))
        return self.chosen

    def close(self) -> None:
        """Let the executor go, if it was ever used."""
        if "executor" in self.__dict__:
            self.executor.close()

    @cached_property
    def federation(self) -> Federation:
        """What a mechanism may know."""
        config = self.config
        rates = torch.ones(config.n_clients, dtype=torch.float64)
        if config.participation == "linear":
            rates = 0.5 * (1 + torch.arange(1, config.n_clients + 1, dtype=torch.float64) / config.n_clients)
        elif not isinstance(config.participation, str):
            rates *= config.participation
        return Federation(
            initial=self.initial,
            layout=self.layout,
            sizes=torch.tensor([len(share) for share in self.split.train]),
            participation=rates,
            streams=self.streams,
            contribution=config.contribution,
            judge=lambda models, data: self.executor.judge(models, data),
            cores=self.executor.parallel,
            per_round=config.per_round,
        )


def labels_of(y: np.ndarray) -> Tensor:
    """Labels as torch wants them."""
    return torch.from_numpy(np.array(y, dtype=np.int64))


def pick_device(name: str) -> torch.device:
    """`auto` is the GPU where there is one."""
    available = torch.cuda.is_available()
    if name == "cuda" and not available:
        raise ConfigError("device", name, "torch finds no CUDA device here; use device=cpu or device=auto")
    return torch.device("cuda" if name == "cuda" or (name == "auto" and available) else "cpu")
