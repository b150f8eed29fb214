"""The recursions that use labels: incremental maximum margin, inter-class scatter and the Kampong measure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy import special
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from kampong._core.compute import project
from kampong._core.locks import one_at_a_time, whole
from kampong.data.labels import LabelIndex, check_labels, index_from, index_state, is_indicator
from kampong.data.validation import (
    check_choice,
    check_number,
    in_dtype_of,
    logs_in_dtype_of,
    validate_batch,
    validate_rows,
)
from kampong.files import savable
from kampong.recursions.recursion import EPSILONS, Recursion, check_steps, finite_rows
from kampong.recursions.steps import DISTANCE, SCATTER

if TYPE_CHECKING:
    from kampong._core.compute import Float, Rows
    from kampong.files import Contents


@savable
class MarginRecursion(ClassifierMixin, Recursion):
    """The papers' recursions for the leading eigenvectors of S_b − ε S_w: one row, one step, in the order they come.

    IMMC (ε = 1), IIS (ε = 0), IWMMC, the weighted one (any ε), and incremental SKM (`a`).

    The j-th vector follows, with the matrix A(n) of the row (papers' equation 5–7; tables 2, 3 and 4),

        v(n) = (n − 1)/n · v(n − 1) + 1/n · (A(n) + θ I) v(n − 1)/‖v(n − 1)‖,

    and tends to (λ_j + θ) w_j where w_j is the j-th eigenvector of S_b − ε S_w. A(n) = (1 + ε) S_b(n) − ε u uᵀ with
    the centred row u = x − m(n): ε = 1 is IMMC, ε = 0 is IIS. Rows and class means lose their part along v_1 … v_j
    before v_{j+1} moves. `update="distance"` takes the Supervised Kampong Measure's own matrix in its place (equations
    22 and 23), Σ_j q(l, j)(x − m_j)(x − m_j)ᵀ with q(l, j) = p_j for the other classes and p_l − a for its own,
    a = 2 ε + 1; that matrix tends to twice S_b − ε S_w.

    MarginSubspace finds the same directions exactly, in any order of the rows, and its state merges. Use this class to
    repeat what the papers did, or for streams that may hold 2p + K vectors and nothing else.

    What the papers leave to do is done on reading. The vectors are orthogonal in the limit only, so `components_`
    orthogonalises them one after another (`vectors_` has them as they are). "Break when converge" (2006, table 1):
    after 32, 64, 128 … rows `convergence_` says how far the subspace moved while the rows doubled, and `tol` ends
    learning there. y(i) = W(i)ᵀu(i) of table 1 comes from `partial_fit_transform`. epsilon="auto" runs one recursion
    for each ε of 0, 0.03, 0.1, 0.3, 1 and 3, and keeps the one whose class means tell later rows apart best.

    Where the papers leave something open, or disagree:

    - IIS is scaled by 1/‖v‖ as in equation 14; table 4 prints it without.
    - The first vector starts as the first row that is not zero. The row is not centred ("v(0) is the first sample"),
      since it would then be zero. The j-th vector starts as a row less its part along the first j − 1: the j-th row, as
      in table 2, or the next one of which something is left.
    - Class means lose their part along earlier vectors in every update; equation 23 prints it for the row alone.
    - θ: a number is the papers' constant. "auto" chooses the smallest θ_j ≥ 0 that keeps ‖v_j‖ above
      ε tr(S_w)·(0.2/d + 0.1/√n), with tr(S_w) of the rows so far. A direction other than w_1 decays like
      n^−(λ_1 − λ)/(λ_1 + θ), so θ should be barely above −λ_1. The papers ask for a θ that makes the whole criterion
      positive semi-definite; that is larger, and slower. When θ changes, v is lengthened by the change, so
      ‖v‖ − θ stays the estimate of λ. For ε = 0 this is θ = 0. A constant that leaves the criterion negative along a
      vector gives a wrong direction, and a warning says so.

    Where λ_1 − λ_2 is a tiny part of λ_1 − λ_d (features of very different scale), one pass is too short with any
    shift: standardise the features, or use MarginSubspace. On most sets of benchmarks/recursions.py the update
    "distance" comes nearer to the limit in one pass than "scatter". A step with a sparse row costs only its non-zeros.
    It uses inner products of class sums, which lose digits where a few columns are far larger than the spread of the
    rows. A row that is more than half full takes a dense step.

    Parameters
    ----------
    n_components : int
        How many directions.
    epsilon : float or "auto"
        The weight ε ≥ 0 of the within-class scatter.
    theta : float, sequence of float or "auto"
        The shift θ, or one a direction (table 2 has θ(j)). It keeps the vectors from changing sign where the criterion
        is negative.
    amnesia : float
        The amnesic parameter l ≥ 0: row n weighs (1 + l)/n rather than 1/n, as soon as that is at most one half. The
        means are not affected.
    update : {"scatter", "distance"}
        The matrix of a row: that of IMMC and IIS, or that of the Supervised Kampong Measure. Both have the same limit.
    a : float, "auto" or None
        The weight a ≥ 1 of the Supervised Kampong Measure; takes the place of epsilon = (a − 1)/2 unless None.
    tol : float
        Learning ends when `convergence_` is at most this; 0 takes every row.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        The directions, orthonormal rows, the largest entry of each positive. Zero where a vector has not started.
    vectors_ : array of shape (n_components, n_features)
        The vectors of the recursion as they are.
    eigenvalues_ : array of shape (n_components,)
        The estimates of the eigenvalues of S_b − ε S_w: ‖v‖ − θ, half of it for update="distance".
    theta_ : array of shape (n_components,)
        The shift in each vector.
    epsilon_ : float
        The weight ε in use.
    losses_ : array of shape (n_candidates,)
        For epsilon="auto", for each ε the mean relative distance of later rows from their class mean: above one
        half for an error; NaN before there are any.
    convergence_ : float
        The sine of the largest angle by which the subspace moved while the rows last doubled; infinite before row 32.
    converged_ : bool
        Whether `convergence_` has reached `tol`, so that no more rows are taken.
    classes_ : array of shape (n_classes,)
        The labels, sorted.
    class_counts_ : array of shape (n_classes,)
        The weight of the rows of each class.
    class_means_ : array of shape (n_classes, n_features)
        The mean of each class; `mean_` for a class declared but not seen.
    mean_ : array of shape (n_features,)
        The mean of all rows.
    n_samples_seen_ : int
        The number of rows taken; a row of weight 2 counts twice.
    n_features_in_ : int
        The width of the rows.
    feature_names_in_ : array of shape (n_features_in_,)
        The column names, where the rows had them.

    See Also
    --------
    kampong.MarginSubspace : The same directions, exactly and mergeably.
    CandidCovarianceFreePCA : The recursion for principal components.

    References
    ----------
    Yan et al., IMMC: incremental maximum margin criterion, KDD 2004. Yan et al., A scalable supervised algorithm for
    dimensionality reduction on streaming data, Information Sciences 176, 2006. The Supervised Kampong Measure,
    equations 22 and 23.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.utils import shuffle
    >>> from kampong.recursions import MarginRecursion
    >>> X, y = shuffle(*load_iris(return_X_y=True), random_state=0)
    >>> model = MarginRecursion(2).fit(X, y)
    >>> model.transform(X).shape, model.n_samples_seen_
    ((150, 2), 150)
    """

    _index: LabelIndex
    _mergeable = (
        "MarginSubspace, InterClassScatter and MaximumMarginCriterion find these directions from statistics that merge."
    )

    def __init__(
        self,
        n_components: int = 2,
        *,
        epsilon: Any = 1.0,
        theta: Any = "auto",
        amnesia: float = 0.0,
        update: str = "scatter",
        a: Any = None,
        tol: float = 0.0,
    ) -> None:
        self.n_components = n_components
        self.epsilon = epsilon
        self.theta = theta
        self.amnesia = amnesia
        self.update = update
        self.a = a
        self.tol = tol

    @classmethod
    def inter_class(cls, n_components: int = 2, *, amnesia: float = 0.0) -> Self:
        """Return the recursion of the incremental inter-class scatter (IIS), table 4.

        Parameters
        ----------
        n_components : int
            How many directions.
        amnesia : float
            The amnesic parameter.

        Returns
        -------
        MarginRecursion
            With epsilon=0 and theta=0.
        """
        return cls(n_components, epsilon=0.0, theta=0.0, amnesia=amnesia)

    @classmethod
    def maximum_margin(cls, n_components: int = 2, *, theta: Any = "auto", amnesia: float = 0.0) -> Self:
        """Return the recursion of the incremental maximum margin criterion (IMMC), table 2.

        Parameters
        ----------
        n_components : int
            How many directions.
        theta : float, sequence of float or "auto"
            The shift.
        amnesia : float
            The amnesic parameter.

        Returns
        -------
        MarginRecursion
            With epsilon=1.
        """
        return cls(n_components, epsilon=1.0, theta=theta, amnesia=amnesia)

    @classmethod
    def kampong(cls, n_components: int = 2, *, a: Any = 2.0, theta: Any = "auto", amnesia: float = 0.0) -> Self:
        """Return the recursion of the Supervised Kampong Measure (SKM), equations 22 and 23.

        Parameters
        ----------
        n_components : int
            How many directions.
        a : float or "auto"
            The weight a ≥ 1 of the distance of a row from the mean of its own class.
        theta : float, sequence of float or "auto"
            The shift. The paper has none (0), which fails where the criterion is not positive; for a = 1 "auto" is 0.
        amnesia : float
            The amnesic parameter.

        Returns
        -------
        MarginRecursion
            With update="distance".
        """
        return cls(n_components, a=a, theta=theta, amnesia=amnesia, update="distance")

    @whole
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Take all rows in their order, forgetting what was learnt before.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The rows. Shuffle them if they are sorted by class.
        y : array-like of shape (n_samples,)
            Their labels: integers, strings or booleans.
        sample_weight : array-like of shape (n_samples,), optional
            A row of weight 2 is the row twice in its place, one of weight 0 is absent.

        Returns
        -------
        object
            This estimator.
        """
        X, y = validate_batch(self, X, y, reset=True)
        self._learn(X, y, None, sample_weight, reset=True)
        if self._state.n_samples == 0:
            raise ValueError(f"{type(self).__name__}: the weight of every row is zero. Give a row a positive one.")
        self._directions()
        return self

    @whole
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Take more rows, in their order; the cut into batches does not matter.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The rows.
        y : array-like of shape (n_samples,)
            Their labels. Classes may appear at any time.
        classes : array-like of shape (n_classes,), optional
            Classes that may come, so that `classes_` is complete from the start.
        sample_weight : array-like of shape (n_samples,), optional
            A row of weight 2 is the row twice in its place, one of weight 0 is absent.

        Returns
        -------
        object
            This estimator.
        """
        reset = not hasattr(self, "_states")
        X, y = validate_batch(self, X, y, reset=reset)
        return self._learn(X, y, classes, sample_weight, reset=reset)

    @whole
    def partial_fit_transform(self, X: Any, y: Any, classes: Any = None) -> Float:
        """Take more rows, and return each in the subspace as it is after that row: y(i) = W(i)ᵀ(u(i) − m(i)).

        A sparse row costs its non-zeros; no vector of the width of the rows is formed. W is orthonormal, and its signs
        are those of the vectors, so that coordinates do not jump where `components_` turns one round.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The rows.
        y : array-like of shape (n_samples,)
            Their labels.
        classes : array-like of shape (n_classes,), optional
            Classes that may come.

        Returns
        -------
        array of shape (n_samples, n_components)
            The coordinates of each row at its own time; 0 for a direction that has not started.
        """
        reset = not hasattr(self, "_states")
        X, y = validate_batch(self, X, y, reset=reset)
        points: Float = np.zeros((X.shape[0], int(self.n_components) if reset else self._n_features_out))
        self._learn(X, y, classes, None, reset=reset, points=points)
        return points

    @one_at_a_time
    def predict_proba(self, X: Any) -> Float:
        """Return the probability of each class: Gaussian classes of equal weight and variance in the subspace.

        The variance is the mean squared distance of later rows from their class mean, measured as `convergence_` is;
        before row 32 it is the within-class variance of a feature.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        array of shape (n_samples, n_classes)
            Rows that sum to 1; 0 for a class not seen. float32 for float32 rows.
        """
        rows, logs = self._logs(X)
        return in_dtype_of(rows, np.exp(logs))

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
            The logarithms of `predict_proba`; −∞ for a class not seen.
        """
        return logs_in_dtype_of(*self._logs(X))

    def _logs(self, X: Any) -> tuple[Rows, Float]:
        """Return checked rows and the logarithms of the probabilities of their classes, in float64."""
        check_is_fitted(self)
        rows, seen = validate_rows(self, X), self.class_counts_ > 0
        points = project(rows, self.components_, self.mean_).astype(np.float64, copy=False)
        centres = (self.class_means_[seen] - self.mean_) @ self.components_.T
        distances = np.einsum("kp,kp->k", centres, centres) - 2.0 * points @ centres.T
        distances -= distances.min(axis=1, keepdims=True)
        variance = self._state.snapshot.variance
        variance = variance if np.isfinite(variance) else self._state.within
        if variance <= 0:  # the nearest mean is certain
            distances = np.where(distances > 0, np.inf, 0.0)
        logs: Float = np.full((len(points), len(seen)), -np.inf)
        logs[:, seen] = special.log_softmax(-distances / (2.0 * variance if variance > 0 else 1.0), axis=1)
        return rows, logs

    @one_at_a_time
    def predict(self, X: Any) -> np.ndarray:
        """Return the class whose mean is nearest in the subspace.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        array of shape (n_samples,)
            Labels as they were given to `fit`.
        """
        labels: np.ndarray = self.classes_[np.argmax(self._logs(X)[1], axis=1)]
        return labels

    @property
    @one_at_a_time
    def epsilon_(self) -> float:
        """The weight ε in use."""
        check_is_fitted(self)
        return self._state.epsilon

    @property
    @one_at_a_time
    def losses_(self) -> Float:
        """The mean relative distance of later rows from their class mean, for each ε of epsilon="auto"."""
        check_is_fitted(self)
        shots = [state.snapshot for state in self._states]
        return np.array([shot.loss / shot.validated if shot.validated else np.nan for shot in shots])

    @property
    @one_at_a_time
    def theta_(self) -> Float:
        """The shift in each vector."""
        check_is_fitted(self)
        return self._state.theta.copy()

    @property
    def classes_(self) -> np.ndarray:
        """The labels, sorted."""
        check_is_fitted(self)
        return self._index.sorted

    @property
    @one_at_a_time
    def class_counts_(self) -> Float:
        """The weight of the rows of each class."""
        check_is_fitted(self)
        return self._state.counts[self._index.order]

    @property
    @one_at_a_time
    def class_means_(self) -> Float:
        """The mean of each class; `mean_` for a class declared but not seen."""
        counts = self.class_counts_
        means: Float = self._state.sums[self._index.order] / np.where(counts > 0, counts, 1.0)[:, None]
        means[counts == 0] = self.mean_
        return means

    def _learn(
        self, X: Rows, y: Any, classes: Any, sample_weight: Any, *, reset: bool, points: Float | None = None
    ) -> Self:
        name = type(self).__name__
        if is_indicator(y):
            raise ValueError(
                f"{name}: y has shape {y.shape}, but a row of a recursion has one label. Use MarginSubspace for "
                "several labels per row."
            )
        rows = finite_rows(X, name)
        weights = check_steps(name, sample_weight, X.shape[0])
        index = LabelIndex() if reset else self._index.copy()
        if classes is not None:
            declared = np.asarray(classes)
            labels, _, new = check_labels(index, declared, declared.size)
            index.add(new, labels.dtype)
        labels, codes, new = check_labels(index, y, X.shape[0])
        index.add(new, labels.dtype)
        if reset:
            rule = check_choice(name, "update", self.update, ("scatter", "distance"))
            self._start(X.shape[1], SCATTER if rule == "scatter" else DISTANCE, self._epsilons(), self.theta)
        self._index = index
        for state in self._states:
            state.grow(len(index))
        self._take(rows, codes, weights, points)
        return self

    def _to_state(self) -> dict[str, Any] | None:
        """Return what a checkpoint holds: the classes too."""
        state = super()._to_state()
        return None if state is None else {**state, "labels": index_state(self._index)}

    def _from_state(self, contents: Contents) -> None:
        super()._from_state(contents)
        self._index = index_from(contents.part("labels"))
        if len(self._index) != self._state.n_classes:
            contents.refuse(f"there are {len(self._index)} labels for {self._state.n_classes} classes")

    def _epsilons(self) -> tuple[float, ...]:
        """Return the weight ε, or those to choose from."""
        name, step = type(self).__name__, '1 weighs the class means alone, "auto" chooses.'
        if self.a is not None:
            if isinstance(self.a, str) and self.a == "auto":
                return EPSILONS
            return ((check_number(name, "a", self.a, low=1.0, high=1e300, next_step=step) - 1.0) / 2.0,)
        if isinstance(self.epsilon, str) and self.epsilon == "auto":
            return EPSILONS
        step = step.replace("1 weighs", "0 weighs")
        return (check_number(name, "epsilon", self.epsilon, low=0.0, high=1e300, next_step=step),)
