"""What the recursions share as scikit-learn estimators: parameters, directions, projection, and no merge."""

from __future__ import annotations

import numbers
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted

from kampong._runtime.compute import fix_signs, project
from kampong.checkpoint import Savable
from kampong.data.rows import check_number, raise_not_finite, validate_rows
from kampong.recursions.state import RecursionState
from kampong.recursions.steps import DISTANCE

if TYPE_CHECKING:
    from kampong._runtime.compute import Float, Integer, Rows
    from kampong.checkpoint import Contents


class Recursion(Savable, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Base of the recursions: what does not depend on the labels."""

    n_components: Any
    amnesia: Any
    n_features_in_: int
    _mergeable: ClassVar[str]
    _found: tuple[Float, Float] | None

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

    def inverse_transform(self, X: Any) -> Float:
        """Return the points of the original space that have these coordinates.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components)
            Coordinates.

        Returns
        -------
        array of shape (n_samples, n_features)
            The points through the mean, in the span of the directions, that have these coordinates. The directions of
            a recursion are orthogonal in the limit only, so this takes a pseudo-inverse.
        """
        check_is_fitted(self)
        X = check_array(X, dtype=[np.float64, np.float32])
        p = len(self.components_)
        if X.shape[1] != p:
            raise ValueError(f"{type(self).__name__}.inverse_transform: X has {X.shape[1]} columns, expected {p}.")
        basis = np.linalg.pinv(self.components_).T
        result: Float = X @ basis.astype(X.dtype) + self.mean_.astype(X.dtype)
        return result

    @property
    def components_(self) -> Float:
        """The directions, one a row: v/‖v‖ with its largest entry positive; zero where a vector has not started."""
        return self._directions()[0]

    @property
    def eigenvalues_(self) -> Float:
        """The estimated eigenvalue of each direction: ‖v‖ − θ, in the scale of the criterion."""
        return self._directions()[1]

    @property
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
    def _n_features_out(self) -> int:
        return len(self._state.theta)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_state") and self._state.n_samples > 0

    def __sklearn_tags__(self) -> Any:
        parent: Any = super()
        tags = parent.__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def _to_state(self) -> dict[str, Any] | None:
        """Return what a checkpoint holds."""
        return {"recursion": self._state.to_state()} if hasattr(self, "_state") else None

    def _from_state(self, contents: Contents) -> None:
        self._state = RecursionState.from_state(contents.part("recursion"), self.n_features_in_)
        self._found = None

    def _start(self, n_features: int, rule: int, epsilon: float, theta: float) -> None:
        name, p = type(self).__name__, self.n_components
        if isinstance(p, bool) or not isinstance(p, numbers.Integral) or int(p) < 1:
            raise ValueError(f"{name}: n_components must be a whole number ≥ 1, got {p!r}.")
        if int(p) > n_features:
            raise ValueError(f"{name}: n_components={p}, but X has n_features={n_features}. Ask for at most that many.")
        step = "0 weighs all rows alike."
        amnesia = check_number(name, "amnesia", self.amnesia, low=0.0, high=1e6, next_step=step)
        self._state = RecursionState(rule, int(p), n_features, epsilon=epsilon, theta=theta, amnesia=amnesia)

    def _take(self, X: Rows, codes: Integer) -> None:
        self._state.learn(X, codes)
        self._found = None

    def _directions(self) -> tuple[Float, Float]:
        """Return components and eigenvalues of the present state, computed at most once."""
        check_is_fitted(self)
        if self._found is None:
            vectors = self._state.vectors
            lengths = np.linalg.norm(vectors, axis=1)
            started = lengths > 0
            components = fix_signs(vectors / np.where(started, lengths, 1.0)[:, None])
            scale = 2.0 if self._state.rule == DISTANCE else 1.0
            eigenvalues: Float = np.where(started, lengths - self._state.theta, 0.0) / scale
            self._found = components, eigenvalues
        return self._found


def finite_rows(X: Rows, name: str) -> Rows:
    """Return rows that the compiled steps can take: finite squares, valid and canonical where sparse."""
    if not isinstance(X, np.ndarray):
        X.check_format(full_check=True)
        if not X.has_canonical_format:
            X = X.copy()
            X.sum_duplicates()
        values = X.data
    else:
        values = X.ravel()
    with np.errstate(over="ignore"):
        total = float(np.vdot(values, values)) if values.dtype == np.float64 else float(np.abs(values).sum())
    if not np.isfinite(total):
        raise_not_finite(X, name)
    return X
