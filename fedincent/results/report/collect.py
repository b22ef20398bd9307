"""What the page shows, as plain values: every run with its clients, curves and command, and every table's cells."""

from __future__ import annotations

import base64
import datetime
import functools
import json
import os
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from fedincent.config.compose import unusual
from fedincent.config.groups import options_of, yaml_loader
from fedincent.errors import FedincentError
from fedincent.evaluation.formulas import Metric
from fedincent.evaluation.metrics import METRICS, SHOWN, metric_of
from fedincent.results.compare import MACHINE
from fedincent.results.render import NAMES, ours_text, paper_text, setting_name
from fedincent.results.table import Cells, PaperTable, best_methods, fill_cells, load_table
from fedincent.store.index import Index
from fedincent.store.result import SCORES, Result
from fedincent.version import __version__

SEED = re.compile(r"^seed: .*\n", flags=re.M)
LABELLED = ("dataset", "partition", "model", "mechanism")  # choices that labels name anyway
OWN_FIELDS = ("mechanism.", "contribution.", "contribution=")  # what tells one variant of a mechanism from another


def collect(results_dir: Path) -> dict[str, Any]:
    """Everything the page knows; runs that cannot be read are listed by name and reason."""
    index = Index(results_dir)
    runs, damaged = [], [{"path": damage.name, "why": damage.why} for damage in index.damaged]
    shown = [result for result in index.results.values() if not result.of_audit]
    for result in shown:
        try:
            runs.append(describe_run(result))
        except (OSError, ValueError, KeyError, AttributeError, TypeError, FedincentError) as error:
            damaged.append({"path": result.name, "why": f"{type(error).__name__}: {error}"})
    finished = {path.parent.name for path in (results_dir / "runs").glob("*/summary.json")}
    unfinished = sorted(p.name for p in (results_dir / "runs").glob("*") if p.is_dir() and p.name not in finished)
    return {
        "version": __version__,
        "made": datetime.datetime.now().isoformat(timespec="minutes"),
        "runs": sorted(runs, key=lambda run: run["name"]),
        "of_audits": len(index.results) - len(shown),
        "damaged": damaged,
        "unfinished": unfinished,
        "tables": tables_of(index, damaged),
        "figures": figures_of(results_dir),
        "metrics": {name: {"label": report_label(METRICS[name]), "scale": METRICS[name].scale} for name in SHOWN},
    }


def report_label(metric: Metric) -> str:
    """A metric's name with its unit."""
    unit = ", %" if metric.unit else ", points" if metric.scale == 100 else ""
    return f"{metric.title}{unit}"


def numbers(values: Any, digits: int = 5) -> list[float | None]:
    """A column as short numbers; None for what is not one."""
    return [None if not np.isfinite(v) else round(float(v), digits) for v in np.asarray(values, dtype=float)]


def describe_run(result: Result) -> dict[str, Any]:
    """One run for the page."""
    summary, clients, rounds = result.summary, result.columns("clients"), result.columns("rounds")
    text = result.text("config.yaml")
    chosen = {name: str(value) for name, value in summary["choices"].items()}
    pairs = [*asked_but_seed(SEED.sub("", text), json.dumps(chosen)), ("seed", str(summary["seed"]))]
    asked = ["=".join(pair) for pair in pairs if pair[0] not in LABELLED]
    own = [word.removeprefix("mechanism.") for word in asked if word.startswith(OWN_FIELDS)]
    columns = {
        name: numbers(clients[name])
        for name in ("n_samples", "contribution", "standalone_accuracy", "accuracy", "loss", "importance")
        if name in clients
    }
    score = score_of(clients)
    reward, reward_label = numbers(clients[score]), f"final {score}".replace("final online_", "online ")
    columns.setdefault("accuracy", reward)
    if result.read("trace.csv") is not None and "share" in (trace := result.columns("trace")):
        last = [k for k, index in enumerate(trace["round"]) if index == trace["round"][-1]]
        reward = numbers([trace["share"][k] for k in sorted(last, key=lambda k: trace["client"][k])])
        reward_label = "share of the aggregate in the last round"
    return {
        "name": result.name,
        "when": when_of(result),
        "published": result.path.parent.stem if result.published else "",
        "choices": chosen,
        "variant": " ".join([chosen["mechanism"], *own]),
        "setting": setting_label(chosen, summary["n_clients"], asked),
        "seed": summary["seed"],
        "n_clients": summary["n_clients"],
        "rounds": summary["rounds"],
        "metrics": {name: summary[name] for name in SHOWN if name in summary},
        "seconds": round(summary["seconds"]["total"], 1),
        "versions": summary["versions"],
        "notes": summary["notes"],
        "clients": {**columns, "reward": reward},
        "reward_label": reward_label,
        "curve": curve_of(rounds),
        "partition": partition_of(result),
        "command": command(pairs),
        "config": text,
    }


@functools.lru_cache(maxsize=1000)
def asked_but_seed(text: str, choices: str) -> list[tuple[str, str]]:
    """What a run's line must say beside the seed, from its config.yaml without the seed: runs differ in that most often."""
    try:
        config = yaml.load(text, Loader=yaml_loader())
    except yaml.YAMLError as error:
        raise FedincentError(f"config.yaml cannot be read: {str(error).splitlines()[0]}") from error
    if not isinstance(config, dict):
        raise FedincentError("config.yaml is no configuration")
    chosen = {name: value for name, value in json.loads(choices).items() if name not in MACHINE}
    return [pair for pair in unusual(chosen, config) if pair[0].split(".")[0] not in MACHINE]


