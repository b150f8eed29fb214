"""The base of the margin classifiers: two-class problems, kernel rows, stored patterns and scores."""

from __future__ import annotations

import math
import numbers
import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from kampong._core.callbacks import CallbackSupport
from kampong._core.locks import one_at_a_time
from kampong.data.labels import codes_among, labels_from, labels_state
from kampong.data.saved_rows import rows_from, rows_state
from kampong.data.validation import (
    check_number,
    check_seed,
    check_switches,
    in_dtype_of,
    refuse_overflow,
    validate_rows,
    validated,
)
from kampong.export.margin_steps import to_sklearn
from kampong.files import Savable
from kampong.kernels.functions import Kernel, columns_of, kernel_scores, make_kernel
from kampong.margin.kernel_rows import KernelRows
from kampong.margin.remote import RemoteRows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kampong._core.compute import Float, Integer, Rows
    from kampong.files import Contents
    from kampong.kernels.functions import Columns
    from kampong.margin.core_set import Solution
    from kampong.margin.hull import Gap, Hull
    from kampong.margin.remote import Holder


class MarginClassifier(CallbackSupport, ClassifierMixin, Savable):
    """Base of the margin classifiers. Two classes are one problem; more are one problem per class, against the rest.

    The problems share all kernel values.
    """

    kernel: Any
    gamma: Any
    degree: Any
    coef0: Any
    tol: Any
    max_iter: Any
    cache_size: Any
    verbose: Any
    classes_: np.ndarray
    n_features_in_: int
    _codes: Integer
    _weights: list[Float]

    to_sklearn = to_sklearn

    @one_at_a_time
    def decision_function(self, X: Any) -> Float:
        """Return the signed score of each row: 1 or more beyond the margin of its class.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The rows; for a precomputed kernel the kernel values between them and all training rows.

        Returns
        -------
        array of shape (n_samples,) or (n_samples, n_classes)
            One score per row for two classes (positive for the second), else one per class. float32 for float32 rows.
        """
        check_is_fitted(self)
        rows = validate_rows(self, X)
        return in_dtype_of(rows, self._scores(rows))

    def _scores(self, rows: Rows) -> Float:
        weights = np.ascontiguousarray(self.dual_coef_.T)
        if self._kernel.name == "precomputed":
            rows = rows[:, self.support_]
        scores = kernel_scores(self._kernel, rows, self._support, weights) + self.intercept_
        scores = refuse_overflow(type(self).__name__, scores)
        return scores[:, 0] if len(self.intercept_) == 1 else scores

    @property
    @one_at_a_time
    def coef_(self) -> Float:
        """The normal vectors of the hyperplanes, (n_problems, n_features), for kernel="linear" only."""
        check_is_fitted(self)
        self._check_linear("coef_")
        coefficients: Float = np.asarray(self.dual_coef_ @ self.support_vectors_)
        return coefficients

    def _check_linear(self, what: str) -> None:
        """Refuse to give weights of columns where a hyperplane lies in the space of a kernel."""
        if self._kernel.name != "linear":
            raise AttributeError(
                f"{type(self).__name__} has {what} for kernel='linear' only, not for {self._kernel.name!r}: its "
                "hyperplane lies in the space of the kernel. Use support_vectors_ and their coefficients."
            )

    @one_at_a_time
    def predict(self, X: Any) -> np.ndarray:
        """Return the class of each row.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        array of shape (n_samples,)
            Labels as they were given to `fit`.
        """
        check_is_fitted(self)
        scores = self._scores(validate_rows(self, X))
        codes = (scores > 0).astype(np.int64) if scores.ndim == 1 else np.argmax(scores, axis=1)
        labels: np.ndarray = self.classes_[codes]
        return labels

    def __sklearn_tags__(self) -> Any:
        parent: Any = super()
        tags = parent.__sklearn_tags__()
        tags.input_tags.sparse = not callable(self.kernel)
        tags.input_tags.pairwise = isinstance(self.kernel, str) and self.kernel == "precomputed"
        return tags

    # How.

    @property
    def _tolerance(self) -> Any:
        """Return the relative duality gap to reach."""
        return self.tol

    def _check_parameters(self) -> None:
        """Refuse parameters that no fit could use."""
        name = type(self).__name__
        step = "It is the relative duality gap to reach; leave it out for the default."
        check_number(name, "tol", self._tolerance, low=0.0, high=1e300, next_step=step)
        step = "It is the budget for kernel rows, in megabytes."
        check_number(name, "cache_size", self.cache_size, low=1e-3, high=1e9, next_step=step)
        value = self.max_iter
        if isinstance(value, bool) or not isinstance(value, numbers.Integral) or int(value) < 1:
            raise ValueError(f"{name}: max_iter must be a whole number ≥ 1, got {value!r}.")
        check_seed(name, getattr(self, "random_state", None), high=2**32 - 1)
        check_switches(name, self)

    def _validate(self, X: Any, y: Any, *, reset: bool = True) -> tuple[Rows, np.ndarray]:
        """Check parameters, rows and labels."""
        self._check_parameters()
        name = type(self).__name__
        X, y = validated(self, X, y, reset=reset, ensure_min_samples=1)
        check_classification_targets(y)
        if isinstance(self.kernel, str) and self.kernel == "precomputed" and X.shape[0] != X.shape[1]:
            raise ValueError(
                f"{name}: kernel='precomputed' needs a square matrix of kernel values, got X of shape {X.shape}."
            )
        return X, y

    def _open(self, X: Rows, *, fresh: bool = True, stream: bool = False, weights: Float | None = None) -> KernelRows:
        """Fix the kernel, unless an earlier batch has, and lay out its rows."""
        name = type(self).__name__
        if fresh:
            columns = X if weights is None else columns_of(X, weights)
            self._kernel = make_kernel(
                name, self.kernel, columns, gamma=self.gamma, degree=self.degree, coef0=self.coef0
            )
        if stream:
            # a column that is constant so far may vary in a later batch
            self._kernel = replace(self._kernel, varying=None)
        return KernelRows(self._kernel, X, budget=self._budget)

    def _open_elsewhere(self, holder: Holder, columns: Columns, classes: np.ndarray) -> RemoteRows:
        """Fix the classes and the kernel for rows that lie elsewhere."""
        self._check_parameters()
        name = type(self).__name__
        kernel = "a callable" if callable(self.kernel) else self.kernel
        if kernel in ("a callable", "precomputed"):
            raise ValueError(
                f"{name}: kernel={kernel!r} cannot be computed where the parts are. Use 'rbf', 'laplacian', "
                "'linear', 'polynomial' or 'sigmoid'."
            )
        for option, needed in {"criterion": "gap", "selection": "furthest", "method": "core"}.items():
            value = getattr(self, option, needed)
            if value != needed:
                raise ValueError(f"{name}: {option}={value!r} needs all rows here. In parts, use {option}={needed!r}.")
        self._encode(classes)
        self.n_features_in_ = holder.width
        self._kernel = make_kernel(name, self.kernel, columns, gamma=self.gamma, degree=self.degree, coef0=self.coef0)
        return RemoteRows(self._kernel, holder)

    @property
    def _budget(self) -> int:
        return int(float(self.cache_size) * 2**20)

    def _signs(self, codes: Integer) -> list[Float]:
        """Return the labels ±1 of each problem."""
        if len(self.classes_) == 2:
            return [np.where(codes == 1, 1.0, -1.0)]
        return [np.where(codes == code, 1.0, -1.0) for code in range(len(self.classes_))]

    def _encode(self, y: np.ndarray) -> Integer:
        """Note the classes and return the number of each label."""
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(
                f"{type(self).__name__}: y holds only one class, {self.classes_.tolist()[0]!r}; a margin needs two. "
                "Give rows of at least two classes."
            )
        return np.asarray(codes)

    def _known_codes(self, y: np.ndarray) -> Integer:
        """Return the number of each label; refuse those neither in the first batch of a stream nor named with it."""
        codes = codes_among(self.classes_, y)
        if (codes < 0).any():
            raise ValueError(
                f"{type(self).__name__}.partial_fit: the label {y[codes < 0].tolist()[0]!r} is not among the classes "
                f"{self.classes_.tolist()}. Name all that may come in the first call, as classes."
            )
        return codes

    def _store(self, X: Rows, hulls: list[Hull], outcomes: list[Solution], rows: KernelRows) -> None:
        """Keep the support vectors, and each hyperplane in units of its own margin."""
        raw = np.array([hull.signs * out.alpha for hull, out in zip(hulls, outcomes, strict=True)])
        self._keep_planes(
            X, raw, [_plane(hull, out) for hull, out in zip(hulls, outcomes, strict=True)], outcomes, rows
        )

    def _keep_planes(
        self, X: Rows, raw: Float, planes: list[Plane], outcomes: Sequence[Outcome], rows: KernelRows
    ) -> None:
        """Keep the support vectors and hyperplanes, from the coefficients of all rows in each problem."""
        self.support_: Integer = np.flatnonzero(raw.any(axis=0))
        scale = np.array([plane.scale for plane in planes])
        self.dual_coef_ = raw[:, self.support_] / scale[:, None]
        self.intercept_ = np.array([plane.intercept for plane in planes]) / scale
        self.margin_ = np.array([plane.margin for plane in planes])
        self.dual_gap_ = np.array([out.gap.relative for out in outcomes])
        self.n_core_ = np.array([out.n_core for out in outcomes])
        self.n_iter_ = np.array([out.steps for out in outcomes])
        self.status_ = np.array([out.status for out in outcomes])
        self.n_kernel_evaluations_ = rows.n_evaluations
        self.gamma_ = self._kernel.gamma
        precomputed = self._kernel.name == "precomputed"
        empty = np.zeros((0, 0), dtype=X.dtype)
        self.support_vectors_: Rows = empty if precomputed else X[self.support_]
        self._support = self._kernel.prepare(self.support_vectors_)

    def _plain(self) -> tuple[Float, Float, Float]:
        """Return coefficients of the kernel values, and weights and offsets of what they give."""
        count = len(self.intercept_)
        return self.dual_coef_, np.eye(count), self.intercept_

    @one_at_a_time
    def _to_state(self) -> dict[str, Any] | None:
        """Return what a checkpoint holds."""
        if not hasattr(self, "support_"):
            return None
        return {
            "kernel": self._kernel.to_state(),
            "classes": labels_state(self.classes_),
            "status": labels_state(self.status_),
            "support_vectors": rows_state(self.support_vectors_),
            "codes": self._codes,
            "weights": np.array(self._weights),
            "n_kernel_evaluations": int(self.n_kernel_evaluations_),
            **{name: getattr(self, name) for name in ("support_", *RESULTS)},
        }

    def _from_state(self, contents: Contents) -> None:
        self._check_parameters()
        self._kernel = Kernel.from_state(contents.part("kernel"), self.n_features_in_)
        self.classes_ = labels_from(contents.part("classes"))
        self.status_ = labels_from(contents.part("status"))
        n_classes, self.gamma_ = len(self.classes_), self._kernel.gamma
        n_problems = 1 if n_classes == 2 else n_classes
        if n_classes < 2 or not np.array_equal(np.unique(self.classes_), self.classes_):
            contents.refuse("the classes are too few, or not in order")
        self.support_ = contents.array("support_", np.int64, (None,), low=0)
        for name, dtype in RESULTS.items():
            shape = (n_problems, len(self.support_)) if name == "dual_coef_" else (n_problems,)
            result = contents.array(name, dtype, shape, finite=name in ("dual_coef_", "intercept_"), nan=True)
            setattr(self, name, result)
        self.n_kernel_evaluations_ = contents.whole("n_kernel_evaluations")
        self._codes = contents.array("codes", np.int64, (None,), low=-1, high=n_classes - 1)
        self._weights = list(contents.array("weights", np.float64, (n_problems, len(self._codes))))
        precomputed = self._kernel.name == "precomputed"
        if precomputed and (self.support_ >= self.n_features_in_).any():
            contents.refuse(f"support_ names rows past the {self.n_features_in_} of the kernel")
        shape = (0, 0) if precomputed else (len(self.support_), self.n_features_in_)
        self.support_vectors_ = rows_from(contents.part("support_vectors"), shape)
        self._support = self._kernel.prepare(self.support_vectors_)

    def _advice(self, status: str) -> str:
        """Return the message of a way to end."""
        return MESSAGES[status]

    def _warn(self, outcomes: Sequence[Outcome]) -> None:
        """Warn that the gap was not reached, with the gap at the end and what to do."""
        name = type(self).__name__
        for status in MESSAGES:
            which = [p for p, out in enumerate(outcomes) if out.status == status]
            if which:
                worst = max(outcomes[p].gap.relative for p in which)
                text = self._advice(status).format(gap=worst, tol=self._tolerance, max_iter=self.max_iter)
                problems = (
                    "" if len(outcomes) == 1 else f" (classes {[self.classes_[p] for p in which[:5]]} vs the rest)"
                )
                warnings.warn(f"{name}{problems}: {text}", ConvergenceWarning, stacklevel=4)


