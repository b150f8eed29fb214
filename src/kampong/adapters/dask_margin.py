"""Fits on Dask with all rows in the workers' memory: core vector machines, MMDA, and subspaces of wide rows.

    new core vectors, weights → every part: least margin, violators → joined by eight → the small problem, solved here

A core vector goes to each worker once, in the smallest type that holds its numbers, and stays there for the fit. A part
that a lost worker held is read again; every answer is a pure function of a part and a question. Of wide rows a Krylov
step is one sum over the parts.
"""

from __future__ import annotations

import warnings
from collections import Counter
from typing import TYPE_CHECKING, Any

import dask
import numpy as np
from dask.delayed import Delayed, delayed
from dask.highlevelgraph import HighLevelGraph
from dask.task_spec import DataNode, Task, TaskRef

from kampong._core.compute import alone, stack
from kampong.adapters.dask_groups import Inside, inside_of, near, tasks_inside, threads_of
from kampong.adapters.dask_parts import Parts, Reader, compute, count_workers, current_client, leaf_graph, tree
from kampong.adapters.file_parts import Counts
from kampong.data.validation import check_finite, check_rows, check_weights, refuse_overflow
from kampong.estimators.stream_model import SubspaceModel
from kampong.kernels.functions import Columns, columns_of, kernel_scores
from kampong.margin.core_vector import CoreVectorClassifier
from kampong.margin.mmda import MaximumMarginDiscriminant
from kampong.margin.remote_fit import feature_map, fit_on_parts
from kampong.margin.remote_protocol import (
    Arrived,
    Question,
    Sight,
    answer,
    came_type,
    gathered,
    joined,
    narrowed,
    size_of,
)
from kampong.margin.row_sample import class_means
from kampong.statistics.all_rows import Drawn, drawn, members_of, within_squares, within_times
from kampong.statistics.means import ClassMeans

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kampong._core.compute import Float, Integer, Rows
    from kampong.data.labels import Members

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
    fit_on_parts(model, holder, holder.columns, holder.classes, holder.codes)
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
        self.classes: np.ndarray
        self.codes: Integer
        self.classes, self.codes = np.unique(labels, return_inverse=True)
        self.starts = np.concatenate([[0], np.cumsum(lengths)])
        self.n_samples, self.width = int(self.starts[-1]), len(self.columns.mean)
        self.moved["labels"] += labels.nbytes
        self._copies: dict[str, list[Delayed]] = {}
        self._arrived: list[Arrived] = []

    def look(self, question: Question, arrived: Sequence[Arrived]) -> list[Sight]:
        """Return what all parts see of each problem; a row that has arrived goes to each worker once."""
        self.moved["looks"] += 1
        self.moved["weights"] += question.size * self._workers()
        given = (question, self.classes, self.starts)
        sights = self._asked("look", _look_part, _join_sights, given, beside=self._beside(arrived))[0]
        self.moved["margins"] += sum(array.nbytes for sight in sights for array in sight[1:])
        found: list[Sight] = sights
        return found

    def _beside(self, arrived: Sequence[Arrived]) -> list[list[Delayed]]:
        """Return for every part the copy of the core vectors that its worker has, with what is new brought there."""
        if self.client is None:
            self.moved["core vectors"] += sum(one.size for one in arrived[len(self._copies.get("", ())) :])
            copies = self._copies.setdefault("", [])
            copies += [delayed(one, pure=False, traverse=False) for one in arrived[len(copies) :]]
            return [copies] * len(self._held)
        from distributed import futures_of

        where = self.client.who_has(futures_of(self._held))
        owners = [min(where.get(part.key) or [""]) for part in self._held]  # "" while a lost part is read again
        for owner in dict.fromkeys(owners):
            copies = self._copies.setdefault(owner, [])
            for one in arrived[len(copies) :]:
                key = f"kampong-core-{dask.base.tokenize(object())}"
                graph = HighLevelGraph.from_collections(key, {key: Task(key, _itself, one)})
                options = {"workers": [owner], "allow_other_workers": True} if owner else {}
                copies += self.client.persist([Delayed(key, graph, layer=key)], **options)
                self.moved["core vectors"] += one.size
        return [self._copies[owner] for owner in owners]

    def rows(self, positions: Integer) -> Rows:
        """Return the rows of some patterns, in the order of their numbers."""
        owners = np.searchsorted(self.starts, positions, side="right") - 1
        needed = np.unique(owners)
        given = {int(part): positions[owners == part] - self.starts[part] for part in needed}
        found: Rows = self._asked("rows", _rows_of_part, _stacked, given, needed.tolist())
        self.moved["violators"] += size_of(found)
        self._arrived.append(Arrived(found, positions.astype(came_type(self.n_samples)), self.codes[positions]))
        return found

    def class_means(self, model: Any) -> Float:
        """Return the mean of each class in the space of the features of a model; its support vectors are there."""
        mapped = feature_map(model)
        if mapped.directions is not None:
            how: tuple[Any, ...] = (mapped.directions,)
            beside, size = list[list[Delayed]](), mapped.directions.nbytes
        else:
            came = np.concatenate([one.numbers for one in self._arrived])
            order = np.argsort(came)
            places = order[np.searchsorted(came, mapped.support, sorter=order)].astype(np.int32)
            how, beside = (mapped.kernel, places, mapped.coefficients), self._beside(self._arrived)
            size = places.nbytes + size_of(mapped.coefficients)
        self.moved["weights"] += size * self._workers()
        width = (self.classes, mapped.coefficients.shape[0])
        sums, counts = self._asked("means", _sum_part, _join_sums, (how, *width), beside=beside)
        means: Float = refuse_overflow(type(model).__name__, sums / counts[:, None])
        return means

    def _workers(self) -> int:
        return 1 if self.client is None else count_workers(self.client) or 1

    def _kept(self, parts: Parts) -> list[Delayed]:
        """Load all parts and keep them where they are."""
        name = f"kampong-part-{dask.base.tokenize(parts.token, object())}"
        numbers = range(len(parts.arguments))
        inside = tasks_inside(parts, [range(number, number + 1) for number in numbers])
        common, layer = f"{name}-with", dict[Any, Any]()
        for number in numbers:
            more = (None, *parts.arguments[number]) if inside is None else inside_of(inside, number)
            layer[name, number] = Task((name, number), _open_part, TaskRef(common), number, *more)
        # made where they stay, an equal share on each worker; blocks that lie on workers stay where they are
        where = None if inside is None else near(len(layer), threads_of(self.client))
        needed = parts.collections if inside is None or any(one.outside for one in inside) else []
        graph = leaf_graph(needed, DataNode(common, parts.reader), layer, where)
        held = [Delayed((name, number), graph, layer=name) for number in numbers]
        return list(dask.persist(*held) if self.client is None else self.client.persist(held))

    def _asked(
        self,
        title: str,
        leaf: Any,
        join: Any,
        given: Any,
        which: Sequence[int] | None = None,
        beside: Sequence[list[Delayed]] = (),
    ) -> Any:
        chosen = range(len(self._held)) if which is None else which
        held = [self._held[part] for part in chosen]
        more = [beside[part] if beside else [] for part in chosen]
        arguments = [
            (TaskRef(self._held[part].key), part, *(TaskRef(one.key) for one in several))
            for part, several in zip(chosen, more, strict=True)
        ]
        held += {one.key: one for several in more for one in several}.values()
        token = dask.base.tokenize(id(self), self.moved)
        made = tree(Parts(Reader("held"), arguments, held, token=token), title, leaf, join, given)
        return compute(made, self.client, self.patience)


