"""The rows of a fit with callbacks, learnt in rounds that the callbacks hear of."""

from __future__ import annotations

import copy
import warnings
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from sklearn.exceptions import ConvergenceWarning

from kampong._core.callbacks import FitWatcher
from kampong.build import RowsInMemory

if TYPE_CHECKING:
    from collections.abc import Callable

    from kampong._core.compute import Float, Rows
    from kampong.statistics.means import ClassMeans

ROUNDS = 20
"""A fit with callbacks takes this many rounds; they change nothing of its result."""


def learn_in_rounds(
    model: Any, X: Rows, y: Any, sample_weight: Float | None, weights: Float | None, learn: Callable[..., Any]
) -> tuple[RowsInMemory, Callable[[], None]]:
    """Learn the rows of a fit; callbacks are called after each round, from the one on that has seen two classes.

    Parameters
    ----------
    model : estimator
        The estimator, with empty statistics.
    X : array or sparse matrix of shape (n, d)
        The rows.
    y : array of shape (n,) or indicator matrix
        Their labels.
    sample_weight : array of shape (n,) or None
        The weights that the user gave.
    weights : array of shape (n,) or None
        What each row weighs when all have been learnt.
    learn : callable
        Learns some rows, labels and weights.

    Returns
    -------
    rows : RowsInMemory
        The rows that were learnt, all of them unless a callback ended the fit.
    finish : callable
        To be called when the estimator has its results.
    """
    n = X.shape[0]
    count = 1 if model._statistics.rows_at_hand else max(1, min(ROUNDS, n))
    watcher = FitWatcher(model, X, y, _hand_over, name="rows", n_rounds=count)
    edges = [n * place // count for place in range(count + 1)]
    open_round, part = False, RowsInMemory(X, y, sample_weight)
    for start, stop in pairwise(edges):
        if not open_round:
            watcher.begin()
        learn(*(part if count == 1 else _cut(part, start, stop)))
        open_round = stop < n and model._statistics.classes_seen < 2  # a model of one class answers nothing yet
        if not open_round and watcher.end(lambda: model._statistics) and stop < n:
            text = f"{type(model).__name__}.fit: a callback ended it after {stop} of {n} rows."
            warnings.warn(text, ConvergenceWarning, stacklevel=4)
            return _cut(RowsInMemory(X, y, weights), 0, stop), watcher.finish
    return RowsInMemory(X, y, weights), watcher.finish


def _cut(rows: RowsInMemory, start: int, stop: int) -> RowsInMemory:
    X, y, weights = rows
    return RowsInMemory(X[start:stop], y[start:stop], None if weights is None else weights[start:stop])


def _hand_over(model: Any, statistics: ClassMeans) -> None:
    """Give a copy of an estimator what has been learnt so far."""
    # rows in memory come in one round, so that nothing changes them any more
    model._statistics = statistics if statistics.rows_at_hand else copy.deepcopy(statistics)
    model._said = True
    model._forget_results()
