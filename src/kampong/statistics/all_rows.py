"""Second moments where no d × d matrix fits: S_w times a block of few columns, from rows here or elsewhere."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, Self

import numpy as np

from kampong._core.compute import blocks, compiled, floats, run, split
from kampong.data.labels import Members
from kampong.statistics.means import ClassMeans
from kampong.statistics.sampling import first_keys, row_keys, stands_for
from kampong.statistics.units import divided

if TYPE_CHECKING:
    from kampong._core.compute import Float, Integer, Rows
    from kampong.statistics.batch import Reading

PIECE = 2**20
"""Bytes of a product with the class means that are taken off at once."""


class Sample(NamedTuple):
    """Some of the rows that statistics have seen. They may be the statistics' own: do not write to them.

    Attributes
    ----------
    rows : array or sparse matrix of shape (n, d)
        The rows.
    members : Members
        Which row counts for which class (a position in `classes`), and with what weight in S_w. Where S_w is computed
        from the sample itself, the weights of a class sum to its exact weight.
    weights : array of shape (n,)
        For each row, the weight of all rows that it represents: totals over the sample are unbiased.
    own : array of shape (n,)
        For each row, its weight in the class means.
    numbers : array of shape (n,)
        Where each row is among those that S_w is computed from.
    """

    rows: Rows
    members: Members
    weights: Float
    own: Float
    numbers: Integer

    def first(self, count: int) -> Sample:
        """Return the first `count` rows."""
        mine = self.members.rows < count
        rows, codes, weights = self.members.rows[mine], self.members.codes[mine], self.members.weights[mine]
        members = Members(rows, codes, weights, count)
        return Sample(self.rows[:count], members, self.weights[:count], self.own[:count], self.numbers[:count])


class PastRows(ClassMeans):
    """Exact class means of rows that are no longer kept: they can be read, but cannot learn more.

    Parameters
    ----------
    n_features : int
        The width of the rows.
    """

    refusal: ClassVar[str] = (
        "this model was fitted with the rows at hand (solver='resolvent') and did not keep its statistics, so it "
        "cannot learn more. Fit all rows again, or start a stream with partial_fit."
    )

    def plain(self) -> ClassMeans:
        """Return class means that can learn more, for criteria that need nothing else."""
        result = ClassMeans(self.n_features)
        result.__dict__.update(vars(self))
        return result

    def _read(self, y: Any, weights: Float, decay: float, classes: Any = None) -> Reading:
        raise ValueError(f"PastRows: {self.refusal}")

    def _check_mergeable(self, other: ClassMeans) -> None:
        raise ValueError(
            "a model fitted with the rows at hand (solver='resolvent') did not keep its statistics, so it cannot be "
            "merged. Fit the rows of both together, or use solver='scatter' up to its width."
        )


class ClassRows(ClassMeans):
    """Exact class means, and the rows themselves, which are kept as long as this object exists.

    Parameters
    ----------
    n_features : int
        The width of the rows.

    See Also
    --------
    kampong.statistics.ClassScatter : The d × d matrix in place of the rows.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0, 1.0], [2.0, 3.0], [5.0, 5.0]])
    >>> ClassRows(2).update(X, [0, 0, 1]).within_times(np.eye(2)) * 3
    array([[2., 2.],
           [2., 2.]])
    """

    holds_within = True
    rows_at_hand = True
    rows_are_here = True

    def __init__(self, n_features: int) -> None:
        super().__init__(n_features)
        self._held: list[tuple[Rows, Members]] = []
        self._weighs = np.zeros(0, dtype=bool)

    def _read(self, y: Any, weights: Float, decay: float, classes: Any = None) -> Reading:
        if self._held or decay != 1.0:
            raise ValueError("ClassRows holds one batch, all rows in memory; use ClassScatter for a stream.")
        return super()._read(y, weights, decay, classes)

    def _keep(self, X: Rows, reading: Reading, before: int) -> None:
        self._held.append((X, reading.members))
        self._weighs = reading.weights > 0

    def _scaled(self, factor: float) -> Self:
        view = super()._scaled(factor)
        view._held = [
            (X, Members(members.rows, members.codes, members.weights * factor, members.n_rows))
            for X, members in self._held
        ]
        return view

    def in_units(self, units: Float) -> Self:
        """Return these statistics and their rows, for reading only, as of rows divided by `units`."""
        view = super().in_units(units)
        view._held = [(divided(X, units), members) for X, members in self._held]
        return view

    def after_fit(self, *, learns_more: bool) -> ClassMeans:
        """Return the class means without the rows; they can learn more where criterion and head need nothing else."""
        means = self.without_rows()
        return means.plain() if learns_more else means

    def without_rows(self) -> PastRows:
        """Return the class means without the rows, so that their memory can be freed."""
        result = PastRows(self.n_features)
        result.__dict__.update({name: value for name, value in vars(self).items() if name in vars(result)})
        return result

    def sample(self, most: int, random_state: int = 0) -> Sample:
        """Return the sample that a stream of these rows would keep: all of positive weight, or `most` of them."""
        X, members = self.held()
        chosen, own, threshold = self._draw(most, random_state)
        weights = stands_for(own, np.log(own), threshold)
        place = np.full(X.shape[0], -1)
        place[chosen] = np.arange(len(chosen))
        mine = np.flatnonzero(place[members.rows] >= 0)
        rows = place[members.rows[mine]]
        order = np.argsort(rows, kind="stable")
        mine, rows = mine[order], rows[order]
        codes = self._index.position[members.codes[mine]]
        return Sample(floats(X[chosen]), Members(rows, codes, members.weights[mine], len(chosen)), weights, own, chosen)

    def drawn(self, most: int, random_state: int = 0) -> tuple[Integer, Integer, Float]:
        """Return places, classes and weights of the rows of that sample, where each has one label; no row is copied."""
        X, members = self.held()
        chosen, own, _ = self._draw(most, random_state)
        codes = np.zeros(X.shape[0], dtype=np.int64)
        codes[members.rows] = self._index.position[members.codes]
        return chosen, codes[chosen], own

    def _draw(self, most: int, random_state: int) -> tuple[Integer, Float, float]:
        """Return the places of a sample, the weights of its rows, and the smallest key that was left out."""
        X, members = self.held()
        counted = np.zeros(X.shape[0])
        counted[members.rows] = members.weights
        numbers = np.cumsum(self._weighs)  # a row of weight 0 is absent
        chosen, threshold = first_keys(row_keys(numbers, counted, random_state), most)
        return chosen, counted[chosen], threshold

    @property
    def keeps_rows(self) -> bool:
        """Return True: all rows are at hand."""
        return True

    @property
    def rows_kept(self) -> int:
        """Return the number of rows."""
        return self.n_samples

    def held(self) -> tuple[Rows, Members]:
        """Return the rows that S_w is computed from, and their memberships, classes numbered as they appeared."""
        return self._held[0]

    def within_times(self, block: Float) -> Float:
        """Return S_w @ block."""
        X, members = self.held()
        return within_times(X, members, self._means[: len(self._index.labels)], block) / self.total

    def within_variances(self) -> Float:
        """Return the diagonal of S_w."""
        return within_squares(*self.held(), self._means[: len(self._index.labels)]) / self.total


def within_squares(X: Rows, members: Members, means: Float) -> Float:
    """Return Σ w (x − m)² over all memberships, for each feature."""
    totals = np.bincount(members.codes, weights=members.weights, minlength=len(means))
    if isinstance(X, np.ndarray):
        squares = np.zeros(X.shape[1])
        for part in blocks(len(members.rows), 8 * X.shape[1]):
            centred = X[members.rows[part]] - means[members.codes[part]]
            squares += members.weights[part] @ np.square(centred)
        return squares
    parts = split(len(members.rows), 2 if X.nnz > 2**16 else 1)
    out = np.zeros((len(parts), X.shape[1]))
    arrays = (X.indptr, X.indices, X.data, members.rows, members.codes, members.weights, means)
    run(_within_squares_sparse, [(*arrays, o, a, b) for o, (a, b) in zip(out, parts, strict=True)])
    squares = out.sum(axis=0) + totals @ np.square(means)
    return np.asarray(np.maximum(squares, 0.0))


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
    total = out.pop(0)
    while out:
        total += out.pop()
    centre = sum(sums)
    for part in blocks(len(total), 8 * total.shape[1], target=PIECE):  # no second block of the full width
        total[part] -= means[:, part].T @ centre
    return total


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
def _within_squares_sparse(
    indptr: Integer,
    indices: Integer,
    data: Float,
    rows: Integer,
    codes: Integer,
    weights: Float,
    means: Float,
    out: Float,
    start: int,
    stop: int,
) -> None:
    """Add Σ w x (x − 2 m) over some memberships."""
    for p in range(start, stop):
        i, mean, w = rows[p], means[codes[p]], weights[p]
        for position in range(indptr[i], indptr[i + 1]):
            j, value = indices[position], np.float64(data[position])
            out[j] += w * value * (value - 2.0 * mean[j])


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


class Drawn(NamedTuple):
    """Rows of small keys: the keys, numbers among all rows, rows, codes and weights."""

    keys: Float
    numbers: Integer
    rows: Any
    codes: Integer
    weights: Float

    def first(self, most: int) -> Drawn:
        """Return the rows of the smallest keys, in that order; among equals the first row."""
        order = np.lexsort((self.numbers, self.keys))[:most]
        return Drawn(self.keys[order], self.numbers[order], self.rows[order], self.codes[order], self.weights[order])


class RowParts(Protocol):
    """Whoever holds rows, labels and weights in parts; codes number the classes as they appeared."""

    def product(self, means: Float, block: Float) -> Float:
        """Return the sum of `within_times` over all parts."""

    def squares(self, means: Float) -> Float:
        """Return the sum of `within_squares` over all parts."""

    def drawn(self, most: int, seed: int) -> Drawn:
        """Return the rows of the smallest keys of all parts, in the order of the keys."""


class PartRows(ClassRows):
    """Exact class means, and rows that lie elsewhere.

    Parameters
    ----------
    means : ClassMeans
        Those of all rows, each of one label.
    parts : RowParts
        Whoever holds the rows.
    """

    rows_are_here = False

    def __init__(self, means: ClassMeans, parts: RowParts) -> None:
        super().__init__(means.n_features)
        self.__dict__.update(vars(means))
        self._parts = parts
        self._samples: dict[tuple[int, int], Sample] = {}
        self._factor = 1.0  # of the weights of the parts
        self._units: Float | None = None  # of the columns, where they are not those of the parts

    def _scaled(self, factor: float) -> Self:
        view = super()._scaled(factor)
        view._samples, view._factor = {}, self._factor * factor
        return view

    def in_units(self, units: Float) -> Self:
        """Return these statistics, for reading only, as of rows divided by `units`: products are, and samples."""
        view = super().in_units(units)
        view._samples, view._units = {}, units if self._units is None else self._units * units
        return view

    def sample(self, most: int, random_state: int = 0) -> Sample:
        """Return the sample that a stream of these rows would keep: all of positive weight, or `most` of them."""
        if (most, random_state) not in self._samples:
            found = self._parts.drawn(most + 1, random_state)
            _, threshold = first_keys(found.keys, most)
            found = found.first(most)
            found = found._replace(weights=self._factor * found.weights)
            threshold -= math.log(self._factor)
            weights = stands_for(found.weights, np.log(found.weights), threshold)
            codes = self._index.position[found.codes]
            members = Members(np.arange(len(codes)), codes, found.weights, len(codes))
            rows = found.rows if self._units is None else divided(found.rows, self._units)
            self._samples[most, random_state] = Sample(rows, members, weights, found.weights, found.numbers)
        return self._samples[most, random_state]

    def held(self) -> tuple[Rows, Members]:
        """Refuse: the rows are not here."""
        raise ValueError("PartRows: the rows lie elsewhere. Ask for products or a sample.")

    def within_times(self, block: Float) -> Float:
        """Return S_w @ block: one sum over the parts."""
        means, weight = self._means[: len(self._index)], self.total / self._factor
        if self._units is None:
            return self._parts.product(means, block) / weight
        units = self._units[:, None]
        return self._parts.product(means * self._units, block / units) / units / weight

    def within_variances(self) -> Float:
        """Return the diagonal of S_w."""
        means, weight = self._means[: len(self._index)], self.total / self._factor
        if self._units is None:
            return self._parts.squares(means) / weight
        return self._parts.squares(means * self._units) / np.square(self._units) / weight


def members_of(codes: Integer, weights: Float | None) -> Members:
    """Return the memberships of rows of one label each; rows without weight have none."""
    own = np.ones(len(codes)) if weights is None else np.asarray(weights, dtype=np.float64)
    rows = np.flatnonzero(own > 0)
    return Members(rows, codes[rows], own[rows], len(codes))


def drawn(X: Rows, members: Members, before: int, start: int, most: int, seed: int) -> Drawn:
    """Return the rows of one part that may be in the sample of all.

    Parameters
    ----------
    X : array or sparse matrix of shape (n_rows, n_features)
        The rows of the part.
    members : Members
        Their classes and weights.
    before : int
        How many rows of positive weight the earlier parts have.
    start : int
        How many rows they have.
    most : int
        How many rows are wanted.
    seed : int
        That of the sample.
    """
    keys = row_keys(before + 1 + np.arange(len(members.rows)), members.weights, seed)
    order = np.argsort(keys, kind="stable")[:most]
    rows = members.rows[order]
    return Drawn(keys[order], start + rows, X[rows], members.codes[order], members.weights[order])
