"""Exact directions of S_b from the K class means alone: no d × d array, no recursion.

S_b = ΦᵀΦ with Φ of K rows, so its eigenvectors are Φᵀu/σ for the eigenvectors u of the K × K matrix ΦΦᵀ = UΣ²Uᵀ. A
Gram matrix squares the singular values, so where they differ by more than SPREAD, Φ itself is decomposed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg

from kampong._runtime.arrays import fix_signs
from kampong.statistics import ClassMeans
from kampong.subspace.criteria import MarginCriterion
from kampong.subspace.solvers.base import Subspace, classes_seen, keep

if TYPE_CHECKING:
    from kampong._runtime.arrays import Float
    from kampong.subspace.criteria import Criterion
    from kampong.subspace.solvers.base import Krylov

NAME = "gram"
STATISTICS = ClassMeans
SPREAD = 1e-3
ZERO = 1e-7
"""Singular values below this part of the largest are zero: class means are known to about half of the digits."""


def refuse(criterion: Criterion, statistics: ClassMeans, n_components: int | None) -> str | None:
    """Say why this pair cannot be served and who can, or return None."""
    if not isinstance(criterion, MarginCriterion) or criterion.epsilon != 0:
        return f"knows the class means only, and the {criterion} needs the within-class scatter: use solver='scatter'"
    most = min(classes_seen(statistics) - 1, statistics.n_features)
    if n_components is not None and n_components > most:
        return (
            f"finds the directions in which class means differ, at most {most} for {classes_seen(statistics)} classes "
            f"and {statistics.n_features} features, and n_components is {n_components}: ask for fewer, or use "
            "solver='scatter' to add directions that neither raise nor lower the criterion"
        )
    return None


def solve(
    criterion: Criterion, statistics: ClassMeans, n_components: int | None, space: Krylov | None = None
) -> Subspace:
    """Return the leading eigenvectors of S_b.

    Parameters
    ----------
    criterion : MarginCriterion
        With ε = 0.
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
    singular, rows = right_singular(statistics.between_factor(), n_components)
    values = singular**2
    n_positive = int(np.count_nonzero(singular > ZERO * singular[0])) if singular[0] > 0 else 0
    kept = keep(n_components, n_positive)
    return Subspace(fix_signs(rows[:kept]), values[:kept], float(values.sum()), n_positive, NAME)


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
