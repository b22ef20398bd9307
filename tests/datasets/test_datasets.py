"""Data sets: official formats on small files made in that format, caching, damage, and real files where there are any."""

from __future__ import annotations

import gzip
import io
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from fedincent.config.compose import compose
from fedincent.datasets import Data, load, verify
from fedincent.datasets.base import cache_folder
from fedincent.datasets.text import parse_tree, tokens_of
from fedincent.errors import ConfigError, DataError


def get(*overrides: str) -> Data:
    return load(compose(list(overrides)).dataset)


def idx(array: np.ndarray) -> bytes:
    return b"\x00\x00\x08" + bytes([array.ndim]) + np.array(array.shape, ">i4").tobytes() + array.tobytes()


def write_idx(folder: Path, n: int = 20, packed: bool = True) -> dict[str, np.ndarray]:
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    arrays = {
        "train-images-idx3-ubyte": rng.integers(0, 256, (n, 28, 28), dtype=np.uint8),
        "train-labels-idx1-ubyte": rng.integers(0, 10, n, dtype=np.uint8),
        "t10k-images-idx3-ubyte": rng.integers(0, 256, (5, 28, 28), dtype=np.uint8),
        "t10k-labels-idx1-ubyte": rng.integers(0, 10, 5, dtype=np.uint8),
    }
    for name, array in arrays.items():
        if packed:
            (folder / f"{name}.gz").write_bytes(gzip.compress(idx(array)))
        else:
            (folder / name).write_bytes(idx(array))
    return arrays


@pytest.mark.parametrize(("name", "folder"), [("mnist", "MNIST"), ("fmnist", "FashionMNIST")])
@pytest.mark.parametrize("packed", [True, False])
def test_idx_files(tmp_path: Path, name: str, folder: str, packed: bool) -> None:
    arrays = write_idx(tmp_path / folder / "raw", packed=packed)
    data = get(f"dataset={name}", f"dataset.root={tmp_path}")
    assert (data.x_train[..., 0] == arrays["train-images-idx3-ubyte"]).all()
    assert (data.y_test == arrays["t10k-labels-idx1-ubyte"]).all()
    assert (data.shape, data.kind, data.n_classes) == ((1, 28, 28), "image", 10)
    pixels = arrays["train-images-idx3-ubyte"].astype(float)
    assert data.mean == pytest.approx((pixels.mean(),)) and data.std == pytest.approx((pixels.std(),))


def test_emnists_letters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The digits of ByClass are left out, the letters are 0 … 51; found where torchvision or NIST's archive puts them."""
    rng = np.random.default_rng(0)
    for place in ("EMNIST/raw", "EMNIST/gzip", "gzip"):
        folder = tmp_path / place.replace("/", "-") / place
        folder.mkdir(parents=True)
        labels = {"train": np.array([0, 10, 61, 9, 36, 35] * 2, np.uint8), "test": np.array([5, 10, 61], np.uint8)}
        images = {split: rng.integers(0, 256, (len(y), 28, 28), dtype=np.uint8) for split, y in labels.items()}
        for split in labels:
            for kind, array in (("images-idx3", images[split]), ("labels-idx1", labels[split])):
                (folder / f"emnist-byclass-{split}-{kind}-ubyte.gz").write_bytes(gzip.compress(idx(array)))
        found = get("dataset=emnist", f"dataset.root={tmp_path / place.replace('/', '-')}")
        assert found.y_train.tolist() == [0, 51, 26, 25] * 2 and found.y_test.tolist() == [0, 51]
        assert found.n_classes == 52 and (found.x_test[..., 0] == images["test"][1:]).all()
    with pytest.raises(DataError, match=r"emnist-byclass.*\n.*fedincent data fetch emnist"):
        get("dataset=emnist", f"dataset.root={tmp_path}")
    monkeypatch.setattr("fedincent.datasets.image.fetch", lambda *given, **choices: None)
    dataset = compose(["dataset=emnist", f"dataset.root={tmp_path / 'gzip'}"]).dataset
    with pytest.raises(DataError, match="is not the official file"):
        dataset.download(tmp_path / "gzip")


