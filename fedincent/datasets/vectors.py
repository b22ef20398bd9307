"""Word vectors from a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from fedincent.errors import ConfigError


def read_vectors(path: Path, wanted: set[str]) -> dict[str, np.ndarray]:
    """The vectors of the wanted words in a file: words and vectors of an .npz, or a line `word x x x …` for each."""
    try:
        if path.suffix == ".npz":
            with np.load(path, allow_pickle=False) as archive:
                words, vectors = archive["words"], archive["vectors"]
            return {str(word): vector for word, vector in zip(words, vectors, strict=True) if str(word) in wanted}
        found = {}
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                word, *numbers = line.rstrip().split(" ")
                if word in wanted:
                    found[word] = np.array(numbers, dtype=np.float32)
        return found
    except (ValueError, KeyError, OSError) as error:
        raise ConfigError("vectors", str(path), f"is not a file of word vectors: {error}") from error
