"""One batch of rows: sums of its classes about their own rows, or a few rows learnt one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import sparse

from kampong._core.compute import blocks, compiled, float_type, floats, run, split
from kampong.data.labels import Members
from kampong.data.validation import LARGEST, raise_not_finite

if TYPE_CHECKING:
    from kampong._core.compute import Float, Integer, Rows

MOST = 1e300
"""The largest weight, and the largest weighted sum of squares about the origin, that is learnt: sums stay finite."""

LOST_DIGITS = 1e-3
"""If the scatter of a column is a smaller share of its sum of squares, the column is shifted before it is summed."""


class Summary(NamedTuple):
    """The summary of one batch: which classes it holds and their weights, means and squares about the means."""

    classes: Integer
    counts: Float
    means: Float
    squares: Float


def summarise(X: Rows, members: Members, owner: str) -> Summary:
    """Summarise a batch without changing a state; refuse NaN and infinity with a message that names the owner."""
    counts: Float = np.bincount(members.codes, weights=members.weights).astype(np.float64)
    present = np.flatnonzero(np.bincount(members.codes))
    local = np.zeros(len(counts), dtype=np.int64)
    local[present] = np.arange(len(present))
    members = Members(members.rows, local[members.codes], members.weights, members.n_rows)
    with np.errstate(invalid="ignore", over="ignore"):
        if isinstance(X, np.ndarray):
            means, squares = _summarise_dense(X, members, counts[present])
        else:
            means, squares = _summarise_sparse(X, members, counts[present])
    if len(present) and not (np.isfinite(squares).all() and -LARGEST < means.min() <= means.max() < LARGEST):
        raise_not_finite(X, owner, members.weights)
    return Summary(present, counts[present], means, squares)


def few_dense(X: sparse.csr_array) -> Float:
    """Return a few sparse rows as dense ones; they take no more memory than the class means."""
    dense: Float = X.toarray()
    return dense


def _summarise_dense(X: Float, members: Members, counts: Float) -> tuple[Float, Float]:
    """Return means and squares of the classes of a dense batch, summed about the first row of each class."""
    classes, d = len(counts), X.shape[1]
    first = np.zeros(classes, dtype=np.int64)
    first[members.codes[::-1]] = members.rows[::-1]
    origin = X[first].astype(np.float64)
    parts = 4 if len(members.rows) * d > 2**18 else 1
    sums, squares = np.zeros((parts, classes, d)), np.zeros((parts, classes))
    as_it_is = X.flags.c_contiguous and X.dtype == float_type(X)
    size = 0 if as_it_is else 8 * d

    def add(place: int, start: int, stop: int) -> None:
        for part in blocks(stop - start, size):
            part = slice(start + part.start, start + part.stop)
            rows, codes, weights = members.rows[part], members.codes[part], members.weights[part]
            block = np.ascontiguousarray(floats(X[rows[0] : rows[-1] + 1]))
            _sum_dense(block, rows - rows[0], codes, weights, origin, sums[place], squares[place])

    run(add, [(place, a, b) for place, (a, b) in enumerate(split(len(members.rows), parts)) if b > a])
    offset = sums.sum(axis=0) / counts[:, None]
    total = squares.sum(axis=0) - counts * np.einsum("kd,kd->k", offset, offset)
    return origin + offset, np.maximum(total, 0.0, where=np.isfinite(total), out=total)


def _summarise_sparse(X: sparse.csr_array, members: Members, counts: Float) -> tuple[Float, Float]:
    """Return means and squares of the classes of a sparse batch, summed about zero where that loses no digits."""
    means, raw = _sum_csr(X, members, counts)
    squares = raw - counts * np.einsum("kd,kd->k", means, means)
    if np.any((squares < LOST_DIGITS * raw) & (np.bincount(members.codes) > 1)):
        matrix, shift = shift_far_columns(X, members, Summary(np.arange(len(counts)), counts, means, squares))
        if shift.any():
            offset, raw = _sum_csr(matrix, members, counts)
            means, squares = offset + shift, raw - counts * np.einsum("kd,kd->k", offset, offset)
    squares[np.bincount(members.codes, minlength=len(counts)) == 1] = 0.0
    return means, np.maximum(squares, 0.0, where=np.isfinite(squares), out=squares)


def _sum_csr(X: sparse.csr_array, members: Members, counts: Float) -> tuple[Float, Float]:
    classes, d = len(counts), X.shape[1]
    cells = 8 * classes * d
    parts = 1 if X.nnz < 2**18 else 4 if 4 * cells < 2**22 else 2 if 2 * cells < 2**29 else 1
    sums, squares = np.zeros((parts, classes, d)), np.zeros((parts, classes))
    rows, codes, weights = members.rows, members.codes, members.weights
    pieces = enumerate(split(len(rows), parts))
    arrays = (X.indptr, X.indices, X.data, rows, codes, weights)
    run(_sum_sparse, [(*arrays, sums[i], squares[i], a, b) for i, (a, b) in pieces])
    total = sums[0] if parts == 1 else sums.sum(axis=0)
    total /= counts[:, None]
    return total, squares.sum(axis=0)


def shift_far_columns(X: sparse.csr_array, members: Members, batch: Summary) -> tuple[sparse.csr_array, Float]:
    """Shift columns whose scatter would be lost in the rounding of their squares, by a constant; they become dense."""
    weights = np.zeros(X.shape[0])
    np.add.at(weights, members.rows, members.weights)
    raw = np.asarray(X.multiply(X).T @ weights).ravel()
    within = raw - batch.counts @ batch.means**2
    far = np.flatnonzero(within < LOST_DIGITS * raw)
    shift = np.zeros(X.shape[1])
    if not len(far):
        return X, shift
    shift[far] = batch.counts @ batch.means[:, far] / batch.counts.sum()
    n = X.shape[0]
    indptr = np.arange(n + 1, dtype=X.indptr.dtype) * len(far)
    stripes = (np.tile(shift[far], n), np.tile(far.astype(X.indices.dtype), n), indptr)
    return sparse.csr_array(X - sparse.csr_array(stripes, shape=X.shape)), shift


@compiled
def rows_fit(
    X: Float, rows: Integer, codes: Integer, weights: Float, counts: Float, means: Float, squares: Float, decay: float
) -> bool:
    """Tell whether rows may be learnt one by one: each entry, and what is learnt then, stays within the limits."""
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            if not abs(X[i, j]) < LARGEST:
                return False
    weight, total = decay * counts.sum(), decay * squares.sum()
    for p in range(len(rows)):
        k = codes[p]
        weight += weights[p]
        for j in range(X.shape[1]):
            total += weights[p] * np.float64(X[rows[p], j]) * np.float64(X[rows[p], j])
        if k < len(counts) and not (codes[:p] == k).any():
            total += decay * counts[k] * _length(means[k])
    return bool(weight <= MOST and total <= MOST)


@compiled
def summary_fits(
    classes: Integer,
    more: Float,
    more_means: Float,
    more_squares: Float,
    counts: Float,
    means: Float,
    squares: Float,
    decay: float,
) -> bool:
    """Tell whether the summary of a batch may join a state: what is learnt then stays within the limits."""
    weight, total = decay * counts.sum(), decay * squares.sum()
    for p in range(len(classes)):
        k = classes[p]
        weight += more[p]
        total += more_squares[p] + more[p] * _length(more_means[p])
        if k < len(counts):
            total += decay * counts[k] * _length(means[k])
    return bool(weight <= MOST and total <= MOST)


@compiled
def _length(row: Float) -> float:
    total = 0.0
    for j in range(len(row)):
        total += row[j] * row[j]
    return total


@compiled
def learn_rows(
    X: Float,
    rows: Integer,
    codes: Integer,
    weights: Float,
    counts: Float,
    means: Float,
    squares: Float,
    scatter: Float,
) -> None:
    """Learn row by row, by Welford's update; `scatter` is a lower triangle, or empty."""
    d = X.shape[1]
    step = np.empty(d)
    for p in range(len(rows)):
        k, w = codes[p], weights[p]
        counts[k] += w
        share = w / counts[k]
        weight = w * (1.0 - share)
        total = 0.0
        for j in range(d):
            step[j] = X[rows[p], j] - means[k, j]
            total += step[j] * step[j]
            means[k, j] += share * step[j]
        squares[k] += weight * total
        if weight == 0.0:
            continue
        for j in range(scatter.shape[0]):
            scaled = weight * step[j]
            for i in range(j + 1):
                scatter[j, i] += scaled * step[i]


