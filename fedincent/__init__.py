"""fedincent: a benchmark for incentives in federated learning.

>>> import fedincent
>>> result = fedincent.run(["mechanism=iafl", "dataset=digits", "seed=3"])
>>> result.summary["pearson"], result.clients.head()
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from fedincent.store.result import Result

__version__ = "0.1.0"
__all__ = ["__version__", "run"]


def run(overrides: Sequence[str] = ()) -> Result:
    """Carry out one run, or find it finished, and return its result with data frames.

    overrides: Hydra overrides as on the command line, e.g. ["mechanism=iafl", "seed=3"].
    """
    from fedincent.config.compose import compose  # torch and Hydra load here, so that `import fedincent` is instant
    from fedincent.runs.runner import run as run_config

    return run_config(compose(overrides))
