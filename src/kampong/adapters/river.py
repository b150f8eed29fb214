"""The adapter to river: linear subspaces as classifier and transformer, rows as dictionaries (extra `river`)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone

from kampong._core.compute import one_blas_thread
from kampong._core.extras import extra
from kampong.contract import stream_model
from kampong.data.validation import check_finite, check_weights
from kampong.estimators import FisherDiscriminant
from kampong.estimators.kernel_subspace import KernelSubspace
from kampong.estimators.stream_model import FisherModel, SubspaceModel
from kampong.estimators.subspace import DiscriminantSubspace

with extra("river", "kampong.adapters.river"):
    import pandas as pd
    from river import base

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

    from kampong._core.compute import Float
    from kampong.predictor import Predictor

__all__ = ["StreamingSubspace"]


class StreamingSubspace(base.MiniBatchClassifier, base.SupervisedTransformer, base.MiniBatchSupervisedTransformer):
    """A linear subspace of kampong, one row after another: a classifier and a transformer of river.

    Features may come, go and change their order: each name has a column of its own from the first row that holds it,
    and a row without it has 0 there. Labels of any kind may come at any time. What is learnt is exact: after any rows
    the directions are those that one `fit` on all of them would give.

    Parameters
    ----------
    estimator : estimator, optional
        A linear subspace of kampong, which is copied: FisherDiscriminant(ridge="rule", half_life="auto") by default. It
        follows drift: the members of a contest predict every row with all rows before it, weighed by their recent
        losses; coordinates are those of all rows. With FisherDiscriminant() nothing is forgotten, and ridge and head
        are chosen again whenever the rows have doubled.
    refresh : float
        The share of new rows after which coordinates, and predictions without a contest, take them into account: 0.02
        solves again when there are 2 % more rows, and at once for a new class. 0 solves before every prediction that
        follows a row. With a half-life, a twentieth of it is the limit.

    See Also
    --------
    kampong.FisherDiscriminant : What it learns by default.

    Examples
    --------
    >>> from river import datasets, evaluate, metrics, preprocessing
    >>> from kampong.adapters.river import StreamingSubspace
    >>> model = preprocessing.StandardScaler() | StreamingSubspace()
    >>> accuracy = evaluate.progressive_val_score(datasets.Phishing(), model, metrics.Accuracy())
    >>> accuracy.get() > 0.85
    True
    """

    def __init__(self, estimator: Any = None, refresh: float = 0.02) -> None:
        self.estimator = estimator
        self.refresh = refresh
        if isinstance(refresh, bool) or not isinstance(refresh, int | float) or not 0 <= refresh < math.inf:
            raise ValueError(f"StreamingSubspace: refresh must be a number ≥ 0, got {refresh!r}. 0.02 is the default.")
        self._model: DiscriminantSubspace = _linear(estimator)
        self._columns: dict[Hashable, int] = {}
        self._labels: dict[Hashable, int] = {}
        self._names: list[Any] = []
        self._rows = self._due = self._chosen = 0
        self._known: Predictor | None = None

    @property
    def _multiclass(self) -> bool:
        return True

    # Learning.

    def learn_one(self, x: dict[Any, Any], y: Any = None, w: float = 1.0) -> None:
        """Learn a row.

        Parameters
        ----------
        x : dict
            Its features; a feature that is missing is 0. NaN and infinity are refused.
        y : label
            Its class; None and NaN are refused.
        w : float
            Weight compared with other rows, whatever the scale; 0 leaves it out.
        """
        _check_label("learn_one", y)
        weight = float(check_weights(w, 1)[0])
        check_finite(np.array([[_number(name, value) for name, value in x.items()]]), "StreamingSubspace")
        if weight == 0:
            return
        model, columns = self._with_columns(x.keys())
        self._learn(model, columns, _row(x, columns), [y], None if weight == 1.0 else [weight])

    def learn_many(self, X: pd.DataFrame, y: pd.Series, w: Any = None) -> None:
        """Learn a batch of rows, which gives what they would give one by one.

        Parameters
        ----------
        X : DataFrame
            Their features.
        y : Series
            Their classes.
        w : array-like, optional
            Their weights.
        """
        if len(y) != len(X):
            raise ValueError(f"StreamingSubspace.learn_many: y has {len(y)} labels, but X has {len(X)} rows.")
        weights = check_weights(w, len(X))
        counted = weights > 0  # a row of weight 0 is absent, with its label
        for place, label in enumerate(y):
            if counted[place]:
                _check_label("learn_many", label, f" in row {place}")
        X, labels = X[counted], [label for label, counts in zip(y, counted, strict=True) if counts]
        self._block(X, {name: place for place, name in enumerate(X.columns)})  # refuses what is no finite number
        if not len(X):
            return
        model, columns = self._with_columns(X.columns)
        self._learn(model, columns, self._block(X, columns), labels, None if w is None else weights[counted])

    def _learn(
        self, model: DiscriminantSubspace, columns: dict[Hashable, int], rows: Float, labels: list[Any], weights: Any
    ) -> None:
        """Let a model of this many columns learn rows; only then it takes the place of the model before."""
        new = list(dict.fromkeys(label for label in labels if label not in self._labels))
        known = self._labels | {label: len(self._names) + place for place, label in enumerate(new)}
        model.partial_fit(rows, np.array([known[label] for label in labels]), sample_weight=weights)
        # only now: rows that are refused bring no column and no class
        if len(columns) > len(self._columns):
            self._model, self._columns, self._due = model, columns, 0
        if new:
            self._labels, self._due = known, 0
            self._names += [label.item() if isinstance(label, np.generic) else label for label in new]
        self._rows += len(rows)

    def _with_columns(self, names: Iterable[Any]) -> tuple[DiscriminantSubspace, dict[Hashable, int]]:
        """Return the model with a column for each new feature, and the columns; the model itself does not change.

        New columns come in the order of their names, so that the order in a row does not matter.
        """
        new = [name for name in names if name not in self._columns]
        if not new:
            return self._model, self._columns
        new = sorted(new, key=lambda name: (str(type(name)), name))
        columns = self._columns | {name: len(self._columns) + place for place, name in enumerate(new)}
        try:
            return SubspaceModel(self._model).grown(len(columns)).estimator, columns
        except ValueError as error:
            raise ValueError(
                f"StreamingSubspace: {error} Hash the features (river.preprocessing.FeatureHasher), or use "
                "InterClassScatter, which takes any number."
            ) from None

    # Predicting.

    def predict_proba_one(self, x: dict[Any, Any], **kwargs: Any) -> dict[Any, float]:
        """Return the probability of each class seen so far.

        Parameters
        ----------
        x : dict
            The features of a row; features that were never learnt are ignored. NaN and infinity are refused.
        **kwargs : object
            Not used.

        Returns
        -------
        dict
            Empty before the first row.
        """
        model = self._contest()
        if model is not None:
            return dict(zip(self._names, model.contest_shares(_row(x, self._columns))[0].tolist(), strict=True))
        known = self._current()
        if known is None:
            return dict.fromkeys(self._names[:1], 1.0)
        shares = known.head.probabilities(known.seen_points(_row(x, self._columns)[:, : known.components.shape[1]]))[0]
        return dict(zip(self._seen(known), shares.tolist(), strict=True))

    def predict_proba_many(self, X: pd.DataFrame) -> pd.DataFrame:
        """Return the probability of each class seen so far, for each row.

        Parameters
        ----------
        X : DataFrame
            The features of the rows.

        Returns
        -------
        DataFrame
            A column per class, none before the first row.
        """
        model = self._contest()
        if model is not None:
            return pd.DataFrame(model.contest_shares(self._block(X, self._columns)), X.index, self._names)
        known = self._current()
        if known is None:
            return pd.DataFrame(1.0, index=X.index, columns=self._names[:1])
        block = self._block(X, self._columns)[:, : known.components.shape[1]]
        shares = known.head.probabilities(known.seen_points(block))
        return pd.DataFrame(shares, index=X.index, columns=self._seen(known))

    def predict_many(self, X: pd.DataFrame) -> pd.Series:
        """Return the most probable class of each row.

        Parameters
        ----------
        X : DataFrame
            The features of the rows.

        Returns
        -------
        Series
            Classes; None before the first row.
        """
        shares = self.predict_proba_many(X)
        if not shares.shape[1]:
            return pd.Series([None] * len(X), index=X.index, dtype=object)
        names = np.empty(shares.shape[1], dtype=object)
        names[:] = list(shares.columns)
        return pd.Series(names[np.argmax(shares.to_numpy(), axis=1)], index=X.index).infer_objects()

    def transform_one(self, x: dict[Any, Any]) -> dict[Any, float]:
        """Return the coordinates of a row in the subspace.

        Parameters
        ----------
        x : dict
            Its features.

        Returns
        -------
        dict
            One number per direction, best first, named 0, 1, …; empty before two classes have come.
        """
        known = self._current()
        if known is None:
            return {}
        return dict(enumerate(known.points(_row(x, self._columns)[:, : known.components.shape[1]])[0].tolist()))

    def transform_many(self, X: pd.DataFrame) -> pd.DataFrame:
        """Return the coordinates of rows in the subspace.

        Parameters
        ----------
        X : DataFrame
            The features of the rows.

        Returns
        -------
        DataFrame
            A column per direction, best first; none before two classes have come.
        """
        known = self._current()
        if known is None:
            return pd.DataFrame(index=X.index)
        return pd.DataFrame(known.points(self._block(X, self._columns)[:, : known.components.shape[1]]), index=X.index)

    def _contest(self) -> FisherModel | None:
        """Return the model where a contest predicts: it follows drift, and two classes have come."""
        model = stream_model(self._model)
        if isinstance(model, FisherModel) and model.follows_drift and len(self._names) > 1:
            return model
        return None

    def _current(self) -> Predictor | None:
        """Return the predictor, solved again if enough rows have come."""
        if self._known is not None and self._rows < self._due:
            return self._known
        model, known = self._model, self._known
        if not model.__sklearn_is_fitted__():
            return None
        with one_blas_thread():  # threads of BLAS take milliseconds to meet, and these problems are small
            self._solve(model, known)
        self._due = self._rows + max(1, int(min(self.refresh * self._rows, _memory(model) / 20)))
        return self._known

    def _solve(self, model: DiscriminantSubspace, known: Predictor | None) -> None:
        """Solve again, with what was chosen while the rows have not doubled."""
        same = known is not None and len(known.classes) == len(model.classes_)
        keep = None
        if same and known is not None and known.components.shape[1] == len(self._columns) and self._rows < self._chosen:
            keep = known
        else:
            self._chosen = 2 * self._rows
        self._known = stream_model(model).predictor(keep)

    def _seen(self, known: Predictor) -> list[Any]:
        """Return the labels that a predictor tells apart."""
        return [self._names[code] for code in known.classes.tolist()]

    def _block(self, X: pd.DataFrame, columns: dict[Hashable, int]) -> Float:
        rows = np.zeros((len(X), len(columns)))
        for name in X.columns:
            if name in columns:
                try:
                    values = X[name].to_numpy()
                    rows[:, columns[name]] = (
                        [float(value) for value in values.tolist()] if values.dtype.kind in "Oc" else values
                    )
                except (TypeError, ValueError, OverflowError):
                    raise TypeError(
                        f"StreamingSubspace: the feature {name!r} holds {X[name].dtype} values, and features are "
                        "numbers. Encode it first, for instance with river.preprocessing.OneHotEncoder."
                    ) from None
        check_finite(rows, "StreamingSubspace")
        return rows


def _row(x: dict[Any, Any], columns: dict[Hashable, int]) -> Float:
    row = np.zeros((1, len(columns)))
    for name, value in x.items():
        place = columns.get(name)
        if place is not None:
            row[0, place] = _number(name, value)
    check_finite(row, "StreamingSubspace")
    return row


def _check_label(method: str, label: Any, where: str = "") -> None:
    """Refuse a label that says nothing: each NaN differs from all others, so each would be a class of its own."""
    if label is None or label is pd.NA or label != label:
        raise TypeError(
            f"StreamingSubspace.{method}: there is no label{where}, y is {label!r}. It learns from labelled rows: "
            "give y, or leave the row out."
        )


def _number(name: Any, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):
        raise TypeError(
            f"StreamingSubspace: the feature {name!r} is {value!r:.60}, and features are numbers. Encode it first, "
            "for instance with river.preprocessing.OneHotEncoder."
        ) from None
    except OverflowError:
        raise ValueError(f"StreamingSubspace: the feature {name!r} is a number past the range of floats.") from None


def _linear(estimator: Any) -> DiscriminantSubspace:
    """Return a copy of the estimator that has learnt nothing."""
    if estimator is None:
        return FisherDiscriminant(ridge="rule", half_life="auto")
    if not isinstance(estimator, DiscriminantSubspace) or isinstance(estimator, KernelSubspace):
        name = estimator.__name__ if isinstance(estimator, type) else type(estimator).__name__
        raise TypeError(
            f"StreamingSubspace: {name} cannot gain columns in a stream. Give a linear subspace, such as "
            "FisherDiscriminant(), MarginSubspace() or InterClassScatter()."
        )
    copied: DiscriminantSubspace = clone(estimator)
    return copied


def _memory(model: DiscriminantSubspace) -> float:
    """Return after how many rows a row counts half; infinity where none is forgotten."""
    if model.half_life is not None and not isinstance(model.half_life, str):
        return float(model.half_life)
    return math.log(0.5) / math.log(model.decay) if model.decay < 1 else math.inf
