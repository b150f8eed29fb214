"""The recursion that uses no labels: candid covariance-free incremental principal component analysis."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from kampong._core.locks import whole
from kampong.data.validation import validated
from kampong.files import savable
from kampong.recursions.recursion import Recursion, check_steps, finite_rows
from kampong.recursions.steps import PRINCIPAL


@savable
class CandidCovarianceFreePCA(Recursion):
    """Candid covariance-free incremental principal component analysis (CCIPCA): one row, one step.

    The j-th vector follows, with the amnesic parameter l and the centred row u = x − m(n),

        v(n) = (n − 1 − l)/n · v(n − 1) + (1 + l)/n · u uᵀ v(n − 1)/‖v(n − 1)‖,

    and tends to λ_j w_j where w_j is the j-th eigenvector of the covariance. The row loses its part along v_1 … v_j
    before v_{j+1} moves. The j-th vector starts as a centred row less its part along the first j − 1: a vector per row.
    The first centred row is zero, so the first vector starts with the second row. As long as (1 + l)/n exceeds one
    half, rows weigh 1/n. The mean is the plain mean of the rows.

    Parameters
    ----------
    n_components : int
        How many directions.
    amnesia : float
        The amnesic parameter l ≥ 0; its authors use 2 to 4. 0 weighs all rows equally.
    tol : float
        Learning ends when `convergence_` is at most this; 0 takes every row.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        The directions, orthonormal rows, the largest entry of each positive. Zero where a vector has not started.
    vectors_ : array of shape (n_components, n_features)
        The vectors of the recursion as they are: orthogonal in the limit only.
    eigenvalues_ : array of shape (n_components,)
        The estimates of the variances along the directions.
    convergence_ : float
        The sine of the largest angle by which the subspace moved while the rows last doubled; infinite before row 32.
    converged_ : bool
        Whether `convergence_` has reached `tol`, so that no more rows are taken.
    mean_ : array of shape (n_features,)
        The mean of all rows.
    n_samples_seen_ : int
        The number of rows taken.
    n_features_in_ : int
        The width of the rows.
    feature_names_in_ : array of shape (n_features_in_,)
        The column names, where the rows had them.

    See Also
    --------
    MarginRecursion : The recursions that use labels.

    References
    ----------
    Weng, Zhang and Hwang, Candid covariance-free incremental principal component analysis, IEEE Transactions on Pattern
    Analysis and Machine Intelligence 25, 2003.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.utils import shuffle
    >>> from kampong.recursions import CandidCovarianceFreePCA
    >>> X = shuffle(load_iris().data, random_state=0)
    >>> CandidCovarianceFreePCA(2).fit_transform(X).shape
    (150, 2)
    """

    _mergeable = "For directions from statistics that merge, with labels, use MarginSubspace."

    def __init__(self, n_components: int = 2, *, amnesia: float = 2.0, tol: float = 0.0) -> None:
        self.n_components = n_components
        self.amnesia = amnesia
        self.tol = tol

    @whole
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Take all rows in their order, forgetting what was learnt before.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The rows.
        y : object
            Not used.
        sample_weight : array-like of shape (n_samples,), optional
            A row of weight 2 is the row twice in its place, one of weight 0 is absent.

        Returns
        -------
        object
            This estimator.
        """
        self._learn(X, sample_weight, reset=True)
        if self._state.n_samples == 0:
            raise ValueError(f"{type(self).__name__}: the weight of every row is zero. Give a row a positive one.")
        self._directions()
        return self

    @whole
    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Take more rows, in their order; the cut into batches does not matter.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The rows.
        y : object
            Not used.
        sample_weight : array-like of shape (n_samples,), optional
            A row of weight 2 is the row twice in its place, one of weight 0 is absent.

        Returns
        -------
        object
            This estimator.
        """
        return self._learn(X, sample_weight, reset=not hasattr(self, "_states"))

    def _learn(self, X: Any, sample_weight: Any, *, reset: bool) -> Self:
        X = validated(self, X, reset=reset, ensure_all_finite=False)
        rows = finite_rows(X, type(self).__name__)
        weights = check_steps(type(self).__name__, sample_weight, X.shape[0])
        if reset:
            self._start(X.shape[1], PRINCIPAL, (0.0,), 0.0)
            self._state.grow(1)
        self._take(rows, np.zeros(X.shape[0], dtype=np.int64), weights)
        return self
