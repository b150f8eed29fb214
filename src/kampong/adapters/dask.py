"""The adapter to Dask: estimators fitted and applied where the rows are (extra `dask`).

    neighbouring parts → one pure task: load, summarise, merge → bytes → merged by eight → the model, for the caller

Rows never travel, and no worker keeps anything between two tasks: a lost worker costs the work on its parts again, and
nothing is counted twice. The result is an ordinary fitted estimator.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from kampong._core.compute import alone, stack
from kampong._core.extras import extra
from kampong.adapters.file_parts import Counts
from kampong.contract import stream_model
from kampong.data.validation import check_finite, check_rows
from kampong.estimators.kernel_subspace import MOST_BY_DEFAULT, KernelSubspace
from kampong.estimators.stream_model import KernelModel
from kampong.estimators.subspace import DiscriminantSubspace
from kampong.merging import check_mergeable, fit_landmarks, merge_two, part_seed, solved_as, statistics_of
from kampong.registry import from_bytes
from kampong.statistics.sampling import row_keys

with extra("dask", "kampong.adapters.dask"):
    from kampong.adapters.dask_groups import Steps, spread, threads_of
    from kampong.adapters.dask_margin import MARGIN_MODELS, fit_margin, fit_rows
    from kampong.adapters.dask_parts import NoWorkersError, compute, parts_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kampong.adapters.dask_parts import Parts, Reader
    from kampong.streaming.columns.schema import Layout

    Model = TypeVar("Model")

__all__ = ["NoWorkersError", "fit", "predict", "predict_proba", "score", "transform"]

PATIENCE = 60.0
"""Seconds without any worker after which a fit is given up."""


def fit(
    estimator: Model,
    X: Any,
    y: Any = None,
    sample_weight: Any = None,
    client: Any = None,
    *,
    layout: Layout | None = None,
    keep_rows: bool = False,
    patience: float = PATIENCE,
) -> Model:
    """Return an estimator fitted on rows that lie in parts: equal to the local fit of all of them.

    Parameters
    ----------
    estimator : estimator
        A linear subspace, KernelFisherDiscriminant, KernelMarginSubspace or InformationGain; or CoreVectorClassifier
        or MaximumMarginDiscriminant, whose core sets travel while the rows stay. It does not change.
    X : dask array, dask dataframe, or path or list of paths
        The rows. Blocks of an array are dense or CSR. Paths are files, folders or patterns such as `rows/*.parquet`, in
        any format that `kampong learn` reads; each file is a part and is read where the task runs.
    y : dask array, array or str
        The labels, cut like X; the name of the label column for dataframes and paths (libsvm needs none).
    sample_weight : dask array, array or str, optional
        Their weights; the name of a column for dataframes.
    client : distributed.Client, optional
        The cluster; by default the current one. Without any, Dask's own threads do the work.
    layout : Layout, optional
        What is known of files: format, label and so on, as in `kampong.streaming`.
    keep_rows : bool
        For rows wider than a scatter (8192 features). True keeps all parts in the workers' memory and solves by
        products with them, as `fit` does with rows in memory; False takes one pass and a sample, as a stream does.
    patience : float
        Seconds without any worker after which the fit is given up.

    Returns
    -------
    estimator
        A fitted copy. Kernel estimators place their landmarks on a sample of the rows first, unless they are given or
        `kampong.fit_landmarks` has placed them.

    Examples
    --------
    >>> import dask.array as da
    >>> from sklearn.datasets import load_iris
    >>> from kampong import FisherDiscriminant
    >>> from kampong.adapters import dask as on_dask
    >>> X, y = load_iris(return_X_y=True)
    >>> rows, labels = da.from_array(X, chunks=(40, -1)), da.from_array(y, chunks=40)
    >>> model = on_dask.fit(FisherDiscriminant(ridge=0.1), rows, labels)
    >>> round(on_dask.score(model, rows, labels), 2)
    0.97
    """
    return fit_counted(estimator, X, y, sample_weight, client, layout=layout, keep_rows=keep_rows, patience=patience)[0]


def fit_counted(
    estimator: Model,
    X: Any,
    y: Any = None,
    sample_weight: Any = None,
    client: Any = None,
    *,
    layout: Layout | None = None,
    keep_rows: bool = False,
    patience: float = PATIENCE,
) -> tuple[Model, Counts]:
    """Return what `fit` returns, and how many records were read, learnt and set aside."""
    model: Any = estimator
    if isinstance(model, MARGIN_MODELS):
        if sample_weight is not None:
            raise ValueError(
                f"{type(model).__name__}: in parts it takes no weights. Leave sample_weight out, or fit here."
            )
        return fit_margin(clone(model), parts_of(X, y, None, layout), client, patience)
    check_mergeable(model)
    parts = parts_of(X, y, sample_weight, layout)
    if keep_rows and isinstance(model, DiscriminantSubspace) and not isinstance(model, KernelSubspace):
        found = fit_rows(clone(model), parts, client, patience)
        if found is not None:
            return found
    made_ready = prepared(model, parts, client, patience)
    if isinstance(model, KernelSubspace):
        made_ready.landmarks = "auto"  # they are in the statistics, and rows are no parameter of a file
    given = made_ready.to_bytes(solve=False)
    data, counts = compute(spread(parts, "learn", LEARN, given, threads_of(client)), client, patience)
    result = from_bytes(data)
    if isinstance(model, KernelSubspace):
        result.landmarks = model.landmarks
    if not result.__sklearn_is_fitted__():
        raise ValueError(
            f"{type(model).__name__}: none of the {len(parts.arguments)} parts has a row of positive weight. Check the "
            "source, and give at least one row a weight."
        )
    return solved_as(result, model), counts


def transform(model: Any, X: Any) -> Any:
    """Return the coordinates of rows, lazily, in the container that they came in.

    Parameters
    ----------
    model : estimator
        A fitted subspace.
    X : dask array or dask dataframe
        The rows.

    Returns
    -------
    dask array or dask dataframe
        A column per direction.

    Examples
    --------
    >>> import dask.array as da
    >>> from sklearn.datasets import load_iris
    >>> from kampong import FisherDiscriminant
    >>> from kampong.adapters import dask as on_dask
    >>> X, y = load_iris(return_X_y=True)
    >>> model = FisherDiscriminant(ridge=0.1).fit(X, y)
    >>> rows = da.from_array(X, chunks=(40, -1))
    >>> on_dask.transform(model, rows).compute().shape
    (150, 2)
    """
    predictor, names = _predictor(model), list(model.get_feature_names_out())
    return _map(_Answer(predictor, "transform", _names(model)), X, names)


def predict(model: Any, X: Any) -> Any:
    """Return the classes of rows, lazily, in the container that they came in.

    Parameters
    ----------
    model : estimator
        A fitted subspace.
    X : dask array or dask dataframe
        The rows.

    Returns
    -------
    dask array or dask series
        A class per row.

    Examples
    --------
    >>> import dask.array as da
    >>> from sklearn.datasets import load_iris
    >>> from kampong import FisherDiscriminant
    >>> from kampong.adapters import dask as on_dask
    >>> X, y = load_iris(return_X_y=True)
    >>> model = FisherDiscriminant(ridge=0.1).fit(X, y)
    >>> rows = da.from_array(X, chunks=(40, -1))
    >>> on_dask.predict(model, rows)[:3].compute()
    array([0, 0, 0])
    """
    return _map(_Answer(_predictor(model), "predict", _names(model)), X, None, model.classes_.dtype)


def predict_proba(model: Any, X: Any) -> Any:
    """Return the probabilities of all classes, lazily, in the container that the rows came in.

    Parameters
    ----------
    model : estimator
        A fitted subspace.
    X : dask array or dask dataframe
        The rows.

    Returns
    -------
    dask array or dask dataframe
        A column per class.

    Examples
    --------
    >>> import dask.array as da
    >>> from sklearn.datasets import load_iris
    >>> from kampong import FisherDiscriminant
    >>> from kampong.adapters import dask as on_dask
    >>> X, y = load_iris(return_X_y=True)
    >>> model = FisherDiscriminant(ridge=0.1).fit(X, y)
    >>> rows = da.from_array(X, chunks=(40, -1))
    >>> on_dask.predict_proba(model, rows)[:1].compute().round(2)
    array([[1., 0., 0.]])
    """
    return _map(_Answer(_predictor(model), "predict_proba", _names(model)), X, model.classes_.tolist())


def score(
    model: Any, X: Any, y: Any = None, sample_weight: Any = None, client: Any = None, *, layout: Layout | None = None
) -> float:
    """Return the share of rows whose class is predicted right.

    Parameters
    ----------
    model : estimator
        A fitted subspace.
    X : dask array, dask dataframe, or path or list of paths
        The rows.
    y : dask array, array or str
        Their labels, as `fit` takes them.
    sample_weight : dask array, array or str, optional
        Their weights, as `fit` takes them.
    client : distributed.Client, optional
        The cluster; by default the current one.
    layout : Layout, optional
        What is known of files.

    Returns
    -------
    float
        The accuracy.

    Examples
    --------
    >>> import dask.array as da
    >>> from sklearn.datasets import load_iris
    >>> from kampong import FisherDiscriminant
    >>> from kampong.adapters import dask as on_dask
    >>> X, y = load_iris(return_X_y=True)
    >>> model = FisherDiscriminant(ridge=0.1).fit(X, y)
    >>> rows = da.from_array(X, chunks=(40, -1))
    >>> round(on_dask.score(model, rows, da.from_array(y, chunks=40)), 2)
    0.97
    """
    parts = parts_of(X, y, sample_weight, layout)
    answer = _Answer(_predictor(model), "predict", _names(model))
    right, total = compute(spread(parts, "score", SCORE, answer, threads_of(client)), client, PATIENCE)
    if total == 0:
        raise ValueError("score: the rows have no weight. Give at least one row a weight.")
    return float(right / total)


# Tasks.


def _learn_part(common: tuple[bytes, Reader], number: int, *given: Any) -> tuple[Any, Counts]:
    """Summarise one part: a pure function of it."""
    (model, reader), counts = common, Counts()
    with alone():
        return statistics_of(from_bytes(model), reader.batches(counts, number, *given), number=number), counts


def _merge_two(first: tuple[Any, Counts], second: tuple[Any, Counts]) -> tuple[Any, Counts]:
    with alone():
        return merge_two(first[0], second[0]), first[1] + second[1]


def _packed_model(value: tuple[Any, Counts]) -> tuple[bytes, Counts]:
    with alone():
        return value[0].to_bytes(solve=False), value[1]


def _unpacked_model(value: tuple[bytes, Counts]) -> tuple[Any, Counts]:
    with alone():
        return from_bytes(value[0]), value[1]


def _score_part(common: tuple[_Answer, Reader], number: int, *given: Any) -> tuple[float, float]:
    (answer, reader), right, total = common, 0.0, 0.0
    with alone():
        for X, y, *rest in reader.batches(Counts(), number, *given):
            if X.shape[0]:
                weights = np.ones(X.shape[0]) if not rest or rest[0] is None else np.asarray(rest[0], dtype=float)
                right += float(weights @ (np.asarray(answer(X)) == np.asarray(y)))
                total += float(weights.sum())
    return right, total


def _total(first: tuple[float, float], second: tuple[float, float]) -> tuple[float, float]:
    return first[0] + second[0], first[1] + second[1]


def prepared(model: Any, parts: Parts, client: Any, patience: float = PATIENCE) -> Any:
    """Return a kernel model with its landmarks fixed; other models need nothing."""
    if not isinstance(model, KernelSubspace):
        return statistics_of(model, [])
    if KernelModel(model).basis is not None:
        return statistics_of(model, [])
    landmarks = model.landmarks
    if not isinstance(landmarks, str | int):
        return fit_landmarks(model, landmarks, np.zeros(landmarks.shape[0], dtype=int))
    most = 4 * max(MOST_BY_DEFAULT, landmarks if isinstance(landmarks, int) else 0)
    X, y, weights = _sample(parts, most, model.random_state, client, patience)
    return fit_landmarks(model, X, y, weights)


def _sample(parts: Parts, most: int, seed: int, client: Any, patience: float) -> Any:
    """Return a sample of the rows of all parts, the rows of smallest key."""
    found = compute(spread(parts, "sample", SAMPLE, (most, seed), threads_of(client)), client, patience)
    if found is None:
        raise ValueError("fit: no part has a row of positive weight to place landmarks with. Check the source.")
    return found[1:4]


def _sample_part(common: tuple[tuple[int, int], Reader], number: int, *given: Any) -> Any:
    (most, seed), reader = common
    found, seen = None, 0
    with alone():
        for X, y, *rest in reader.batches(Counts(), number, *given):
            n = X.shape[0]
            weights = np.ones(n) if not rest or rest[0] is None else np.asarray(rest[0], dtype=float)
            keys = row_keys(np.arange(seen + 1, seen + n + 1), weights, part_seed(seed, number))
            rows = X.to_numpy(dtype=float) if hasattr(X, "to_numpy") else X
            found = _first_rows([found, (keys, rows, np.asarray(y), weights, most)])
            seen += n
    return found


def _first_of_both(first: Any, second: Any) -> Any:
    return _first_rows([first, second])


def _first_rows(items: Sequence[Any]) -> Any:
    """Return the rows of smallest key among several samples."""
    kept = [item for item in items if item is not None and len(item[0])]
    if not kept:
        return None
    keys, X, y, weights, most = kept[0]
    for more in kept[1:]:
        keys, X = np.concatenate([keys, more[0]]), stack(X, more[1])
        y, weights = np.concatenate([y, more[2]]), np.concatenate([weights, more[3]])
    order = np.argsort(keys, kind="stable")[:most]
    order = order[np.isfinite(keys[order])]
    return keys[order], X[order], y[order], weights[order], most


def _same(value: Any) -> Any:
    return value


LEARN = Steps(_learn_part, _merge_two, _packed_model, _unpacked_model)
SCORE = Steps(_score_part, _total, _same, _same)
SAMPLE = Steps(_sample_part, _first_of_both, _same, _same)


# Answers.


@dataclass(frozen=True)
class _Answer:
    """A frozen predictor that answers for one part."""

    predictor: Any  # a Predictor, or a margin model
    what: str
    names: tuple[str, ...] | None

    def __call__(self, X: Any) -> Any:
        known: Any = self.predictor
        if isinstance(known, MARGIN_MODELS):
            names = getattr(known, "feature_names_in_", None)
            X = X if names is None or not hasattr(X, "columns") else X[list(names)]
            if not X.shape[0]:  # a part without rows has answers of the right shape
                return getattr(known, self.what)(np.zeros((1, known.n_features_in_)))[:0]
            with alone():
                return getattr(known, self.what)(X)
        basis = getattr(known, "basis", None)
        if self.names is not None and hasattr(X, "columns"):
            X = X[list(self.names)]
        rows = check_rows(X, known.components.shape[1] if basis is None else basis.width)
        check_finite(rows, f"{self.what}")
        with alone():
            if self.what == "transform":
                return known.points(rows)
            if self.what == "predict":
                return known.answers(rows)[1]
            return known.head.probabilities(known.seen_points(rows))


def _predictor(model: Any) -> Any:
    if isinstance(model, MARGIN_MODELS):
        check_is_fitted(model)
        return model
    learnt = stream_model(model)
    frozen = learnt.predictor() if learnt.can.freeze else None
    if frozen is None:
        raise TypeError(
            f"{type(model).__name__} has no frozen predictor. Give a fitted linear or kernel subspace of two "
            "classes or more, such as FisherDiscriminant."
        )
    return frozen


def _names(model: Any) -> tuple[str, ...] | None:
    names = stream_model(model).read("feature_names_in_")
    return None if names is None else tuple(names)


def _map(answer: _Answer, X: Any, columns: list[Any] | None, dtype: Any = np.float64) -> Any:
    """Apply a predictor to every part; a column for each of `columns`, or one without a name."""
    if hasattr(X, "map_blocks"):
        if X.numblocks[1] > 1:
            X = X.rechunk({1: -1})
        if columns is None:
            return X.map_blocks(answer, dtype=dtype, drop_axis=1, meta=np.empty((0,), dtype=dtype))
        chunks = (X.chunks[0], (len(columns),))
        kind = X.dtype if answer.what == "transform" and X.dtype == np.float32 else np.float64
        return X.map_blocks(answer, dtype=kind, chunks=chunks, meta=np.empty((0, 0), dtype=kind))
    if hasattr(X, "map_partitions"):
        import pandas as pd

        if columns is None:
            empty: Any = pd.Series(np.empty(0, dtype=dtype), name="predicted")
        else:
            empty = pd.DataFrame(np.empty((0, len(columns))), columns=columns)
        return X.map_partitions(_frame_answer, answer, columns, meta=empty)
    raise TypeError(
        f"{answer.what}: X is a {type(X).__name__}; it needs to be a dask array or a dask dataframe. `kampong "
        "predict` and `kampong project` take files."
    )


def _frame_answer(frame: Any, answer: _Answer, columns: list[Any] | None) -> Any:
    import pandas as pd

    if columns is None:
        return pd.Series(answer(frame), index=frame.index, name="predicted")
    return pd.DataFrame(answer(frame), index=frame.index, columns=columns)
