"""Rows taken out again: Chan's formulas backwards, and rows that cannot have been learnt refused."""

from __future__ import annotations

from dataclasses import replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import linalg, sparse

if TYPE_CHECKING:
    from kampong._core.compute import Float, Integer, Rows
    from kampong.statistics.reservoir import Ragged

NOTHING = 1e-12
"""A class, or a row of a sample, is gone when less than this part of its weight is left: that is rounding."""

BELOW = 1e-12
"""Squares may fall below zero by this part of the largest they have been, about the origin: that is rounding."""

INDEFINITE = 1e-8
"""The same for the smallest eigenvalue of a scatter, in units of the largest variances there have been."""

HINT = "Only rows that were learnt, with the weights they had, can be taken out."


class NotLearntError(ValueError):
    """Rows to be taken out cannot have been learnt; what was learnt is unchanged."""


class Left(NamedTuple):
    """What is left of some classes; the rows whose squares leave the scatter; which classes are gone."""

    counts: Float
    means: Float
    squares: Float
    joined: Float
    gone: np.ndarray


def part(
    names: list[Any],
    before: tuple[Float, Float, Float],
    taken: tuple[Float, Float, Float],
    peaks: Float,
) -> Left:
    """Return classes without some of their rows.

    With n = l + b rows of mean m, b of them of mean m_b taken out, what is left has the mean m + (b/l)(m − m_b), and
    its squares are those before, less those of the rows taken out, less (n·b/l)|m − m_b|².

    Parameters
    ----------
    names : list of label
        The classes, for the messages.
    before : tuple of arrays
        Counts, means and squares of the classes.
    taken : tuple of arrays
        The same for the rows to take out.
    peaks : array of shape (k,)
        The largest squares about the origin that the classes have had: what rounding is measured by.

    Returns
    -------
    Left
        What is left.
    """
    n, mean, squares = before
    b, batch_mean, batch_squares = taken
    lacking = np.flatnonzero(b > n * (1 + NOTHING))
    if len(lacking):
        k = lacking[0]
        raise NotLearntError(f"class {names[k]!r} has the weight {n[k]:g}, so {b[k]:g} cannot be taken out. {HINT}")
    left = n - b
    gone = left <= NOTHING * n
    left[gone] = 0.0
    shift = mean - batch_mean
    ratio = np.divide(b, left, out=np.zeros_like(b), where=~gone)
    joined = np.sqrt(n * ratio)[:, None] * shift
    rest = squares - batch_squares - np.einsum("kd,kd->k", joined, joined)
    apart = np.where(gone, n * np.einsum("kd,kd->k", shift, shift) + np.abs(rest), -rest)
    strange = np.flatnonzero(apart > BELOW * peaks)
    if len(strange):
        raise NotLearntError(
            f"the rows of class {names[strange[0]]!r} are not among those learnt: taken out, they would leave negative "
            f"squares. {HINT}"
        )
    means = np.where(gone[:, None], 0.0, mean + ratio[:, None] * shift)
    return Left(left, means, np.where(gone, 0.0, np.maximum(rest, 0.0)), joined, gone)


def part_scatter(scatter: Float, taken: Float, joined: Float, peaks: Float) -> None:
    """Take the scatter of some rows out of the lower triangle of another, in place; refuse what would be indefinite.

    Parameters
    ----------
    scatter : array of shape (d, d)
        The scatter of all rows; only its lower triangle is read and right afterwards.
    taken : array of shape (d, d)
        The scatter of the rows to take out, about their own means.
    joined : array of shape (k, d)
        Rows whose squares the class means add.
    peaks : array of shape (d,)
        The largest diagonal that the scatter has had: what rounding is measured by.
    """
    scatter -= taken
    scatter -= joined.T @ joined
    after = scatter.diagonal()
    empty = after <= 1e-13 * peaks  # what is left of such a column is rounding
    worst = np.flatnonzero(after < -INDEFINITE * peaks)
    if len(worst):
        raise NotLearntError(
            f"taken out, the rows would leave a negative variance of column {worst[0]}: they are not among those "
            f"learnt. {HINT}"
        )
    scatter[empty], scatter[:, empty] = 0.0, 0.0
    scale = np.sqrt(np.where(peaks > 0, peaks, 1.0))
    trial = np.tril(scatter) / scale[:, None] / scale
    trial[np.diag_indices_from(trial)] += INDEFINITE
    try:
        linalg.cholesky(trial, lower=True, overwrite_a=True, check_finite=False)
    except linalg.LinAlgError:
        raise NotLearntError(
            f"taken out, the rows would leave a scatter that is not positive: they are not among those learnt. {HINT}"
        ) from None