def test_a_system_copy_is_found_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from fedincent.datasets.image import FashionMNIST

    assert FashionMNIST.system_folders == ("/usr/share/datasets/fashion-mnist",)  # Debian's dataset-fashion-mnist
    write_idx(tmp_path / "system")
    (tmp_path / "empty").mkdir()
    monkeypatch.setattr(FashionMNIST, "system_folders", (str(tmp_path / "system"),))
    assert len(get("dataset=fmnist", f"dataset.root={tmp_path / 'empty'}").y_train) == 20


def test_arrays_are_mapped_from_the_cache_after_the_first_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_idx(tmp_path / "MNIST" / "raw")
    first = get("dataset=mnist", f"dataset.root={tmp_path}")
    monkeypatch.setattr("fedincent.datasets.image.read_idx", lambda path: pytest.fail("parsed twice"))
    second = get("dataset=mnist", f"dataset.root={tmp_path}")
    assert isinstance(second.x_train, np.memmap) and second.fingerprint == first.fingerprint


def test_changed_files_are_parsed_anew(tmp_path: Path) -> None:
    write_idx(tmp_path / "a" / "MNIST" / "raw", n=20)
    write_idx(tmp_path / "b" / "MNIST" / "raw", n=30)
    prints = [get("dataset=mnist", f"dataset.root={tmp_path / side}").fingerprint for side in "ab"]
    assert prints[0] != prints[1]


def test_a_truncated_file_is_named_and_nothing_is_kept(tmp_path: Path) -> None:
    write_idx(tmp_path / "MNIST" / "raw", packed=False)
    victim = tmp_path / "MNIST" / "raw" / "train-images-idx3-ubyte"
    victim.write_bytes(victim.read_bytes()[:-100])
    before = set((cache_folder() / "arrays").glob("*/meta.json")) if cache_folder().exists() else set()
    with pytest.raises(DataError, match="damaged") as caught:
        get("dataset=mnist", f"dataset.root={tmp_path}")
    assert "train-images-idx3-ubyte" in str(caught.value)
    assert set((cache_folder() / "arrays").glob("*/meta.json")) == before
    assert not list((cache_folder() / "arrays").glob(".mnist-*"))


def test_a_damaged_gzip_is_named(tmp_path: Path) -> None:
    write_idx(tmp_path / "MNIST" / "raw")
    victim = tmp_path / "MNIST" / "raw" / "t10k-images-idx3-ubyte.gz"
    victim.write_bytes(victim.read_bytes()[:50])
    with pytest.raises(DataError, match="damaged"):
        get("dataset=mnist", f"dataset.root={tmp_path}")


def test_damaged_cache_is_found_by_verify(tmp_path: Path) -> None:
    write_idx(tmp_path / "MNIST" / "raw", n=41)
    dataset = compose(["dataset=mnist", f"dataset.root={tmp_path}"]).dataset
    assert verify(dataset) == load(dataset).fingerprint
    entry = next(p for p in (cache_folder() / "arrays").glob("mnist-*/x_train.npy") if np.load(p).shape[0] == 41)
    content = bytearray(entry.read_bytes())
    content[-1] ^= 1
    entry.write_bytes(content)
    with pytest.raises(DataError, match="sha256"):
        verify(dataset)


