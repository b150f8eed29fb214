"""What the recursions share as scikit-learn estimators: parameters, directions, projection, and no merge."""

from __future__ import annotations

import copy
import numbers
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from kampong._core.compute import fix_signs, project
from kampong._core.locks import one_at_a_time
from kampong.data.validation import (
    check_number,
    check_points,
    check_weights,
    largest_magnitude,
    raise_not_finite,
    validate_rows,
)
from kampong.files import Savable
from kampong.recursions.recursion_memory import FIRST, RecursionState, orthonormal
from kampong.recursions.steps import DISTANCE, PRINCIPAL

if TYPE_CHECKING:
    from kampong._core.compute import Float, Integer, Rows
    from kampong.files import Contents


EPSILONS = (0.0, 0.03, 0.1, 0.3, 1.0, 3.0)
"""What epsilon="auto" chooses from: one recursion each, all fed with the same rows."""

SAFE = 1e50
"""Rows of larger entries are learnt by a copy first: a step takes up to fifth powers of them."""

LARGEST = 1e4
"""The largest weight of a row: it takes as many steps."""


class Recursion(ClassNamePrefixFeaturesOutMixin, TransformerMixin, Savable):
    """Base of the recursions: what does not depend on the labels."""

    n_components: Any
    amnesia: Any
    tol: Any
    n_features_in_: int
    _mergeable: ClassVar[str]
    _found: tuple[Float, Float] | None
    _states: list[RecursionState]
    _chosen: int
    _converged: bool

    def merge(self, other: Any) -> NoReturn:
        """Raise an error: a recursion depends on the order of its rows, so two of them cannot be merged.

        Parameters
        ----------
        other : object
            Anything.
        """
        raise TypeError(
            f"{type(self).__name__}.merge: a recursion depends on the order of its rows, so two of them cannot "
            f"be merged (got {type(other).__name__}). {self._mergeable}"
        )

    @one_at_a_time
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
        check_is_fitted(self)
        return project(validate_rows(self, X), self.components_, self.mean_)

    @one_at_a_time
    def inverse_transform(self, X: Any) -> Float:
        """Return the points of the original space that have these coordinates.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)
            Coordinates.

        Returns
        -------
        array of shape (n_samples, n_features)
            The points through the mean, in the span of the directions, that have these coordinates.
        """
        check_is_fitted(self)
        X = check_points(X)
        p = len(self.components_)
        if X.shape[1] != p:
            raise ValueError(f"{type(self).__name__}.inverse_transform: X has {X.shape[1]} columns, expected {p}.")
        result: Float = X @ self.components_.astype(X.dtype) + self.mean_.astype(X.dtype)
        return result

    @property
    @one_at_a_time
    def components_(self) -> Float:
        """The directions, orthonormal rows with their largest entry positive; zero where a vector has not started.

        The vectors of a recursion are orthogonal in the limit only: each loses its part along the earlier ones here.
        """
        return self._directions()[0]

    @property
    @one_at_a_time
    def vectors_(self) -> Float:
        """The vectors v of the recursion as they are, one a row: not orthogonal, of length λ + θ."""
        check_is_fitted(self)
        return self._state.vectors

    @property
    @one_at_a_time
    def convergence_(self) -> float:
        """How far the subspace moved while the number of rows last doubled: the sine of the largest angle.

        It is measured after 32, 64, 128 … rows, and infinite before.
        """
        check_is_fitted(self)
        return self._state.snapshot.convergence

    @property
    @one_at_a_time
    def converged_(self) -> bool:
        """Whether `convergence_` has come down to `tol`; from then on no row is taken."""
        check_is_fitted(self)
        return self._converged

    @property
    @one_at_a_time
    def eigenvalues_(self) -> Float:
        """The estimated eigenvalue of each direction: ‖v‖ − θ, in the scale of the criterion."""
        return self._directions()[1]

    @property
    @one_at_a_time
    def mean_(self) -> Float:
        """The mean of all rows."""
        check_is_fitted(self)
        return self._state.mean

    @property
    def n_samples_seen_(self) -> int:
        """The number of rows taken."""
        check_is_fitted(self)
        return self._state.n_samples

    @property
    def _state(self) -> RecursionState:
        return self._states[self._chosen]

    @property
    def _n_features_out(self) -> int:
        return len(self._state.theta)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_states") and self._state.n_samples > 0

    def __sklearn_tags__(self) -> Any:
        parent: Any = super()
        tags = parent.__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    @one_at_a_time
    def _to_state(self) -> dict[str, Any] | None:
        """Return what a checkpoint holds: the state in use, and its rivals where there are any."""
        if not hasattr(self, "_states"):
            return None
        rivals = {f"rival{k}": state.to_state() for k, state in enumerate(self._states) if k != self._chosen}
        facts = {"chosen": self._chosen, "n_states": len(self._states), "converged": self._converged}
        return {"recursion": self._state.to_state(), **rivals, **facts}

    def _from_state(self, contents: Contents) -> None:
        count = contents.whole("n_states", low=1, high=len(EPSILONS))
        self._chosen = contents.whole("chosen", high=count - 1)
        self._converged = contents.flag("converged")
        names = ["recursion" if k == self._chosen else f"rival{k}" for k in range(count)]
        self._states = [RecursionState.from_state(contents.part(name), self.n_features_in_) for name in names]
        first = self._states[0]
        for state in self._states:
            same = state.n_classes == first.n_classes and state.n_samples == first.n_samples
            contents.require(same and state.rule == first.rule, "the recursions for several ε saw different rows")
        self._found = None

    def _start(self, n_features: int, rule: int, epsilons: Sequence[float], theta: Any) -> None:
        name, p = type(self).__name__, self.n_components
        if isinstance(p, bool) or not isinstance(p, numbers.Integral) or int(p) < 1:
            raise ValueError(f"{name}: n_components must be a whole number ≥ 1, got {p!r}.")
        if int(p) > n_features:
            raise ValueError(f"{name}: n_components={p}, but X has n_features={n_features}. Ask for at most that many.")
        step = "0 weighs all rows equally."
        amnesia = check_number(name, "amnesia", self.amnesia, low=0.0, high=1e6, next_step=step)
        check_number(name, "tol", self.tol, low=0.0, high=1.0, next_step="0 takes every row.")
        shifts = self._shifts(theta, int(p))
        self._states = [
            RecursionState(rule, int(p), n_features, epsilon=epsilon, theta=shifts, amnesia=amnesia)
            for epsilon in epsilons
        ]
        self._chosen, self._converged = 0, False

    def _shifts(self, theta: Any, p: int) -> Float:
        """Return the shift of each vector, NaN for "auto"."""
        name, step = type(self).__name__, 'Use "auto" to have it follow the rows.'
        if isinstance(theta, str) and theta == "auto":
            return np.full(p, np.nan)
        if isinstance(theta, Sequence | np.ndarray) and not isinstance(theta, str):
            if len(theta) != p:
                raise ValueError(
                    f"{name}: theta has {len(theta)} shifts for n_components={p}. Give one number, or one a direction."
                )
            return np.array([check_number(name, "theta", v, low=0.0, high=1e300, next_step=step) for v in theta])
        return np.full(p, check_number(name, "theta", theta, low=0.0, high=1e300, next_step=step))

    def _take(self, X: Rows, codes: Integer, weights: Float | None = None, points: Float | None = None) -> None:
        """Take rows until the recursion has converged; snapshots fall on the same rows however they are cut."""
        self._found = None
        if weights is None:
            weights = np.ones(X.shape[0])
        elif (weights != 1).any():
            X, codes, weights = _single_steps(X, codes, weights)
        largest = largest_magnitude(X)
        if largest > SAFE:
            self._states = copy.deepcopy(self._states)  # the steps may overflow, and then the earlier states stay
        located = np.zeros((0, len(self._state.theta))) if points is None else points
        start, stop, n = 0, 0, X.shape[0]
        while start < n and not self._converged:
            stop = min(n, start + self._state.snapshot.next_edge - self._state.n_samples)
            part = slice(start, stop)
            rows = X if stop - start == n else X[part]
            for k, state in enumerate(self._states):
                state.snapshot.validate(rows, codes[part], weights[part], losses=len(self._states) > 1)
                state.learn(rows, codes[part], weights[part], located[part if k == self._chosen else slice(0)])
            if self._state.n_samples == self._state.snapshot.next_edge:
                self._look()
            start = stop
        if largest > SAFE and not all(state.is_finite() for state in self._states):
            raise ValueError(
                f"{type(self).__name__}: the steps for these rows overflow (largest magnitude {largest:.3g}; up to "
                f"{SAFE:g} they never do). Scale the features, for instance with sklearn.preprocessing.StandardScaler."
            )
        if points is not None and start < n:
            state = self._state
            points[start:] = project(X[start:], orthonormal(state.vectors), state.mean)

    def _look(self) -> None:
        """Take a snapshot of every recursion, choose between them, and see whether it has converged."""
        for state in self._states:
            state.look()
        if len(self._states) > 1 and self._states[0].snapshot.validated > 0:
            losses = np.array([state.snapshot.loss / state.snapshot.validated for state in self._states])
            # the smallest ε among those that are as good: a last bit must not decide between equals
            rounding = np.sqrt(np.finfo(float).eps)
            self._chosen = int(np.flatnonzero(losses <= losses.min() + rounding)[0])
        self._converged = self._state.snapshot.convergence <= float(self.tol) and float(self.tol) > 0

    def _directions(self) -> tuple[Float, Float]:
        """Return components and eigenvalues of the present state, computed at most once."""
        check_is_fitted(self)
        if self._found is None:
            state = self._state
            vectors = state.vectors
            lengths = np.linalg.norm(vectors, axis=1)
            scale = 2.0 if state.rule == DISTANCE else 1.0
            eigenvalues: Float = np.where(lengths > 0, lengths - state.theta, 0.0) / scale
            self._found = fix_signs(orthonormal(vectors)), eigenvalues
            self._warn_of_turning()
        return self._found

    def _warn_of_turning(self) -> None:
        """Warn where a given θ leaves the criterion negative along a vector: then v turns round and round."""
        state = self._state
        fixed = ~np.isnan(state.fixed_theta)
        turning = fixed & (state.started == 2) & (state.quotients + state.theta < 0) & (state.theta < np.inf)
        if state.rule == PRINCIPAL or state.n_samples < FIRST or not turning.any():
            return
        which = ", ".join(map(str, np.flatnonzero(turning).tolist()))
        worst = -float(state.quotients[turning].min())
        warnings.warn(
            f"{type(self).__name__}: along direction {which} (from 0) the criterion averages {-worst:.3g}, and "
            f"theta={state.theta[turning].max():g} does not make it positive. Such a vector turns round and is not the "
            f'leading direction. Use theta="auto", a theta above {worst:.2g}, or a smaller epsilon.',
            ConvergenceWarning,
            stacklevel=5,
        )