def part_mean(weight: float, mean: Float, taken: float, taken_mean: Float) -> tuple[float, Float]:
    """Return weight and mean of rows without some of them; zero where nothing is left."""
    left = weight - taken
    if left < -NOTHING * weight:
        raise NotLearntError(f"rows of the weight {weight:g} were learnt, so {taken:g} cannot be taken out. {HINT}")
    if left <= NOTHING * weight:
        return 0.0, np.zeros_like(mean)
    return left, mean + (taken / left) * (mean - taken_mean)


def part_sample(kept: Ragged, own: Float, marks: list[bytes], taken: dict[bytes, float]) -> tuple[Ragged, Integer]:
    """Return a sample with less weight on some rows, and which of its rows stay; `taken` keeps what was not found.

    A row of weight w has the key log(E / w), E its clock: where a part of its weight stays, its key moves with it.

    Parameters
    ----------
    kept : Ragged
        The sample.
    own : array of shape (n,)
        What each row weighs now.
    marks : list of bytes
        What tells the rows of the sample apart, with their labels.
    taken : dict of bytes to float
        By mark, the weight to take out; what is found is subtracted.

    Returns
    -------
    sample : Ragged
        The same rows with their new keys and weights.
    stay : array of int
        Those of them that have weight left.
    """
    left = own.copy()
    places: dict[bytes, list[int]] = {}
    for place, mark in enumerate(marks):
        if mark in taken:
            places.setdefault(mark, []).append(place)
    for mark, found in places.items():
        wanted = taken[mark]
        while found and taken[mark] > NOTHING * wanted:
            place = found.pop()
            part_of = min(float(left[place]), taken[mark])
            left[place] -= part_of
            taken[mark] -= part_of
        if taken[mark] <= NOTHING * wanted:
            del taken[mark]
    stay = left > NOTHING * own
    share = np.where(stay, left / own, 1.0)
    return replace(kept, keys=kept.keys - np.log(share), weights=kept.weights * share), np.flatnonzero(stay)


def label_marks(codes: Integer, first: Integer, count: Integer) -> list[bytes]:
    """Return the labels of each row, `codes[first : first + count]`, as bytes, whatever their order."""
    return [np.sort(codes[start : start + n]).tobytes() for start, n in zip(first, count, strict=True)]


def marks_of(X: Rows, labels: list[bytes]) -> list[bytes]:
    """Return a digest of each row and its labels: equal where all entries are, whatever the storage of zeros.

    Parameters
    ----------
    X : array or sparse matrix of shape (n, d)
        The rows.
    labels : list of bytes
        The labels of each row.

    Returns
    -------
    list of bytes
        One digest a row.
    """
    if isinstance(X, np.ndarray):
        texts = ((row + 0.0).tobytes() + b"|" + label for row, label in zip(X, labels, strict=True))
        return [blake2b(text, digest_size=16).digest() for text in texts]
    plain = sparse.csr_array(X, copy=True)
    plain.sum_duplicates()
    plain.eliminate_zeros()
    indices, found = plain.indices.astype(np.int64), []
    for i, label in enumerate(labels):
        entries = slice(plain.indptr[i], plain.indptr[i + 1])
        text = indices[entries].tobytes() + b"|" + plain.data[entries].tobytes() + b"|" + label
        found.append(blake2b(text, digest_size=16).digest())
    return found
