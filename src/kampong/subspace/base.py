"""What all linear estimators share: learn statistics, project, predict, merge, save."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.utils.validation import check_array, check_is_fitted

from kampong._runtime.arrays import project
from kampong._runtime.callbacks import with_callbacks
from kampong.checkpoint import Savable
from kampong.checkpoint.contents import record_from
from kampong.data.parameters import check_choice, check_number
from kampong.data.rows import check_weights, validate_batch, validate_rows
from kampong.statistics import ClassMeans, ClassScatter
from kampong.statistics.reservoir import ROW_BYTES, ClassReservoir, SampledScatter
from kampong.statistics.rows import ClassRows
from kampong.statistics.state import statistics_from, statistics_state
from kampong.subspace import choice as selection
from kampong.subspace.criteria import MarginCriterion
from kampong.subspace.fitted import FittedSubspace
from kampong.subspace.heads import LinearHead
from kampong.subspace.solvers import Subspace, choose, scatter

if TYPE_CHECKING:
    from kampong._runtime.arrays import Float, Rows
    from kampong.checkpoint import Contents


class DiscriminantSubspace(
    FittedSubspace,
    Savable,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    ClassifierMixin,
    BaseEstimator,
):
    """Base of the linear estimators; a subclass names its parameters and its criterion.

    `fit` and `partial_fit` update `_statistics` and empty `_results`; everything read from the model afterwards is
    computed from the statistics once and kept in `_results` until the next row.
    """

    decay: Any
    half_life: Any
    reservoir_bytes: Any
    random_state: Any
    feature_names_in_: np.ndarray
    _rows_gone: bool

    # Learning.

    @with_callbacks
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from all rows at once, forgetting what was learnt before.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The rows.
        y : array-like of shape (n_samples,) or indicator matrix of shape (n_samples, n_labels)
            Their labels: integers, strings or booleans; or a matrix of 0 and 1, where a row counts for each of its
            labels.
        sample_weight : array-like of shape (n_samples,), optional
            A weight of 2 is the row twice, a weight of 0 the row absent.

        Returns
        -------
        object
            This estimator.
        """
        X, y = validate_batch(self, X, y, reset=True)
        self._start(X.shape[1], in_hand=True)
        weights = self._learn_all(X, y, sample_weight)
        if self._statistics.n_samples == 0:
            raise ValueError(f"{type(self).__name__}.fit: all sample weights are zero. Give at least one row a weight.")
        self._solve()
        if self.head != "nearest_mean" and not self._statistics.holds_within:
            self._results["covariance"] = self._measure_covariance(X, y, weights)
        if isinstance(self._statistics, ClassRows):
            self._head()  # while the rows are at hand
            self._statistics, self._rows_gone = self._statistics.without_rows(), True
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn a batch of any size, one row included; nothing is solved until a result is read.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The rows.
        y : array-like of shape (n_samples,) or indicator matrix of shape (n_samples, n_labels)
            Their labels. Classes may appear at any time.
        classes : array-like of shape (n_classes,), optional
            Classes that may come, so that `classes_` and the columns of `predict_proba` are complete from the start.
        sample_weight : array-like of shape (n_samples,), optional
            A weight of 2 is the row twice, a weight of 0 the row absent.

        Returns
        -------
        object
            This estimator.
        """
        reset = not hasattr(self, "_statistics")
        X, y = validate_batch(self, X, y, reset=reset)
        if reset:
            self._start(X.shape[1], in_hand=False)
        elif self._rows_gone:
            raise ValueError(
                f"{type(self).__name__}.partial_fit: this model was fitted with the rows at hand (solver='resolvent'), "
                "and they are gone. Fit all rows again, or start a stream with partial_fit."
            )
        if classes is not None:
            self._statistics.declare(classes)
        self._learn(X, y, sample_weight)
        return self

    def merge(self, other: Self) -> Self:
        """Return a new estimator that has learnt from both streams; neither operand changes.

        Parameters
        ----------
        other : object
            An estimator of the same class, parameters and width.

        Returns
        -------
        object
            The merged estimator, equal to one that was fitted on the rows of both.
        """
        name = type(self).__name__
        if type(other) is not type(self):
            raise TypeError(f"{name}.merge needs another {name}, got {type(other).__name__}.")
        for model in (self, other):
            check_is_fitted(model)
        if self._rows_gone or other._rows_gone:
            raise ValueError(
                f"{name}.merge: a model fitted with the rows at hand (solver='resolvent') holds too little to merge. "
                "Fit the rows of both together, or use solver='scatter' up to its width."
            )
        mine, theirs = _parameters(self), _parameters(other)
        differing = [f"{key}={mine[key]!r} and {key}={theirs[key]!r}" for key in mine if mine[key] != theirs[key]]
        if differing:
            raise ValueError(f"{name}.merge: the parameters differ: {'; '.join(differing)}. Fit both with the same.")
        if other.n_features_in_ != self.n_features_in_:
            raise ValueError(
                f"{name}.merge: one has {self.n_features_in_} features, the other {other.n_features_in_}. "
                "Both must see rows of the same width."
            )
        names = [getattr(model, "feature_names_in_", None) for model in (self, other)]
        if not _same_names(*names):
            raise ValueError(f"{name}.merge: the feature names differ, so the columns would be mixed up.")
        result: Self = clone(self)
        result.n_features_in_ = self.n_features_in_
        if names[0] is not None:
            result.feature_names_in_ = names[0]
        result._statistics = self._statistics.merge(other._statistics)
        result._results = {}
        result._said = result._rows_gone = False
        return result

    # Reading; the attributes are those of FittedSubspace.

    def transform(self, X: Any) -> Float:
        """Project rows: (X − mean_) @ components_.T, a sparse product for sparse rows.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        array of shape (n_samples, n_components)
            Their coordinates, float32 for float32 rows.
        """
        return self._project(self._rows(X))

    def inverse_transform(self, X: Any) -> Float:
        """Return the points of the original space that the coordinates stand for.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)
            Coordinates.

        Returns
        -------
        array of shape (n_samples, n_features)
            The nearest points to the original rows within the subspace through the mean, in the least-squares sense.
        """
        subspace = self._solve()
        X = check_array(X, dtype=[np.float64, np.float32])
        p = len(subspace.components)
        if X.shape[1] != p:
            raise ValueError(f"{type(self).__name__}.inverse_transform: X has {X.shape[1]} columns, expected {p}.")
        if isinstance(self._criterion(self._statistics), MarginCriterion):
            basis = subspace.components
        else:
            basis = np.linalg.pinv(subspace.components).T
        result: Float = X @ basis.astype(X.dtype) + self.mean_.astype(X.dtype)
        return result

    def decision_function(self, X: Any) -> Float:
        """Return the score of each class: the log-posterior up to a constant of the row.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        array of shape (n_samples,) or (n_samples, n_classes)
            For two classes the score of the second less that of the first; for multi-label targets the log-odds of
            each label.
        """
        scores = self._head().scores(self._project(self._rows(X)))
        if not self._head().multilabel and scores.shape[1] == 2:
            return np.asarray(scores[:, 1] - scores[:, 0])
        return scores

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable class of each row, or the indicator matrix of its probable labels.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        array of shape (n_samples,) or (n_samples, n_labels)
            Labels as they were given to `fit`.
        """
        scores = self._head().scores(self._project(self._rows(X)))
        if self._head().multilabel:
            return (scores > 0).astype(np.int64)
        labels: np.ndarray = self.classes_[np.argmax(scores, axis=1)]
        return labels

    def predict_proba(self, X: Any) -> Float:
        """Return the probability of each class, or of each label on its own.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        array of shape (n_samples, n_classes)
            Rows sum to one, but for multi-label targets.
        """
        return self._head().probabilities(self._project(self._rows(X)))

    def __sklearn_tags__(self) -> Any:
        parent: Any = super()
        tags = parent.__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.target_tags.multi_output = True
        tags.classifier_tags.multi_label = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    # How.

    def _start(self, n_features: int, *, in_hand: bool) -> None:
        """Check the parameters and lay out empty statistics."""
        name = type(self).__name__
        check_choice(name, "head", self.head, ("auto", "gaussian", "nearest_mean"))
        check_number(name, "decay", self.decay, low=1e-9, high=1.0, next_step="1 forgets nothing.")
        if self.half_life is not None:
            step = "Give the number of rows after which a row counts half, or None."
            check_number(name, "half_life", self.half_life, low=1e-9, high=np.inf, next_step=step)
            if self.decay != 1.0:
                raise ValueError(
                    f"{name}: decay={self.decay!r} and half_life={self.half_life!r} say the same thing in two ways. "
                    "Give one of them."
                )
        step = "Give bytes, for instance 64 * 2**20."
        check_number(name, "reservoir_bytes", self.reservoir_bytes, low=1, high=np.inf, next_step=step)
        wanted = self._wanted()
        if wanted is not None and wanted > n_features:
            raise ValueError(
                f"{name}: n_components={wanted}, but X has {n_features} features. Ask for at most {n_features}."
            )
        statistics = choose(self._criterion(None), n_features, self.solver, in_hand=in_hand).STATISTICS
        means_only = self.head == "gaussian" and statistics is ClassMeans
        if means_only and n_features <= scatter.WIDEST:
            statistics = ClassScatter
        elif means_only and not in_hand:
            statistics = ClassReservoir
        budget = int(min(self.reservoir_bytes, 2**62))
        if statistics is ClassScatter and self._candidates(None) is not None:
            statistics, budget = SampledScatter, min(budget, selection.JUDGES * (8 * n_features + ROW_BYTES + 8))
        if issubclass(statistics, ClassReservoir):
            self._statistics = statistics(n_features, budget=budget, random_state=self.random_state)
        else:
            self._statistics = statistics(n_features)
        self._results = {}
        self._said = self._rows_gone = False

    def _learn_all(self, X: Rows, y: Any, sample_weight: Any) -> Float | None:
        """Learn the rows of `fit`; return the weights that they got."""
        return self._learn(X, y, sample_weight)

    def _learn(self, X: Rows, y: Any, sample_weight: Any) -> Float | None:
        """Update the statistics; return the weights that the rows got."""
        decay = float(self.decay) if self.half_life is None else 0.5 ** (1.0 / float(self.half_life))
        if sample_weight is None and decay == 1.0:
            self._statistics.update(X, y)
            self._results = {}
            return None
        weights, factor = _age(check_weights(sample_weight, X.shape[0]), decay)
        self._statistics.update(X, y, weights, decay=factor)
        self._results = {}
        return weights

    def _to_state(self) -> dict[str, Any] | None:
        """Return what a checkpoint holds: what reading leaves behind only where the statistics cannot give it again."""
        if not hasattr(self, "_statistics"):
            return None
        state = {"statistics": statistics_state(self._statistics), "rows_gone": self._rows_gone}
        if "covariance" in self._results:
            state["covariance"] = self._results["covariance"]
        if self._rows_gone:
            found = ("subspace", "head", "choice")
            state |= {name: vars(self._results[name]) for name in found if name in self._results}
        return state

    def _from_state(self, contents: Contents) -> None:
        self._statistics = statistics_from(contents.part("statistics"), self.n_features_in_)
        self._said, self._rows_gone = False, contents.flag("rows_gone")
        self._results = {}
        if "covariance" in contents:
            self._results["covariance"] = contents.array("covariance", np.float64, (None, None))
        if self._rows_gone:
            n_classes, width = self._statistics.n_classes, self.n_features_in_
            found = record_from(contents.part("subspace"), Subspace, components=(None, width), eigenvalues=(None,))
            weights = (n_classes, len(found.components))
            head = record_from(contents.part("head"), LinearHead, weights=weights, offsets=(n_classes,))
            self._results |= {"subspace": found, "head": head}
            if "choice" in contents:
                curves = dict.fromkeys(("values", "accuracies", "log_losses"), (None,))
                self._results["choice"] = record_from(contents.part("choice"), selection.Choice, **curves)

    def _rows(self, X: Any) -> Rows:
        check_is_fitted(self)
        return validate_rows(self, X)

    def _project(self, X: Rows) -> Float:
        return project(X, self._solve().components, self.mean_)


def _age(weights: Float, decay: float) -> tuple[Float, float]:
    """Return what each row of a batch weighs at its end, and what the batch leaves of the weight of earlier rows.

    A row of weight w is w rows in a row: they age what came before by decay^w and each other from one to the next.
    """
    if decay == 1.0:
        return weights, 1.0
    total = np.cumsum(weights)
    younger = (total[-1] if len(total) else 0.0) - total
    own = np.expm1(weights * math.log(decay)) / (decay - 1.0)
    return own * decay**younger, float(decay ** total[-1])


def _parameters(model: Any) -> dict[str, Any]:
    """Return what must agree for a merge; the seeds of two samples should rather differ."""
    apart = ("random_state", "warm_start", "verbose")
    return {name: value for name, value in model.get_params().items() if name not in apart}


def _same_names(mine: Any, theirs: Any) -> bool:
    if mine is None or theirs is None:
        return mine is theirs
    return bool(np.array_equal(mine, theirs))
