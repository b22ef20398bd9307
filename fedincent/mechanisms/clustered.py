"""Rivals of IP-FL that train models of K clusters, which the server or the clients choose by loss.

IFCA (Ghosh et al. 2020): each client trains the cluster whose model has the lowest loss on its training samples.
FedSoft (Ruan & Joe-Wong 2022): each client trains a model of its own, pulled to a mixture of the clusters' models.
FedEM (Marfoq et al. 2021): each sample belongs to each cluster by some probability, each client predicts by a mixture.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from fedincent.config import option
from fedincent.federation import Federation, Job, LocalTask, Recipe, Round
from fedincent.federation.predictors import Mixture
from fedincent.mechanisms.base import Mechanism

LEAST = 1e-4  # what a cluster is worth to a client that likes it on no sample


@dataclass(kw_only=True)
class Clustered(Mechanism):
    """Base: K models (K×D) that begin unlike."""

    saved: ClassVar[tuple[str, ...]] = ("clusters",)

    n_clusters: int = option("number of cluster models K", low=1)

    def start(self, federation: Federation) -> None:
        self.federation = federation
        self.clusters = torch.stack([federation.fresh(k) for k in range(self.n_clusters)])  # M (K×D)

    def cluster_models(self) -> torch.Tensor:
        return self.clusters

    def mean_losses(self, data: str, clients: list[int] | None = None) -> torch.Tensor:
        """Each cluster model's mean loss on each client's samples (clients×K)."""
        _, losses = self.federation.by_client(self.clusters, data, clients)
        return torch.stack([loss.double().mean(1) for loss in losses]).cpu()

    def move(self, k: int, updates: torch.Tensor, weights: torch.Tensor) -> None:
        """M_k ← M_k + Σ w_i·u_i (updates: P×D)."""
        self.clusters[k] += weights.to(updates) @ updates


@dataclass(kw_only=True)
class IFCA(Clustered):
    """Each client trains the cluster whose model suits its samples best (Ghosh et al. 2020)."""

    good_start: float = option(
        "models are drawn anew until each cluster suits so large a share of the clients; 0: as they come", low=0, below=1
    )
    redraws: int = option("how often at most; then the most even draw is taken", low=0)

    def needs_validation(self) -> bool:
        return True

    def start(self, federation: Federation) -> None:
        super().start(federation)
        best, draw = -1.0, self.clusters
        for number in range(self.redraws + 1 if self.good_start > 0 else 0):
            first = number * self.n_clusters
            self.clusters = torch.stack([federation.fresh(first + k) for k in range(self.n_clusters)])
            counts = torch.bincount(self.mean_losses("train").argmin(1), minlength=self.n_clusters)
            smallest = float(counts.min()) / federation.n
            if smallest > best:
                best, draw = smallest, self.clusters
            if best >= self.good_start:
                break
        self.clusters = draw

    def jobs(self, round: Round, recipe: Recipe) -> tuple[torch.Tensor, list[Job]]:
        clients, task = round.joined.nonzero().flatten().tolist(), LocalTask.of(recipe, round.index)
        nearest = self.mean_losses("train", clients).argmin(1).tolist() if clients else []
        return self.clusters, [Job(i, k, task) for i, k in zip(clients, nearest, strict=True)]

    def receive(self, round: Round, updates: torch.Tensor) -> None:
        for k in range(self.n_clusters):
            places = [p for p, job in enumerate(round.jobs) if job.row == k and round.joined[job.client]]
            round.tell(f"trained_{k}", len(places))
            if places:
                self.move(k, updates[places], torch.full((len(places),), 1 / len(places)))

    def personal(self) -> torch.Tensor:
        return self.clusters[self.mean_losses("validation").argmin(1)]


@dataclass(kw_only=True)
class FedEM(Clustered):
    """Each sample belongs to each cluster by some probability; a client predicts by a mixture (Marfoq et al. 2021)."""

    saved: ClassVar[tuple[str, ...]] = ("clusters", "mixture")

    def start(self, federation: Federation) -> None:
        super().start(federation)
        self.mixture = torch.full((federation.n, self.n_clusters), 1 / self.n_clusters, dtype=torch.float64)  # π (N×K)

    def jobs(self, round: Round, recipe: Recipe) -> tuple[torch.Tensor, list[Job]]:
        clients, task = round.joined.nonzero().flatten().tolist(), LocalTask.of(recipe, round.index)
        jobs: list[Job] = []
        if not clients:
            return self.clusters, jobs
        _, losses = self.federation.by_client(self.clusters, "train", clients)
        for client, loss in zip(clients, losses, strict=True):
            belongs = torch.softmax(self.mixture[client].log()[:, None] - loss.double().cpu(), 0)  # q (K×n_i)
            self.mixture[client] = belongs.mean(1)
            weights = belongs.float().numpy()
            jobs += [Job(client, k, dataclasses.replace(task, weights=weights[k])) for k in range(self.n_clusters)]
        return self.clusters, jobs

    def receive(self, round: Round, updates: torch.Tensor) -> None:
        shares = self.federation.data_shares
        for k in range(self.n_clusters):
            places = [p for p, job in enumerate(round.jobs) if job.row == k and round.joined[job.client]]
            if places:
                self.move(k, updates[places], shares[[round.jobs[p].client for p in places]])

    def personal(self) -> Mixture:
        return Mixture(self.clusters, self.mixture)


@dataclass(kw_only=True)
class FedSoft(Clustered):
    """Each client trains a model of its own, pulled to a mixture of the clusters' models (Ruan & Joe-Wong 2022)."""

    saved: ClassVar[tuple[str, ...]] = ("clusters", "own", "belongs")

    per_cluster: int = option("clients that are drawn for each cluster in a round", low=1)
    look_every: int = option("rounds from one look at which cluster suits whom to the next", low=1)
    pull: float = option("strength λ of the pull to the clusters' models", low=0)

    def start(self, federation: Federation) -> None:
        super().start(federation)
        self.clusters = torch.stack([federation.fresh(k + 1) for k in range(self.n_clusters)])
        self.own = federation.replicas()  # Θ (N×D)
        self.belongs = torch.full((federation.n, self.n_clusters), 1 / self.n_clusters, dtype=torch.float64)  # U (N×K)
        self.drawn: list[list[int]] = []  # who moves which cluster in this round

    def look(self) -> torch.Tensor:
        """U (N×K): on which share of a client's samples each cluster's loss is the lowest; at least a little."""
        _, losses = self.federation.by_client(self.clusters, "train")
        shares = [torch.bincount(loss.argmin(0), minlength=len(loss)).double() / loss.shape[1] for loss in losses]
        found = torch.stack(shares).cpu()
        return torch.where(found == 0, LEAST, found)

    def invite(self, round: Round) -> torch.Tensor:
        if round.index % self.look_every == 0:
            self.belongs = self.look()
        n = self.federation.n
        count = min(self.per_cluster, n)
        joined = torch.zeros(n, dtype=torch.bool)
        self.drawn = []
        for k in range(self.n_clusters):
            chance = (self.belongs[:, k] * self.federation.sizes).numpy()
            drawn = round.stream(f"drawn/{k}").choice(n, count, replace=False, p=chance / chance.sum())
            self.drawn.append(np.sort(drawn).tolist())
            joined[self.drawn[k]] = True
        return joined

    def jobs(self, round: Round, recipe: Recipe) -> tuple[torch.Tensor, list[Job]]:
        clients, task = round.joined.nonzero().flatten().tolist(), LocalTask.of(recipe, round.index)
        belongs = self.belongs[clients]
        total = belongs.sum(1)
        anchors = (belongs / total[:, None]).to(self.clusters) @ self.clusters
        jobs = [
            Job(i, place, dataclasses.replace(task, proximal=self.pull * float(total[place]), anchor=len(clients) + place))
            for place, i in enumerate(clients)
        ]
        return torch.cat([self.own[clients], anchors]), jobs

    def receive(self, round: Round, updates: torch.Tensor) -> None:
        clients = [job.client for job in round.jobs]
        self.own[clients] += updates
        for k, drawn in enumerate(self.drawn):
            here = [i for i in drawn if round.joined[i]]
            if here:
                self.clusters[k] = self.own[here].mean(0)

    def personal(self) -> torch.Tensor:
        return self.own
