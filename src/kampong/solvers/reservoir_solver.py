"""Directions of any criterion from a stream of any width: exact class means, S_w from a bounded sample of rows.

The sample stands in for the rows in memory, and `resolvent.py` does the rest. While everything fits the sample the
result is that of the rows in memory; then its error falls with the square root of the sample's size.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kampong.solvers import resolvent
from kampong.statistics.reservoir import ClassReservoir

if TYPE_CHECKING:
    from kampong.criteria import Criterion
    from kampong.solvers.solver import Krylov, Subspace
    from kampong.statistics import ClassMeans

NAME = "reservoir"
REASON = "{width}; the rows passed by: exact means and a sample of them, {steps} steps"
STATISTICS = ClassReservoir


def most(criterion: Criterion, statistics: ClassMeans) -> int:
    """Return how many directions it can find: as many as with rows in memory."""
    return resolvent.most(criterion, statistics)


def refuse(criterion: Criterion, statistics: ClassMeans, n_components: int | None) -> str | None:
    """Say why this pair cannot be served and who can, or return None."""
    if statistics.kept_sample is not statistics:  # a sample kept with kernel values holds other rows
        return (
            f"needs a sample of the rows of a stream (ClassReservoir), and these statistics are "
            f"{type(statistics).__name__}: collect ClassReservoir, or use solver='auto'"
        )
    return resolvent.refuse(criterion, statistics, n_components)


def solve(
    criterion: Criterion, statistics: ClassMeans, n_components: int | None, space: Krylov | None = None
) -> Subspace:
    """Return the leading directions of a criterion.

    Parameters
    ----------
    criterion : Criterion
        Any.
    statistics : ClassReservoir
        At least two classes.
    n_components : int or None
        None keeps every direction that raises the criterion.
    space : Krylov, optional
        Where to look, if it has been built before.

    Returns
    -------
    Subspace
        Orthonormal rows (margin), or rows with wᵀ(S_w + ρI)w = 1 (Fisher).
    """
    return replace(resolvent.solve(criterion, statistics, n_components, space), solver=NAME)
