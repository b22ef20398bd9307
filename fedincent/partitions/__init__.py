"""Partitions: who holds what, and what is done to it."""

from fedincent.partitions.arrivals import Stream
from fedincent.partitions.base import Deal, Partition, Table, assign
from fedincent.partitions.disturbances import Disturbance

__all__ = ["Deal", "Disturbance", "Partition", "Stream", "Table", "assign"]
