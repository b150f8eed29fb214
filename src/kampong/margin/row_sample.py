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
    counts : array of shape (n_samples,)
        How often each row counts in a mean; it does not matter for the choice.
    """

    def __init__(self, X: Rows, codes: Integer, numbers: Integer, counts: Float) -> None:
        keys = row_keys(numbers + 1, np.ones(len(numbers)), seed=0)
        kept = first_keys_by_group(keys, codes, SAMPLE_ROWS)
        self.X, self.codes, self.numbers, self.counts = X[kept], codes[kept], numbers[kept], counts[kept]

    def joined(self, other: RowSample) -> RowSample:
        """Return the sample of two parts of a stream."""
        codes, numbers = np.concatenate([self.codes, other.codes]), np.concatenate([self.numbers, other.numbers])
        return RowSample(stack(self.X, other.X), codes, numbers, np.concatenate([self.counts, other.counts]))


def class_means(values: Float, codes: Integer, n_classes: int, counts: Float) -> Float:
    """Return the weighted mean of the rows of each class, NaN for a class without rows."""
    sums, totals = np.zeros((n_classes, values.shape[1])), np.zeros(n_classes)
    # shares of the largest weight, so that no product overflows
    shares = counts / counts.max(initial=1.0)
    np.add.at(sums, codes, values * shares[:, None])
    np.add.at(totals, codes, shares)
    with np.errstate(invalid="ignore"):
        means: Float = sums / totals[:, None]
    return means
