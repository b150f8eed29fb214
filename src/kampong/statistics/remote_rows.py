"""`PartRows`: exact class means here, and the rows elsewhere, in parts: S_w times a block is one sum over the parts.

Whoever holds the parts (`RowParts`) adds up what each returns, which is a pure function of the part.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

import numpy as np

from kampong.data.labels import Members
from kampong.statistics.all_rows import ClassRows, Sample
from kampong.statistics.sampling import first_keys, row_keys, stands_for
from kampong.statistics.units import divided

if TYPE_CHECKING:
    from kampong._core.compute import Float, Integer, Rows
    from kampong.statistics.means import ClassMeans


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

    Returns
    -------
    Drawn
        In the order of their keys.
    """
    keys = row_keys(before + 1 + np.arange(len(members.rows)), members.weights, seed)
    order = np.argsort(keys, kind="stable")[:most]
    rows = members.rows[order]
    return Drawn(keys[order], start + rows, X[rows], members.codes[order], members.weights[order])
