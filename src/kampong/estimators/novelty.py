"""How much a row looks like any known class: a likelihood ratio along Fisher's directions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kampong._core.locks import lock_of
from kampong.data.validation import refuse_overflow

if TYPE_CHECKING:
    from kampong._core.compute import Float
    from kampong.estimators.subspace import DiscriminantSubspace


def score_samples(self: DiscriminantSubspace, X: Any) -> Float:
    """Return how much each row looks like any known class, to find rows that belong to none.

    A method of the estimators with Fisher's directions. Along them classes have the covariance I, ridge included, and
    all rows together I + Λ, Λ the eigenvalues.

    Parameters
    ----------
    X : array-like or sparse matrix of shape (n_samples, n_features)
        The rows.

    Returns
    -------
    array of shape (n_samples,)
        The logarithm of the Gaussian density of the nearest class over that of all rows together, up to a constant:
        −½ min_k |z − m_k|² + ½ zᵀ(I + Λ)⁻¹z for coordinates z, class means m_k and eigenvalues Λ. Low for rows
        that are as unusual for each class as for the data as a whole (the relative Mahalanobis distance).
    """
    rows = self._rows(X)
    with lock_of(self):
        known = self._read()
        seen = self.class_counts_ > 0
    points = known.points(rows).astype(np.float64, copy=False)
    centres = known.centres[seen]
    nearest = (np.square(centres).sum(axis=1) - 2.0 * points @ centres.T).min(axis=1)
    with np.errstate(over="ignore"):
        kept = np.square(points) @ (known.eigenvalues / (1.0 + known.eigenvalues))
    return refuse_overflow("score_samples", -0.5 * (nearest + kept))
