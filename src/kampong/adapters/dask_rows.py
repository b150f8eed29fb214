"""Wide rows on Dask with all rows in memory: parts stay in the workers' memory, one sum over them a Krylov step."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kampong._core.compute import alone, stack
from kampong.adapters.dask_margin import PartsInMemory
from kampong.data.validation import check_weights
from kampong.estimators.stream_model import SubspaceModel
from kampong.statistics.all_rows import within_squares, within_times
from kampong.statistics.means import ClassMeans
from kampong.statistics.remote_rows import Drawn, drawn, members_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kampong._core.compute import Float
    from kampong.adapters.dask_parts import Parts
    from kampong.adapters.file_parts import Counts
    from kampong.data.labels import Members


def fit_rows(model: Any, parts: Parts, client: Any, patience: float) -> tuple[Any, Counts] | None:
    """Return a linear subspace fitted with the rows in memory, or None where its statistics need no rows.

    Parameters
    ----------
    model : estimator
        Fitted in place.
    parts : Parts
        Where the rows are; they stay in the workers' memory until the fit ends.
    client : distributed.Client or None
        The cluster.
    patience : float
        Seconds without any worker after which the fit is given up.

    Returns
    -------
    tuple or None
        The model and what was read.
    """
    name = type(model).__name__
    holder = WideParts(parts, client, patience, name)
    if not SubspaceModel(model).fit_parts(holder.means, holder, holder.classes[holder.codes]):
        return None
    model.moved_ = dict(holder.moved)
    return model, holder.counts


class WideParts(PartsInMemory):
    """Parts that add up products with S_w."""

    def __init__(self, parts: Parts, client: Any, patience: float, owner: str) -> None:
        super().__init__(parts, client, patience, owner)
        if np.ndim(self.classes) != 1:
            raise ValueError(f"{owner}: rows in memory need one label per row. Use keep_rows=False for several.")
        self.means, self._befores = self._asked("means", _means_of, _merge_means, (self.width, self.classes))
        if self.means.n_samples == 0:
            raise ValueError(f"{owner}: all sample weights are zero. Give at least one row a weight.")
        self._before = np.concatenate([[0], np.cumsum(self._befores)])

    def product(self, means: Float, block: Float) -> Float:
        """Return the sum of `within_times` over all parts."""
        self.moved["steps"] += 1
        self.moved["blocks"] += (block.nbytes + means.nbytes) * self._workers() + block.nbytes
        found: Float = self._asked("product", _product_of, _sum, (self._codes, means, block))
        return found

    def squares(self, means: Float) -> Float:
        """Return the sum of `within_squares` over all parts."""
        found: Float = self._asked("squares", _squares_of, _sum, (self._codes, means))
        return found

    def drawn(self, most: int, seed: int) -> Drawn:
        """Return the rows of the smallest keys of all parts."""
        given = (self._codes, self._before, self.starts, most, seed)
        found: Drawn = self._asked("sample", _drawn_of, _first_drawn, given)[1]
        return found

    @property
    def _codes(self) -> Any:
        """What turns labels into the numbers of the classes as they appeared."""
        return self.means.classes, self.means.appeared


# Tasks.


def _members(part: Any, codes: Any) -> tuple[Any, Members]:
    classes, appeared = codes
    X, y, _, weights = part
    places = np.minimum(np.searchsorted(classes, y), len(classes) - 1)  # a class without weight has no number
    return X, members_of(appeared[places], weights)


def _means_of(common: Any, _: int, part: Any, number: int) -> Any:
    width, _classes = common[0]
    X, y, _, weights = part
    if X is None:
        return ClassMeans(width), np.array([0])
    with alone():
        own = check_weights(weights, X.shape[0])
        return ClassMeans(width).update(X, y, own), np.array([np.count_nonzero(own > 0)])


def _merge_means(items: Sequence[Any]) -> Any:
    found = items[0][0]
    for means, _ in items[1:]:
        found = found.merge(means)
    return found, np.concatenate([counts for _, counts in items])


def _product_of(common: Any, _: int, part: Any, number: int) -> Any:
    codes, means, block = common[0]
    if part[0] is None:
        return np.zeros(block.shape)
    with alone():
        X, members = _members(part, codes)
        return within_times(X, members, means, block)


def _squares_of(common: Any, _: int, part: Any, number: int) -> Any:
    codes, means = common[0]
    if part[0] is None:
        return np.zeros(means.shape[1])
    with alone():
        X, members = _members(part, codes)
        return within_squares(X, members, means)


def _sum(items: Sequence[Any]) -> Any:
    total = items[0].copy()
    for more in items[1:]:
        total += more
    return total


def _drawn_of(common: Any, _: int, part: Any, number: int) -> Any:
    codes, before, starts, most, seed = common[0]
    if part[0] is None:
        return most, None
    with alone():
        X, members = _members(part, codes)
        return most, drawn(X, members, int(before[number]), int(starts[number]), most, seed)


def _first_drawn(items: Sequence[Any]) -> Any:
    most, there = items[0][0], [one for _, one in items if one is not None]
    if not there:
        return most, None
    rows = there[0].rows
    for more in there[1:]:
        rows = stack(rows, more.rows)
    keys, numbers, codes, weights = (np.concatenate([one[place] for one in there]) for place in (0, 1, 3, 4))
    return most, Drawn(keys, numbers, rows, codes, weights).first(most)
