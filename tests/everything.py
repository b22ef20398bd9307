"""Which settings the mechanisms ask for, for tests that go through all there are, by the names of their YAML files."""

from __future__ import annotations

MIXED = ["partition=mixture", "client_validation_fraction=0.2", "reference=fedavg", "per_round=4"]
STREAM = ["stream.per_round=3", "protocol=online", "training.carry=true", "reference=none", "held_out=0.1", "per_round=3"]
NEEDS: dict[str, list[str]] = {
    **dict.fromkeys(("ipfl", "ditto", "fedsoft", "ifca", "fedem", "fedala", "fedfomo", "fedproto"), MIXED),
    **dict.fromkeys(("fedavg_stale", "qffl_stale", "gog", "cons"), STREAM),
    "fye": [*STREAM, "mechanism.watched=3", "mechanism.window=3"],
    "fgfl": [*STREAM, "per_round=0"],
    "incfl": ["client_test_fraction=0.3", "unseen_clients=2", "solo_steps=2", "tune_steps=1"],
}
