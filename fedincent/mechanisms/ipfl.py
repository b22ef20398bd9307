"""IP-FL: clients bid tokens for the clusters that suit them, train those, and are paid by what they add (Khan et al. 2024).

There are K cluster models M (K×D). Each client finds out how good every M_k is for its validation samples (its
importance a_ik, eq. 7) and bids a token for the best. Of a cluster's bidders those train who contributed most, and some
at random; they pay. M_k moves by their mean. If M_k has not improved, the payers get most of it back; the rest goes to
those who trained, the more the higher they rank by contribution (eqs. 10 to 13, 16). A client is given Σ_k v_ik·M_k,
v_ik = a_ik/Σ_k a_ik (eq. 8). Tokens are neither made nor lost.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch

from fedincent.config import option
from fedincent.federation import Federation, Job, LocalTask, Recipe, Round
from fedincent.mechanisms.base import ByClient, Mechanism


@dataclass(kw_only=True)
class IPFL(Mechanism):
    """Clients bid for clusters of alike clients and earn by what they add to them (Khan et al. 2024)."""

    saved: ClassVar[tuple[str, ...]] = ("clusters", "tokens", "contribution", "trained", "peak", "fit")

    n_clusters: int = option("number of cluster models K", low=1)
    incentive: bool = option("bids by preference, tokens and contributions; else each bids for one cluster at random")
    threshold: float = option(
        "a client bids for every cluster that is right on more of its validation samples; 1: for the best alone",
        low=0,
        high=1,
    )
    price: float = option("tokens that training a cluster costs", above=0)
    purse: float = option("tokens that everybody starts with", low=0)
    best: int = option("how many of a cluster's bidders train because they contributed most, N_p", low=0)
    explore_most: float = option("so large a share of the clients that never trained are drawn at random", low=0, high=1)
    explore_least: float = option("and of all clients at least so large a share", low=0, high=1)
    explore: str = option("from whom those are drawn: a cluster's other bidders, or all others", choices=("bidders", "all"))
    empty: str = option(
        "a cluster for which nobody bids is trained by so many at random, or not at all", choices=("random", "idle")
    )
    importance: str = option(
        "what a cluster is worth to a client: its accuracy, or on which share of the samples its loss is the lowest",
        choices=("accuracy", "lowest_loss"),
    )
    weigh_on: str = option(
        "on which of its samples a client weighs the clusters in its own model; `fresh`: those it may look at of its tests",
        choices=("validation", "fresh", "test"),
    )
    bid_every: int = option("rounds from one bidding to the next", low=1)
    eta: float = option("η, the largest share of the tokens that is paid back", above=0, high=1)
    gamma: float = option("γ, the gain in accuracy (relative) from which nothing is paid back", above=0)
    by_participation: float = option(
        "share of the reward that goes by how often one trained, over all clients, instead of by contribution", low=0, high=1
    )

    def needs_validation(self) -> bool:
        return True

    def reads_test(self) -> str:
        return "weighs the clusters in a client's model on that client's test samples" if self.weigh_on == "test" else ""

    def start(self, federation: Federation) -> None:
        self.federation = federation
        n, k = federation.n, self.n_clusters
        self.clusters = federation.initial.repeat(k, 1)  # M (K×D), all the same: a mixture of unlike ones means nothing
        self.tokens = torch.full((n,), self.purse, dtype=torch.float64)  # τ (N)
        self.contribution = torch.zeros(k, n, dtype=torch.float64)  # ψ as last known (K×N)
        self.trained = torch.zeros(k, n, dtype=torch.float64)  # Ω: rounds in which i trained k (K×N)
        self.peak = torch.zeros(k, dtype=torch.float64)  # the best accuracy that a cluster has reached (K)
        self.fit = torch.zeros(n, k, dtype=torch.float64)  # a, what each cluster is worth to each client (N×K)
        self.providers: list[list[int]] = []  # who trains each cluster in this round
        self.payers: list[list[int]] = []  # and who of them pays for it

    def explorers(self) -> int:
        """N_r: how many are drawn at random for a cluster; fewer as fewer have never trained."""
        never = int((self.trained.sum(0) == 0).sum())
        return max(math.ceil(self.explore_least * self.federation.n), math.ceil(self.explore_most * never))

    def bids(self, round: Round, there: np.ndarray) -> list[np.ndarray]:
        """The clients that bid for each cluster, of those who are there (N, boolean)."""
        n, k = self.federation.n, self.n_clusters
        wanted = np.zeros((n, k), dtype=bool)
        if not self.incentive:
            wanted[np.arange(n), round.stream("bids").integers(0, k, n)] = True
        else:
            fit = self.fit.numpy()
            wanted = fit > self.threshold
            nothing = ~wanted.any(1)
            wanted[nothing, fit[nothing].argmax(1)] = True
            order = np.argsort(np.where(wanted, -fit, np.inf), axis=1, kind="stable")  # the best first
            place = np.empty_like(order)
            np.put_along_axis(place, order, np.arange(k)[None, :].repeat(n, 0), 1)
            wanted &= place < np.floor(self.tokens.numpy() / self.price + 1e-9)[:, None]
        wanted[~there] = False
        for cluster, bidding in enumerate(torch.from_numpy(wanted.T.copy())):
            round.note(f"bid_{cluster}", bidding.clone)
        return [np.flatnonzero(bidding) for bidding in wanted.T]

    def schedule(self, round: Round, cluster: int, bidders: np.ndarray, there: np.ndarray) -> list[int]:
        """ζ_k: those of the bidders that contributed most, and some at random."""
        rng, few = round.stream(f"explorers/{cluster}"), self.explorers()
        everybody = np.flatnonzero(there)
        if not len(bidders):
            drawn = rng.permutation(everybody)[: self.best + few] if self.empty == "random" else bidders
            return sorted(drawn.tolist())
        if not self.incentive:
            return sorted(rng.permutation(bidders)[: self.best + few].tolist())
        worth = self.contribution[cluster].numpy()[bidders]
        chosen = bidders[np.lexsort((bidders, -worth))][: self.best]
        others = np.setdiff1d(bidders if self.explore == "bidders" else everybody, chosen)
        return sorted([*chosen.tolist(), *rng.permutation(others)[:few].tolist()])

    def invite(self, round: Round) -> torch.Tensor:
        """Who trains which cluster in this round; they pay for it."""
        n, k = self.federation.n, self.n_clusters
        there = round.stream("participation").random(n) < self.federation.participation.numpy()
        if round.index == 0:
            order, few = round.stream("groups").permutation(np.flatnonzero(there)), self.best + self.explorers()
            self.providers = [sorted(part[:few].tolist()) for part in np.array_split(order, k)]
            self.payers = [[] for _ in range(k)]
        else:
            bidders = self.bids(round, there)
            self.providers = [self.schedule(round, cluster, bidders[cluster], there) for cluster in range(k)]
            self.payers = [self.charged(providers) for providers in self.providers]
        joined = torch.zeros(n, dtype=torch.bool)
        for providers in self.providers:
            joined[providers] = True
        return joined

    def charged(self, providers: list[int]) -> list[int]:
        """Who of those that train a cluster can pay for it, and has paid."""
        payers = [i for i in providers if self.incentive and self.tokens[i] >= self.price]
        self.tokens[payers] -= self.price
        return payers

    def jobs(self, round: Round, recipe: Recipe) -> tuple[torch.Tensor, list[Job]]:
        task = LocalTask.of(recipe, round.index)
        return self.clusters, [Job(i, k, task) for k, providers in enumerate(self.providers) for i in providers]

    def receive(self, round: Round, updates: torch.Tensor) -> None:
        delivered = round.joined.tolist()
        work = [
            [place for place, job in enumerate(round.jobs) if job.row == k and delivered[job.client]]
            for k in range(self.n_clusters)
        ]
        clients = [[round.jobs[place].client for place in places] for places in work]
        shares = []
        for k, (places, trained) in enumerate(zip(work, clients, strict=True)):
            share = self.federation.sizes[trained].double()
            shares.append(share / share.sum())
            if trained:
                self.clusters[k] += shares[k].to(updates) @ updates[places]
                self.trained[k, trained] += 1
        reached = self.look(round)
        for k, (places, trained) in enumerate(zip(work, clients, strict=True)):
            round.tell(f"bought_{k}", len(self.payers[k]))
            if self.incentive:
                accuracy = float(reached[trained, k].mean()) if trained else 0.0
                self.settle(round, k, trained, shares[k], updates[places], accuracy)
        round.tell("tokens", float(self.tokens.sum()))
        round.note("tokens", lambda: self.tokens)
        round.note("paid", lambda: self.spent())

    def look(self, round: Round) -> torch.Tensor:
        """Clients judge the clusters on validation samples: everybody before a bidding, else those who trained.

        Gives the accuracies (N×K), where they were asked for.
        """
        whom = None if (round.index + 1) % self.bid_every == 0 else round.joined.nonzero().flatten().tolist()
        reached = torch.full_like(self.fit, torch.nan)
        if whom is None or whom:
            scores, losses = self.federation.by_client(self.clusters, "validation", whom)
            asked = slice(None) if whom is None else whom
            self.fit[asked] = self.importances(scores, losses)
            reached[asked] = torch.stack([right.double().mean(1) for right in scores]).cpu()
        return reached

    def importances(self, scores: list[torch.Tensor], losses: list[torch.Tensor]) -> torch.Tensor:
        """The same from the clusters' scores and losses on each sample, client by client (K×n_i each)."""
        if self.importance == "accuracy":
            return torch.stack([right.double().mean(1) for right in scores]).cpu()
        lowest = [torch.bincount(loss.argmin(0), minlength=len(loss)) / loss.shape[1] for loss in losses]
        return torch.stack(lowest).double().cpu()

    def settle(
        self, round: Round, k: int, trained: list[int], shares: torch.Tensor, updates: torch.Tensor, accuracy: float
    ) -> None:
        """Contributions to a cluster, and its tokens to those who paid and those who trained (updates: P×D)."""
        payers, utility = self.payers[k], 1.0
        if trained:
            slope = self.federation.gradient(self.clusters[k], "validation", trained)
            self.contribution[k, trained] = contributions(slope, shares, updates)
            utility = self.utility(k, accuracy)
        round.tell(f"utility_{k}", utility)
        pool = self.price * len(payers)
        if payers:
            self.tokens[payers] += utility * self.price
        if trained and pool:
            reward = (1 - utility) * pool
            ranked = ranks(self.contribution[k, trained].numpy(), self.trained[k, trained].numpy())
            self.tokens[trained] += torch.from_numpy((1 - self.by_participation) * reward * ranked)
            if self.by_participation:
                often = ranks(self.trained[k].numpy(), np.zeros(self.federation.n))
                self.tokens += torch.from_numpy(self.by_participation * reward * often)

    def utility(self, k: int, accuracy: float) -> float:
        """U (eq. 11): which share is paid back, less the more a cluster gained on the best it ever was."""
        best = float(self.peak[k])
        self.peak[k] = max(best, accuracy)
        if best == 0:
            return 0.0
        gain = max(0.0, (accuracy - best) / best)
        return self.eta * (self.gamma - min(self.gamma, gain)) / self.gamma

    def spent(self) -> torch.Tensor:
        """What each client has paid in this round (N)."""
        paid = torch.zeros(self.federation.n, dtype=torch.float64)
        for payers in self.payers:
            paid[payers] += self.price
        return paid

    def weights(self, fit: torch.Tensor) -> torch.Tensor:
        """V (N×K, rows sum to 1) by what clusters are worth (N×K); whoever finds nothing in any takes all alike (eq. 8)."""
        total = fit.sum(1, keepdim=True)
        return torch.where(total > 0, fit / total.clamp(min=1e-300), 1 / self.n_clusters)

    def personal(self) -> torch.Tensor:
        """Θ = V·M (N×D)."""
        if self.weigh_on == "validation" and self.bid_every == 1:
            return self.weights(self.fit).to(self.clusters) @ self.clusters
        return self.weighed(self.federation.by_client)

    def weighed(self, by_client: ByClient) -> torch.Tensor:
        """The same for any clients, that judge the clusters now."""
        data = {"validation": "validation", "test": "own", "fresh": "fresh"}[self.weigh_on]
        return self.weights(self.importances(*by_client(self.clusters, data))).to(self.clusters) @ self.clusters

    def of_unseen(self, by_client: ByClient) -> torch.Tensor | None:
        return self.weighed(by_client)

    def cluster_models(self) -> torch.Tensor:
        return self.clusters

    def outcomes(self) -> dict[str, torch.Tensor]:
        """Which cluster suits each client best, its tokens, and how often it trained any."""
        return {"cluster": self.fit.argmax(1).double(), "tokens": self.tokens, "trained": self.trained.sum(0)}


def contributions(slope: torch.Tensor, shares: torch.Tensor, updates: torch.Tensor) -> torch.Tensor:
    """ψ (P): −λ_i·⟨∇L_k(M_k), W_ki − M_k⟩ of those who trained a cluster (eq. 16); they sum to 0.

    slope: ∇L_k at the new M_k (D); shares: λ (P, sum to 1); updates: P×D, W_ki less the old M_k.
    """
    along = (updates @ slope).double().cpu()
    return -shares * (along - shares @ along)


def ranks(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Shares (P, sum to 1) by place: the last of P gets 1/(P(P+1)/2), the first P times that.

    Ordered by the first array, ties by the second, then the earlier one is the better.
    """
    count = len(first)
    order = np.lexsort((-np.arange(count), second, first))
    places = np.empty(count)
    places[order] = np.arange(1, count + 1)
    return places / (count * (count + 1) / 2)
