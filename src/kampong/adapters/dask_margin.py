"""Core vector machines and MMDA on Dask: parts are kept in the workers' memory, the core set travels, the rows stay.

    core vectors and weights → every part: least margin, violators → joined by eight → the small problem, solved here

A part that a lost worker held is read again; every answer is a pure function of a part and a question.
"""

from __future__ import annotations

import warnings
from collections import Counter
from typing import TYPE_CHECKING, Any

import dask
import numpy as np
from dask._task_spec import DataNode, Task, TaskRef
from dask.delayed import Delayed

from kampong._runtime.compute import alone, stack
from kampong.adapters.dask_parts import Parts, Reader, compute, count_workers, current_client, tree
from kampong.adapters.reading import Counts
from kampong.data.rows import check_finite, check_rows
from kampong.kernels.functions import Columns, columns_of
from kampong.kernels.margin.classifiers import CoreVectorClassifier
from kampong.kernels.margin.remote import Question, Sight, answer, joined
from kampong.kernels.mmda import MaximumMarginDiscriminant
from kampong.kernels.row_sample import class_means

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kampong._runtime.compute import Float, Integer, Rows

Part = tuple[Any, Any, Counts, Any]
"""Rows or None, labels, what was read, weights or None."""

MARGIN_MODELS = (CoreVectorClassifier, MaximumMarginDiscriminant)


def fit_margin(model: Any, parts: Parts, client: Any, patience: float) -> tuple[Any, Counts]:
    """Return a margin model fitted on parts, and what was read: the same core sets as in a fit of all rows here.

    Parameters
    ----------
    model : CoreVectorClassifier or MaximumMarginDiscriminant
        Fitted in place.
    parts : Parts
        Where the rows are.
    client : distributed.Client or None
        The cluster.
    patience : float
        Seconds without any worker after which the fit is given up.

    Returns
    -------
    model : estimator
        The same, fitted; `moved_` says how many bytes have crossed the wire.
    counts : Counts
        Records, rows and dead letters.
    """
    holder = PartsInMemory(parts, client, patience, type(model).__name__)
    model._fit_elsewhere(holder, holder.columns, holder.classes, holder.codes)
    if isinstance(model, MaximumMarginDiscriminant):
        model.class_means_ = holder.class_means(model)
    model.moved_ = dict(holder.moved)
    return model, holder.counts


class PartsInMemory:
    """Parts that stay in the workers' memory while a model is fitted, and are asked again and again.

    Parameters
    ----------
    parts : Parts
        Where the rows are.
    client : distributed.Client or None
        The cluster.
    patience : float
        Seconds without any worker after which the fit is given up.
    owner : str
        Who asks, for the messages.
    """

    def __init__(self, parts: Parts, client: Any, patience: float, owner: str) -> None:
        self.client, self.patience = current_client() if client is None else client, patience
        self.moved: Counter[str] = Counter()
        self._held = self._kept(parts)
        found = self._asked("describe", _describe, _join_descriptions, owner)
        if found is None:
            raise ValueError(f"{owner}: no part has a row. Check the source.")
        self.counts, self.columns, labels, lengths, self.dtype = found
        self.classes, self.codes = np.unique(labels, return_inverse=True)
        self.starts = np.concatenate([[0], np.cumsum(lengths)])
        self.n_samples, self.width = int(self.starts[-1]), len(self.columns.mean)
        self.moved["labels"] += labels.nbytes

    def look(self, question: Question) -> list[Sight]:
        """Return what all parts see of each problem."""
        self.moved["looks"] += 1
        self.moved["core vectors"] += _size(question.points) * self._workers()
        self.moved["weights"] += (question.weights.nbytes + len(question.mask)) * self._workers()
        sights = self._asked("look", _look_part, _join_sights, (question, self.classes, self.starts))[0]
        self.moved["margins"] += sum(array.nbytes for sight in sights for array in sight[1:])
        found: list[Sight] = sights
        return found

    def rows(self, positions: Integer) -> Rows:
        """Return the rows of some patterns, in the order of their numbers."""
        owners = np.searchsorted(self.starts, positions, side="right") - 1
        needed = np.unique(owners)
        given = {int(part): positions[owners == part] - self.starts[part] for part in needed}
        found: Rows = self._asked("rows", _rows_of_part, _stacked, given, needed.tolist())
        self.moved["violators"] += _size(found)
        return found

    def class_means(self, model: Any) -> Float:
        """Return the mean of each class in the space of the features of a model."""
        sums, counts = self._asked("means", _sum_part, _join_sums, (model, self.classes))
        means: Float = sums / counts[:, None]
        return means

    def _workers(self) -> int:
        return 1 if self.client is None else count_workers(self.client) or 1

    def _kept(self, parts: Parts) -> list[Delayed]:
        """Load all parts and keep them where they are."""
        name = f"kampong-part-{dask.base.tokenize(parts.token, object())}"
        layer: dict[Any, Any] = {f"{name}-with": DataNode(f"{name}-with", parts.reader)}
        for number, arguments in enumerate(parts.arguments):
            layer[name, number] = Task((name, number), _open_part, TaskRef(f"{name}-with"), number, *arguments)
        graph = parts.graph(name, layer)
        delayed = [Delayed((name, number), graph, layer=name) for number in range(len(parts.arguments))]
        return list(dask.persist(*delayed) if self.client is None else self.client.persist(delayed))

    def _asked(self, title: str, leaf: Any, join: Any, given: Any, which: Sequence[int] | None = None) -> Any:
        chosen = range(len(self._held)) if which is None else which
        arguments = [(TaskRef(self._held[part].key), part) for part in chosen]
        held = [self._held[part] for part in chosen]
        token = dask.base.tokenize(id(self), self.moved)
        made = tree(Parts(Reader("held"), arguments, held, token=token), title, leaf, join, given)
        return compute(made, self.client, self.patience)


