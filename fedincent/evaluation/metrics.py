"""The metrics: one entry each, and no other list of them anywhere.

A metric is a function of columns: arrays over clients (N) by name. Tables, figures, the report, the terminal, wandb and
`fedincent list metrics` read this registry; a new metric is one entry. A metric whose columns a run does not have is
not in its summary. Nothing heavy is imported here, so that listing them is instant.

Columns: accuracy (or mape) and loss, on the test set; reference_…, of the run that gains are measured against; own_…,
on the clients' own tests; unseen_…, by clients that did not train; importance; train_loss, on all training data;
online_…, averaged over the rounds; zeta, the truth about a client. `strict` says whether only a gain counts, `seconds`
what took how long.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fedincent.evaluation.formulas import (
    Columns,
    Metric,
    correlation,
    gain,
    gains_by_cheating,
    largest,
    margin,
    mean,
    moved_shares,
    opt_outs,
    preference,
    rate,
    reward_of_cheats,
    smallest,
    spread,
    told,
)

CLUSTERS = 4  # and so many distributions: of these, tables can show how good the one is on the other

ALL = (
    Metric(
        "ipr_accuracy",
        "IPR",
        "share of clients not worse off than alone",
        ("accuracy", "reference_accuracy"),
        rate("accuracy", "reference_accuracy"),
        tolerance=0.1,
        title="IPR (accuracy)",
    ),
    Metric(
        "ipr_loss",
        "IPR by loss",
        "the same by test loss",
        ("loss", "reference_loss"),
        rate("loss", "reference_loss", lower_is_better=True),
        tolerance=0.1,
        title="IPR (loss)",
    ),
    Metric(
        "pearson",
        "ρ",
        "final against standalone accuracy",
        ("accuracy", "reference_accuracy"),
        correlation("accuracy", "reference_accuracy"),
        tolerance=0.15,
        title="Pearson ρ",
    ),
    Metric(
        "pearson_contribution",
        "ρ(p, accuracy)",
        "final accuracy against the contribution that was rewarded",
        ("accuracy", "contribution"),
        correlation("accuracy", "contribution"),
        tolerance=0.15,
    ),
    Metric(
        "accuracy_mean",
        "mean",
        "over the clients' final models",
        ("accuracy",),
        mean("accuracy"),
        tolerance=0.04,
        scale=100,
        digits=0,
        title="mean accuracy",
        unit=" %",
    ),
    Metric(
        "accuracy_max",
        "highest",
        "of any client",
        ("accuracy",),
        largest("accuracy"),
        tolerance=0.04,
        scale=100,
        digits=0,
        title="highest accuracy",
        unit=" %",
    ),
    Metric(
        "accuracy_gain",
        "mean gain",
        "over standalone, in points",
        ("accuracy", "reference_accuracy"),
        gain("accuracy", "reference_accuracy"),
        tolerance=0.04,
        scale=100,
        digits=1,
        title="mean gain",
        signed=True,
    ),
    Metric(
        "pearson_importance",
        "ρ, importance and accuracy",
        "importance r after the last round against accuracy",
        ("importance", "accuracy"),
        correlation("importance", "accuracy"),
        tolerance=0.15,
    ),
    Metric(
        "pearson_importance_loss",
        "ρ, importance and −training loss",
        "the same against minus the loss on all training data",
        ("importance", "train_loss"),
        correlation("importance", "train_loss", sign=-1),
        tolerance=0.15,
    ),
    Metric(
        "ipr_own",
        "IPR, seen",
        "share of seen clients that gain, by loss on their own tests",
        ("own_loss", "own_accuracy", "reference_own_loss", "reference_own_accuracy"),
        rate("own_loss", "reference_own_loss", lower_is_better=True, strict=True),
        tolerance=0.1,
    ),
    Metric(
        "incentive_margin",
        "margin, seen",
        "by how much loss on their own tests seen clients gain, in sum over those that do",
        ("own_loss", "own_accuracy", "reference_own_loss", "reference_own_accuracy"),
        margin("own_loss", "reference_own_loss"),
        digits=3,
    ),
    Metric(
        "validation_accuracy_mean",
        "validation",
        "mean accuracy on the clients' own validation samples, to choose by",
        ("validation_accuracy",),
        mean("validation_accuracy"),
        scale=100,
        digits=1,
        unit=" %",
    ),
    Metric(
        "preferred_own",
        "preferred, seen",
        "accuracy of the model that seen clients prefer, on their own tests",
        ("own_loss", "own_accuracy", "reference_own_loss", "reference_own_accuracy"),
        preference("own"),
        tolerance=0.04,
        scale=100,
    ),
    Metric(
        "ipr_unseen",
        "IPR, unseen",
        "share of unseen clients that gain, by loss on their own tests",
        ("unseen_loss", "unseen_accuracy", "reference_unseen_loss", "reference_unseen_accuracy"),
        rate("unseen_loss", "reference_unseen_loss", lower_is_better=True, strict=True),
        tolerance=0.1,
    ),
    Metric(
        "preferred_unseen",
        "preferred, unseen",
        "accuracy of the model that unseen clients prefer, on their own tests",
        ("unseen_loss", "unseen_accuracy", "reference_unseen_loss", "reference_unseen_accuracy"),
        preference("unseen"),
        tolerance=0.04,
        scale=100,
    ),
    Metric(
        "own_accuracy_mean",
        "own tests",
        "mean accuracy on the clients' own tests",
        ("own_accuracy",),
        mean("own_accuracy"),
        tolerance=0.04,
        scale=100,
        digits=1,
        title="own accuracy",
        unit=" %",
    ),
    Metric(
        "own_accuracy_spread",
        "own tests, σ",
        "standard deviation over clients of the accuracy on their own tests",
        ("own_accuracy",),
        spread("own_accuracy"),
        scale=100,
        digits=1,
        unit=" %",
    ),
    Metric(
        "own_accuracy_gain",
        "own gain",
        "mean gain on the clients' own tests over the reference, in points",
        ("own_accuracy", "reference_own_accuracy"),
        gain("own_accuracy", "reference_own_accuracy"),
        tolerance=0.04,
        scale=100,
        digits=1,
        title="own gain (PMA)",
        signed=True,
    ),
    Metric(
        "opt_outs",
        "opt-outs",
        "share of clients that do not gain accuracy on their own tests",
        ("own_accuracy", "reference_own_accuracy"),
        opt_outs("own_accuracy", "reference_own_accuracy"),
        tolerance=0.1,
        title="opt-outs",
        lower_is_better=True,
    ),
    Metric(
        "participation",
        "participation",
        "share of clients that gain accuracy on their own tests, and so stay",
        ("own_accuracy", "reference_own_accuracy"),
        rate("own_accuracy", "reference_own_accuracy", strict=True),
        tolerance=0.1,
    ),
    Metric(
        "ipr_mape",
        "IPR by MAPE",
        "share of clients not worse off than alone",
        ("mape", "reference_mape"),
        rate("mape", "reference_mape", lower_is_better=True),
        tolerance=0.1,
        title="IPR (MAPE)",
    ),
    Metric(
        "mape_mean",
        "MAPE",
        "mean absolute percentage error over the clients' final models",
        ("mape",),
        mean("mape"),
        tolerance=0.04,
        scale=100,
        digits=1,
        lower_is_better=True,
        title="mean MAPE",
        unit=" %",
    ),
    Metric(
        "mape_gain",
        "MAPE gain",
        "how much lower it is than alone, in points",
        ("mape", "reference_mape"),
        gain("reference_mape", "mape"),
        tolerance=0.04,
        scale=100,
        digits=1,
        title="mean gain",
        signed=True,
    ),
    Metric(
        "online_accuracy_mean",
        "online accuracy",
        "accuracy after each round, averaged over rounds and clients",
        ("online_accuracy",),
        mean("online_accuracy"),
        tolerance=0.04,
        scale=100,
        digits=1,
        title="online accuracy",
        unit=" %",
    ),
    Metric(
        "online_accuracy_min",
        "online accuracy, lowest",
        "lowest of any client, averaged over rounds",
        ("online_accuracy",),
        smallest("online_accuracy"),
        tolerance=0.04,
        scale=100,
        digits=1,
        unit=" %",
    ),
    Metric(
        "online_accuracy_max",
        "online accuracy, highest",
        "highest of any client, averaged over rounds",
        ("online_accuracy",),
        largest("online_accuracy"),
        tolerance=0.04,
        scale=100,
        digits=1,
        unit=" %",
    ),
    Metric(
        "std_online_accuracy",
        "online accuracy, σ",
        "standard deviation of it over clients",
        ("online_accuracy",),
        spread("online_accuracy"),
        digits=4,
        scientific=True,
        lower_is_better=True,
    ),
    Metric(
        "pearson_online_accuracy",
        "ρ(ζ, online accuracy)",
        "how the online accuracy follows the truth ζ about the clients",
        ("zeta", "online_accuracy"),
        correlation("zeta", "online_accuracy"),
        tolerance=0.15,
        lower_is_better=True,
    ),
    Metric(
        "online_mape_mean",
        "online MAPE",
        "MAPE after each round, averaged over rounds and clients",
        ("online_mape",),
        mean("online_mape"),
        tolerance=0.04,
        scale=100,
        digits=1,
        title="online MAPE",
        unit=" %",
        lower_is_better=True,
    ),
    Metric(
        "online_mape_min",
        "online MAPE, lowest",
        "lowest of any client, averaged over rounds",
        ("online_mape",),
        smallest("online_mape"),
        tolerance=0.04,
        scale=100,
        digits=1,
        unit=" %",
        lower_is_better=True,
    ),
    Metric(
        "online_mape_max",
        "online MAPE, highest",
        "highest of any client, averaged over rounds",
        ("online_mape",),
        largest("online_mape"),
        tolerance=0.04,
        scale=100,
        digits=1,
        unit=" %",
        lower_is_better=True,
    ),
    Metric(
        "std_online_mape",
        "online MAPE, σ",
        "standard deviation of it over clients",
        ("online_mape",),
        spread("online_mape"),
        digits=4,
        scientific=True,
        lower_is_better=True,
    ),
    Metric(
        "pearson_online_mape",
        "ρ(ζ, online MAPE)",
        "how the online MAPE follows the truth ζ about the clients",
        ("zeta", "online_mape"),
        correlation("zeta", "online_mape"),
        tolerance=0.15,
    ),
    Metric(
        "online_loss_mean",
        "online loss",
        "loss after each round, averaged over rounds and clients",
        ("online_loss",),
        mean("online_loss"),
        digits=3,
        lower_is_better=True,
    ),
    Metric(
        "std_online_loss",
        "online loss, σ",
        "standard deviation of it over clients",
        ("online_loss",),
        spread("online_loss"),
        digits=4,
        scientific=True,
        lower_is_better=True,
    ),
    Metric(
        "pearson_online_loss",
        "ρ(ζ, online loss)",
        "how the online loss follows the truth ζ about the clients: 1 is fair",
        ("zeta", "online_loss"),
        correlation("zeta", "online_loss"),
        tolerance=0.15,
        title="ρ(ζ, online loss)",
    ),
    Metric(
        "final_accuracy_max",
        "last accuracy, highest",
        "highest of any client after the last round, on what arrives next",
        ("final_accuracy",),
        largest("final_accuracy"),
        tolerance=0.04,
        scale=100,
        digits=1,
        unit=" %",
    ),
    Metric(
        "std_final_accuracy",
        "last accuracy, σ",
        "standard deviation over clients of the accuracy after the last round",
        ("final_accuracy",),
        spread("final_accuracy"),
        digits=4,
        scientific=True,
        lower_is_better=True,
    ),
    Metric(
        "std_final_mape",
        "last MAPE, σ",
        "standard deviation over clients of the MAPE after the last round",
        ("final_mape",),
        spread("final_mape"),
        digits=4,
        scientific=True,
        lower_is_better=True,
    ),
    Metric(
        "pearson_staleness",
        "ρ(ζ, staleness)",
        "how the mean staleness of the clients' models follows the truth ζ about them: 1 is fair",
        ("zeta", "staleness"),
        correlation("zeta", "staleness"),
        tolerance=0.15,
        title="ρ(ζ, staleness)",
    ),
    Metric(
        "pearson_psi",
        "ρ(ζ, ψ)",
        "how the contributions that a mechanism found follow the truth ζ: −1 is right",
        ("zeta", "psi"),
        correlation("zeta", "psi"),
        tolerance=0.15,
        lower_is_better=True,
    ),
    Metric(
        "cheat_gain",
        "gain by cheating",
        "of those who are not honest, against the honest run, in points",
        ("cheats", "person"),
        lambda c: gains_by_cheating(c, of_cheats=True),
        scale=100,
        digits=1,
        title="gain by cheating",
        signed=True,
    ),
    Metric(
        "cheat_others",
        "the others",
        "what the others gain when some are not honest, in points",
        ("cheats", "person"),
        lambda c: gains_by_cheating(c, of_cheats=False),
        scale=100,
        digits=1,
        title="gain of the others",
        signed=True,
    ),
    Metric(
        "cheat_saving",
        "work saved",
        "share of an honest client's work that those are spared who are not honest",
        ("cheats", "saving"),
        lambda c: float(c["saving"][c["cheats"].astype(bool)].mean()) if c["cheats"].any() else 0.0,
        scale=100,
        digits=0,
        title="work saved",
        unit=" %",
    ),
    Metric(
        "cheat_reward",
        "reward",
        "of those who are not honest: accuracy of the model that they are given",
        ("cheats",),
        reward_of_cheats,
        scale=100,
        digits=1,
        unit=" %",
    ),
    Metric(
        "cheat_share",
        "own share moved",
        "how the share of all contributions moved of those who are not honest, in points",
        ("cheats", "person", "contribution", "honest_contribution"),
        lambda c: moved_shares(c, of_cheats=True),
        scale=100,
        digits=1,
        signed=True,
    ),
    Metric(
        "cheat_share_of_others",
        "another's moved",
        "the same of that other client whose share moved most",
        ("cheats", "person", "contribution", "honest_contribution"),
        lambda c: moved_shares(c, of_cheats=False),
        scale=100,
        digits=1,
        signed=True,
    ),
    *(
        told(f"clusters.c{k}_{what}", f"c{k} {label}", f"accuracy of cluster {k} {meaning}").of_clusters(beside)
        for k in range(CLUSTERS)
        for what, label, meaning, beside in (
            *((f"theta_{d}", f"on θ{d}", f"on distribution {d}", "") for d in range(CLUSTERS)),
            ("best", "best (on)", "on the distribution where it is best", f"clusters.c{k}_at"),
        )
    ),
    told("stopping_round", "T_α", "the last round in which contributions were evaluated (mechanism=fye)", digits=1),
    told("normality.share", "normal", "share of 50-round windows in which φ passes for normal (mechanism=fye)"),
    told("normality.p", "p", "mean p of that test (mechanism=fye)"),
    Metric(
        "online_loss_of_best",
        "online loss of i*",
        "of the client with the largest contribution in the honest run",
        ("online_loss", "psi"),
        lambda c: float(c["online_loss"][c.get("honest_worth", c["psi"]).argmax()]),
        digits=4,
        lower_is_better=True,
    ),
    Metric(
        "seconds.overhead",
        "seconds",
        "seconds of the mechanism beside training",
        ("seconds",),
        lambda c: c["seconds"]["overhead"],
        lower_is_better=True,
    ),
    told("seconds.overhead_of_all", "of all", "the same as a share of training and mechanism together", digits=4),
    Metric(
        "seconds.overhead_share",
        "of training",
        "the same as a share of training",
        ("seconds",),
        lambda c: c["seconds"]["overhead_share"],
        digits=4,
        lower_is_better=True,
    ),
)

METRICS: dict[str, Metric] = {metric.name: metric for metric in ALL}
SHOWN = tuple(name for name, metric in METRICS.items() if metric.title)  # in the terminal and the report


SHORT = {"ipr_accuracy": "IPR", "ipr_mape": "IPR", "pearson": "ρ", "accuracy_mean": "accuracy", "mape_mean": "MAPE"}
SHORT |= {"accuracy_gain": "gain", "mape_gain": "gain", "online_accuracy_mean": "online", "online_mape_mean": "online"}


def known(name: str) -> bool:
    """Whether there is such a metric, plain or after tuning."""
    return name.removesuffix("_tuned") in METRICS


def metric_of(name: str) -> Metric:
    """A metric's entry; one that is taken after tuning has its plain sibling's."""
    return METRICS[name.removesuffix("_tuned")]


def summarise(columns: Columns, suffix: str = "") -> dict[str, float | None]:
    """Every metric whose columns there are."""
    return {
        f"{name}{suffix}": metric.function(columns)
        for name, metric in METRICS.items()
        if all(column in columns for column in metric.needs)
    }


def value_of(summary: Mapping[str, Any], name: str) -> Any:
    """A metric of a summary by its dotted name; KeyError where the run does not have it."""
    value: Any = summary
    for part in name.split("."):
        value = value[part]
    return value


def shown_of(summary: Mapping[str, Any]) -> list[Metric]:
    """The metrics of a summary that people are shown."""
    return [METRICS[name] for name in SHOWN if name in summary]


def one_line(summary: Mapping[str, Any]) -> str:
    """A run's metrics in one line."""
    return "  ".join(f"{word} {METRICS[name].show(summary[name])}" for name, word in SHORT.items() if name in summary)
