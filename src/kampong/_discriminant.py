"""What all linear estimators share: learn statistics, solve when a result is read, project, predict, merge."""

from __future__ import annotations

import math
import numbers
import warnings
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_array, check_is_fitted

from kampong import selection
from kampong._callbacks import with_callbacks
from kampong._linalg import project
from kampong._validation import (
    check_choice,
    check_number,
    check_weights,
    validate_batch,
    validate_rows,
)
from kampong.checkpoint import Savable
from kampong.checkpoint.parts import record_from, statistics_from, statistics_state
from kampong.criterion import CriterionWarning, FisherCriterion, MarginCriterion
from kampong.heads import LinearHead, class_head, label_head
from kampong.reservoir import ROW_BYTES, ClassReservoir, SampledScatter
from kampong.rows import ClassRows
from kampong.solvers import Subspace, choose, classes_seen, scatter, solve, value_of
from kampong.statistics import ClassMeans, ClassScatter

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kampong._linalg import Float, Rows
    from kampong.checkpoint import Contents
    from kampong.criterion import Criterion
    from kampong.selection import Choice
    from kampong.solvers._base import Krylov


HEAD_ROWS, HEAD_ROWS_PER_DIRECTION = 2**13, 200
"""Rows on which `fit` measures the covariance of the Gaussian head where no scatter is kept: good to about 2 %."""


