"""A batch of labels as statistics take it in: read, checked and numbered once, before anything changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kampong.data.labels import LabelIndex, Members, check_indicator, check_labels, members_of, memberships_of
from kampong.data.sparse_gate import admit

if TYPE_CHECKING:
    from kampong._core.compute import Float, Rows
    from kampong.data.labels import Label
    from kampong.statistics.batch import Summary


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
