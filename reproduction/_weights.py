"""The Supervised Kampong Measure with weights e(l, j) of one's own: what they must meet, and the criterion they give.

The measure is S_c = E Σ_j ±e(l, j) (x − m_j)(x − m_j)ᵀ over rows x of class l, minus for j = l. With priors p and class
covariances C_l it is

    S_c = Σ_l p_l [ Σ_{j≠l} e(l, j) (m_l − m_j)(m_l − m_j)ᵀ − (e(l, l) − Σ_{j≠l} e(l, j)) C_l ].

The paper's own weights, e(l, l) = a − p_l and e(l, j) = p_j, have the same factor a − 1 for every C_l, so that S_w is
enough. Others need every C_l: K matrices of d × d.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy import linalg
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from kampong._core.compute import fix_signs
from kampong.data.validation import check_whole
from kampong.files.model_errors import CriterionWarning

if TYPE_CHECKING:
    from collections.abc import Callable

    from kampong._core.compute import Float

WIDEST = 2048
"""The most features: K covariances of d × d are kept, one at a time, and one such matrix is solved."""


def paper_weights(a: float) -> Callable[[Float], Float]:
    """Return the paper's weights as a function of the priors.

    Parameters
    ----------
    a : float
        The weight of the own class, 1 or more.

    Returns
    -------
    callable
        Given priors, the matrix with a − p_l on the diagonal and p_j elsewhere in column j.
    """

    def weights(priors: Float) -> Float:
        matrix = np.tile(priors, (len(priors), 1))
        np.fill_diagonal(matrix, a - priors)
        return matrix

    return weights


def violations(weights: Float, priors: Float) -> list[str]:
    """Return which of the paper's four constraints weights do not meet, in words.

    Parameters
    ----------
    weights : array of shape (K, K)
        The matrix e(l, j), one line per class l.
    priors : array of shape (K,)
        The share of each class.

    Returns
    -------
    list of str
        Empty where all are met. "(c)" asks every line to add up to the same number: a common constant changes nothing.
    """
    found, order = [], np.argsort(priors, kind="stable")
    apart = np.array([[weights[i, j] for j in order if j != i] for i in range(len(priors))])
    known = np.array([[priors[j] for j in order if j != i] for i in range(len(priors))])
    slack = 1e-9 * float(np.abs(weights).max())
    if ((np.diff(apart, axis=1) < -slack) & (np.diff(known, axis=1) > 0)).any():
        found.append("(a) e(l, j) must not fall as the prior of another class j rises")
    own = np.diag(weights)[order]
    if ((np.diff(own) > slack) & (np.diff(priors[order]) > 0)).any():
        found.append("(b) e(l, l) must not rise with the prior of the own class")
    sums = weights.sum(axis=1)
    if weights.min() <= 0 or np.ptp(sums) > 1e-6 * abs(sums.mean()):
        found.append("(c) weights must be positive, and those of a row must add up to the same for every class")
    if (np.diag(weights) < apart.sum(axis=1) - slack).any():
        found.append("(d) e(l, l) must be at least the sum of the others")
    return found


class WeightedKampongMeasure(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """The Supervised Kampong Measure with weights e(l, j) of one's own: the leading eigenvectors of its S_c.

    A warning names the paper's constraints that the weights do not meet.

    Parameters
    ----------
    n_components : int
        How many directions.
    weights : callable or array-like of shape (K, K)
        The matrix e(l, j) ≥ 0, one line per class of `classes_`; or a function of the priors that returns it, such as
        `paper_weights(2.0)`.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        The directions, orthonormal, the largest entry of each positive.
    eigenvalues_ : array of shape (n_components,)
        The eigenvalues of the criterion.
    criterion_ : array of shape (n_features, n_features)
        S_c.
    weights_ : array of shape (K, K)
        The weights in use.
    violations_ : list of str
        The paper's constraints that they do not meet.
    classes_ : array of shape (K,)
        The labels, sorted.
    priors_ : array of shape (K,)
        Their shares.
    mean_ : array of shape (n_features,)
        The mean of all rows.
    n_features_in_ : int
        The width of the rows.
    feature_names_in_ : array of shape (n_features_in_,)
        The column names, where the rows had them.

    See Also
    --------
    kampong.SupervisedKampongMeasure : The paper's own weights, at any width, in streams.

    References
    ----------
    The Supervised Kampong Measure, sections 4.1 and 4.2.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from reproduction._weights import WeightedKampongMeasure, paper_weights
    >>> X, y = load_iris(return_X_y=True)
    >>> WeightedKampongMeasure(2, weights=paper_weights(2.0)).fit_transform(X, y).shape
    (150, 2)
    """

    def __init__(self, n_components: int = 2, *, weights: Any) -> None:
        self.n_components = n_components
        self.weights = weights

    def fit(self, X: Any, y: Any) -> Self:
        """Find the directions.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The rows.
        y : array-like of shape (n_samples,)
            Their labels.

        Returns
        -------
        object
            This estimator.
        """
        name = type(self).__name__
        X, y = validate_data(self, X, y, dtype=np.float64, ensure_min_samples=2)
        check_classification_targets(y)
        d = X.shape[1]
        if d > WIDEST:
            raise ValueError(
                f"{name}: X has {d} features; weights of one's own need a {d} × {d} matrix a class, up to {WIDEST}. "
                "Use SupervisedKampongMeasure, which has the paper's weights at any width."
            )
        p = check_whole(name, "n_components", self.n_components, low=1, high=d, next_step=f"There are {d} features.")
        self.classes_, codes = np.unique(y, return_inverse=True)
        self.priors_ = np.bincount(codes) / len(codes)
        self.weights_ = self._matrix(len(self.classes_))
        self.violations_ = violations(self.weights_, self.priors_)
        if self.violations_:
            warnings.warn(f"{name}: the weights miss {'; '.join(self.violations_)}.", CriterionWarning, stacklevel=2)
        self.mean_ = X.mean(axis=0)
        self.criterion_ = self._criterion(X, codes)
        values, vectors = linalg.eigh(self.criterion_, subset_by_index=(d - p, d - 1))
        self.eigenvalues_, self.components_ = values[::-1], fix_signs(vectors[:, ::-1].T)
        return self

    def transform(self, X: Any) -> Float:
        """Project rows: (X − mean_) @ components_.T.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        array of shape (n_samples, n_components)
            Their coordinates.
        """
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float64)
        points: Float = (X - self.mean_) @ self.components_.T
        return points

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def _matrix(self, n_classes: int) -> Float:
        name = type(self).__name__
        given = self.weights(self.priors_.copy()) if callable(self.weights) else self.weights
        matrix: Float = np.asarray(given, dtype=np.float64)
        if matrix.shape != (n_classes, n_classes) or not np.isfinite(matrix).all() or (matrix < 0).any():
            raise ValueError(
                f"{name}: weights must be a {n_classes} × {n_classes} matrix of finite numbers ≥ 0, a line per class, "
                f"or a function of the priors that returns one; got shape {matrix.shape}."
            )
        return matrix

    def _criterion(self, X: Float, codes: Any) -> Float:
        """Return S_c, class by class."""
        means = np.array([X[codes == k].mean(axis=0) for k in range(len(self.classes_))])
        result = np.zeros((X.shape[1], X.shape[1]))
        for k, prior in enumerate(self.priors_):
            others = np.delete(np.arange(len(means)), k)
            away = means[k] - means[others]
            centred = X[codes == k] - means[k]
            outside = self.weights_[k, others]
            result += prior * (away.T * outside) @ away
            result -= (self.weights_[k, k] - outside.sum()) * (centred.T @ centred) / len(X)
        return result
