"""What all subspace estimators share: learn statistics, read the predictor that follows from them, merge, save."""

from __future__ import annotations

import copy
import numbers
import warnings
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from sklearn.base import ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from kampong._core.callbacks import CallbackSupport, with_callbacks
from kampong._core.compute import refuse_large_scatter, within_memory
from kampong._core.locks import both_locked, lock_of, one_at_a_time, whole
from kampong.build import BEST, WEIGHED, Recipe, RowsInMemory, make_predictor
from kampong.data.labels import is_indicator
from kampong.data.mergeable import blank_of_both
from kampong.data.validation import (
    LEAST_WEIGHT,
    check_choice,
    check_number,
    check_points,
    check_seed,
    check_weights,
    check_whole,
    refuse_vanishing,
    validate_batch,
    validate_rows,
)
from kampong.estimators import notebook
from kampong.estimators.parameters import (
    check_directions,
    check_priors,
    check_solver,
    draw_seed,
    read_with,
)
from kampong.estimators.results import Reading, predict_set, prototypes
from kampong.estimators.rounds import learn_in_rounds
from kampong.estimators.unlearning import Unlearning
from kampong.export.estimator import to_sklearn
from kampong.files import Savable
from kampong.files.model_errors import CriterionWarning
from kampong.heads import HEADS
from kampong.predictor import Predictor
from kampong.selection.leave_one_out import most_rows
from kampong.solvers import SOLVERS, solver_for
from kampong.statistics.all_rows import ClassRows
from kampong.statistics.kinds import statistics_from, statistics_state
from kampong.statistics.means import ClassMeans
from kampong.statistics.reservoir import ROW_BYTES, ClassReservoir, SampledScatter
from kampong.statistics.scatter import WIDEST, ClassScatter

if TYPE_CHECKING:
    from collections.abc import Callable

    from kampong._core.compute import Float, Integer, Rows
    from kampong.criteria import Criterion
    from kampong.files import Contents
    from kampong.selection.losses import HeldOutLosses


