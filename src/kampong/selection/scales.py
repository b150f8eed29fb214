"""What columns may be divided by when scale="auto" compares: the built-in scales, and those that a program adds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kampong._core.registries import enter

if TYPE_CHECKING:
    from collections.abc import Callable

    from kampong._core.compute import Float
    from kampong.statistics.means import ClassMeans

SCALES = {
    "unscaled": "as they are",
    "scaled": "divided by their standard deviations",
    "capped": "with large columns divided",
}
"""The built-in scales, and what each does to the columns."""

OWN: dict[str, Callable[[ClassMeans], Float | None]] = {}
"""The scales that a program has added."""


def register(name: str, units: Callable[[ClassMeans], Float | None]) -> None:
    """Add a scale: scale="auto" compares it with the others by their selection loss on validation rows.

    Parameters
    ----------
    name : str
        Its name, which must be free. `choice_.scales` has its loss.
    units : callable
        Called with statistics, it returns what each column is divided by, or None where it is not to be tried. It
        must not depend on anything else: a stream asks it again whenever it solves.
    """
    enter(OWN, "a scale", name, units, tuple(SCALES))


def own_units(name: str, statistics: ClassMeans) -> Float | None:
    """Return what an own scale divides the columns by, None where it is not to be tried."""
    found = OWN[name](statistics)
    if found is None:
        return None
    units = np.asarray(found, dtype=np.float64)
    if units.shape != (statistics.n_features,) or not (np.isfinite(units).all() and (units > 0).all()):
        raise ValueError(
            f"scale {name!r}: its function must return one positive, finite number for each of {statistics.n_features} "
            f"columns, or None, and returned {found!r:.100}."
        )
    return units
