"""The federation as matrices: the layout of a row, the clients' shards, the random streams, rounds and what is done in them.

Θ is N×D: row i is client i's model, flattened. G is N×D: row i is its update of this round.
"""

from fedincent.federation.jobs import Job, LocalTask, Report
from fedincent.federation.layout import Layout
from fedincent.federation.recipe import Recipe
from fedincent.federation.round import Federation, Round
from fedincent.federation.shards import Judged, Shards, make_shards, standardise
from fedincent.federation.streams import Streams

__all__ = [
    "Federation",
    "Job",
    "Judged",
    "Layout",
    "LocalTask",
    "Recipe",
    "Report",
    "Round",
    "Shards",
    "Streams",
    "make_shards",
    "standardise",
]
