"""Image data sets in their official file formats; torchvision fetches them and checks their sums."""

from __future__ import annotations

import gzip
import hashlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from fedincent.config import option
from fedincent.datasets.base import Dataset
from fedincent.errors import DataError

DIGITS = 10  # classes of EMNIST ByClass before its letters


def fetch(dataset: Dataset, torchvision_name: str, root: Path, **choices: Any) -> None:
    """Let torchvision download and check one official data set; an error that says how to go on without a network."""
    import torchvision.datasets

    try:
        getattr(torchvision.datasets, torchvision_name)(str(root), download=True, **choices)
    except (OSError, RuntimeError) as error:
        raise DataError(f"{dataset.not_found()}\nDownloading failed: {error}") from error


@dataclass(kw_only=True)
class IdxImages(Dataset):
    """MNIST's idx format: four files, plain or gzipped."""

    torchvision_name: ClassVar[str] = ""
    system_folders: ClassVar[tuple[str, ...]] = ()
    stems: ClassVar[tuple[str, ...]] = (
        "train-images-idx3-ubyte",
        "train-labels-idx1-ubyte",
        "t10k-images-idx3-ubyte",
        "t10k-labels-idx1-ubyte",
    )

    def folders(self, root: Path) -> list[Path]:
        """Where the four files may be."""
        return [root / self.torchvision_name / "raw", root / self.name, *map(Path, self.system_folders)]

    def find(self, root: Path) -> list[Path]:
        for folder in self.folders(root):
            found = [path for stem in self.stems for path in (folder / stem, folder / f"{stem}.gz") if path.is_file()]
            complete = {path.name.removesuffix(".gz"): path for path in reversed(found)}
            if len(complete) == len(self.stems):
                return [complete[stem] for stem in self.stems]
        return []

    def read(self, paths: list[Path]) -> dict[str, Any]:
        x_train, y_train, x_test, y_test = (read_idx(path) for path in paths)
        images = {"x_train": x_train[..., None], "x_test": x_test[..., None]}
        return {**images, "y_train": y_train.astype(np.int64), "y_test": y_test.astype(np.int64)}

    def download(self, root: Path) -> None:
        fetch(self, self.torchvision_name, root)


def read_idx(path: Path) -> np.ndarray:
    """One idx file of unsigned bytes: two zero bytes, type 8, number of axes, axes as big-endian int32, then the data."""
    content = path.read_bytes()
    if path.suffix == ".gz":
        content = gzip.decompress(content)
    if content[:3] != b"\x00\x00\x08" or len(content) < 4:
        raise ValueError(f"{path.name} does not begin as an idx file of bytes")
    axes = content[3]
    shape = tuple(int(n) for n in np.frombuffer(content, ">i4", axes, 4))
    values = np.frombuffer(content, np.uint8, offset=4 + 4 * axes)
    if values.size != int(np.prod(shape)):
        raise ValueError(f"{path.name} holds {values.size} bytes of data, its header promises {int(np.prod(shape))}")
    return values.reshape(shape)


@dataclass(kw_only=True)
class MNIST(IdxImages):
    """Handwritten digits, 60,000 + 10,000 images of 28×28."""

    name: ClassVar[str] = "mnist"
    torchvision_name: ClassVar[str] = "MNIST"
    files: ClassVar[tuple[str, ...]] = ("MNIST/raw/*-ubyte[.gz]",)
    hint: ClassVar[str] = "With a network `fedincent data fetch mnist` gets it; else copy the four idx files there."


@dataclass(kw_only=True)
class FashionMNIST(IdxImages):
    """Clothes, 60,000 + 10,000 images of 28×28."""

    name: ClassVar[str] = "fmnist"
    torchvision_name: ClassVar[str] = "FashionMNIST"
    system_folders: ClassVar[tuple[str, ...]] = ("/usr/share/datasets/fashion-mnist",)
    files: ClassVar[tuple[str, ...]] = ("FashionMNIST/raw/*-ubyte[.gz]",)
    hint: ClassVar[str] = (
        "With a network `fedincent data fetch fmnist` gets it; on Debian `apt install dataset-fashion-mnist` does."
    )


