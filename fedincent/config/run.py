"""The typed configuration of one run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fedincent.config.schema import option
from fedincent.errors import ConfigError

if TYPE_CHECKING:  # the groups' own rooms come later; what a field holds was checked by its group
    from fedincent.behaviours import Behaviour
    from fedincent.contributions import Contribution
    from fedincent.datasets import Dataset
    from fedincent.federation import Recipe
    from fedincent.mechanisms import Mechanism
    from fedincent.models import Model
    from fedincent.partitions import Disturbance, Partition, Stream
    from fedincent.runs.loggers import Logger
    from fedincent.training import Executor


@dataclass(kw_only=True)
class Config:
    """One run, completely described."""

    seed: int = option("everything random in a run follows from it", low=0)
    deal_seed: int = option(
        "seed of what is held out and who holds what, to train on the same deal with other seeds; -1: the run's own",
        low=-1,
        neutral=-1,
    )
    n_clients: int = option("number of clients N", low=1)
    rounds: int = option("rounds of training T, and epochs of standalone training", low=1)
    participation: str | float = option(
        "how often clients join a round: full, linear (client i of N with probability (1+i/N)/2), or one probability",
        choices=("full", "linear"),
        above=0,
        high=1,
    )
    per_round: int = option(
        "exactly so many clients, drawn at random, train in a round; 0: by participation", low=0, neutral=0
    )
    client_test_fraction: float = option(
        "share of each client's samples that is kept from training, for tests of its own", low=0, below=1, neutral=0.0
    )
    client_test_from: str = option(
        "where a client's own tests come from: its own samples, or the official test set, in the mixture it trains on",
        choices=("own", "official"),
        neutral="own",
    )
    client_validation_fraction: float = option(
        "share of each client's training samples that it keeps to validate on", low=0, below=1, neutral=0.0
    )
    unseen_clients: int = option(
        "clients, made like the others, that only judge the common model on their own tests", low=0, neutral=0
    )
    solo_steps: int = option("steps of standalone training; 0: as many passes as there are rounds", low=0, neutral=0)
    held_out: float = option("share of the training data taken out before partitioning, to validate on", low=0, below=1)
    ipr_strict: bool = option("count a client as better off only if it gains, not if it stays the same")
    reference: str = option(
        "what gains and IPR are measured against: standalone training, the model of FedAvg, or nothing",
        choices=("standalone", "fedavg", "none"),
        neutral="standalone",
    )
    protocol: str = option(
        "judge the models at the end, or online: after every round, on what arrives next (online.csv)",
        choices=("final", "online"),
        neutral="final",
    )
    on_divergence: str = option("when a client's loss becomes NaN or infinite", choices=("stop", "drop"))
    eval_every: int = option("judge all clients' models every so many rounds, for curves; 0: at the end alone", low=0)
    trace: bool = option(
        "note what the mechanism does for each client in each round (trace.csv), and each client's importance and loss on "
        "all training data",
        neutral=False,
    )
    trace_loss: bool = option(
        "with trace=true: also judge every client's model on all clients' training data after each round", neutral=False
    )
    tune_epochs: int = option(
        "after training, passes by which every client tunes its model on its own data, at the last round's rate, to be "
        "judged again",
        low=0,
        neutral=0,
    )
    tune_steps: int = option("the same in steps", low=0, neutral=0)
    device: str = option("where to compute", choices=("auto", "cpu", "cuda"))
    fast_gpu: bool = option(
        "on a GPU: TF32 and whatever kernels are fastest; such runs need not repeat to the last bit", neutral=False
    )
    force: bool = option("run anew even if the result is there")
    results_dir: str = option("folder of results")
    checkpoint_every: float = option("seconds between checkpoints", low=0)
    keep_checkpoint: bool = option("keep the final models with a finished run")
    hints: Mapping[str, Any] = option("what a paper recommends for this data set; mechanisms' files refer to it")
    training: Recipe
    dataset: Dataset
    partition: Partition
    disturbance: Disturbance
    stream: Stream
    model: Model
    mechanism: Mechanism
    contribution: Contribution
    behaviour: Behaviour
    executor: Executor
    logger: Logger
    choices: dict[str, str] = field(init=False)  # which YAML was chosen in each group
    raw: dict[str, Any] = field(init=False)  # the plain values, for config.yaml

    def check(self) -> None:
        """Raise where fields do not go together, whatever the data set."""
        if not self.results_dir.strip():
            raise ConfigError("results_dir", "(nothing)", "must be a folder; results_dir=. is this one")
        if self.tune_epochs and self.tune_steps:
            raise ConfigError("tune_steps", self.tune_steps, "goes without tune_epochs: clients tune by epochs or by steps")

    @property
    def own_tests(self) -> bool:
        """Whether clients have tests of their own."""
        return self.client_test_fraction > 0 or self.partition.own_tests

    @property
    def tests_are_official(self) -> bool:
        """Whether those come from the official test set."""
        return self.client_test_from == "official" or self.partition.own_tests