@compiled
def join(
    classes: Integer,
    more: Float,
    more_means: Float,
    more_squares: Float,
    counts: Float,
    means: Float,
    squares: Float,
    joined: Float,
) -> None:
    """Join the summary of a batch to a state, by the formulas of Chan; `joined` gets what this adds, or is empty."""
    for p in range(len(classes)):
        k = classes[p]
        after = counts[k] + more[p]
        share = more[p] / after
        root = np.sqrt(counts[k] * share)
        total = 0.0
        for j in range(means.shape[1]):
            step = more_means[p, j] - means[k, j]
            means[k, j] += share * step
            step *= root
            total += step * step
            if len(joined):
                joined[p, j] = step
        squares[k] += more_squares[p] + total
        counts[k] = after


@compiled
def _sum_dense(
    X: Float,
    rows: Integer,
    codes: Integer,
    weights: Float,
    origin: Float,
    sums: Float,
    squares: Float,
) -> None:
    for p in range(len(rows)):
        i, k, w = rows[p], codes[p], weights[p]
        total = 0.0
        for j in range(X.shape[1]):
            step = X[i, j] - origin[k, j]
            sums[k, j] += w * step
            total += step * step
        squares[k] += w * total


@compiled
def _sum_sparse(
    indptr: Integer,
    indices: Integer,
    data: Float,
    rows: Integer,
    codes: Integer,
    weights: Float,
    sums: Float,
    squares: Float,
    start: int,
    stop: int,
) -> None:
    """Sum rows by class; the gate has checked the indices."""
    for p in range(start, stop):
        i, k, w = rows[p], codes[p], weights[p]
        total = 0.0
        for position in range(indptr[i], indptr[i + 1]):
            j = indices[position]
            value = np.float64(data[position])
            sums[k, j] += w * value
            total += value * value
        squares[k] += w * total
