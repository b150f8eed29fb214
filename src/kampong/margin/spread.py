"""A kernel width that follows a stream: mean and variances of all rows so far, and when γ is computed again."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from kampong.data.validation import LEAST_WEIGHT
from kampong.kernels.functions import gamma_from, moments

if TYPE_CHECKING:
    from kampong._core.compute import Float, Rows
    from kampong.files import Contents


class Spread(NamedTuple):
    """Number, mean and variances of the rows of a stream, and the number at which γ was computed last."""

    total: float
    mean: Float
    variances: Float
    fixed_at: float

    def join(self, other: Spread) -> Spread:
        """Return the spread of both (Chan, Golub and LeVeque)."""
        total = self.total + other.total
        share, away = other.total / total, other.mean - self.mean
        inside = (1 - share) * self.variances + share * other.variances
        return Spread(total, self.mean + share * away, inside + share * (1 - share) * away**2, self.fixed_at)

    @classmethod
    def of_rows(cls, X: Rows, weights: Float | None = None) -> Spread:
        """Return the spread of rows; a weight of 2 is the row twice."""
        total = float(X.shape[0] if weights is None else weights.sum())
        return cls(total, *moments(X, weights), total)

    @classmethod
    def from_state(cls, contents: Contents, n_features: int) -> Spread:
        """Return what `_asdict` has written."""
        total, fixed_at = (contents.number(name, low=LEAST_WEIGHT) for name in ("total", "fixed_at"))
        mean = contents.array("mean", np.float64, (n_features,))
        variances = contents.array("variances", np.float64, (n_features,), low=0.0)
        contents.finish()
        return cls(total, mean, variances, fixed_at)


def depends_on_rows(model: Any) -> bool:
    """Tell whether γ is computed from the rows."""
    return isinstance(model.gamma, str) and not (callable(model.kernel) or model.kernel in ("linear", "precomputed"))


def follow(model: Any, spread: Spread) -> None:
    """Keep the spread of all rows so far; compute γ again if they have doubled since the last time."""
    # rows whose squares overflow are refused when they come, not when γ is computed next
    value = gamma_from(type(model).__name__, model.gamma, spread.mean, spread.variances, model._kernel.name)
    if spread.total >= 2 * spread.fixed_at:
        _use(model, spread, value)
    else:
        model._spread = spread


def fix(model: Any, spread: Spread) -> None:
    """Keep the spread of all rows so far, and compute γ from it."""
    _use(
        model, spread, gamma_from(type(model).__name__, model.gamma, spread.mean, spread.variances, model._kernel.name)
    )


def _use(model: Any, spread: Spread, value: float) -> None:
    model._kernel = replace(model._kernel, gamma=value)
    model._spread = spread._replace(fixed_at=spread.total)
