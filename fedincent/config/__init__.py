"""The configuration of a run: typed fields, Hydra's composition, the groups of YAML files."""

from fedincent.config.schema import Component, option

__all__ = ["Component", "option"]
