"""Exact directions of S_b from the K class means alone: no d × d array, no recursion.

S_b = ΦᵀΦ with Φ of K rows, so its eigenvectors are Φᵀu/σ for the eigenvectors u of the K × K matrix ΦΦᵀ = UΣ²Uᵀ. A
Gram matrix squares the singular values, so where they differ by more than SPREAD, Φ itself is decomposed.

S_b has K − 1 directions at the most, and is indifferent to all others. Where more are asked for and S_w is known, the
leading directions of S_t in what is left are added: they keep most of what the rows do there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg
from scipy.sparse.linalg import LinearOperator, eigsh

from kampong.criteria import Directions
from kampong.solvers.solver import Subspace, between_directions
from kampong.statistics.means import ClassMeans
from kampong.statistics.scatter import WIDEST

if TYPE_CHECKING:
    from kampong._core.compute import Float
    from kampong.criteria import Criterion
    from kampong.solvers.solver import Krylov

NAME = "gram"
REASON = "S_b alone is maximised, and the class means hold all of it"
STATISTICS = ClassMeans
SPREAD = 1e-3
ZERO = 1e-7
"""Singular values below this part of the largest are zero: class means are known to about half of the digits."""


def most(criterion: Criterion, statistics: ClassMeans) -> int:
    """Return how many directions there are: all where S_w is known, else those in which class means can differ."""
    return statistics.n_features if statistics.holds_within else between_directions(statistics)


def refuse(criterion: Criterion, statistics: ClassMeans, n_components: int | None) -> str | None:
    """Say why this pair cannot be served and who can, or return None."""
    if criterion.needs_within:
        return f"knows the class means only, and the {criterion} needs the within-class scatter: use solver='scatter'"
    limit = most(criterion, statistics)
    if n_components is not None and n_components > limit:
        return (
            f"finds the directions in which class means differ, at most {limit} for {statistics.classes_seen} classes "
            f"and {statistics.n_features} features, and n_components is {n_components}: ask for fewer, or collect S_w "
            "too (solver='scatter', or fit) to add the leading directions of S_t"
        )
    return None


def solve(
    criterion: Criterion, statistics: ClassMeans, n_components: int | None, space: Krylov | None = None
) -> Subspace:
    """Return the leading eigenvectors of S_b, and past those of S_t in what is left.

    Parameters
    ----------
    criterion : Criterion
        One that does not need S_w.
    statistics : ClassMeans
        At least two classes.
    n_components : int or None
        None keeps every direction with a positive eigenvalue.
    space : Krylov, optional
        Not needed here.

    Returns
    -------
    Subspace
        Orthonormal rows.
    """
    asked = None if n_components is None else min(n_components, between_directions(statistics))
    singular, rows = right_singular(statistics.between_factor(), asked)
    values = singular**2
    n_positive = int(np.count_nonzero(singular > ZERO * singular[0])) if singular[0] > 0 else 0
    kept = max(n_positive, 1) if n_components is None else n_components
    if kept > n_positive > 0 and statistics.holds_within:
        rest = _leading(statistics, rows[:n_positive], kept - n_positive)
        rows, values = np.concatenate([rows[:n_positive], rest]), np.append(values[:n_positive], np.zeros(len(rest)))
    found = Directions(values[:kept], rows[:kept].T, float(singular @ singular), n_positive)
    return Subspace.of(found, rows[:kept], NAME)


def right_singular(factor: Float, n_components: int | None) -> tuple[Float, Float]:
    """Return all singular values and the right singular vectors, as rows, of those that may be kept."""
    squares, left = linalg.eigh(factor @ factor.T, check_finite=False)
    singular, left = np.sqrt(np.maximum(squares[::-1], 0.0)), left[:, ::-1]
    clear = int(np.count_nonzero(singular > SPREAD * singular[0]))
    # Centred means always leave one singular value at zero; the Gram matrix cannot tell others from it.
    if clear == len(singular) - 1 and clear >= (n_components or 0):
        singular[clear:] = 0.0
        return singular, (left[:, :clear] / singular[:clear]).T @ factor
    _, singular, rows = linalg.svd(factor, full_matrices=False, overwrite_a=True, check_finite=False)
    return singular, rows


def _leading(statistics: ClassMeans, basis: Float, count: int) -> Float:
    """Return the leading directions of S_t that are orthogonal to the rows of a basis; S_b vanishes there."""
    d = statistics.n_features
    if d <= WIDEST:
        outside = linalg.qr(basis.T, check_finite=False)[0][:, len(basis) :]
        within = outside.T @ statistics.within_times(outside)
        left = d - len(basis)
        _, vectors = linalg.eigh(within, subset_by_index=(left - count, left - 1), check_finite=False)
        rows: Float = (outside @ vectors[:, ::-1]).T
        return rows

    def project(block: Float) -> Float:
        outside: Float = block - basis.T @ (basis @ block)
        return outside

    def times(block: Float) -> Float:
        return project(statistics.within_times(project(block.reshape(d, -1))))

    operator = LinearOperator((d, d), matvec=times, matmat=times, dtype=np.float64)
    start = project(np.cos(np.arange(1.0, d + 1.0)))  # any vector that repeats on every machine
    _, vectors = eigsh(operator, k=count, v0=start, which="LA")
    return np.ascontiguousarray(linalg.qr(project(vectors[:, ::-1]), mode="economic")[0].T)
