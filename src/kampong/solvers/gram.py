"""Exact directions of S_b from the K class means alone: no d × d array, no recursion.

S_b = ΦᵀΦ with Φ of K rows, so its eigenvectors are the right singular vectors of Φ. The decomposition works on the
K × K side of Φ (an LQ step reduces it to that), which keeps the small directions that a Gram matrix would square away.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg

from kampong._linalg import fix_signs
from kampong.criterion import MarginCriterion
from kampong.solvers._base import Subspace, classes_seen, keep
from kampong.statistics import ClassMeans

if TYPE_CHECKING:
    from kampong.criterion import Criterion

NAME = "gram"
STATISTICS = ClassMeans


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


def solve(criterion: Criterion, statistics: ClassMeans, n_components: int | None) -> Subspace:
    """Return the leading eigenvectors of S_b.

    Parameters
    ----------
    criterion : MarginCriterion
        With ε = 0.
    statistics : ClassMeans
        At least two classes.
    n_components : int or None
        None keeps every direction with a positive eigenvalue.

    Returns
    -------
    Subspace
        Orthonormal rows.
    """
    factor = statistics.between_factor()
    _, singular, rows = linalg.svd(factor, full_matrices=False, overwrite_a=True, check_finite=False)
    values = singular**2
    n_positive = int(np.count_nonzero(values > max(factor.shape) * np.finfo(float).eps * values.sum()))
    kept = keep(n_components, n_positive)
    return Subspace(fix_signs(rows[:kept]), values[:kept], float(values.sum()), n_positive, NAME)
