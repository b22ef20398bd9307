"""Mechanisms: one file each, tensor algebra on N×D matrices."""

from fedincent.mechanisms.base import Mechanism

__all__ = ["Mechanism"]
