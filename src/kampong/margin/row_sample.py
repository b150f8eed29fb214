"""A bounded sample of the rows of a stream, the same number of each class, from which class means are estimated."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kampong._core.compute import stack
from kampong.statistics.sampling import first_keys_by_group, row_keys

if TYPE_CHECKING:
    from kampong._core.compute import Float, Integer, Rows

SAMPLE_ROWS = 256
"""Rows kept of each class."""


class RowSample:
    """The rows of each class with the smallest random keys; the choice does not depend on the batches.

    Parameters
    ----------
    X : array or sparse matrix of shape (n_samples, n_features)
        The rows.
    codes : array of shape (n_samples,)
        Their classes.
    numbers : array of shape (n_samples,)
        Their numbers in the stream, from which the keys are made.
    """

    def __init__(self, X: Rows, codes: Integer, numbers: Integer) -> None:
        keys = row_keys(numbers + 1, np.ones(len(numbers)), seed=0)
        kept = first_keys_by_group(keys, codes, SAMPLE_ROWS)
        self.X, self.codes, self.numbers = X[kept], codes[kept], numbers[kept]

    def joined(self, other: RowSample) -> RowSample:
        """Return the sample of two parts of a stream."""
        codes, numbers = np.concatenate([self.codes, other.codes]), np.concatenate([self.numbers, other.numbers])
        return RowSample(stack(self.X, other.X), codes, numbers)


def class_means(values: Float, codes: Integer, n_classes: int) -> Float:
    """Return the mean of the rows of each class, NaN for a class without rows."""
    sums, counts = np.zeros((n_classes, values.shape[1])), np.bincount(codes, minlength=n_classes)
    np.add.at(sums, codes, values)
    with np.errstate(invalid="ignore"):
        means: Float = sums / counts[:, None]
    return means
