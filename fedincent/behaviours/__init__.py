"""Behaviours: what a client really sends."""

from fedincent.behaviours.base import Behaviour

__all__ = ["Behaviour"]
