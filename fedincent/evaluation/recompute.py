"""A finished run's metrics once more, from the columns that it stored: for metrics that came later, and to verify.

Some columns of metrics are not stored (the accuracy of standalone training on the clients' own tests): metrics that
need those are not recomputed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fedincent.evaluation.metrics import METRICS, summarise

if TYPE_CHECKING:
    import pandas as pd

SUFFIXES = ("", "_tuned")


def recomputed(frames: Mapping[str, pd.DataFrame], summary: Mapping[str, Any], config: Mapping[str, Any]) -> dict[str, Any]:
    """Every metric that a run's clients.csv, and unseen.csv where there is one, give."""
    found: dict[str, Any] = {}
    for suffix in SUFFIXES:
        columns = columns_of(frames, suffix, config, alone=summary["choices"]["mechanism"] == "standalone")
        if not suffix and "overhead" in summary["seconds"]:
            columns["seconds"] = summary["seconds"]
        elif suffix and not {"accuracy", "mape", "unseen_loss"} & set(columns):
            continue
        found |= summarise(columns, suffix)
    return found


def columns_of(frames: Mapping[str, pd.DataFrame], suffix: str, config: Mapping[str, Any], alone: bool) -> dict[str, Any]:
    """The columns of metrics (N each), plain or after tuning, from those of the stored files."""
    clients = {name: values.to_numpy() for name, values in frames["clients"].items()}
    reference = "standalone" if alone else config.get("reference", "standalone")
    columns: dict[str, Any] = {"strict": bool(config["ipr_strict"]) and not alone}
    for what in ("accuracy", "mape", "loss"):
        if f"{what}{suffix}" in clients:
            columns[what] = clients[f"{what}{suffix}"]
            columns |= named(clients, f"{reference}_{what}", f"reference_{what}")
        if f"{what}{suffix}" in clients or f"own_{what}{suffix}" in clients:
            columns |= named(clients, f"own_{what}{suffix}", f"own_{what}")
            columns |= named(clients, f"{reference}_own_{what}", f"reference_own_{what}")
            columns |= named(clients, f"validation_{what}{suffix}", f"validation_{what}")
    if f"incentive_gap{suffix}" in clients:
        columns["reference_own_loss"] = columns["own_loss"] - clients[f"incentive_gap{suffix}"]
    columns |= named(clients, "importance", "importance") | named(clients, f"train_loss{suffix}", "train_loss")
    if not suffix:  # the truth about clients, what was judged online, what mechanisms tell
        columns |= {name: values for name, values in clients.items() if name not in columns}
    if "unseen" in frames and not alone:
        unseen = {name: values.to_numpy() for name, values in frames["unseen"].items()}
        for what in ("accuracy", "mape", "loss"):
            columns |= named(unseen, f"own_{what}{suffix}", f"unseen_{what}")
            columns |= named(unseen, f"{reference}_{what}", f"reference_unseen_{what}")
    return columns


def named(columns: Mapping[str, Any], stored: str, name: str) -> dict[str, Any]:
    """A stored column under the name that metrics know, if it is there."""
    return {name: columns[stored]} if stored in columns else {}


def known_metrics() -> str:
    """Tells one registry of metrics from another: a run that was stored under the same one lacks what it cannot have."""
    import zlib

    return f"{zlib.crc32(' '.join(METRICS).encode()):08x}"
