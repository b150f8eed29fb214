"""From a point of the subspace to a class: every head is linear, one score a class.

Gaussian classes with one shared covariance (what linear discriminant analysis predicts with), the nearest class mean
(the same with a round covariance and equal priors), and one two-sided Gaussian test a label where rows have several.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg, special

if TYPE_CHECKING:
    from kampong._runtime.arrays import Float


@dataclass(frozen=True)
class LinearHead:
    """Scores z ↦ z·weightsᵀ + offsets.

    Attributes
    ----------
    weights : array of shape (K, p)
        One row a class.
    offsets : array of shape (K,)
        −∞ for a class that has no weight.
    name : str
        "gaussian" or "nearest_mean".
    multilabel : bool
        Whether a score is the log-odds of its own label, or a log-posterior among all classes.
    """

    weights: Float
    offsets: Float
    name: str
    multilabel: bool = False

    def scores(self, points: Float) -> Float:
        """Return one score a class for each point."""
        result: Float = points.astype(np.float64, copy=False) @ self.weights.T + self.offsets
        return result

    def probabilities(self, points: Float) -> Float:
        """Return the probability of each class, or of each label on its own."""
        scores = self.scores(points)
        result: Float = special.expit(scores) if self.multilabel else special.softmax(scores, axis=1)
        return result


def class_head(means: Float, priors: Float, covariance: Float | float) -> LinearHead:
    """Return the head for one label a row.

    Parameters
    ----------
    means : array of shape (K, p)
        Class means in the subspace.
    priors : array of shape (K,)
        Class weights; classes of weight 0 are never predicted.
    covariance : array of shape (p, p) or float
        The shared within-class covariance: a matrix for Gaussian classes with priors, a variance for the nearest mean.

    Returns
    -------
    LinearHead
        Log-posteriors up to a constant of the point.
    """
    seen = priors > 0
    scaled = _solve(covariance, means)
    with np.errstate(divide="ignore"):
        log_priors = np.log(priors / priors.sum()) if isinstance(covariance, np.ndarray) else np.log(seen)
    offsets = -0.5 * np.einsum("kp,kp->k", means, scaled) + log_priors
    return LinearHead(np.where(seen[:, None], scaled, 0.0), offsets, _name(covariance))


def label_head(
    means: Float, weights: Float, row_mean: Float, row_weight: float, covariance: Float | float
) -> LinearHead:
    """Return the head for several labels a row: for each label, rows that have it against rows that do not.

    Parameters
    ----------
    means : array of shape (K, p)
        Mean in the subspace of the rows that have each label.
    weights : array of shape (K,)
        Weight of the rows that have each label.
    row_mean : array of shape (p,)
        Mean of all rows.
    row_weight : float
        Weight of all rows.
    covariance : array of shape (p, p) or float
        As for `class_head`.

    Returns
    -------
    LinearHead
        Log-odds of each label; ±∞ for a label that every row or no row has.
    """
    rest = row_weight - weights
    mixed = (weights > 0) & (rest > 1e-12 * row_weight)
    others = np.where(mixed[:, None], row_weight * row_mean - weights[:, None] * means, 0.0)
    others /= np.where(mixed, rest, 1.0)[:, None]
    scaled, scaled_others = _solve(covariance, means), _solve(covariance, others)
    offsets = -0.5 * (np.einsum("kp,kp->k", means, scaled) - np.einsum("kp,kp->k", others, scaled_others))
    if isinstance(covariance, np.ndarray):
        offsets += np.log(np.where(mixed, weights, 1.0) / np.where(mixed, rest, 1.0))
    offsets = np.where(mixed, offsets, np.where(weights > 0, np.inf, -np.inf))
    return LinearHead(np.where(mixed[:, None], scaled - scaled_others, 0.0), offsets, _name(covariance), True)


def _name(covariance: Float | float) -> str:
    return "gaussian" if isinstance(covariance, np.ndarray) else "nearest_mean"


def _solve(covariance: Float | float, rows: Float) -> Float:
    """Return rows·C⁻¹; where C vanishes its eigenvalues are lifted to a 1e-12 part of the largest."""
    if not isinstance(covariance, np.ndarray):
        return rows / (covariance if covariance > 0 else 1.0)
    values, vectors = linalg.eigh(covariance)
    floor = max(values[-1] * 1e-12, np.finfo(float).tiny) if values[-1] > 0 else 1.0
    result: Float = (rows @ vectors) / np.maximum(values, floor) @ vectors.T
    return result
