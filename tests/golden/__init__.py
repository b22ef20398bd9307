"""Small runs of everything there is, whose numbers must not move; `scripts/golden.py` carries them out."""

from __future__ import annotations

BASE = ["n_clients=6", "rounds=3", "model=logistic", "keep_checkpoint=false"]
OWN_TESTS = (
    "partition=clusters partition.clusters=2 partition.labels=5 client_test_fraction=0.4 unseen_clients=3 solo_steps=5 "
    "per_round=3 tune_steps=2 training.local_steps=4 eval_every=1"
)
MECHANISMS = (
    *("cffl", "cgsv", "cgsv_eu", "cgsv_iafl", "dw", "eci", "fedavg", "fedavg_finetune", "fedprox", "iafl", "incfl"),
    *("lg_fedavg", "mw_fed", "per_fedavg", "qffl", "rank", "rr", "standalone"),
)
CONTRIBUTIONS = (
    *("cgsv", "data_size", "euclidean", "leave_one_out", "participation_rate", "shapley", "standalone_accuracy"),
)
PARTITIONS = {
    "dirichlet": "partition=dirichlet",
    "classes": "partition=classes",
    "noise": "partition=noise",
    "noise_redrawn": "partition=noise partition.redraw=true",
    "quantity": "partition=quantity",
    "iid": "partition=iid",
    "iid_stratified": "partition=iid partition.stratified=true",
    "uni": "partition=uni partition.size=100",
    "uni_wrong_labels": "partition=uni partition.size=100 partition.wrong_labels=[0.5,0.2]",
    "pow": "partition=pow partition.size=100",
    "cla": "partition=cla partition.size=60",
    "clusters": "partition=clusters",
    "by_user": "dataset=synthetic n_clients=8 dataset.users=10",
}
CASES: dict[str, str] = {
    **{f"mechanism_{name}": f"mechanism={name} held_out=0.1 trace=true eval_every=1" for name in MECHANISMS},
    **{f"contribution_{name}": f"contribution={name} held_out=0.1" for name in CONTRIBUTIONS},
    **{f"partition_{name}": words for name, words in PARTITIONS.items()},
    **{
        f"own_tests_{name}": f"mechanism={name} {OWN_TESTS}"
        for name in ("fedavg", "incfl", "mw_fed", "qffl", "per_fedavg", "fedprox")
    },
    "own_tests_without_unseen": "mechanism=iafl client_test_fraction=0.4 tune_epochs=1 eval_every=2",
    **{
        f"mixture_{name}": f"mechanism={name} partition=mixture client_validation_fraction=0.2 reference=fedavg per_round=4"
        for name in ("ditto", "fedala", "fedem", "fedfomo", "fedproto", "fedsoft", "ifca", "ipfl", "per_fedavg")
    },
    "mixture_turned": "mechanism=ipfl partition=mixture partition.by=rotation client_validation_fraction=0.2",
    "cnn4": "model=cnn4 rounds=1 dataset.size=28",
    "cnn": "model=cnn",
    "cnn_augmented": "model=cnn training.augment=crop_flip rounds=2",
    "cnn3": "model=cnn3 rounds=1 dataset.size=28",
    "cnn_fc": "model=cnn_fc rounds=1 dataset.size=32",
    "mlp_dropout": "model=mlp model.dropout=0.3 mechanism=rank",
    "participation_linear": "participation=linear rounds=5",
    "participation_half": "participation=0.5 rounds=5 mechanism=cgsv",
    "per_round": "per_round=2 rounds=5 mechanism=rank",
    "tuned": "tune_epochs=1 mechanism=lg_fedavg",
    "sgd_steps": "training.optimizer=sgd training.local_steps=3 mechanism=fedavg",
    "strict": "ipr_strict=true mechanism=fedavg seed=3",
    "diverging": "model=mlp training.lr=1e30 training.optimizer=sgd on_divergence=drop",
}


def line(case: str) -> list[str]:
    """The overrides of a case."""
    return [*BASE, *CASES[case].split()]
