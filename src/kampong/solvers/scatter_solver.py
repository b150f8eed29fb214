"""Exact directions of any criterion from a d × d within-class scatter, up to a stated width.

The small space of the criterion is the whole space here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kampong.solvers import gram
from kampong.solvers.solver import Subspace, between_directions
from kampong.statistics.scatter import ClassScatter

if TYPE_CHECKING:
    from kampong.criteria import Criterion
    from kampong.solvers.solver import Krylov
    from kampong.statistics.means import ClassMeans

NAME = "scatter"
REASON = "{width}: S_w is kept whole, and the result exact"
STATISTICS = ClassScatter


def most(criterion: Criterion, statistics: ClassMeans) -> int:
    """Return how many directions the criterion has."""
    return criterion.most_directions(statistics.classes_seen, statistics.n_features)


def refuse(criterion: Criterion, statistics: ClassMeans, n_components: int | None) -> str | None:
    """Say why this pair cannot be served and who can, or return None."""
    if not statistics.holds_scatter:
        return (
            f"needs the within-class scatter (ClassScatter), and these statistics are {type(statistics).__name__}: "
            "collect ClassScatter, or use epsilon=0, which solver='gram' solves from class means"
        )
    limit, d, classes = most(criterion, statistics), statistics.n_features, statistics.classes_seen
    if n_components is not None and n_components > limit:
        why = f"{d} features" if limit == d else f"{classes} classes"
        return f"finds at most {limit} directions for {why}, and n_components is {n_components}: ask for fewer"
    return None


def solve(
    criterion: Criterion, statistics: ClassMeans, n_components: int | None, space: Krylov | None = None
) -> Subspace:
    """Return the leading directions of a criterion.

    Parameters
    ----------
    criterion : Criterion
        Any.
    statistics : ClassScatter
        At least two classes.
    n_components : int or None
        None keeps every direction that raises the criterion.
    space : Krylov, optional
        Not needed here.

    Returns
    -------
    Subspace
        Orthonormal rows (margin), or rows with wᵀ(S_w + ρI)w = 1 (Fisher).
    """
    if not criterion.needs_within:
        return replace(gram.solve(criterion, statistics, n_components), solver=NAME)
    factor, most_between = statistics.between_factor(), between_directions(statistics)
    # no name holds the matrix, so that a criterion can give its memory back
    found = criterion.solve_small(factor, statistics.within_scatter(), n_components, most_between)
    return Subspace.of(found, found.vectors.T, NAME)