# Tasks. Each is given (common, number in the tree, the part, number of the part).


def _open_part(reader: Reader, number: int, inside: Inside | None = None, *given: Any) -> Part:
    counts, X, labels, weights = Counts(), None, [], []
    given = given if inside is None else tuple(inside.run(0, given))
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


def _itself(value: Any) -> Any:
    return value


def _look_part(common: tuple[Any, Any], _: int, part: Part, number: int, *arrived: Arrived) -> Any:
    (question, classes, starts), (X, y, *_rest) = common[0], part
    if X is None:
        nothing = Sight(np.inf, np.zeros(0), np.zeros(0, dtype=np.int32), np.zeros(0))
        return [nothing for _ in question.positive], question.batch
    with alone(), warnings.catch_warnings():
        return answer(question, arrived, X, _codes(classes, y), int(starts[number])), question.batch


def _codes(classes: np.ndarray, y: np.ndarray) -> Integer:
    return np.asarray(np.searchsorted(classes, y))


def _join_sights(items: Sequence[Any]) -> Any:
    batch = items[0][1]
    return joined([sights for sights, _ in items], batch), batch


def _rows_of_part(common: tuple[Any, Any], _: int, part: Part, number: int) -> Any:
    return narrowed(part[0][common[0][number]])


def _stacked(items: Sequence[Any]) -> Any:
    found = items[0]
    for more in items[1:]:
        found = stack(found, more)
    return found


def _sum_part(common: tuple[Any, Any], _: int, part: Part, number: int, *arrived: Arrived) -> Any:
    (how, classes, width), (X, y, *_rest) = common[0], part
    n_classes = len(classes)
    if X is None:
        return np.zeros((n_classes, width)), np.zeros(n_classes)
    with alone():
        codes = _codes(classes, y)
        counts = np.bincount(codes, minlength=n_classes)
        means = class_means(_features(how, arrived, X), codes, n_classes, np.ones(len(codes)))
        return np.where(counts[:, None] > 0, means, 0.0) * counts[:, None], counts.astype(float)


def _features(how: Any, arrived: Sequence[Arrived], X: Rows) -> Float:
    """Return the features of rows: by directions, or by kernel values to support vectors."""
    if len(how) == 1:
        return np.asarray(X @ how[0].T.astype(X.dtype), dtype=np.float64)
    kernel, places, features = how
    support = kernel.prepare(gathered(arrived, places, X.dtype))
    return kernel_scores(kernel, X, support, np.ascontiguousarray(features.toarray().T))


def _join_sums(items: Sequence[Any]) -> Any:
    return sum(item[0] for item in items), sum(item[1] for item in items)


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
