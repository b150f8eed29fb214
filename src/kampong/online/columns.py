"""Rows as members read them: narrow ones standardised column by column, of wide ones no few entries hide the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kampong._core.loops import Loop

if TYPE_CHECKING:
    from kampong._core.compute import Float, Integer

FLAT = 1e-24
"""A column whose variance is at most this part of its squared mean is constant: what is left is rounding."""


@Loop
def standardise(
    mean: Float,
    squares: Float,
    weight: Float,
    X: Float,
    weights: Float,
    learn: np.ndarray,
    keep: float,
    points: Float,
    active: Integer,
) -> None:
    """Write each row standardised as if it had been learnt with weight 1, and learn it if `learn` says so.

    `keep` is what is left of the weight of a row when the next one comes.

    A row that is counted itself lies at most √n deviations from the mean, so the first rows are not huge. All rows
    count half after the same number of rows, as in the members.
    """
    for i in range(len(X)):
        total, count = keep * weight[0] + 1.0, 0
        for j in range(X.shape[1]):
            step = X[i, j] - mean[j]
            centre = mean[j] + step / total
            variance = (keep * squares[j] + step * (X[i, j] - centre)) / total
            if variance > FLAT * centre * centre:
                points[i, j] = (X[i, j] - centre) / np.sqrt(variance)
                count += 1
            else:
                points[i, j] = 0.0
        active[i] = max(count, 1)
        if learn[i]:
            weight[0] = keep * weight[0] + weights[i]
            share = weights[i] / weight[0]
            for j in range(X.shape[1]):
                step = X[i, j] - mean[j]
                mean[j] += share * step
                squares[j] = keep * squares[j] + weights[i] * step * (X[i, j] - mean[j])


@Loop
def cap_large_entries(indptr: Integer, data: Float) -> None:
    """Bring large entries of each wide row down, in place, so that a price or a date does not hide its words.

    Squares above c become c, where √n squares as large as c would hold all that is left of a row of n entries:
    Σ min(x², c) = √n · c. Rows in which no few entries are that large stay as they are.
    """
    for i in range(len(indptr) - 1):
        start, stop = indptr[i], indptr[i + 1]
        wanted, total = np.sqrt(stop - start), 0.0
        for p in range(start, stop):
            total += data[p] * data[p]
        level = total / max(wanted, 1.0)
        while True:  # Newton's steps from above: each is exact for the entries above the level, which are few
            others, larger = 0.0, 0
            for p in range(start, stop):
                square = data[p] * data[p]
                if square > level:
                    larger += 1
                else:
                    others += square
            if larger >= wanted or others / (wanted - larger) >= level:
                break
            level = others / (wanted - larger)
        most = np.sqrt(level)
        for p in range(start, stop):
            if most > 0.0 and abs(data[p]) > most:
                data[p] = most if data[p] > 0.0 else -most