def test_nothing_there_says_what_where_and_how(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def offline(*_args: object, **_more: object) -> None:
        raise OSError("no network")

    monkeypatch.setattr("torchvision.datasets.CIFAR10", offline)
    with pytest.raises(DataError) as caught:
        get("dataset=cifar10", f"dataset.root={tmp_path}")
    text = str(caught.value)
    assert "cifar10.npz or cifar-10-batches-py/" in text and str(tmp_path) in text
    assert "fedincent data fetch cifar10" in text and "no network" in text


def test_a_root_that_does_not_exist(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r"dataset\.root=.*nowhere: no such folder"):
        get("dataset=mnist", f"dataset.root={tmp_path / 'nowhere'}")
    monkeypatch.setenv("FEDINCENT_DATA", str(tmp_path / "nowhere"))
    with pytest.raises(ConfigError, match="FEDINCENT_DATA"):
        get("dataset=mnist")


def test_any_data_set_as_npz(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, (12, 32, 32, 3), dtype=np.uint8), np.arange(12) % 4
    np.savez(tmp_path / "cifar10.npz", x_train=x, y_train=y, x_test=x[:3], y_test=y[:3])
    data = get("dataset=cifar10", f"dataset.root={tmp_path}")
    assert (data.shape, data.n_classes, data.name) == ((3, 32, 32), 4, "cifar10")


@pytest.mark.parametrize(
    ("x", "kind", "shape"),
    [
        (np.zeros((9, 8, 8), np.uint8), "image", (1, 8, 8)),
        (np.random.default_rng(0).random((9, 5)), "features", (5,)),
        (np.arange(36).reshape(9, 4), "text", (4,)),
    ],
)
def test_ones_own_data(tmp_path: Path, x: np.ndarray, kind: str, shape: tuple[int, ...]) -> None:
    file = tmp_path / "own.npz"
    words = {"vocabulary": 40} if kind == "text" else {}
    np.savez(file, x_train=x, y_train=np.arange(9) % 3, x_test=x[:2], y_test=np.array([0, 1]), **words)
    data = get("dataset=npz", f"dataset.file={file}")
    assert (data.kind, data.shape, data.n_classes) == (kind, shape, 3)


def test_ones_own_data_that_does_not_fit(tmp_path: Path) -> None:
    file = tmp_path / "own.npz"
    np.savez(file, x_train=np.zeros((4, 3)), y_train=np.zeros(4, int), x_test=np.zeros((2, 3)))
    with pytest.raises(DataError, match="no array named y_test"):
        get("dataset=npz", f"dataset.file={file}")
    np.savez(file, x_train=np.zeros((4, 3)), y_train=np.zeros(5, int), x_test=np.zeros((2, 3)), y_test=np.zeros(2, int))
    with pytest.raises(DataError, match="x_train 4, y_train 5"):
        get("dataset=npz", f"dataset.file={file}")
    with pytest.raises(DataError, match=r"dataset\.file=nowhere\.npz"):
        get("dataset=npz", "dataset.file=nowhere.npz")
    with pytest.raises(DataError, match=r"dataset\.file=null"):
        get("dataset=npz")


def test_no_pickle_is_read_from_an_npz(tmp_path: Path) -> None:
    file = tmp_path / "own.npz"
    evil = np.array([{"a": 1}], dtype=object)
    np.savez(file, x_train=evil, y_train=evil, x_test=evil, y_test=evil, allow_pickle=True)
    with pytest.raises(DataError, match="damaged or not of the expected format"):
        get("dataset=npz", f"dataset.file={file}")


def test_unchecked_cifar_pickles_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    for name in (*(f"data_batch_{i}" for i in range(1, 6)), "test_batch", "batches.meta"):
        (folder / name).write_bytes(pickle.dumps({"data": np.zeros((1, 3072), np.uint8), "labels": [0]}))
    with pytest.raises(DataError, match="damaged or not of the expected format"):
        get("dataset=cifar10", f"dataset.root={tmp_path}")


def test_svhn_mat_files(tmp_path: Path) -> None:
    from scipy.io import savemat

    rng = np.random.default_rng(0)
    for split, n in (("train", 7), ("test", 4)):
        images = rng.integers(0, 256, (32, 32, 3, n), dtype=np.uint8)
        savemat(tmp_path / f"{split}_32x32.mat", {"X": images, "y": np.array([[10], [1], [2], [9], [5], [6], [7]][:n])})
    data = get("dataset=svhn", f"dataset.root={tmp_path}")
    assert data.shape == (3, 32, 32)
    assert data.y_train.tolist() == [0, 1, 2, 9, 5, 6, 7]  # the digit 0 is stored as 10


def test_tiny_imagenet_folder(tmp_path: Path) -> None:
    root = tmp_path / "tiny-imagenet-200"
    for k, wnid in enumerate(("n002", "n001")):
        (root / "train" / wnid / "images").mkdir(parents=True)
        for i in range(3):
            Image.new("RGB" if i else "L", (64, 64), color=40 * k if i == 0 else (40 * k, 0, 0)).save(
                root / "train" / wnid / "images" / f"{wnid}_{i}.JPEG"
            )
    (root / "val" / "images").mkdir(parents=True)
    Image.new("RGB", (64, 64)).save(root / "val" / "images" / "val_0.JPEG")
    (root / "val" / "val_annotations.txt").write_text("val_0.JPEG\tn002\t0\t0\t63\t63\n")
    (root / "wnids.txt").write_text("n002\nn001\n")
    data = get("dataset=tiny_imagenet", f"dataset.root={tmp_path}")
    assert data.x_train.shape == (6, 64, 64, 3)
    assert (data.y_train.tolist(), data.y_test.tolist()) == ([0, 0, 0, 1, 1, 1], [1])


def test_trees() -> None:
    assert parse_tree("(3 (2 It) (4 (2 's) (4 (2 good) (2 .))))") == (["it", "'s", "good", "."], 3)
    with pytest.raises(ValueError, match="not a tree"):
        parse_tree("just words")


def test_sst_zip(tmp_path: Path) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("trees/train.txt", "(3 (2 a) (2 good))\n(1 (2 a) (1 bad))\n(4 (2 a) (2 good))\n")
        archive.writestr("trees/test.txt", "(0 (2 a) (0 horror))\n")
    (tmp_path / "sst").mkdir()
    (tmp_path / "sst" / "trainDevTestTrees_PTB.zip").write_bytes(buffer.getvalue())
    data = get("dataset=sst", f"dataset.root={tmp_path}", "dataset.length=4")
    assert (data.kind, data.n_classes, data.vocabulary, data.shape) == ("text", 5, 5, (4,))
    assert data.x_train.tolist() == [[2, 3, 0, 0], [2, 4, 0, 0], [2, 3, 0, 0]]  # a, good, bad by frequency
    assert data.x_test.tolist() == [[2, 1, 0, 0]]  # a word the training split does not know is 1


def test_movie_reviews(tmp_path: Path) -> None:
    for ending, word in (("pos", "Good"), ("neg", "bad")):
        lines = [f"{word} film number {k} caf\xe9" for k in range(30)]
        (tmp_path / f"rt-polarity.{ending}").write_bytes("\n".join(lines).encode("latin-1"))
    data = get("dataset=mr", f"dataset.root={tmp_path}", "dataset.length=5")
    assert (len(data.y_train), len(data.y_test), data.n_classes, data.kind) == (54, 6, 2, "text")
    assert set(data.words[:3]) == {"film", "number", "café"}  # in every sentence, so the commonest
    good = data.words.index("good") + 2
    assert ((data.x_train[:, 0] == good) == (data.y_train == 1)).all()


def test_tweets(tmp_path: Path) -> None:
    rows = ['"4","1","d","NO_QUERY","u","Nice! @you http://x.y"', '"0","2","d","NO_QUERY","u","bad"'] * 6
    file = tmp_path / "training.1600000.processed.noemoticon.csv"
    file.write_bytes("\n".join(rows).encode("latin-1"))
    (tmp_path / "testdata.manual.2009.06.14.csv").write_text(
        '"2","1","d","q","u","so so"\n"4","2","d","q","u","nice"\n', encoding="latin-1"
    )
    data = get("dataset=sent140", f"dataset.root={tmp_path}", "dataset.min_count=1")
    assert (len(data.y_train), data.y_test.tolist(), data.n_classes) == (12, [1], 2)
    assert tokens_of("Nice! @you http://x.y") == ["nice", "!", "<user>", "<url>"]
    alone = get("dataset=sent140", f"dataset.file={file}", "dataset.min_count=1", "dataset.test_fraction=0.25")
    assert (len(alone.y_train), len(alone.y_test)) == (9, 3)
    file.write_text("not, the, format\n")
    with pytest.raises(DataError, match="six columns"):
        get("dataset=sent140", f"dataset.file={file}")


def test_digits_are_padded_and_split() -> None:
    data = get("dataset=digits")
    assert (data.shape, len(data.y_train), len(data.y_test), data.n_classes) == ((1, 16, 16), 1437, 360, 10)
    assert data.x_train[:, :4].max() == 0 and data.x_train[:, 4:12, 4:12].max() == 240
    assert np.bincount(data.y_test).min() > 20


@pytest.mark.real
@pytest.mark.parametrize(
    ("name", "train", "test", "classes"),
    [("mnist", 60_000, 10_000, 10), ("fmnist", 60_000, 10_000, 10), ("sst", 8_544, 2_210, 5), ("mr", 9_596, 1_066, 2)],
)
def test_real_files(real_data: Path, name: str, train: int, test: int, classes: int) -> None:
    data = get(f"dataset={name}", f"dataset.root={real_data}")
    assert (len(data.y_train), len(data.y_test), data.n_classes) == (train, test, classes)


@pytest.mark.real
def test_real_tweets_and_subsets(real_data: Path) -> None:
    tweets = get("dataset=sent140", f"dataset.file={real_data}/sent140_subset.csv.gz")
    assert len(tweets.y_train) + len(tweets.y_test) > 30_000 and tweets.n_classes == 2
    for name, classes in (("cifar10", 10), ("cifar100", 100)):
        data = get("dataset=npz", f"dataset.file={real_data}/{name}_subset.npz")
        assert (data.shape, data.n_classes) == ((3, 32, 32), classes)


def test_pathmnist_in_medmnists_format(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    arrays = {}
    for split, n in (("train", 12), ("val", 3), ("test", 5)):
        arrays[f"{split}_images"] = rng.integers(0, 256, (n, 28, 28, 3), dtype=np.uint8)
        arrays[f"{split}_labels"] = (np.arange(n) % 9).astype(np.uint8)[:, None]
    for folder in (tmp_path, tmp_path / "medmnist"):
        folder.mkdir(exist_ok=True)
        np.savez(folder / "pathmnist.npz", **arrays)
        data = get("dataset=pathmnist", f"dataset.root={tmp_path}")
        np.testing.assert_array_equal(data.x_train, arrays["train_images"])
        np.testing.assert_array_equal(data.y_test, arrays["test_labels"][:, 0])
        (folder / "pathmnist.npz").unlink()
    assert data.n_classes == 9 and data.shape == (3, 28, 28)


def test_fi2010_in_its_official_format(tmp_path: Path) -> None:
    """149 rows: 144 features, and a row of labels 1, 2, 3 for each of five horizons; a column is a moment."""
    table = np.random.default_rng(0).normal(size=(149, 40))
    table[144:] = 1 + np.arange(40) % 3
    folder = tmp_path / "NoAuction/1.NoAuction_Zscore/NoAuction_Zscore_Training"
    folder.mkdir(parents=True)
    np.savetxt(folder / "Train_Dst_NoAuction_ZScore_CF_3.txt", table, fmt="%.7e")
    data = get("dataset=fi2010", f"dataset.root={tmp_path}", "dataset.horizon=30")
    assert data.x_train.shape == (36, 144) and data.x_test.shape == (4, 144) and data.n_classes == 3
    np.testing.assert_allclose(data.x_train[5], table[:144, 5], rtol=1e-6)
    assert data.y_train[:4].tolist() == [0, 1, 2, 0]
    with pytest.raises(DataError, match=r"no labels for dataset\.horizon=11"):
        get("dataset=fi2010", f"dataset.root={tmp_path}", "dataset.horizon=11")


def test_electricity_in_opsds_format(tmp_path: Path) -> None:
    """A year and two days of quarter hours; columns that are not German are left out, empty fields are 0."""
    from datetime import datetime, timedelta, timezone

    begin, rows = datetime(2015, 1, 1, tzinfo=timezone.utc), 100 + 35041 + 31
    lines = ["utc_timestamp,cet_cest_timestamp,AT_load_actual,DE_load_actual,DE_solar_generation_actual"]
    for k in range(rows):
        moment = begin + timedelta(minutes=15 * k)
        lines.append(f"{moment.strftime('%Y-%m-%dT%H:%M:%SZ')},x,7,{1000 + k % 96},{'' if k % 2 else k % 5}")
    (tmp_path / "time_series_15min_singleindex.csv").write_text("\n".join(lines) + "\n")
    data = get("dataset=electricity", f"dataset.root={tmp_path}", "dataset.test_fraction=0.2")
    assert data.n_classes == 0 and data.x_train.shape == (9, 26) and len(data.y_test) == 2  # 31 moments, every third: 11
    first = 100 + 35041
    assert data.y_train[:2].tolist() == [1000 + first % 96, 1000 + (first + 3) % 96]
    load = 1000 + np.arange(100, rows) % 96
    scaled = (load - load.mean()) / load.std()
    wanted = [scaled[35041 - 96 * 365], *(scaled[35041 - 96 * day] for day in range(1, 8)), *scaled[35036:35041]]
    np.testing.assert_allclose(data.x_train[0].reshape(13, 2)[:, 0], wanted, atol=1e-5)


@pytest.mark.real
def test_real_electricity_load(real_data: Path) -> None:
    data = get("dataset=electricity_load", f"dataset.root={real_data}")
    assert data.x_train.shape[1] == 13 and len(data.y_train) + len(data.y_test) > 100_000
    assert 30_000 < np.mean(data.y_train) < 80_000  # megawatts
    copy = np.abs(data.x_train[:, -1] * np.std(data.y_train) + np.mean(data.y_train) - data.y_train) / data.y_train
    assert copy.mean() < 0.03  # a quarter of an hour ago it was nearly the same


def test_synthetic_as_it_is_generated() -> None:
    """By the paper's rule for one user, by hand; raw: neither cut, nor standardised, nor robbed of a common test set."""
    data = get("dataset=synthetic", "dataset.users=3", "dataset.most=0", "dataset.common_test=false", "dataset.raw=true")
    rng = np.random.default_rng([0, 3])
    sizes = rng.lognormal(4, 2, 3).astype(int) + 50
    mean, shift = rng.normal(0, 1), rng.normal(0, 1)
    weights, bias, centre = rng.normal(mean, 1, (60, 10)), rng.normal(mean, 1, 10), rng.normal(shift, 1, 60)
    x = centre + np.arange(1, 61) ** -0.6 * rng.standard_normal((sizes[0], 60))
    assert data.groups is not None
    np.testing.assert_array_equal(np.bincount(data.groups), sizes)
    np.testing.assert_allclose(data.x_train[: sizes[0]], x, rtol=1e-5)
    np.testing.assert_array_equal(data.y_train[: sizes[0]], (x @ weights + bias).argmax(1))
    assert set(data.mean) == {0.0} and set(data.std) == {1.0}
    plain = get("dataset=synthetic", "dataset.users=3")
    same = get("dataset=synthetic", "dataset.users=3", "dataset.raw=true")
    assert plain.fingerprint != same.fingerprint and len(plain.y_train) < sizes.sum()


def tweets(path: Path) -> None:
    lines = [
        f'"{4 * (k % 2)}","{k}","date","q","user{k % 3}","{"good day" if k % 2 else "bad night out"}"' for k in range(40)
    ]
    path.write_text("\n".join(lines) + "\n")


def test_tweets_as_means_of_vectors(tmp_path: Path) -> None:
    tweets(tmp_path / "t.csv")
    (tmp_path / "glove.txt").write_text("good 1 0\nday 0 2\nbad -1 0\nnight 0 -2\n")
    line = ["dataset=sent140_vectors", f"dataset.file={tmp_path / 't.csv'}", f"dataset.vectors={tmp_path / 'glove.txt'}"]
    data = get(*line)
    assert data.kind == "features" and data.n_classes == 2 and data.groups is not None
    good, bad = data.x_train[data.y_train == 1], data.x_train[data.y_train == 0]
    assert (good == [0.5, 1.0]).all() and (bad == [-0.5, -1.0]).all()  # "out" has no vector and does not count
    (tmp_path / "glove.txt").write_text("good 2 0\nday 0 2\nbad -1 0\nnight 0 -2\n")
    assert get(*line).fingerprint != data.fingerprint
    with pytest.raises(ConfigError, match="which file"):
        get("dataset=sent140_vectors", f"dataset.file={tmp_path / 't.csv'}")
    with pytest.raises(ConfigError, match="no such file"):
        get("dataset=sent140_vectors", f"dataset.file={tmp_path / 't.csv'}", "dataset.vectors=none.txt")


GOOD = {"x_train": np.ones((6, 3), np.float32), "y_train": np.arange(6) % 3, "x_test": np.ones((3, 3), np.float32)}
GOOD |= {"y_test": np.arange(3)}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"x_train": np.full((6, 3), np.nan)}, "x_train holds NaN"),
        ({"x_test": np.full((3, 3), np.inf)}, "x_test holds NaN or infinite"),
        ({"y_train": np.array([1, 6, 11] * 2)}, "labels must be 0, 1, … 2; y_train holds 1, 6, 11"),
        ({"y_test": np.array([0, 1, 3])}, "class 3 is in y_test, but not in y_train"),
        ({"x_train": np.ones(6, np.float32), "x_test": np.ones(3, np.float32)}, "x_train has shape"),
        ({"x_train": np.ones((6, 0), np.float32), "x_test": np.ones((3, 0), np.float32)}, "x_train has shape"),
    ],
)
def test_what_cannot_be_data_is_said(change: dict[str, np.ndarray], words: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "d.npz", **{**GOOD, **change})
    with pytest.raises(DataError, match=words):
        get("dataset=npz", f"dataset.file={tmp_path / 'd.npz'}")


def test_other_files_than_npz_are_said(tmp_path: Path) -> None:
    (tmp_path / "words.npz").write_text("x,y\n1,2\n")
    (tmp_path / "data.csv").write_text("x,y\n1,2\n")
    np.save(tmp_path / "one", np.ones(3))
    (tmp_path / "one.npy").rename(tmp_path / "one.npz")
    for name, words in (("words.npz", "no .npz file"), ("data.csv", "must be an .npz file"), ("one.npz", "one array")):
        with pytest.raises(DataError, match=words):
            get("dataset=npz", f"dataset.file={tmp_path / name}")


def test_whole_numbers_are_features_unless_there_is_a_vocabulary(tmp_path: Path) -> None:
    whole = {**GOOD, "x_train": np.arange(18).reshape(6, 3), "x_test": np.arange(9).reshape(3, 3)}
    np.savez(tmp_path / "d.npz", **whole)
    assert get("dataset=npz", f"dataset.file={tmp_path / 'd.npz'}").kind == "features"
    np.savez(tmp_path / "t.npz", **whole, vocabulary=20)
    assert get("dataset=npz", f"dataset.file={tmp_path / 't.npz'}").kind == "text"
