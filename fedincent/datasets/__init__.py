"""Data sets: a name becomes four arrays in memory."""

from fedincent.datasets.base import Data, Dataset
from fedincent.datasets.cache import load, verify

__all__ = ["Data", "Dataset", "load", "verify"]
