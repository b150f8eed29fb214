"""One batch of rows: its labels checked and numbered, then sums of its classes, or a few rows learnt one by one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse

from kampong._core.compute import PLAIN, blocks, compiled, float_type, floats, run, split
from kampong._core.loops import Loop
from kampong.data.labels import LabelIndex, Members, check_indicator, check_labels, members_of, memberships_of
from kampong.data.validation import LARGEST, admit, raise_not_finite

if TYPE_CHECKING:
    from kampong._core.compute import Float, Integer, Rows
from kampong.data.labels import Label

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
    held, n = members.rows, len(members.rows)
    if n and (held[-1] + 1 - held[0]) * d * classes <= PLAIN:
        step = floats(X[held[0] : held[-1] + 1])[held - held[0]] - origin[members.codes]
        sums[0] += (np.equal(members.codes, np.arange(classes)[:, None]) * members.weights) @ step
        squares[0] += np.bincount(members.codes, members.weights * np.einsum("ij,ij->i", step, step), classes)
        return _around(origin, sums, squares, counts)
    as_it_is = X.flags.c_contiguous and X.dtype == float_type(X)
    size = 0 if as_it_is else 8 * d

    def add(place: int, start: int, stop: int) -> None:
        for part in blocks(stop - start, size):
            part = slice(start + part.start, start + part.stop)
            rows, codes, weights = members.rows[part], members.codes[part], members.weights[part]
            block = np.ascontiguousarray(floats(X[rows[0] : rows[-1] + 1]))
            _sum_dense(block, rows - rows[0], codes, weights, origin, sums[place], squares[place])

    run(add, [(place, a, b) for place, (a, b) in enumerate(split(n, parts)) if b > a])
    return _around(origin, sums, squares, counts)


def _around(origin: Float, sums: Float, squares: Float, counts: Float) -> tuple[Float, Float]:
    """Return means and sums of squares around them, from sums around an origin of each class."""
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


@Loop
def rows_fit(
    X: Float, rows: Integer, codes: Integer, weights: Float, counts: Float, means: Float, squares: Float, decay: float
) -> bool:
    """Tell whether rows may be learnt one by one: each entry, and what is learnt then, stays within the limits."""
    for i in range(X.shape[0]):
        for j in range(X.shape[1]):
            if not abs(np.float64(X[i, j])) < LARGEST:
                return False
    # loops instead of calls of numpy, each of which takes longer to compile than all of this
    weight, total = 0.0, 0.0
    for k in range(len(counts)):
        weight += decay * counts[k]
        total += decay * squares[k]
    for p in range(len(rows)):
        k, first = codes[p], True
        weight += weights[p]
        for j in range(X.shape[1]):
            total += weights[p] * np.float64(X[rows[p], j]) * np.float64(X[rows[p], j])
        for other in range(p):
            first = first and codes[other] != k
        if k < len(counts) and first:
            for j in range(means.shape[1]):
                total += decay * counts[k] * means[k, j] * means[k, j]
    return bool(weight <= MOST and total <= MOST)


@Loop
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
    weight, total = 0.0, 0.0
    for k in range(len(counts)):
        weight += decay * counts[k]
        total += decay * squares[k]
    for p in range(len(classes)):
        k, length, more_length = classes[p], 0.0, 0.0
        for j in range(means.shape[1]):
            more_length += more_means[p, j] * more_means[p, j]
        if k < len(counts):
            for j in range(means.shape[1]):
                length += means[k, j] * means[k, j]
            total += decay * counts[k] * length
        weight += more[p]
        total += more_squares[p] + more[p] * more_length
    return bool(weight <= MOST and total <= MOST)


@Loop
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


@Loop
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
        k, length = classes[p], 0.0
        after = counts[k] + more[p]
        share = more[p] / after
        scale = np.sqrt(counts[k] * share)
        for j in range(means.shape[1]):
            step = more_means[p, j] - means[k, j]
            means[k, j] += share * step
            step *= scale
            length += step * step
            if len(joined):
                joined[p, j] = step
        squares[k] += more_squares[p] + length
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


class Reading(NamedTuple):
    """A batch whose labels have been checked and numbered: memberships, weights, and the classes known with it."""

    members: Members
    weights: Float
    known: LabelIndex
    multilabel: bool
    decay: float

    def part(self, start: int, stop: int) -> Reading:
        """Return some of the rows."""
        return self._replace(members=self.members.part(start, stop), weights=self.weights[start:stop])


class Checked(NamedTuple):
    """A batch that will be learnt: nothing of it can be refused any more.

    A few dense `few` are learnt row by row, others by their sums; with several labels per row, rows have a mean too.
    """

    X: Rows
    reading: Reading
    few: Float | None = None
    sums: Summary | None = None
    row_mean: Float | None = None


def with_labels(index: LabelIndex, new: list[Label], dtype: np.dtype[Any] | None) -> LabelIndex:
    """Return the classes with those that are new; the given ones do not change."""
    if dtype is None or (not new and dtype == index.dtype):
        return index
    index = index.copy()
    index.add(new, dtype)
    return index


def read_labels(index: LabelIndex, y: Any, weights: Float) -> tuple[Members, list[Label], np.dtype[Any]]:
    """Return the memberships of rows of one label each, the labels that are new, and their dtype."""
    n_rows = len(weights)
    rows = None if weights.all() else np.flatnonzero(weights)
    if rows is not None:
        y = np.asarray(admit(y, "y"))
        if y.shape == (n_rows,):
            kept, codes, new = check_labels(index, y[rows], len(rows))
            return Members(rows, codes, weights[rows], n_rows), new, kept.dtype
    y, codes, new = check_labels(index, y, n_rows)
    return members_of(codes, weights), new, y.dtype


def read_indicator(index: LabelIndex, y: Any, weights: Float) -> tuple[Members, list[Label], np.dtype[Any]]:
    """Return the memberships of an indicator matrix, the labels that are new, and their dtype."""
    matrix = check_indicator(y, len(weights))
    columns = matrix.shape[1]
    if len(index) not in (0, columns):
        raise ValueError(f"y has {columns} label columns, but {len(index)} are expected.")
    new: list[Label] = [] if len(index) else list(range(columns))
    return memberships_of(matrix, weights), new, np.dtype(np.int64)


def check_factor(factor: float) -> None:
    """Refuse a factor of decay outside [0, 1]."""
    if not 0 <= factor <= 1:
        raise ValueError(f"decay needs a factor in [0, 1], got {factor!r}.")
