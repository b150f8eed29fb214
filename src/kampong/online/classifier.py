"""OnlineClassifier: the contest as a plain estimator of scikit-learn."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from kampong._core.locks import one_at_a_time
from kampong.data.labels import LabelIndex, check_labels, index_from, index_state, is_indicator
from kampong.data.validation import (
    check_choice,
    check_number,
    check_weights,
    check_whole,
    validate_batch,
    validate_rows,
)
from kampong.files import Savable, savable
from kampong.online.contest import Contest, check_entries, numbered
from kampong.online.follower import slots_from
from kampong.online.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kampong._core.compute import Float, Integer
    from kampong.files import Contents

VERSION = 1
"""Of what a file holds."""

METHODS = ("predict", "predict_proba", "predict_log_proba")


@savable
class OnlineClassifier(ClassifierMixin, Savable):
    """Classify a stream by a contest of learners that never sleep.

    Each row is predicted by every member of the contest and then learnt by every member. The members are linear
    learners at several learning rates, linear discriminant analysis, products of columns, tiles of pairs of columns,
    random Fourier features, nearest neighbours among the last rows, and the chance of a class after the last label. The
    chances that a member gave to the last rows say how much it counts, and a regression on all members corrects their
    weighted mean. So the classifier follows drift of any speed without being told.

    Rows are learnt one after another: cutting them into other batches gives the same answers, bit for bit. Memory does
    not grow with the number of rows.

    Parameters
    ----------
    effort : float
        Nominal cost of a row of up to 20 columns, in microseconds of one core; a longer row may cost as much more.
        Members take part while their costs fit, the cheapest first, by the number of columns and classes alone, so
        that runs repeat; softmax regression and label counts always do. Default 100. Lower it for faster streams: 2
        leaves the linear members of 20 columns.
    labels_in_order : bool
        Whether the label of each row is known before the next row is predicted, so that `predict_then_learn` may use
        it. Default True. `predict` never uses it: rows to predict may come from any time.
    random_state : int
        The seed of the random features.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The labels, sorted.
    member_weights_ : dict of str to float
        How much each member counts now: the chance that it is the best one, if the best may change at any row.
    n_samples_seen_ : int
        The number of rows of positive weight learnt.
    n_features_in_ : int
        The width of the rows.
    feature_names_in_ : array of shape (n_features_in_,)
        The column names, if the rows had them.

    See Also
    --------
    kampong.FisherDiscriminant : One model of all rows, which also finds directions.

    Examples
    --------
    >>> import numpy as np
    >>> from kampong.online import OnlineClassifier
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 3))
    >>> y = np.where(X[:, 0] + X[:, 1] > 0, "up", "down")
    >>> y[1000:] = np.where(X[1000:, 0] > X[1000:, 1], "up", "down")  # drift
    >>> model = OnlineClassifier()
    >>> answers = model.predict_then_learn(X, y)
    >>> bool((answers[900:1000] == y[900:1000]).mean() > 0.9)
    True
    >>> bool((answers[1900:] == y[1900:]).mean() > 0.9)
    True
    >>> model.predict([[1.0, -1.0, 0.0]]).tolist()
    ['up']
    """

    n_features_in_: int
    feature_names_in_: np.ndarray
    _index: LabelIndex
    _slots: Integer
    _contest: Contest
    _n_samples: int

    def __init__(self, effort: float = 100.0, labels_in_order: bool = True, random_state: int = 0) -> None:
        self.effort = effort
        self.labels_in_order = labels_in_order
        self.random_state = random_state

    @one_at_a_time
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn all rows in their order, forgetting what was learnt before.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The rows. Shuffle them if they are sorted by class.
        y : array-like of shape (n_samples,)
            Their labels: integers, strings or booleans.
        sample_weight : array-like of shape (n_samples,), optional
            How far each row moves the members; 0 leaves the row out. A weight of 2 is one larger step, not the row
            twice, since members learn each row from where the last one left them.

        Returns
        -------
        object
            This estimator.
        """
        self._learn(X, y, None, sample_weight, reset=True)
        return self

    @one_at_a_time
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn more rows, in their order; batches do not matter.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The rows.
        y : array-like of shape (n_samples,)
            Their labels. Classes may appear at any time.
        classes : array-like of shape (n_classes,), optional
            Classes that may come, so that `classes_` is complete from the start.
        sample_weight : array-like of shape (n_samples,), optional
            How far each row moves the members; 0 leaves the row out. A weight of 2 is one larger step, as in `fit`.

        Returns
        -------
        object
            This estimator.
        """
        self._learn(X, y, classes, sample_weight, reset=not hasattr(self, "_index"))
        return self

    @one_at_a_time
    def predict_then_learn(
        self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None, method: str = "predict"
    ) -> Any:
        """Predict each row and learn it before the next one is predicted.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The rows.
        y : array-like of shape (n_samples,)
            Their labels.
        classes : array-like of shape (n_classes,), optional
            Classes that may come.
        sample_weight : array-like of shape (n_samples,), optional
            How far each row moves the members; a row of weight 0 is predicted and not learnt.
        method : str
            What to return: "predict", "predict_proba" or "predict_log_proba".

        Returns
        -------
        array of shape (n_samples,) or (n_samples, n_classes)
            What was predicted before each row was learnt. Before the first class has come nothing can be predicted:
            such a row has NaN for its probabilities, and its own label for its label. Do not count it.
        """
        check_choice("OnlineClassifier", "method", method, METHODS)
        answers = self._learn(X, y, classes, sample_weight, reset=not hasattr(self, "_index"))
        if method != "predict":
            found = self._sorted(answers)
            found[np.isneginf(found).all(axis=1)] = np.nan
            return found if method == "predict_log_proba" else np.exp(found)
        chosen = self._labels(answers)
        nothing = np.isneginf(answers[:, 0])  # the class that came first is known before any other
        if nothing.any():
            chosen[nothing] = np.asarray(y)[nothing]
        return chosen

    @one_at_a_time
    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable class of each row.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        array of shape (n_samples,)
            Labels.
        """
        return self._labels(self._answers(X))

    @one_at_a_time
    def predict_log_proba(self, X: Any) -> Float:
        """Return the log-probability of each class, in the order of `classes_`.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        array of shape (n_samples, n_classes)
            −∞ for a class that has not come.
        """
        return self._sorted(self._answers(X))

    def predict_proba(self, X: Any) -> Float:
        """Return the probability of each class, in the order of `classes_`.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        array of shape (n_samples, n_classes)
            Each row adds up to 1.
        """
        return np.exp(self.predict_log_proba(X))

    @one_at_a_time
    def widen(self, n_features: int) -> Self:
        """Make room for new columns, at the end; rows learnt before had 0 there.

        Parameters
        ----------
        n_features : int
            The new width.

        Returns
        -------
        object
            This estimator.
        """
        check_is_fitted(self)
        if hasattr(self, "feature_names_in_"):
            raise ValueError(
                "OnlineClassifier.widen: the columns have names, and the new ones have none. Learn rows without names, "
                "such as X.to_numpy()."
            )
        wanted = f"It is {self.n_features_in_} wide now."
        width = check_whole(
            "OnlineClassifier.widen", "n_features", n_features, low=self.n_features_in_, high=2**31, next_step=wanted
        )
        self._contest.resize(width, self._contest.classes)
        self.n_features_in_ = width
        return self

    @property
    def classes_(self) -> np.ndarray:
        """The labels, sorted."""
        check_is_fitted(self)
        return self._index.sorted

    @property
    def n_samples_seen_(self) -> int:
        """The number of rows of positive weight learnt."""
        check_is_fitted(self)
        return self._n_samples

    @property
    @one_at_a_time
    def member_weights_(self) -> dict[str, float]:
        """How much each member counts now, by the chances that it gave to the last rows."""
        check_is_fitted(self)
        return self._contest.pools[0].member_weights()

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_index") and self._n_samples > 0

    def __sklearn_tags__(self) -> Any:
        parent: Any = super()
        tags = parent.__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _new_contest(self) -> Contest:
        effort = check_number(
            "OnlineClassifier", "effort", self.effort, low=0.0, high=np.inf, next_step="100 is the default."
        )
        if not isinstance(self.labels_in_order, (bool, np.bool_)):
            raise ValueError(
                f"OnlineClassifier: labels_in_order must be True or False, got {self.labels_in_order!r}. Set it to "
                "False if labels come later than the next row."
            )
        seed = check_whole(
            "OnlineClassifier", "random_state", self.random_state, low=0, high=2**63, next_step="0 is the default."
        )
        return Contest(Settings(), effort, seed, bool(self.labels_in_order))

    def _learn(self, X: Any, y: Any, classes: Any, sample_weight: Any, *, reset: bool) -> Float:
        """Check everything, then learn; return log-probabilities before each row, classes in their own order."""
        with self._unchanged_if_refused():
            contest = self._new_contest() if reset else self._contest
            X, y = validate_batch(self, X, y, reset=reset, compact=True)
            if is_indicator(y):
                raise ValueError(f"OnlineClassifier: y has shape {y.shape}, but a row has one label here.")
            check_entries(X, "OnlineClassifier")
            weights = check_weights(sample_weight, X.shape[0])
            index, slots = (LabelIndex(), np.zeros(0, dtype=np.int64)) if reset else (self._index.copy(), self._slots)
            if classes is not None:
                declared = np.asarray(classes)
                labels, _, new = check_labels(index, declared, declared.size)
                index.add(new, labels.dtype)
            taught = weights.nonzero()[0]
            labels, found, new = check_labels(index, np.asarray(y)[taught], len(taught))
            if new:
                found, new = _as_they_came(found, new, len(index))
            index.add(new, labels.dtype)
            if reset and len(taught) == 0:
                raise ValueError("OnlineClassifier: the weight of every row is zero. Give a row a positive one.")
        slots = numbered(slots, found, len(index))
        codes = np.zeros(X.shape[0], dtype=np.int64)
        codes[taught] = slots[found]
        self._index, self._slots, self._contest = index, slots, contest
        self._n_samples = len(taught) + (0 if reset else self._n_samples)
        return contest.learn(X, codes, weights)

    @contextmanager
    def _unchanged_if_refused(self) -> Iterator[None]:
        """Give the columns back that were known before, if the rows are refused."""
        names = ("n_features_in_", "feature_names_in_")
        before = {name: getattr(self, name) for name in names if hasattr(self, name)}
        try:
            yield
        except BaseException:
            for name in names:
                if name in before:
                    setattr(self, name, before[name])
                elif hasattr(self, name):
                    delattr(self, name)
            raise

    def _answers(self, X: Any) -> Float:
        check_is_fitted(self)
        rows = validate_rows(self, X, compact=True)
        check_entries(rows, "OnlineClassifier")
        return self._contest.predict(rows)

    def _sorted(self, answers: Float) -> Float:
        """Return answers in the order of `classes_`."""
        found = np.full((len(answers), len(self._index)), -np.inf)
        came = np.flatnonzero(self._slots >= 0)
        known = came[self._slots[came] < answers.shape[1]]
        found[:, self._index.position[known]] = answers[:, self._slots[known]]
        return found

    def _labels(self, answers: Float) -> np.ndarray:
        """Return the most probable label of each row; among equals the one that came first."""
        label_of = self._slots.argsort(kind="stable")[np.count_nonzero(self._slots < 0) :]
        position: Any = self._index.position[label_of]
        chosen: np.ndarray = self._index.sorted[position[np.argmax(answers, axis=1)]]
        return chosen

    @one_at_a_time
    def _to_state(self) -> dict[str, Any] | None:
        """Return what a checkpoint holds."""
        if not hasattr(self, "_index"):
            return None
        return {
            "version": VERSION,
            "labels": index_state(self._index),
            "slots": self._slots.copy(),
            "n_samples": self._n_samples,
            "contest": self._contest.to_state(),
        }

    def _from_state(self, contents: Contents) -> None:
        contents.version(VERSION)
        self._index = index_from(contents.part("labels"))
        self._n_samples = contents.whole("n_samples")
        self._slots = slots_from(contents, len(self._index))
        self._contest = self._new_contest()
        came = int(np.count_nonzero(self._slots >= 0))
        self._contest.from_state(contents.part("contest"), self.n_features_in_, came)


def _as_they_came(codes: Integer, new: list[Any], known: int) -> tuple[Integer, list[Any]]:
    """Give new labels numbers in the order of their first rows, whatever the batch they came in."""
    unique, first = np.unique(codes, return_index=True)
    order = np.argsort(first[unique >= known], kind="stable")
    place = np.arange(known + len(new))
    place[known + order] = known + np.arange(len(new))
    return place[codes], [new[number] for number in order]
