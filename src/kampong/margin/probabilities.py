"""Probabilities of a margin classifier: scores of rows that it has not learnt, and a calibration fitted to them.

`fit` gets such scores from five folds, each scored by a model of the others. A stream gets them for nothing: each batch
is scored before it is learnt.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import metaestimators
from sklearn.utils.validation import check_is_fitted

from kampong._core.locks import one_at_a_time
from kampong.data.validation import LEAST_WEIGHT, in_dtype_of, validate_rows
from kampong.heads.calibration import ValidationRows, calibrated, fit_calibration
from kampong.selection.settings import SETTINGS
from kampong.statistics.sampling import ranks_in_groups, row_keys

if TYPE_CHECKING:
    from collections.abc import Callable

    from kampong._core.compute import Float, Integer, Rows
    from kampong.files import Contents

Method = TypeVar("Method", bound="Callable[..., Any]")


class HeldOutScores(NamedTuple):
    """Scores of rows by models that have not learnt them, (n, n_classes), with their classes and weights."""

    scores: Float
    codes: Integer
    weights: Float

    @classmethod
    def none(cls, n_classes: int) -> HeldOutScores:
        """Return the scores of no rows."""
        return cls(np.zeros((0, n_classes)), np.zeros(0, dtype=np.int64), np.zeros(0))

    def joined(self, other: HeldOutScores, most: int) -> HeldOutScores:
        """Return the last rows of both, at most this many."""
        return HeldOutScores(*(np.concatenate(pair)[-most:] for pair in zip(self, other, strict=True)))

    def calibration(self) -> tuple[float, float]:
        """Return sharpness and tail of the least log-loss, those that change nothing if there are no rows."""
        return fit_calibration(self.scores, ValidationRows(self.codes, self.weights)) if len(self.codes) else (1.0, 0.0)

    @classmethod
    def from_state(cls, contents: Contents, n_classes: int) -> HeldOutScores:
        """Return what `_asdict` has written."""
        codes = contents.array("codes", np.int64, (None,), low=0, high=n_classes - 1)
        scores = contents.array("scores", np.float64, (len(codes), n_classes))
        found = cls(scores, codes, contents.array("weights", np.float64, (len(codes),), low=LEAST_WEIGHT))
        contents.finish()
        return found


def class_scores(scores: Float) -> Float:
    """Return one score per class, also for two classes."""
    return np.column_stack([np.zeros(len(scores)), scores]) if scores.ndim == 1 else scores


def by_folds(model: Any, X: Rows, codes: Integer, weights: Float, n_classes: int) -> HeldOutScores:
    """Return the scores of rows by models of other rows, as far as these know all classes."""
    folds = ranks_in_groups(row_keys(np.arange(1, len(codes) + 1), np.ones(len(codes)), seed=0), codes) % SETTINGS.folds
    found, square = HeldOutScores.none(n_classes), model._kernel.name == "precomputed"
    for fold in range(SETTINGS.folds):
        out, rest = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
        if not len(out) or len(np.unique(codes[rest])) < n_classes:
            continue
        other = clone(model).set_params(probability=False, verbose=0, warm_start=False)
        other.gamma = model.gamma_ if isinstance(model.gamma, str) else model.gamma
        with warnings.catch_warnings():
            # the fit on all rows says the same
            warnings.simplefilter("ignore", ConvergenceWarning)
            other.fit(X[rest][:, rest] if square else X[rest], model.classes_[codes[rest]], weights[rest])
        scores = other.decision_function(X[out][:, rest] if square else X[out]).astype(np.float64)
        found = found.joined(HeldOutScores(class_scores(scores), codes[out], weights[out]), len(codes))
    return found


def calibrates(model: Any) -> bool:
    """Tell whether a model gives probabilities; a reason not to is an AttributeError, as scikit-learn expects."""
    if not model.probability:
        raise AttributeError(
            f"{type(model).__name__} has probabilities with probability=True only, which holds out rows to calibrate "
            "them. Set it before the fit."
        )
    if hasattr(model, "support_") and not hasattr(model, "_held_out"):
        raise AttributeError(
            f"{type(model).__name__}: probability=True was set after the fit, so no rows were held out. Fit again."
        )
    return True


def if_calibrated(method: Method) -> Method:
    """Let a model have a method only if it gives probabilities; a decorator."""
    tools: Any = metaestimators  # it has no types
    return cast("Method", tools.available_if(calibrates)(method))


class Probabilities:
    """Gives a margin classifier `predict_proba`, if it was fitted with probability=True."""

    probability: Any
    _held_out: HeldOutScores
    _calibration: tuple[float, float]

    @if_calibrated
    @one_at_a_time
    def predict_log_proba(self, X: Any) -> Float:
        """Return the logarithm of the probability of each class.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        array of shape (n_samples, n_classes)
            Of the classes in `classes_`. float32 for float32 rows.
        """
        check_is_fitted(self)
        model: Any = self
        rows = validate_rows(self, X)
        return in_dtype_of(rows, calibrated(class_scores(model._scores(rows)), *self._calibration))

    @if_calibrated
    def predict_proba(self, X: Any) -> Float:
        """Return the probability of each class, calibrated on held-out rows; the largest is that of `predict`.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        array of shape (n_samples, n_classes)
            Of the classes in `classes_`. float32 for float32 rows.
        """
        probabilities: Float = np.exp(self.predict_log_proba(X))
        return probabilities

    def _hold_out(self, held_out: HeldOutScores) -> None:
        """Keep the scores of held-out rows, and calibrate by them."""
        self._held_out, self._calibration = held_out, held_out.calibration()

    def _probability_state(self) -> dict[str, Any]:
        """Return what a checkpoint holds, nothing without held-out rows."""
        if not hasattr(self, "_held_out"):
            return {}
        return {"held_out": self._held_out._asdict(), "calibration": np.array(self._calibration)}

    def _probability_from(self, contents: Contents, n_classes: int) -> None:
        if "held_out" in contents:
            self._held_out = HeldOutScores.from_state(contents.part("held_out"), n_classes)
            sharpness, tail = contents.array("calibration", np.float64, (2,)).tolist()
            self._calibration = sharpness, tail
