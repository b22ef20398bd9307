"""Partitions: who holds what."""

from fedincent.partitions.base import Partition, assign

__all__ = ["Partition", "assign"]