class DiscriminantSubspace(Savable, ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClassifierMixin, BaseEstimator):
    """Base of the linear estimators; a subclass names its parameters and its criterion.

    `fit` and `partial_fit` update `_statistics` and empty `_results`; everything read from the model afterwards is
    computed from the statistics once and kept in `_results` until the next row.
    """

    n_components: Any
    solver: Any
    decay: Any
    half_life: Any
    head: Any
    reservoir_bytes: Any
    random_state: Any
    n_features_in_: int
    feature_names_in_: np.ndarray
    _statistics: ClassMeans
    _results: dict[str, Any]
    _said: bool
    _rows_gone: bool

    # What a subclass says.

    def _criterion(self, statistics: ClassMeans | None) -> Criterion:
        """Return the criterion; before the first row `statistics` is None and a stand-in of the same kind will do."""
        raise NotImplementedError

    def _candidates(self, statistics: ClassMeans | None) -> Sequence[Criterion] | None:
        """Return the criteria to choose from by accuracy, weak to strong, or None where the parameter is given."""
        return None

    def _usual(self, statistics: ClassMeans) -> float:
        """Return what a parameter to be chosen would be without a choice."""
        return 1.0

    def _admit(self, ratio: float) -> str:
        """Return the parameter that would admit a direction of this Fisher ratio."""
        return f"epsilon={_below(ratio):g}"

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

    # Reading.

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

    @property
    def components_(self) -> Float:
        """The directions, one a row, best first."""
        return self._solve().components

    @property
    def eigenvalues_(self) -> Float:
        """What each direction adds to the criterion."""
        return self._solve().eigenvalues

    @property
    def criterion_ratio_(self) -> Float:
        """Each eigenvalue over the sum of all positive ones; zeros where none is positive."""
        subspace = self._solve()
        return subspace.eigenvalues / subspace.total if subspace.total > 0 else np.zeros(len(subspace.eigenvalues))

    @property
    def solver_(self) -> str:
        """The solver that found the directions."""
        return self._solve().solver

    @property
    def solver_reason_(self) -> str:
        """Why the directions were found by that solver."""
        name, d = self.solver_, self.n_features_in_
        if self.solver == name:
            return f"solver={name!r} was asked for"
        width = f"{d} features, {'up to' if d <= scatter.WIDEST else 'past'} the {scatter.WIDEST} of a d × d scatter"
        return {
            "gram": "S_b alone is maximised, and the class means hold all of it",
            "scatter": f"{width}: S_w is kept whole, and the result exact",
            "resolvent": f"{width}; the rows were in hand: products with them, {self.n_steps_} steps",
            "reservoir": f"{width}; the rows passed by: exact means and a sample of them, {self.n_steps_} steps",
        }[name]

    @property
    def n_steps_(self) -> int:
        """The number of products with S_w that an iterative solver took; 0 for the exact ones."""
        return self._solve().n_steps

    @property
    def sampling_error_(self) -> float:
        """What the sample of rows costs: the part of the criterion lost by judging one half of it by the other half.

        0 where no row was left out of the sample, and where none is needed. It compares samples of half the size, so
        it overstates what the whole sample costs.
        """
        results = self._results_checked()
        if "sampling_error" not in results:
            statistics = self._statistics
            sampled = isinstance(statistics, ClassReservoir) and not isinstance(statistics, ClassScatter)
            exact = not sampled or not cast("ClassReservoir", statistics).full
            results["sampling_error"] = 0.0 if exact else self._halves_differ()
        return float(results["sampling_error"])

    @property
    def choice_(self) -> Choice | None:
        """How a parameter given as "auto" was chosen: the candidates and their curves; None where none was."""
        self._solve()
        choice: Choice | None = self._results.get("choice")
        return choice

    @property
    def head_(self) -> str:
        """What predicts: "gaussian" or "nearest_mean"."""
        return self._head().name

    @property
    def classes_(self) -> np.ndarray:
        """The labels, sorted."""
        return np.asarray(self._read("classes"))

    @property
    def class_counts_(self) -> Float:
        """The weight of each class, decayed where rows age."""
        return np.asarray(self._read("counts"))

    @property
    def class_means_(self) -> Float:
        """The mean of each class, (n_classes, n_features); `mean_` for a class declared but not seen."""
        if "class_means" not in self._results_checked():
            means = self._statistics.means
            means[self._statistics.counts == 0] = self._statistics.mean
            self._results["class_means"] = means
        return np.asarray(self._results["class_means"])

    @property
    def mean_(self) -> Float:
        """The mean of all rows, each counted for each of its labels."""
        return np.asarray(self._read("mean"))

    @property
    def n_samples_seen_(self) -> int:
        """The number of rows of positive weight learnt."""
        check_is_fitted(self)
        return self._statistics.n_samples

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_statistics") and self._statistics.n_samples > 0

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

    def _wanted(self) -> int | None:
        """Return the number of directions asked for, None for as many as raise the criterion."""
        value = self.n_components
        if value is None or (isinstance(value, str) and value == "auto"):
            return None
        if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < 1:
            raise ValueError(
                f"{type(self).__name__}: n_components must be a whole number ≥ 1, 'auto' or None, got {value!r}."
            )
        return int(value)

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

    def _measure_covariance(self, X: Rows, y: Any, weights: Float | None) -> Float:
        """Return W S_w Wᵀ from rows in hand, where the statistics do not hold S_w: all of them, or a large sample."""
        rows, enough = None, max(HEAD_ROWS, HEAD_ROWS_PER_DIRECTION * len(self.components_))
        if X.shape[0] > enough:
            rows = np.sort(np.random.default_rng(0).choice(X.shape[0], enough, replace=False))
            y, weights = y[rows], None if weights is None else weights[rows]
        points = project(X, self.components_, self.mean_, rows)
        return ClassScatter(points.shape[1]).update(points, y, weights).within_scatter()

    def _halves_differ(self) -> float:
        assert isinstance(self._statistics, ClassReservoir)
        halves, criterion = self._statistics.halves(), self._criterion(self._statistics)
        wanted = len(self._solve().components)
        found = [solve(criterion, half, wanted).components for half in halves]
        lost = []
        for mine, other in ((0, 1), (1, 0)):
            best = value_of(criterion, found[mine], halves[mine])
            lost.append((best - value_of(criterion, found[other], halves[mine])) / abs(best))
        return float(np.mean(lost))

    def _results_checked(self) -> dict[str, Any]:
        check_is_fitted(self)
        return self._results

    def _read(self, name: str) -> Any:
        """Return an attribute of the statistics, computed at most once a state."""
        results = self._results_checked()
        if name not in results:
            results[name] = getattr(self._statistics, name)
        return results[name]

    def _solve(self) -> Subspace:
        """Return the subspace of the present state, solved at most once."""
        results = self._results_checked()
        if "subspace" not in results:
            seen = classes_seen(self._statistics)
            if seen < 2:
                raise NotFittedError(
                    f"{type(self).__name__}: directions that tell classes apart need rows of at least 2 classes; so "
                    f"far there is {seen} class: {self.classes_[self.class_counts_ > 0].tolist()}. Go on with rows of "
                    "another class."
                )
            try:
                space = self._choose()
                criterion = self._criterion(self._statistics)
                found = solve(criterion, self._statistics, self._wanted(), solver=self.solver, space=space)
            except ValueError as error:
                raise ValueError(f"{type(self).__name__}: {error}") from None
            self._comment(criterion, found)
            results["subspace"] = found
        subspace: Subspace = results["subspace"]
        return subspace

    def _chosen(self, otherwise: float) -> float:
        """Return the value chosen in the present state, or another where none could be."""
        choice: Choice | None = self._results.get("choice")
        return otherwise if choice is None else choice.value

    def _choose(self) -> Krylov | None:
        """Choose a parameter that is left open; return the space it was chosen in, where that is used again."""
        statistics = self._statistics
        candidates = self._candidates(statistics)
        if not candidates:
            return None
        if not isinstance(statistics, ClassReservoir | ClassRows):
            return None
        nearest = self.head == "nearest_mean"
        usual = self._usual(statistics)
        choice, space = selection.choose(candidates, statistics, self._wanted(), usual=usual, nearest_mean=nearest)
        if choice.weight > 0:
            self._results["choice"] = choice
        return space

    def _comment(self, criterion: Criterion, found: Subspace) -> None:
        """Warn, once a model, where the directions are not what was hoped for."""
        if self._said:
            return
        name, kept = type(self).__name__, len(found.components)
        text = ""
        if isinstance(criterion, FisherCriterion):
            if found.n_dropped:
                text = (
                    f"{name}: S_w vanishes in {found.n_dropped} of {self.n_features_in_} directions (constant or "
                    "dependent features), which are left out. Use a positive ridge to let them take part."
                )
        elif kept > found.n_positive:
            effect = "leave it as it is" if criterion.epsilon == 0 else "lower it"
            text = f"{name}: {found.n_positive} of the {kept} directions raise the {criterion}; the others {effect}."
            if found.n_positive == 0 and criterion.epsilon > 0:
                ratio = float(solve(FisherCriterion(0.0), self._statistics, 1).eigenvalues[0])
                text += (
                    f" The largest ratio of between-class to within-class variance is {ratio:.4g}, below "
                    f"epsilon={criterion.epsilon:g}; {self._admit(ratio)} would admit it."
                )
        if text:
            self._said = True
            warnings.warn(text, CriterionWarning, stacklevel=4)

    def _head(self) -> LinearHead:
        """Return what predicts in the present state, computed at most once."""
        results = self._results_checked()
        if "head" not in results:
            statistics, components = self._statistics, self._solve().components
            means = (self.class_means_ - self.mean_) @ components.T
            covariance = self._covariance()
            if statistics.multilabel:
                centre = (statistics.row_mean - self.mean_) @ components.T
                results["head"] = label_head(means, statistics.counts, centre, statistics.row_weight, covariance)
            else:
                results["head"] = class_head(means, statistics.counts, covariance)
        head: LinearHead = results["head"]
        return head

    def _head_ridge(self) -> float:
        """Return the ridge that the covariance of the head takes: what regularises the directions regularises it."""
        criterion = self._criterion(self._statistics)
        return criterion.ridge if isinstance(criterion, FisherCriterion) else 0.0

    def _covariance(self) -> Float | float:
        """Return W S_w Wᵀ, ridge included, where it is known and wanted, else the mean variance of a feature."""
        statistics = self._statistics
        if self.head != "nearest_mean":
            if statistics.holds_within:
                components = self._solve().components
                covariance: Float = components @ statistics.within_times(np.ascontiguousarray(components.T))
                covariance += self._head_ridge() * (components @ components.T)
                return (covariance + covariance.T) / 2
            if "covariance" in self._results:
                measured: Float = self._results["covariance"]
                return measured
            if self.head == "gaussian":
                raise ValueError(
                    f"{type(self).__name__}: head='gaussian' needs the within-class scatter, which was measured in fit "
                    "and is out of date after partial_fit. Use head='auto' or fit all rows at once."
                )
        return statistics.within_trace / statistics.n_features

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


def _below(ratio: float) -> float:
    """Return a short number a little below a ratio."""
    if ratio <= 0:
        return 0.0
    digits = 1 - math.floor(math.log10(ratio))
    return float(math.floor(0.95 * ratio * 10**digits) / 10**digits)


def _parameters(model: Any) -> dict[str, Any]:
    """Return what must agree for a merge; the seeds of two samples should rather differ."""
    apart = ("random_state", "warm_start", "verbose")
    return {name: value for name, value in model.get_params().items() if name not in apart}


def _same_names(mine: Any, theirs: Any) -> bool:
    if mine is None or theirs is None:
        return mine is theirs
    return bool(np.array_equal(mine, theirs))
