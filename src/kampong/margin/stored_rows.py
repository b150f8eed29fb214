"""The rows that a margin classifier keeps of a stream: which of them stay, and what each of them counts.

Rows of the largest margins leave first, as MaxMinOver forgets them. If more rows have weight than may stay, a sample
of each class takes over what all of them count.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kampong._core.compute import stack
from kampong.data.saved_rows import rows_from, rows_state
from kampong.data.validation import LEAST_WEIGHT
from kampong.statistics.sampling import ranks_in_groups, row_keys

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kampong._core.compute import Float, Integer, Rows
    from kampong.files import Contents
    from kampong.margin.margin_classifier import Outcome


class Solved(NamedTuple):
    """The hyperplanes of all problems on some rows.

    Attributes
    ----------
    coefficients : array of shape (n_problems, n_samples)
        Of the kernel values: w = Σ c_i φ(x_i).
    margins : array of shape (n_problems, n_samples)
        y times the score of each row: 1 at the margin.
    outcomes : sequence of Outcome
        How each solve ended.
    """

    coefficients: Float
    margins: Float
    outcomes: Sequence[Outcome]


@dataclass(frozen=True)
class StoredRows:
    """The rows that a stream goes on from.

    Attributes
    ----------
    X : array or sparse matrix of shape (n_stored, n_features)
        The rows, by their numbers.
    codes, numbers : array of int of shape (n_stored,)
        Their classes, and their numbers in the stream.
    counts : array of shape (n_stored,)
        How often each row counts: its own weight, and that of rows it stands for.
    coefficients : array of shape (n_problems, n_stored)
        Those of the hyperplanes, from which the next solve starts.
    totals : array of shape (n_classes,)
        The weight of all rows learnt, by class.
    n_left : int
        How many rows have left.
    """

    X: Rows
    codes: Integer
    numbers: Integer
    counts: Float
    coefficients: Float
    totals: Float
    n_left: int = 0

    @classmethod
    def new(cls, X: Rows, codes: Integer, numbers: Integer, counts: Float, n_classes: int) -> StoredRows:
        """Return rows that have just come: without weight in any hyperplane."""
        nothing = np.zeros((1 if n_classes == 2 else n_classes, len(codes)))
        totals: Float = np.bincount(codes, weights=counts, minlength=n_classes).astype(np.float64)
        return cls(X, codes, numbers, counts, nothing, totals)

    def recoded(self, places: Integer, n_classes: int) -> StoredRows:
        """Return the same rows among more classes; `places` are those of the classes known so far."""
        n_old = len(self.totals)
        if n_classes == n_old:
            return self
        coefficients, totals = np.zeros((n_classes, len(self.codes))), np.zeros(n_classes)
        # one problem of two classes is that of each against the other
        known = np.concatenate([-self.coefficients, self.coefficients]) if n_old == 2 else self.coefficients
        coefficients[places], totals[places] = known, self.totals
        return replace(self, codes=places[self.codes], coefficients=coefficients, totals=totals)

    def joined(self, other: StoredRows) -> StoredRows:
        """Return the rows of both, which have the same classes."""
        return StoredRows(
            stack(self.X, other.X),
            np.concatenate([self.codes, other.codes]),
            np.concatenate([self.numbers, other.numbers]),
            np.concatenate([self.counts, other.counts]),
            np.concatenate([self.coefficients, other.coefficients], axis=1),
            self.totals + other.totals,
            self.n_left + other.n_left,
        )

    def kept(self, solved: Solved, most: int) -> StoredRows:
        """Return the rows with weight, and as many others of least margin as may stay besides."""
        carrying = solved.coefficients.any(axis=0)
        order = np.lexsort((self.numbers, solved.margins.min(axis=0), ~carrying))
        stay = np.sort(order[: max(most, int(np.count_nonzero(carrying)))])
        return replace(self, coefficients=solved.coefficients).taken(stay)

    def thinned(self, pool: Integer, most: int) -> StoredRows:
        """Return a sample of some rows that takes over what all of them count.

        Each class keeps the same share of its rows. Which ones follows from their numbers; those that count more are
        more likely to stay.
        """
        codes, counts, n_classes = self.codes[pool], self.counts[pool], len(self.totals)
        sizes = np.bincount(codes, minlength=n_classes)
        quotas = np.minimum(1, sizes) + (most - n_classes) * sizes // len(pool)
        # other keys each time: those that stayed have small ones
        keys = row_keys(self.numbers[pool] + 1, counts, seed=self.n_left)
        stay = ranks_in_groups(keys, codes) < quotas[codes]
        after = counts.copy()
        for code in np.flatnonzero(sizes):
            mine = codes == code
            after[mine & stay] = raised(counts[mine & stay], float(counts[mine].sum()))
        return replace(self.taken(pool[stay]), counts=after[stay])

    def taken(self, places: Integer) -> StoredRows:
        """Return some of the rows; the others leave."""
        if len(places) == len(self.codes):
            return self
        return StoredRows(
            self.X[places],
            self.codes[places],
            self.numbers[places],
            self.counts[places],
            self.coefficients[:, places],
            self.totals,
            self.n_left + len(self.codes) - len(places),
        )

    def to_state(self, support: Integer) -> dict[str, Any]:
        """Return what a checkpoint holds; it has the support vectors already."""
        others = np.flatnonzero(~np.isin(self.numbers, support))
        names = ("codes", "numbers", "counts", "coefficients", "totals", "n_left")
        return {"rows": rows_state(self.X[others]), **{name: getattr(self, name) for name in names}}

    @classmethod
    def from_state(cls, contents: Contents, support: Integer, vectors: Rows, n_classes: int) -> StoredRows:
        """Return what `to_state` has written, each value checked."""
        numbers = contents.array("numbers", np.int64, (None,), low=0)
        n, mine = len(numbers), np.isin(numbers, support)
        contents.require(bool((np.diff(numbers) > 0).all()), "the numbers of the rows do not rise")
        contents.require(int(mine.sum()) == len(support), "some support vectors are not among the rows")
        others = rows_from(contents.part("rows"), (n - len(support), vectors.shape[1]))
        order = np.argsort(np.concatenate([support, numbers[~mine]]), kind="stable")
        found = cls(
            stack(vectors, others)[order] if others.shape[0] else vectors,
            contents.array("codes", np.int64, (n,), low=0, high=n_classes - 1),
            numbers,
            contents.array("counts", np.float64, (n,), low=LEAST_WEIGHT),
            contents.array("coefficients", np.float64, (1 if n_classes == 2 else n_classes, n)),
            contents.array("totals", np.float64, (n_classes,), low=0.0),
            contents.whole("n_left"),
        )
        labels = _labels(found.codes, n_classes)
        # by rounding a coefficient may be on the wrong side of zero
        slack = math.sqrt(np.finfo(np.float64).eps) * float(np.abs(found.coefficients).max(initial=0.0))
        right = bool((labels * found.coefficients >= -slack).all())
        contents.require(right, "coefficients holds one whose sign is not that of its row's class")
        contents.finish()
        return found


def _labels(codes: Integer, n_classes: int) -> Integer:
    """Return the labels ±1 of rows, a line for each problem."""
    positive: Integer = np.arange(1, 2) if n_classes == 2 else np.arange(n_classes)
    return np.where(codes == positive[:, None], 1, -1)


def raised(counts: Float, total: float) -> Float:
    """Return counts raised to a common least one, so that their sum is `total`; larger counts stay as they are."""
    order = np.sort(counts)
    above = np.append(np.cumsum(order[::-1])[::-1][1:], 0.0)
    levels = (total - above) / np.arange(1, len(order) + 1)
    first = int(np.argmax(levels <= np.append(order[1:], math.inf)))
    result: Float = np.maximum(counts, levels[first])
    return result