def setting_label(chosen: dict[str, str], n_clients: int, asked: list[str]) -> str:
    """What mechanisms are compared on: data set, partition, model, N and whatever else is not as usual."""
    others = [word for word in asked if not word.startswith((*OWN_FIELDS, "seed=", "n_clients=", "eval_every=", "trace="))]
    plain = f"{chosen['dataset']}, {chosen['partition']}, {chosen['model']}, N {n_clients}"
    return f"{plain}, {' '.join(others)}" if others else plain


def score_of(clients: dict[str, list[float]]) -> str:
    """The column that tells how good each client's model is."""
    name = next((name for name in SCORES if name in clients), None)
    if name is None:
        raise FedincentError("clients.csv tells no score")
    return name


def curve_of(rounds: dict[str, list[float]]) -> dict[str, Any]:
    """Accuracy over the rounds with its spread over the clients where it was judged, else the training loss."""
    columns = [name for name in rounds if name.startswith("client_")]
    told = "accuracy_mean" if columns else "train_loss"
    known = [k for k, value in enumerate(rounds[told]) if value == value]
    curve = {"round": [int(rounds["round"][k]) for k in known], "mean": numbers([rounds[told][k] for k in known])}
    if not columns:
        return {"what": "training loss", **curve}
    values = np.array([[rounds[name][k] for name in columns] for k in known])
    low, q1, q3, high = (numbers(line) for line in np.quantile(values, (0, 0.25, 0.75, 1), axis=1))
    return {"what": "accuracy", **curve, "low": low, "q1": q1, "q3": q3, "high": high}


def when_of(result: Result) -> str:
    """When a run of one's own was finished."""
    if result.published:
        return ""
    return datetime.datetime.fromtimestamp((result.path / "summary.json").stat().st_mtime).isoformat(timespec="minutes")


def partition_of(result: Result) -> list[list[int]] | None:
    """Samples by client and class, where the run noted them."""
    if result.read("partition.csv") is None:
        return None
    columns = result.columns("partition")
    return [list(row) for row in zip(*(columns[name] for name in columns if name != "client"), strict=True)]


def command(pairs: list[tuple[str, str]]) -> str:
    """The line that asks for a very run."""
    plugins = os.environ.get("FEDINCENT_PLUGINS")
    words = [*(["--plugins", plugins] if plugins else []), *map("=".join, pairs)]
    return "fedincent run " + " ".join(shlex.quote(word) for word in words)


def figures_of(results_dir: Path) -> list[dict[str, str]]:
    """Every picture that was drawn, the audits' first."""
    paths = sorted((results_dir / "figures").glob("*.png"), key=lambda path: (not path.stem.startswith("audit"), path.stem))
    return [{"name": path.stem, "png": base64.b64encode(path.read_bytes()).decode()} for path in paths]


def tables_of(index: Index, damaged: list[dict[str, str]]) -> list[dict[str, Any]]:
    """Every paper's table of which anything was run; those that cannot be read join what is damaged."""
    present = {result.summary["choices"]["dataset"] for result in index.results.values()}
    found = []
    for name in options_of("table"):
        try:
            table = load_table(name)
            labels = sorted({d for d, _ in table.rows if dataset_of(table, d) in present})
            cells = fill_cells(table, index, None, {"dataset": labels}) if labels else {}
        except FedincentError as error:
            damaged.append({"path": f"table {name}", "why": str(error)})
            continue
        if any(cell.done for cell in cells.values()):
            found.append(describe_table(table, cells))
    return sorted(found, key=lambda table: (not table["printed"], -table["done"] / table["cells"]))


def dataset_of(table: PaperTable, label: str) -> str:
    """The data set that a row's label means."""
    words = [word for word in table.datasets.get(label, []) if word.startswith("dataset=")]
    return words[0].removeprefix("dataset=") if words else label


def describe_table(table: PaperTable, cells: Cells) -> dict[str, Any]:
    """A table's rows of which anything was run."""
    methods = list(table.columns)
    rows = []
    for dataset, setting in table.rows:
        for metric in table.metrics:
            row = {m: cells[dataset, setting, m, metric] for m in methods if (dataset, setting, m, metric) in cells}
            if not any(cell.done for cell in row.values()):
                continue
            best = best_methods(row, paper=False)
            rows.append(
                {
                    "dataset": dataset,
                    "setting": setting_name(setting),
                    "metric": metric_of(metric).label,
                    "cells": [
                        {
                            "ours": ours_text(cell, m in best).rstrip(" ✓✗"),
                            "value": cell.mean,
                            "paper": paper_text(cell),
                            "agrees": cell.agrees,
                            "seeds": f"{cell.done}/{cell.wanted}",
                        }
                        for m, cell in row.items()
                    ],
                }
            )
    done = [cell for cell in cells.values() if cell.done]
    judged = [cell.agrees for cell in done if cell.agrees is not None]
    return {
        "name": table.name,
        "title": table.title,
        "printed": table.paper is not None,
        "methods": [NAMES.get(m, m) for m in methods],
        "rows": rows,
        "cells": len(table.rows) * len(methods) * len(table.metrics),
        "done": len(done),
        "compared": len(judged),
        "agree": sum(judged),
        "notes": sorted({f"{m}: {note}" for (_, _, m, _), cell in cells.items() for note in cell.notes}),
    }