class DiscriminantSubspace(
    CallbackSupport,
    Unlearning,
    Reading,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
    ClassifierMixin,
    Savable,
):
    """Base of the subspace estimators; a subclass names its parameters, its criterion and the criterion's value.

    `fit` and `partial_fit` update `_statistics`. Everything read afterwards comes from one frozen `Predictor`, made
    from the statistics when it is first needed.
    """

    n_components: Any
    solver: Any
    head: Any
    decay: Any
    half_life: Any
    reservoir_bytes: Any
    random_state: Any
    priors: Any
    n_features_in_: int
    feature_names_in_: np.ndarray
    _statistics: ClassMeans
    _predictor: Predictor | None
    _made_with: dict[str, str]
    _halves_error: float | None
    _said: bool
    _space: ClassVar[str] = "features"
    _memory_advice: ClassVar[str] = (
        "Raise the limit (ulimit -v), use fewer columns, or use solver='reservoir', which keeps a sample of the rows "
        "instead."
    )
    _follows_drift: ClassVar[bool] = False
    _drawn: int | None = None

    # What a subclass says.

    def _kind(self) -> type[Criterion]:
        """Return the criterion."""
        raise NotImplementedError

    def _value(self, statistics: ClassMeans | None) -> float | None:
        """Return the criterion's parameter, None to have it chosen; before the first row `statistics` is None."""
        raise NotImplementedError

    def _spell(self, value: float) -> str:
        """Return how a user writes a value of the criterion's parameter."""
        return f"{self._kind().parameter}={value:g}"

    def _solver(self) -> str:
        """Return the solver that is asked for."""
        return str(self.solver)

    # Learning.

    @with_callbacks
    @whole
    @within_memory
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn from all rows at once, forgetting what was learnt before.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The rows: arrays, data frames, sparse matrices, or tensors on the processor (DLPack or `__array__`).
        y : array-like of shape (n_samples,) or indicator matrix of shape (n_samples, n_labels)
            Their labels: integers, strings or booleans; or a matrix of 0 and 1, where a row counts for each of its
            labels.
        sample_weight : array-like of shape (n_samples,), optional
            Weight of each row compared with the others. Their scale does not matter, and 0 leaves a row out. With a
            given parameter a weight of 2 is the row twice. What is chosen ("auto"), and heads that are trained, count
            (Σw)² / Σw² rows, so that weights which sum to one choose as well as weights around one.

        Returns
        -------
        object
            This estimator.
        """
        X, y = validate_batch(self, X, y, reset=True, compact=True)
        self._start(X.shape[1], y)
        rows, finish = self._learn_all(X, y, sample_weight)
        if self._statistics.n_samples == 0:
            raise ValueError(f"{type(self).__name__}.fit: all sample weights are zero. Give at least one row a weight.")
        if self._statistics.classes_seen < 2:
            only = self.classes_[self.class_counts_ > 0].tolist()
            raise ValueError(
                f"{type(self).__name__}.fit: y holds only one class, {', '.join(map(repr, only))}; directions that "
                "tell classes apart need two. Give rows of at least two classes, with weights above 0."
            )
        known = self._remember(self._make(rows))
        self._say(known)
        only_means = not known.criterion.needs_within and not self._wants_sample()
        self._statistics = self._statistics.after_fit(learns_more=only_means)
        finish()
        return self

    @whole
    @within_memory
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
            Weight of each row compared with the others. Their scale does not matter, and 0 leaves a row out. With a
            given parameter a weight of 2 is the row twice. What is chosen ("auto"), and heads that are trained, count
            (Σw)² / Σw² rows, so that weights which sum to one choose as well as weights around one.

        Returns
        -------
        object
            This estimator.
        """
        reset = not hasattr(self, "_statistics")
        X, y = validate_batch(self, X, y, reset=reset, compact=True)
        if reset:
            self._start(X.shape[1], None)
        elif self._statistics.refusal is not None:
            raise ValueError(f"{type(self).__name__}.partial_fit: {self._statistics.refusal}")
        self._learn(X, y, sample_weight, classes)
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
        result: Self = blank_of_both(self, other)
        try:
            with both_locked(self, other):
                result._statistics = self._statistics.merge(other._statistics)
                result._statistics.owner = type(self).__name__
        except ValueError as error:
            raise ValueError(f"{type(self).__name__}.merge: {error}") from None
        result._said = False
        result._forget_results()
        return result

    # Reading; more is in `results`. scikit-learn's set_output wraps what is defined here.

    predict_set = predict_set
    prototypes = prototypes
    to_sklearn = to_sklearn
    _repr_html_inner = notebook.repr_html
    _repr_mimebundle_ = notebook.repr_mimebundle

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
        rows = self._rows(X)
        return self._read().points(rows)

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
        known = self._read()
        X = check_points(X)
        p = len(known.components)
        if X.shape[1] != p:
            raise ValueError(f"{type(self).__name__}.inverse_transform: X has {X.shape[1]} columns, expected {p}.")
        basis = known.components if known.criterion.orthonormal else np.linalg.pinv(known.components).T
        result: Float = X @ basis.astype(X.dtype) + known.mean.astype(X.dtype)
        return result

    @one_at_a_time
    def freeze(self, keep: Predictor | None = None) -> Predictor | None:
        """Return all that predicts in the present state, frozen: later rows do not change it.

        Parameters
        ----------
        keep : Predictor, optional
            An earlier predictor of this model. Then nothing is chosen: the directions are solved again with its ridge
            (or ε, a; above the width of a scatter the ridge keeps its ratio to tr S_w over the weight of the rows), and
            its kind of head is built again from the present statistics, with the weights, shrinkage, penalty and
            calibration that were chosen for it. A logistic head keeps its weights and takes a few steps.
            That costs a solve, no trial. The result follows from the statistics and `keep` alone, whatever was read
            before, and the model itself does not remember it.

        Returns
        -------
        Predictor or None
            None while fewer than two classes have been seen. It says nothing by itself; its `remark` says what a user
            should know.
        """
        check_is_fitted(self)
        if self._statistics.classes_seen < 2:
            return None
        if keep is not None:
            if keep.components.shape[1] != self._statistics.n_features or keep.criterion.name != self._kind().name:
                raise ValueError(
                    f"{type(self).__name__}.freeze: keep is a predictor of {keep.components.shape[1]} {self._space} "
                    f"and the {keep.criterion.name} criterion, this model has {self._statistics.n_features} and the "
                    f"{self._kind().name} criterion. Give one that this model has made."
                )
            return self._make(None, keep)
        return self._solved()

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

    def _start(self, n_features: int, y: Any) -> None:
        """Check the parameters and lay out empty statistics; `y` holds all labels in `fit`, None in a stream."""
        self._check_parameters()
        vars(self).pop("_drawn", None)
        wanted = self._wanted()
        if wanted is not None and wanted > n_features:
            raise ValueError(
                f"{type(self).__name__}: n_components={wanted}, but X has {n_features} features. Ask for at most "
                f"{n_features}."
            )
        try:
            value = self._value(None)
            kind = self._statistics_kind(max(n_features, getattr(self, "_widest", 0)), y, value, wanted)
        except ValueError as error:
            text = str(error).removeprefix(f"{type(self).__name__}: ")
            raise ValueError(f"{type(self).__name__}: {text}") from None
        budget = int(self.reservoir_bytes)
        if kind is ClassScatter and (value is None or self._wants_sample()):
            kind = SampledScatter
        if kind is SampledScatter:
            budget = min(budget, most_rows(n_features) * (8 * n_features + ROW_BYTES + 8))
        if kind.holds_scatter:
            # the scatter, the sum of a batch and a product; to choose, also copies in other units and eigenvectors
            copies = 5 if y is not None and value is None else 3
            refuse_large_scatter(type(self).__name__, n_features, copies, self._memory_advice)
        self._statistics = kind.laid_out(n_features, budget=budget, random_state=self._seed())
        self._statistics.owner = type(self).__name__
        self._said = False
        self._forget_results()

    def _seed(self) -> int:
        """Return the seed: the number given, or one that is drawn once for the rows of a fit or a stream."""
        if isinstance(self.random_state, numbers.Integral):
            return int(self.random_state)
        if self._drawn is None:
            self._drawn = draw_seed(self.random_state)
        return self._drawn

    def _keep_all(self) -> None:
        """Answer by all rows from now on, where something follows drift."""

    def _expect_width(self, n_features: int) -> None:
        """Say before the first rows how wide they may become, which decides what is remembered of them."""
        self._widest = n_features

    @one_at_a_time
    def _move_columns(self, places: Integer, n_features: int) -> None:
        """Move columns to other places of a new width, as if all rows so far had come with them there."""
        moved = copy.copy(self._statistics)  # the arrays are laid out again, so that these statistics stay as they are
        self._statistics, self.n_features_in_ = moved.move_columns(places, n_features), n_features
        self._forget_results()

    def _check_parameters(self) -> None:
        name = type(self).__name__
        check_choice(name, "head", self.head, ("auto", BEST, *HEADS))
        check_solver(name, self.solver)
        check_priors(name, self.priors)
        check_seed(name, self.random_state)
        check_number(name, "decay", self.decay, low=1e-9, high=1.0, next_step="1 forgets nothing.")
        if self.half_life is not None:
            step = "Give the number of rows after which a row counts half, or None."
            if not (self._follows_drift and isinstance(self.half_life, str) and self.half_life == "auto"):
                check_number(name, "half_life", self.half_life, low=1e-9, high=np.inf, next_step=step)
            if self.decay != 1.0:
                raise ValueError(
                    f"{name}: decay={self.decay!r} and half_life={self.half_life!r} say the same thing in two ways. "
                    "Set only one of them."
                )
        step = "Give bytes, for instance 64 * 2**20."
        check_whole(name, "reservoir_bytes", self.reservoir_bytes, low=1, high=2**62, next_step=step)

    def _check_all(self) -> None:
        """Refuse parameters that nothing could be read with; they may have changed since the first rows."""
        self._check_parameters()
        self._wanted()
        self._value(None)

    def _statistics_kind(self, n_features: int, y: Any, value: float | None, wanted: int | None) -> type[ClassMeans]:
        """Return the least that must be remembered for what the parameters ask for."""
        in_memory = y is not None
        criterion = self._kind().of(1.0 if value is None else value)
        kind = solver_for(criterion, n_features, self.solver, in_memory=in_memory).STATISTICS
        if kind is not ClassMeans:
            return kind
        narrow = n_features <= WIDEST
        if self._wants_sample():
            return ClassScatter if narrow else ClassRows if in_memory else ClassReservoir
        if in_memory and wanted is not None and wanted >= _count_classes(y):
            # the criterion is indifferent to this many directions: those of S_t are taken, which needs S_w
            return ClassScatter if narrow else ClassRows
        if self.head in HEADS and HEADS[self.head].needs_covariance and (narrow or not in_memory):
            return ClassScatter if narrow else ClassReservoir
        return kind

    def _wants_sample(self) -> bool:
        """Tell whether the head is chosen, or trained, with a sample of rows."""
        return bool(self.head in WEIGHED or (self.head in HEADS and HEADS[self.head].needs_sample))

    def _wanted(self) -> int | None:
        """Return the number of directions asked for, None for as many as raise the criterion."""
        return check_directions(type(self).__name__, self.n_components)

    def _recipe(self) -> Recipe:
        """Return what is asked for, in the present state of the statistics."""
        return Recipe(
            criterion=self._kind(),
            value=self._value(self._statistics),
            n_components=self._wanted(),
            solver=self._solver(),
            head=self.head,
            head_ridge=None,
            spell=self._spell,
            space=self._space,
            priors=self._priors(),
        )

    def _priors(self) -> Float | None:
        """Return the shares that are given for the classes, None for those observed."""
        check_is_fitted(self)
        given = check_priors(type(self).__name__, self.priors)
        if not isinstance(given, str):
            if len(given) != len(self.classes_):
                raise ValueError(
                    f"{type(self).__name__}: priors has {len(given)} shares, and there are {len(self.classes_)} "
                    f"classes: {_few(self.classes_)}. Give one share for each, in this order; in a stream, name all "
                    "classes with `classes` in the first partial_fit."
                )
            return given
        if given == "observed":
            return None
        seen = (self._statistics.counts > 0).astype(np.float64)
        return np.asarray(seen / seen.sum())

    def _make(self, rows: RowsInMemory | None, keep: Predictor | None = None) -> Predictor:
        """Return the predictor of the present state."""
        return self._made(self._recipe(), rows, keep)

    def _made(self, recipe: Recipe, rows: RowsInMemory | None, keep: Predictor | None) -> Predictor:
        """Return the predictor of the present state by a recipe."""
        seen = self._statistics.classes_seen
        if seen < 2:
            raise NotFittedError(
                f"{type(self).__name__}: directions that tell classes apart need rows of at least 2 classes; so "
                f"far there is {seen} class: {self.classes_[self.class_counts_ > 0].tolist()}. Go on with rows of "
                "another class."
            )
        if self._statistics.refusal is not None and rows is None:
            raise ValueError(
                f"{type(self).__name__}: this model was fitted with the rows at hand, which are gone, so other "
                "parameters cannot be tried on them. Fit again with the parameters that you want."
            )
        if self._statistics.within_trace < 1e-290:
            refuse_vanishing(type(self).__name__, float(np.abs(self._statistics.means).max()))
        try:
            return make_predictor(recipe, self._statistics, rows, keep)
        except ValueError as error:
            raise ValueError(f"{type(self).__name__}: {error}") from None

    @within_memory
    def _read(self) -> Predictor:
        """Return the predictor of the present state, made at most once; say once what is to be said of it."""
        check_is_fitted(self)
        with lock_of(self):  # what another thread learns meanwhile would leave an old predictor behind
            known = self._solved()
        self._say(known)
        return known

    def _check_exported(self) -> None:
        """Refuse what a pipeline of scikit-learn cannot answer as this model does."""

    def _held_out_losses(self) -> HeldOutLosses | None:
        """Return what validation rows cost, None where there are none."""
        return self._read().held_out

    def _say(self, predictor: Predictor) -> None:
        """Warn, once a model, where the directions are not what was hoped for."""
        if predictor.remark and not self._said:
            self._said = True
            warnings.warn(f"{type(self).__name__}: {predictor.remark}", CriterionWarning, stacklevel=4)

    def _forget_results(self) -> None:
        """Forget what followed from an earlier state of the statistics."""
        self._predictor = self._halves_error = None

    def _remember(self, predictor: Predictor) -> Predictor:
        """Keep the predictor of the present state and parameters."""
        self._predictor, self._halves_error, self._made_with = predictor, None, read_with(self)
        return predictor

    def _known(self) -> Predictor | None:
        """Return the predictor of the present state, None where rows or parameters have changed since one was made."""
        if self._predictor is not None and self._made_with != read_with(self):
            self._forget_results()
        return self._predictor

    def _solved(self) -> Predictor:
        """Return the predictor of the present state, made where it is not known."""
        known = self._known()
        if known is None:
            self._check_all()
            known = self._remember(self._make(None))
        return known

    def _learn_all(self, X: Rows, y: Any, sample_weight: Any) -> tuple[RowsInMemory, Callable[[], None]]:
        """Learn the rows of `fit`; return those in memory, and what to call when there are results."""
        own, aged = None, None
        if sample_weight is not None or self._decay() != 1.0:
            own = check_weights(sample_weight, X.shape[0])
            aged, _ = _age(own, self._decay())
        if not getattr(self, "_skl_callbacks", None):
            self._learn(X, y, own)
            return RowsInMemory(X, y, aged), lambda: None
        return learn_in_rounds(self, X, y, own, aged, self._learn)

    def _decay(self) -> float:
        """Return what one row leaves of the weight of earlier ones."""
        ages = self.half_life is not None and not isinstance(self.half_life, str)
        return float(0.5 ** (1.0 / float(self.half_life))) if ages else float(self.decay)

    @one_at_a_time
    def _learn(self, X: Rows, y: Any, sample_weight: Any, classes: Any = None) -> None:
        """Update the statistics."""
        decay = self._decay()
        weights, factor = None, 1.0
        if sample_weight is not None or decay != 1.0:
            weights, factor = _age(check_weights(sample_weight, X.shape[0]), decay)
        self._statistics.owner = type(self).__name__
        self._statistics.update(X, y, weights, decay=factor, classes=classes)
        self._forget_results()

    def _before_save(self) -> None:
        """Solve before the model is saved, so that a loaded one answers at once."""
        if self.__sklearn_is_fitted__():
            try:
                self.freeze()
            except ValueError:  # what cannot be solved says so when it is read
                return

    @one_at_a_time
    def _to_state(self) -> dict[str, Any] | None:
        """Return what a checkpoint holds: the statistics, and the predictor of their present state if there is one."""
        if not hasattr(self, "_statistics"):
            return None
        self._check_all()  # a file with other parameters could not be read
        state = {"statistics": statistics_state(self._statistics), **self._beside()}
        known = self._known()
        return state if known is None else {**state, "predictor": known.to_state()}

    def _from_state(self, contents: Contents) -> None:
        self._statistics = statistics_from(contents.part("statistics"), self.n_features_in_)
        self._said = False
        self._read_back(contents)

    def _read_back(self, contents: Contents) -> None:
        """Check the parameters and take back the predictor, where a checkpoint holds one that fits the statistics."""
        self._statistics.owner = type(self).__name__
        self._forget_results()
        self._check_parameters()
        wanted, width = self._wanted(), self._statistics.n_features
        contents.require(self._solver() in ("auto", *SOLVERS), f"solver is {self._solver()!r:.100}")
        contents.require(wanted is None or wanted <= width, f"n_components is {wanted} for {width} columns")
        if "predictor" in contents:
            predictor = self._predictor_from(contents.part("predictor"))
            if not np.array_equal(predictor.classes, self._statistics.classes):
                contents.refuse("the predictor and the statistics know different classes")
            contents.require(self._statistics.classes_seen > 1, "there is a predictor of fewer than two classes")
            self._remember(predictor)

    def _predictor_from(self, contents: Contents) -> Predictor:
        """Return a predictor of this model that was written to a checkpoint."""
        return Predictor.from_state(contents, self.n_features_in_)

    def _rows(self, X: Any) -> Rows:
        check_is_fitted(self)
        return validate_rows(self, X, compact=True)

    def _units_of(self, known: Predictor) -> Float | None:
        """Return what a predictor of these statistics divides the columns by, None for nothing."""
        return None


def _few(classes: np.ndarray) -> str:
    """Return the names of some classes."""
    names = ", ".join(repr(label) for label in classes[:5].tolist())
    return names if len(classes) <= 5 else f"{names}, …"


def _count_classes(y: Any) -> int:
    """Return how many classes there are at the most."""
    return int(y.shape[1]) if is_indicator(y) else len(np.unique(y))


def _age(weights: Float, decay: float) -> tuple[Float, float]:
    """Return what each row of a batch weighs at its end, and what the batch leaves of the weight of earlier rows.

    Each row ages what came before by one step, whatever its weight; one of weight 0 is absent.
    """
    if decay == 1.0:
        return weights, 1.0
    number = np.cumsum(weights > 0)
    last = int(number[-1]) if len(number) else 0
    aged = weights * decay ** (last - number)
    aged[aged < LEAST_WEIGHT] = 0.0
    return aged, float(decay**last)
