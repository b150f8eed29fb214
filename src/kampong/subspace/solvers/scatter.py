"""Exact directions of any criterion from a d × d within-class scatter, up to a stated width.

Margin: the leading eigenvectors of S_b − ε S_w, and only those asked for. Fisher: with S_w + ρI = LLᵀ, the singular
vectors of L⁻¹Φᵀ, so that the d × d problem is one Cholesky factor and the eigenproblem has the size of K.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg

from kampong._runtime.arrays import fix_signs
from kampong.statistics import ClassMeans, ClassScatter
from kampong.subspace.criteria import FisherCriterion, MarginCriterion
from kampong.subspace.solvers.base import Subspace, classes_seen, keep

if TYPE_CHECKING:
    from kampong._runtime.arrays import Float
    from kampong.subspace.criteria import Criterion
    from kampong.subspace.solvers.base import Krylov

NAME = "scatter"
STATISTICS = ClassScatter
WIDEST = 8192
"""The most features for which a scatter matrix is kept: 512 MiB, and two to three times that to solve."""


def refuse(criterion: Criterion, statistics: ClassMeans, n_components: int | None) -> str | None:
    """Say why this pair cannot be served and who can, or return None."""
    if not isinstance(statistics, ClassScatter):
        return (
            f"needs the within-class scatter (ClassScatter), and these statistics are {type(statistics).__name__}: "
            "collect ClassScatter, or use epsilon=0, which solver='gram' solves from class means"
        )
    d, classes = statistics.n_features, classes_seen(statistics)
    most = d if isinstance(criterion, MarginCriterion) else min(d, classes - 1)
    if n_components is not None and n_components > most:
        why = f"{d} features" if most == d else f"{classes} classes"
        return f"finds at most {most} directions for {why}, and n_components is {n_components}: ask for fewer"
    return None


def solve(
    criterion: Criterion, statistics: ClassMeans, n_components: int | None, space: Krylov | None = None
) -> Subspace:
    """Return the leading directions of a margin or Fisher criterion.

    Parameters
    ----------
    criterion : MarginCriterion or FisherCriterion
        Any.
    statistics : ClassScatter
        At least two classes.
    n_components : int or None
        None keeps every direction with a positive eigenvalue (margin), or one less than there are classes (Fisher).
    space : Krylov, optional
        Not needed here.

    Returns
    -------
    Subspace
        Orthonormal rows (margin), or rows with wᵀ(S_w + ρI)w = 1 (Fisher).
    """
    assert isinstance(statistics, ClassScatter)  # `refuse` has seen to it
    within, factor = statistics.within_scatter(), statistics.between_factor()
    if isinstance(criterion, FisherCriterion):
        most = min(statistics.n_features, classes_seen(statistics) - 1)
        return _fisher(within, factor, criterion.ridge, most if n_components is None else n_components, most)
    d = len(within)
    most = min(d, classes_seen(statistics) - 1)
    size = float(np.einsum("kd,kd->", factor, factor)) + criterion.epsilon * float(np.trace(within))
    within *= -criterion.epsilon
    within += factor.T @ factor
    first = d - max(most, 1, n_components or 0)
    values, vectors = linalg.eigh(within, subset_by_index=(first, d - 1), overwrite_a=True, check_finite=False)
    values, rows = values[::-1], vectors.T[::-1]
    n_positive = int(np.count_nonzero(values[:most] > d * np.finfo(float).eps * size))
    kept = keep(n_components, n_positive)
    return Subspace(fix_signs(rows[:kept]), values[:kept], float(values[:n_positive].sum()), n_positive, NAME)


def _fisher(within: Float, factor: Float, ridge: float, n_components: int, most: int) -> Subspace:
    d = len(within)
    within.flat[:: d + 1] += ridge
    scale = np.sqrt(within.diagonal())  # unit diagonal, so that units of the features do not look like singularity
    live = np.flatnonzero(scale)
    if not len(live):
        raise ValueError(
            "FisherDiscriminant: S_w is zero, every class is a single point, and ridge is 0. "
            "Use ridge='auto' or a positive ridge."
        )
    scale = scale[live]
    matrix = within[np.ix_(live, live)] if len(live) < d else within
    matrix /= scale
    matrix /= scale[:, None]
    whiten, rank = _whitener(matrix)
    white = whiten(factor[:, live].T / scale[:, None], False)
    left, singular, _ = linalg.svd(white, full_matrices=False, overwrite_a=True, check_finite=False)
    values = singular**2
    kept = min(n_components, rank)
    components = np.zeros((kept, d))
    components[:, live] = (whiten(left[:, :kept], True) / scale[:, None]).T
    n_positive = int(np.count_nonzero(values[:most] > d * np.finfo(float).eps * values.sum()))
    return Subspace(fix_signs(components), values[:kept], float(values.sum()), n_positive, NAME, d - rank)


class _Whitener:
    """Apply the inverse root of a positive matrix, from the left (L⁻¹B) or transposed (L⁻ᵀB)."""

    def __init__(self, matrix: Float, *, inverted: bool) -> None:
        self.matrix, self.inverted = matrix, inverted

    def __call__(self, block: Float, transposed: bool) -> Float:
        if self.inverted:
            product: Float = self.matrix @ block if transposed else self.matrix.T @ block
            return product
        result: Float = linalg.solve_triangular(
            self.matrix, block, lower=True, trans=1 if transposed else 0, check_finite=False
        )
        return result


def _whitener(matrix: Float) -> tuple[_Whitener, int]:
    """Return the inverse root of a matrix of unit diagonal and its rank, leaving out where it vanishes."""
    d = len(matrix)
    tolerance = d * np.finfo(float).eps
    lower, failed = linalg.lapack.dpotrf(matrix, lower=1, clean=1, overwrite_a=0)
    if not failed:
        reciprocal, _ = linalg.lapack.dpocon(lower, np.abs(matrix).sum(axis=0).max(), uplo="L")
        if reciprocal > tolerance:
            return _Whitener(lower, inverted=False), d
    values, vectors = linalg.eigh(matrix, check_finite=False)
    kept = values > tolerance * values[-1]
    return _Whitener(vectors[:, kept] / np.sqrt(values[kept]), inverted=True), int(kept.sum())
