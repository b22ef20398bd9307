"""Architectures whose parameters are one row."""

from fedincent.models.base import Model

__all__ = ["Model"]