def check_steps(name: str, sample_weight: Any, n_rows: int) -> Float | None:
    """Return the weights of rows that take as many steps."""
    if sample_weight is None:
        return None
    weights = check_weights(sample_weight, n_rows)
    if weights.max() > LARGEST or weights[weights > 0].min(initial=1.0) < 1 / LARGEST:
        raise ValueError(
            f"{name}: sample_weight lies in [{weights.min():g}, {weights.max():g}], but a row of weight w takes w "
            f"steps: give 0, or weights between {1 / LARGEST:g} and {LARGEST:g}."
        )
    return weights


def _single_steps(X: Rows, codes: Integer, weights: Float) -> tuple[Rows, Integer, Float]:
    """Return rows of weight at most 1: a row of weight 2.5 becomes itself twice and half of itself."""
    steps = np.ceil(weights).astype(np.int64)
    rows = np.repeat(np.arange(len(weights)), steps)
    shares = np.ones(len(rows))
    last = np.cumsum(steps)[steps > 0] - 1
    shares[last] = (weights - (steps - 1))[steps > 0]
    return X[rows], codes[rows], shares


def finite_rows(X: Rows, name: str) -> Rows:
    """Return rows whose squares are finite, as the compiled steps need them."""
    values = X.ravel() if isinstance(X, np.ndarray) else X.data
    with np.errstate(over="ignore"):
        total = float(np.vdot(values, values)) if values.dtype == np.float64 else float(np.abs(values).sum())
    if not np.isfinite(total):
        raise_not_finite(X, name, np.ones(1))
    return X
