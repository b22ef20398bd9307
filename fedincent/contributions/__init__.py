"""Contribution measures: one number per client."""

from fedincent.contributions.base import Baseline, Contribution

__all__ = ["Baseline", "Contribution"]