MESSAGES = {
    "steps": "max_iter={max_iter} steps ended at a relative duality gap of {gap:.3g} (tol={tol:g}). "
    "Raise max_iter or tol, or scale the features.",
    "stalled": "rounding ended the solve at a relative duality gap of {gap:.3g} (tol={tol:g}). "
    "Raise tol, or pass float64 rows.",
    "inseparable": "no hyperplane separates the classes, so there is no hard margin; the best one found is kept "
    "(relative duality gap {gap:.3g}). Use a soft margin (MaxMinOverClassifier(nu=...) or CoreVectorClassifier), "
    "or another kernel.",
    "indefinite": "the kernel is not positive semi-definite: a squared length became negative, and the best "
    "hyperplane found is kept (relative duality gap {gap:.3g}). Use another kernel, or other parameters of this one.",
    "interrupted": "interrupted; the hyperplane reached so far is kept, and its duality gap is not known. "
    "Fit again, with warm_start=True to go on from here.",
}


RESULTS = {
    "dual_coef_": np.float64,
    "intercept_": np.float64,
    "margin_": np.float64,
    "dual_gap_": np.float64,
    "n_core_": np.int64,
    "n_iter_": np.int64,
}


class Outcome(Protocol):
    """What is said of a solve, whatever was solved."""

    @property
    def gap(self) -> Gap:
        """Return the certificate."""

    @property
    def n_core(self) -> int:
        """Return the size of the core set."""

    @property
    def steps(self) -> int:
        """Return the steps taken."""

    @property
    def status(self) -> str:
        """Return how it ended."""


