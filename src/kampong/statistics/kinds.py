"""Statistics of any kind to and from a checkpoint: the name of the kind, and the state that the kind writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kampong.statistics.all_rows import PastRows
from kampong.statistics.means import ClassMeans
from kampong.statistics.reservoir import ClassReservoir, SampledScatter
from kampong.statistics.scatter import ClassScatter

if TYPE_CHECKING:
    from kampong.files.contents import Contents

KINDS = {kind.__name__: kind for kind in (ClassMeans, ClassScatter, ClassReservoir, SampledScatter, PastRows)}


def statistics_state(statistics: ClassMeans) -> dict[str, Any]:
    """Return statistics as a state that names their kind."""
    return {"kind": type(statistics).__name__, **statistics.to_state()}


def statistics_from(contents: Contents, n_features: int) -> ClassMeans:
    """Return the statistics that `statistics_state` has written, of the same kind."""
    return KINDS[contents.word("kind", tuple(KINDS))].from_state(contents, n_features)