def _size(rows: Rows) -> int:
    if isinstance(rows, np.ndarray):
        return int(rows.nbytes)
    return int(rows.data.nbytes + rows.indices.nbytes + rows.indptr.nbytes)


# Tasks. Each is given (common, number in the tree, the part, number of the part).


def _open_part(reader: Reader, number: int, *given: Any) -> tuple[Any, Any, Counts, Any]:
    counts, X, labels, weights = Counts(), None, [], []
    for batch, y, *rest in reader.batches(counts, number, *given):
        if batch.shape[0]:
            rows = batch.to_numpy() if hasattr(batch, "to_numpy") else batch
            rows = check_rows(rows, rows.shape[1])
            check_finite(rows, "fit")
            X = rows if X is None else stack(X, rows)
            labels.append(np.asarray(y))
            weights += [np.asarray(rest[0], dtype=float)] if rest and rest[0] is not None else []
    y = np.concatenate(labels) if labels else np.zeros(0)
    return X, y, counts, np.concatenate(weights) if weights else None


def _describe(common: tuple[str, Any], _: int, part: Part, number: int) -> Any:
    X, y, counts, _weights = part
    if X is None:
        return counts, None, y, np.array([0]), None
    with alone():
        return counts, columns_of(X), y, np.array([X.shape[0]]), X.dtype


def _join_descriptions(items: Sequence[Any]) -> Any:
    there = [item for item in items if item[1] is not None]
    counts = sum((item[0] for item in items), Counts())
    lengths = np.concatenate([item[3] for item in items])
    if not there:
        return None if not counts.rows else (counts, None, items[0][2], lengths, None)
    widths = sorted({len(item[1].mean) for item in there})
    if len(widths) > 1:
        raise ValueError(f"fit: parts have {widths[0]} to {widths[-1]} features. All need the same columns.")
    columns = Columns.together([item[1] for item in there])
    labels = np.concatenate([item[2] for item in there])
    return counts, columns, labels, lengths, np.result_type(*(item[4] for item in there))


def _look_part(common: tuple[Any, Any], _: int, part: Part, number: int) -> Any:
    (question, classes, starts), (X, y, *_rest) = common[0], part
    if X is None:
        empty = np.zeros(0, dtype=np.int64), np.zeros(0)
        return [Sight(np.inf, *empty, *empty) for _ in question.positive], question.batch
    with alone(), warnings.catch_warnings():
        return answer(question, X, _codes(classes, y), int(starts[number])), question.batch


def _codes(classes: np.ndarray, y: np.ndarray) -> Integer:
    return np.asarray(np.searchsorted(classes, y))


def _join_sights(items: Sequence[Any]) -> Any:
    batch = items[0][1]
    return joined([sights for sights, _ in items], batch), batch


def _rows_of_part(common: tuple[Any, Any], _: int, part: Part, number: int) -> Any:
    return part[0][common[0][number]]


def _stacked(items: Sequence[Any]) -> Any:
    found = items[0]
    for more in items[1:]:
        found = stack(found, more)
    return found


def _sum_part(common: tuple[Any, Any], _: int, part: Part, number: int) -> Any:
    (model, classes), (X, y, *_rest) = common[0], part
    n_classes, width = len(classes), model._n_features_out
    if X is None:
        return np.zeros((n_classes, width)), np.zeros(n_classes)
    with alone():
        codes = _codes(classes, y)
        counts = np.bincount(codes, minlength=n_classes)
        means = class_means(model._project(X), codes, n_classes)
        return np.where(counts[:, None] > 0, means, 0.0) * counts[:, None], counts.astype(float)


def _join_sums(items: Sequence[Any]) -> Any:
    return sum(item[0] for item in items), sum(item[1] for item in items)