@dataclass(kw_only=True)
class EMNIST(IdxImages):
    """Handwritten letters of EMNIST's ByClass split: 52 classes, upper case first; images transposed, as they are stored."""

    name: ClassVar[str] = "emnist"
    torchvision_name: ClassVar[str] = "EMNIST"
    files: ClassVar[tuple[str, ...]] = ("EMNIST/raw/ (or gzip/) emnist-byclass-*-ubyte[.gz]",)
    hint: ClassVar[str] = (
        "With a network `fedincent data fetch emnist` gets it; else unpack NIST's gzip.zip "
        "(biometrics.nist.gov/cs_links/EMNIST/gzip.zip) into EMNIST/."
    )
    stems: ClassVar[tuple[str, ...]] = (
        "emnist-byclass-train-images-idx3-ubyte",
        "emnist-byclass-train-labels-idx1-ubyte",
        "emnist-byclass-test-images-idx3-ubyte",
        "emnist-byclass-test-labels-idx1-ubyte",
    )
    official: ClassVar[dict[str, str]] = {  # sha256 of the official files
        f"{stems[0]}.gz": "9e21987f03a6eb8b870187e785883ddad96947299587908f1a7ec2ca0f4be5f0",
        f"{stems[1]}.gz": "f7ef403d48dc18a89dae0d83d11ee69cecb6e1c12c3a961d03712e495c02a8fa",
        f"{stems[2]}.gz": "5ec835bd5d5b1a66378a132e727fef20fe994b3cc666899befcca5ac766f50cd",
        f"{stems[3]}.gz": "501e305eeeacb093b162592d80e8a2632040872360fa6d85cfcb2200d91ca92a",
    }

    def folders(self, root: Path) -> list[Path]:
        return [*super().folders(root), root / "EMNIST" / "gzip", root / "gzip"]

    def read(self, paths: list[Path]) -> dict[str, Any]:
        arrays = super().read(paths)
        for split in ("train", "test"):
            letters = arrays[f"y_{split}"] >= DIGITS
            arrays[f"x_{split}"] = arrays[f"x_{split}"][letters]
            arrays[f"y_{split}"] = arrays[f"y_{split}"][letters] - DIGITS
        return arrays

    def download(self, root: Path) -> None:
        fetch(self, self.torchvision_name, root, split="byclass")
        for path in self.find(root):
            wanted = self.official.get(path.name)
            if wanted is not None and hashlib.sha256(path.read_bytes()).hexdigest() != wanted:
                raise DataError(f"{path} is not the official file: its sha256 is another; delete it and fetch it again")


@dataclass(kw_only=True)
class SVHN(Dataset):
    """Street-view house numbers, 73,257 + 26,032 images of 32×32×3 (the extra split is not used)."""

    name: ClassVar[str] = "svhn"
    files: ClassVar[tuple[str, ...]] = ("train_32x32.mat with test_32x32.mat",)
    hint: ClassVar[str] = "With a network `fedincent data fetch svhn` gets it; else copy the two .mat files there."

    def find(self, root: Path) -> list[Path]:
        for folder in (root, root / "SVHN", root / "svhn"):
            paths = [folder / "train_32x32.mat", folder / "test_32x32.mat"]
            if all(path.is_file() for path in paths):
                return paths
        return []

    def read(self, paths: list[Path]) -> dict[str, Any]:
        from scipy.io import loadmat

        arrays = {}
        for split, path in zip(("train", "test"), paths, strict=True):
            matrices = loadmat(str(path))
            arrays[f"x_{split}"] = np.ascontiguousarray(matrices["X"].transpose(3, 0, 1, 2))
            arrays[f"y_{split}"] = matrices["y"].reshape(-1).astype(np.int64) % 10  # the digit 0 is labelled 10
        return arrays

    def download(self, root: Path) -> None:
        for split in ("train", "test"):
            fetch(self, "SVHN", root, split=split)


@dataclass(kw_only=True)
class Cifar(Dataset):
    """CIFAR in torchvision's folder: its batches are checked against their md5 before they are opened."""

    torchvision_name: ClassVar[str] = ""
    folder_name: ClassVar[str] = ""

    def find(self, root: Path) -> list[Path]:
        folder = root / self.folder_name
        return sorted(p for p in folder.iterdir() if p.is_file()) if folder.is_dir() else []

    def read(self, paths: list[Path]) -> dict[str, Any]:
        import torchvision.datasets

        arrays = {}
        for split in ("train", "test"):
            try:
                part = getattr(torchvision.datasets, self.torchvision_name)(str(paths[0].parent.parent), split == "train")
            except RuntimeError as error:
                raise ValueError(str(error).splitlines()[0]) from error
            arrays[f"x_{split}"], arrays[f"y_{split}"] = part.data, np.array(part.targets, dtype=np.int64)
        return arrays

    def download(self, root: Path) -> None:
        fetch(self, self.torchvision_name, root)


@dataclass(kw_only=True)
class CIFAR10(Cifar):
    """Ten kinds of things, 50,000 + 10,000 images of 32×32×3."""

    name: ClassVar[str] = "cifar10"
    torchvision_name: ClassVar[str] = "CIFAR10"
    folder_name: ClassVar[str] = "cifar-10-batches-py"
    files: ClassVar[tuple[str, ...]] = ("cifar-10-batches-py/",)
    hint: ClassVar[str] = "With a network `fedincent data fetch cifar10` gets it; else put cifar10.npz there."


@dataclass(kw_only=True)
class CIFAR100(Cifar):
    """A hundred kinds of things, 50,000 + 10,000 images of 32×32×3, fine labels."""

    name: ClassVar[str] = "cifar100"
    torchvision_name: ClassVar[str] = "CIFAR100"
    folder_name: ClassVar[str] = "cifar-100-python"
    files: ClassVar[tuple[str, ...]] = ("cifar-100-python/",)
    hint: ClassVar[str] = "With a network `fedincent data fetch cifar100` gets it; else put cifar100.npz there."


