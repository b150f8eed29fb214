"""Units of columns: what each is divided by where columns do not share one, and rows that are divided."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from kampong._core.compute import float_type, floats

if TYPE_CHECKING:
    from kampong._core.compute import Float, Rows

CONSTANT = 1e-12
"""A column whose variance is no more than this part of its squared mean is constant but for rounding."""


def capped(units: Float) -> Float:
    """Return what columns are divided by where only the large ones are: 1 for all others.

    Large columns get the variance c at which √d columns as large as the largest would hold all of it,

        Σ_j min(v_j, c) = √d · c,

    so a few columns in large units no longer hide the others, and small ones, such as rare words, stay small.

    Parameters
    ----------
    units : array of shape (d,)
        The standard deviation √v of each column.

    Returns
    -------
    array of shape (d,)
        √(v / c) for the large columns.
    """
    largest = float(units.max())
    variances = np.sort(np.square(units / largest))[::-1]
    wanted = math.sqrt(len(units))
    # with the k largest capped: k c + Σ of the others = √d c
    above = np.arange(math.ceil(wanted))
    others = np.cumsum(variances[::-1])[::-1][above]
    levels = others / (wanted - above)
    first = int(np.argmax(levels >= variances[above]))
    if levels[first] <= 0:  # no other column varies
        return np.ones(len(units))
    return np.asarray(np.maximum(units / (largest * math.sqrt(levels[first])), 1.0))


def divided(X: Rows, units: Float) -> Rows:
    """Return rows with each column divided by its unit, in the floats of the rows."""
    if isinstance(X, np.ndarray):
        rows: Float = np.divide(floats(X), units, dtype=np.float64).astype(float_type(X), copy=False)
        return rows
    data = (X.data / units[X.indices]).astype(float_type(X), copy=False)
    return sparse.csr_array((data, X.indices, X.indptr), shape=X.shape)
