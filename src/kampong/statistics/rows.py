"""Second moments where no d × d matrix fits: S_w times a block of few columns, by products with rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from kampong._runtime.threads import blocks, compiled, run, split
from kampong.data.labels import Members
from kampong.data.rows import check_rows, check_weights
from kampong.statistics.means import ClassMeans

if TYPE_CHECKING:
    from kampong._runtime.arrays import Float, Integer, Rows


class Sample(NamedTuple):
    """Some of the rows that statistics have seen. They may be the statistics' own: do not write to them.

    Attributes
    ----------
    rows : array or sparse matrix of shape (n, d)
        The rows.
    members : Members
        Which row counts for which class (a position in `classes`), and with what weight in S_w: where S_w comes from
        the sample itself, the weights of a class sum to its exact weight.
    weights : array of shape (n,)
        For each row, the weight of the rows it stands for, by itself: totals over the sample are unbiased.
    own : array of shape (n,)
        For each row, what it weighs in the class means.
    numbers : array of shape (n,)
        Where each row is among those that S_w is computed from.
    """

    rows: Rows
    members: Members
    weights: Float
    own: Float
    numbers: Integer

    def first(self, count: int) -> Sample:
        """Return the first so many rows."""
        mine = self.members.rows < count
        rows, codes, weights = self.members.rows[mine], self.members.codes[mine], self.members.weights[mine]
        members = Members(rows, codes, weights, count)
        return Sample(self.rows[:count], members, self.weights[:count], self.own[:count], self.numbers[:count])


class ClassRows(ClassMeans):
    """Exact class means, and the rows themselves, in hand for as long as this object lives.

    Parameters
    ----------
    n_features : int
        The width of the rows.

    See Also
    --------
    kampong.ClassScatter : The d × d matrix in place of the rows.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0, 1.0], [2.0, 3.0], [5.0, 5.0]])
    >>> ClassRows(2).update(X, [0, 0, 1]).within_times(np.eye(2)) * 3
    array([[2., 2.],
           [2., 2.]])
    """

    holds_within = True

    def __init__(self, n_features: int) -> None:
        super().__init__(n_features)
        self._held: list[tuple[Rows, Members]] = []

    def update(self, X: Any, y: Any, sample_weight: Any = None, *, decay: float = 1.0) -> Self:
        """Learn rows once and keep them, without a copy where they are float already.

        Parameters
        ----------
        X : array or sparse matrix of shape (rows, n_features)
            All rows.
        y : array of shape (rows,) or indicator matrix of shape (rows, labels)
            Their labels.
        sample_weight : array of shape (rows,), optional
            Their weights.
        decay : float
            Must be 1: rows in hand do not age.

        Returns
        -------
        ClassRows
            This object.
        """
        if self._held or decay != 1.0:
            raise ValueError("ClassRows holds one batch, all rows in hand; use ClassScatter for a stream.")
        X = check_rows(X, self.n_features)
        super().update(X, y, sample_weight)
        weights = check_weights(sample_weight, X.shape[0])
        read = self._read_indicator if self.multilabel else self._read_labels
        self._held.append((X, read(y, weights)[0]))
        return self

    def without_rows(self) -> ClassMeans:
        """Return the class means alone, so that the rows can go."""
        return ClassMeans.from_arrays(self.to_arrays())

    def sample(self, most: int, random_state: int = 0) -> Sample:
        """Return rows of positive weight: all of them, or `most` drawn at random, each as likely as any other."""
        X, members = self.held()
        rows, own = members.weight_by_row
        if len(rows) > most:
            chosen = np.sort(np.random.default_rng(random_state).choice(len(rows), most, replace=False))
            rows, own = rows[chosen], own[chosen]
        place = np.full(X.shape[0], -1)
        place[rows] = np.arange(len(rows))
        mine = place[members.rows] >= 0
        codes = self._index.position[members.codes[mine]]
        mine_members = Members(place[members.rows[mine]], codes, members.weights[mine], len(rows))
        return Sample(X[rows], mine_members, own, own, rows)

    def held(self) -> tuple[Rows, Members]:
        """Return the rows that S_w is computed from, and their memberships, classes numbered as they appeared."""
        return self._held[0]

    def within_times(self, block: Float) -> Float:
        """Return S_w @ block."""
        X, members = self.held()
        return within_times(X, members, self._means[: len(self._index)], block) / self.total


def within_times(X: Rows, members: Members, means: Float, block: Float) -> Float:
    """Return Σ w (x − m)(x − m)ᵀ block over all memberships, m the mean of the class, in one pass over the rows."""
    block = np.ascontiguousarray(block, dtype=np.float64)
    if isinstance(X, np.ndarray):
        return _within_times_dense(X, members, means, block)
    centres = means @ block
    parts = split(len(members.rows), 2 if X.nnz > 2**16 else 1)
    out = [np.zeros_like(block) for _ in parts]
    sums = [np.zeros_like(centres) for _ in parts]
    rows, codes, weights = members.rows, members.codes, members.weights
    arrays = (X.indptr, X.indices, X.data, rows, codes, weights, centres, block)
    run(_within_times_sparse, [(*arrays, o, s, a, b) for o, s, (a, b) in zip(out, sums, parts, strict=True)])
    for other in out[1:]:
        out[0] += other
    out[0] -= means.T @ sum(sums)
    return out[0]


def _within_times_dense(X: Float, members: Members, means: Float, block: Float) -> Float:
    origin = means.mean(axis=0)
    means = means - origin
    centres = means @ block
    out, sums = np.zeros_like(block), np.zeros_like(centres)
    for part in blocks(len(members.rows), 8 * X.shape[1]):
        codes = members.codes[part]
        rows = X[members.rows[part]] - origin
        points = rows @ block
        points -= centres[codes]
        points *= members.weights[part, None]
        out += rows.T @ points
        np.add.at(sums, codes, points)
    out -= means.T @ sums
    return out


@compiled
def _within_times_sparse(
    indptr: Integer,
    indices: Integer,
    data: Float,
    rows: Integer,
    codes: Integer,
    weights: Float,
    centres: Float,
    block: Float,
    out: Float,
    sums: Float,
    start: int,
    stop: int,
) -> None:
    width = block.shape[1]
    point = np.empty(width)
    for p in range(start, stop):
        i, k, w = rows[p], codes[p], weights[p]
        for c in range(width):
            point[c] = -centres[k, c]
        for position in range(indptr[i], indptr[i + 1]):
            j, value = indices[position], data[position]
            for c in range(width):
                point[c] += value * block[j, c]
        for c in range(width):
            point[c] *= w
            sums[k, c] += point[c]
        for position in range(indptr[i], indptr[i + 1]):
            j, value = indices[position], data[position]
            for c in range(width):
                out[j, c] += value * point[c]