@dataclass(kw_only=True)
class TinyImageNet(Dataset):
    """Two hundred ImageNet classes, 100,000 + 10,000 images of 64×64×3; the labelled validation part is the test set."""

    name: ClassVar[str] = "tiny_imagenet"
    files: ClassVar[tuple[str, ...]] = ("tiny-imagenet-200/",)
    hint: ClassVar[str] = "Unpack the official tiny-imagenet-200.zip there (cs231n.stanford.edu/tiny-imagenet-200.zip)."

    def find(self, root: Path) -> list[Path]:
        folder = root / "tiny-imagenet-200"
        paths = [folder / "wnids.txt", folder / "val" / "val_annotations.txt"]
        return paths if all(path.is_file() for path in paths) and (folder / "train").is_dir() else []

    def read(self, paths: list[Path]) -> dict[str, Any]:
        folder = paths[0].parent
        wnids = sorted(paths[0].read_text().split())
        number = {wnid: k for k, wnid in enumerate(wnids)}
        train = [(image, k) for wnid, k in number.items() for image in sorted((folder / "train" / wnid).glob("images/*"))]
        rows = [line.split("\t") for line in paths[1].read_text().splitlines() if line.strip()]
        test = [(folder / "val" / "images" / row[0], number[row[1]]) for row in rows]
        arrays: dict[str, Any] = {}
        for split, pairs in (("train", train), ("test", test)):
            arrays[f"x_{split}"] = decode([image for image, _ in pairs])
            arrays[f"y_{split}"] = np.array([label for _, label in pairs], dtype=np.int64)
        return arrays


@dataclass(kw_only=True)
class PathMNIST(Dataset):
    """Tissue of the colon in nine classes (MedMNIST), 89,996 + 7,180 images of 28×28×3; the validation part is not used."""

    name: ClassVar[str] = "pathmnist"
    reads_npz: ClassVar[bool] = True
    files: ClassVar[tuple[str, ...]] = ()
    hint: ClassVar[str] = "Download pathmnist.npz (MedMNIST v2, zenodo.org/records/10519652) there, or into medmnist/."

    def find(self, root: Path) -> list[Path]:
        return [path for path in (root / "medmnist" / "pathmnist.npz",) if path.is_file()]

    def read(self, paths: list[Path]) -> dict[str, Any]:
        with np.load(paths[0], allow_pickle=False) as archive:
            return {
                f"{ours}_{split}": archive[f"{split}_{theirs}"].astype(kind).squeeze(1 if ours == "y" else ())
                for split in ("train", "test")
                for ours, theirs, kind in (("x", "images", np.uint8), ("y", "labels", np.int64))
            }


def decode(paths: list[Path]) -> np.ndarray:
    """Image files of one size as n×height×width×3 bytes; grey ones become colour."""
    from concurrent.futures import ThreadPoolExecutor

    from PIL import Image

    def pixels(path: Path) -> np.ndarray:
        with Image.open(path) as image:
            return np.asarray(image.convert("RGB"))

    with ThreadPoolExecutor() as pool:
        return np.stack(list(pool.map(pixels, paths)))


@dataclass(kw_only=True)
class NpzFile(Dataset):
    """One's own data: a file with the arrays x_train, y_train, x_test, y_test."""

    name: ClassVar[str] = "npz"

    file: str | None = option("path of the .npz file", identity=False)

    def find(self, root: Path) -> list[Path]:
        if not self.file:
            raise DataError("dataset.file=null: say which file, e.g. dataset=npz dataset.file=my_data.npz")
        path = Path(self.file).expanduser()
        if not path.is_file():
            raise DataError(f"dataset.file={self.file}: no such file")
        if path.suffix != ".npz":
            raise DataError(
                f"dataset.file={self.file}: must be an .npz file (numpy.savez) with x_train, y_train, x_test, y_test"
            )
        return [path]


@dataclass(kw_only=True)
class Digits(Dataset):
    """scikit-learn's 8×8 handwritten digits, padded; 1,437 + 360 images, no download."""

    name: ClassVar[str] = "digits"

    size: int = option("height and width after padding with black", low=8, high=1024)

    def find(self, root: Path) -> list[Path]:
        spec = importlib.util.find_spec("sklearn")  # its import takes a second, and the cache may have all we need
        assert spec is not None and spec.origin is not None
        return [Path(spec.origin).parent / "datasets" / "data" / "digits.csv.gz"]

    def read(self, paths: list[Path]) -> dict[str, Any]:
        from sklearn.datasets import load_digits

        bunch = load_digits()
        before = (self.size - 8) // 2
        padding = (before, self.size - 8 - before)
        images = np.pad((bunch.images * 15).astype(np.uint8), ((0, 0), padding, padding))[..., None]
        labels = bunch.target.astype(np.int64)
        order = np.random.default_rng(0).permutation(len(labels))  # the file is ordered by writer
        test, train = order[:360], order[360:]
        return {"x_train": images[train], "y_train": labels[train], "x_test": images[test], "y_test": labels[test]}
