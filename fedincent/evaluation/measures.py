"""How each metric of a summary is shown and compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Measure:
    """Unit, printed digits, how far ours may be from a printed value that has no error, and which way is better."""

    label: str
    tolerance: float | None  # in the metric's own unit; None: not compared (seconds of another machine)
    scale: float = 1.0  # 100 for what is shown in percent
    digits: int = 2
    lower_is_better: bool = False


MEASURES = {
    "ipr_accuracy": Measure("IPR", 0.1),
    "ipr_loss": Measure("IPR by loss", 0.1),
    "pearson": Measure("ρ", 0.15),
    "pearson_importance": Measure("ρ, importance and accuracy", 0.15),
    "pearson_importance_loss": Measure("ρ, importance and −training loss", 0.15),
    "accuracy_mean": Measure("mean", 0.04, scale=100, digits=0),
    "accuracy_max": Measure("highest", 0.04, scale=100, digits=0),
    "accuracy_gain": Measure("mean gain", 0.04, scale=100, digits=1),
    "ipr_own": Measure("IPR, seen", 0.1),
    "ipr_unseen": Measure("IPR, unseen", 0.1),
    "preferred_own": Measure("preferred, seen", 0.04, scale=100),
    "preferred_unseen": Measure("preferred, unseen", 0.04, scale=100),
    "seconds.overhead": Measure("seconds", None, digits=2, lower_is_better=True),
    "seconds.overhead_share": Measure("of training", None, digits=4, lower_is_better=True),
}


def measure_of(metric: str) -> Measure:
    """A metric's measure; one that is taken after tuning has its plain sibling's."""
    return MEASURES[metric.removesuffix("_tuned")]


def value_of(summary: Mapping[str, Any], metric: str) -> Any:
    """A metric of a summary by its dotted name; KeyError where the run does not have it."""
    value: Any = summary
    for name in metric.split("."):
        value = value[name]
    return value


METRICS = {  # summary key: name, explanation
    "ipr_accuracy": ("IPR (accuracy)", "share of clients not worse off than alone"),
    "ipr_loss": ("IPR (loss)", "the same by test loss"),
    "pearson": ("Pearson ρ", "final against standalone accuracy"),
    "accuracy_mean": ("mean accuracy", "over the clients' final models"),
    "accuracy_max": ("highest accuracy", "of any client"),
    "accuracy_gain": ("mean gain", "over standalone, in points"),
}


def show(key: str, value: float | None) -> str:
    """A metric as people read it."""
    if value is None:
        return "undefined"
    if key == "accuracy_gain":
        return f"{100 * value:+.1f}"
    return f"{100 * value:.1f} %" if key.startswith("accuracy") else f"{value:.2f}"


def one_line(summary: Mapping[str, Any]) -> str:
    """A run's metrics in one line."""
    s = summary
    return (
        f"IPR {show('ipr_accuracy', s['ipr_accuracy'])}  ρ {show('pearson', s['pearson'])}  "
        f"accuracy {show('accuracy_mean', s['accuracy_mean'])}  gain {show('accuracy_gain', s['accuracy_gain'])}"
    )