class Plane(NamedTuple):
    """A hyperplane: its constant, what the score is at the edge of its corridor, and the half-width of that."""

    intercept: float
    scale: float
    margin: float


def _plane(hull: Hull, outcome: Solution) -> Plane:
    """Return the offset of a hyperplane, the score at the edge of its corridor, and the half-width of that."""
    alpha, gradient, gap = outcome.alpha, outcome.gradient, outcome.gap
    bias = float(hull.signs @ alpha)
    if hull.split:
        low, high = hull.levels(alpha, gradient)
        intercept, edge = (low - high) / 2, (low + high) / 2
        if edge < 0.5 * gap.objective:
            intercept = -float(hull.signs[0] * hull.balance(alpha, gradient)[0])
    else:
        intercept = hull.offset * bias
        edge = gap.objective if not hull.hard else hull.levels(alpha, gradient)[0]
    length = gap.objective - hull.offset * bias**2 - float(hull.ridges @ alpha**2)
    norm = math.sqrt(length) if length > 0 else 0.0
    if not math.isfinite(edge):
        # interrupted before any margin was known
        return Plane(hull.offset * bias, 1.0, math.nan)
    # at the optimum the edge is at ‖v‖² (with a cap, beyond it); far from it, ‖v‖² keeps the problems comparable
    scale = edge if edge >= 0.5 * gap.objective and edge > 0 else gap.objective
    scale = scale if scale > 0 else 1.0
    return Plane(intercept, scale, edge / norm if norm > 0 else 0.0)
