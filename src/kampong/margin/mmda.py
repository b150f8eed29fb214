"""Maximum margin discriminant analysis: kernel features that are normals of separating hyperplanes, by core sets."""

from __future__ import annotations

import numbers
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from kampong._core.callbacks import with_callbacks
from kampong._core.compute import stack
from kampong._core.locks import one_at_a_time, whole
from kampong.data.validation import check_choice, check_number, check_weights, in_dtype_of, validate_rows
from kampong.files import savable
from kampong.heads import NearestMean
from kampong.margin.features import MarginFeatures
from kampong.margin.row_sample import RowSample, class_means

if TYPE_CHECKING:
    from kampong._core.compute import Float, Rows
    from kampong.margin.chains import Start


@savable
class MaximumMarginDiscriminant(MarginFeatures):
    """Kernel features that tell classes apart with a large margin, each orthogonal to the earlier ones (MMDA).

    Feature s + 1 of a two-class problem is u · φ(x), u = w/‖w‖, where w minimises ‖w‖² + b² − 2ρ + C Σ ξ_i² subject to
    y_i (w · φ(x_i) + b) ≥ ρ − ξ_i and u_q · w = 0 for the features q = 1 … s (Tsang, Kocsor and Kwok 2006, equations
    6 to 8). Each class has a chain of such features, against the rest; two classes share one chain of twice the
    length. So there are n_classes · n_components_per_class features, the chain of the first class first.

    Where we deviate. The multipliers of the orthogonality constraints (equation 9) are not needed: the problem is that
    of a support vector machine with the kernel k(x, z) − Σ f_q(x) f_q(z), solved on core sets to a duality gap.
    The paper stops when all points are in the ball of (1 + ε) times the radius, which may be far from the optimum.
    criterion="meb" does what the paper says, one pattern a round. Kernel rows are shared by all classes and rounds.

    Parameters
    ----------
    n_components_per_class : int
        Features of each class.
    C : float
        The weight of the squared slack; the paper's value is 1. Larger values suit larger and cleaner data.
    kernel : {"rbf", "laplacian", "linear", "polynomial", "sigmoid", "precomputed"} or callable
        The kernel; a callable gets two blocks of rows and returns their kernel values.
    gamma : float, "mean" or "scale"
        The factor of rbf, Laplacian, polynomial and sigmoid kernels. "mean" is one over the mean squared distance of
        two rows, the paper's 1/β, and for the Laplacian kernel one over their mean distance if columns are normal.
    degree : float
        The degree of the polynomial.
    coef0 : float
        The constant of the polynomial and of the sigmoid.
    method : {"core", "exact"}
        Core sets, for any number of rows; or the whole quadratic program to a relative gap of 1e-6 (1e-4 in float32),
        which needs the kernel matrix in memory.
    tol : float
        The relative duality gap at which to stop, with method="core"; the paper's ε with criterion="meb".
    criterion : {"gap", "meb"}
        The duality gap, or the paper's ball, for kernels with a constant k(x, x).
    orthogonal : {"class", "all"}
        A feature is orthogonal to the earlier ones of its class (the paper's way), or to all earlier ones.
    selection : {"furthest", "sample"}
        Look for violators among all rows, or among 59 random ones for each pattern to add (the paper's way).
    max_iter : int
        The most pairwise steps for each feature.
    warm_start : bool
        Whether `fit` starts from the last fit, where the labels are the same: for a path of C or tol.
    cache_size : float
        Megabytes, as in scikit-learn's SVC, for kernel rows, and as many again for the kernel blocks of core sets. What
        does not fit is computed again when needed, so a smaller cache costs time and changes no result beyond `tol`.
        Features of all rows, and the kernel matrix of method="exact", must fit it.
    random_state : int, RandomState or None
        Chooses subsets and samples; the same seed gives the same model.
    verbose : int
        Print the gap, the core set and the kernel evaluations of each round.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The labels, sorted.
    features_ : sparse matrix of shape (n_features_out, n_support)
        The coefficients of each feature on the support vectors.
    feature_classes_ : array of shape (n_features_out,)
        The class that each feature is large for.
    support_ : array of shape (n_support,)
        The rows that the features are sums of; after `partial_fit`, their numbers in the stream.
    support_vectors_ : array or sparse matrix of shape (n_support, n_features)
        Those rows.
    components_ : array of shape (n_features_out, n_features_in_)
        The directions themselves, for kernel="linear" only.
    class_means_ : array of shape (n_classes, n_features_out)
        The mean of each class in the space of the features; after `partial_fit`, of a sample of 256 rows per class.
    n_kernel_evaluations_per_feature_ : array of shape (n_features_out,)
        The kernel values that each feature of a new row would take by itself.
    margin_ : array of shape (n_features_out,)
        ρ/‖w‖, the half-width of the corridor in feature space.
    objective_ : array of shape (n_features_out,)
        αᵀK̃α, the squared distance of the hull from the origin: minus the least value of equation 6.
    dual_gap_ : array of shape (n_features_out,)
        The relative duality gap reached.
    status_ : array of shape (n_features_out,)
        "converged", or why not.
    n_core_ : array of shape (n_features_out,)
        The size of the core set.
    n_steps_ : array of shape (n_features_out,)
        Pairwise steps taken.
    n_iter_ : int
        The most steps that any feature took.
    n_kernel_evaluations_ : int
        Kernel values computed by the last fit.
    gamma_ : float
        The factor of the kernel in use.
    n_samples_seen_ : int
        Rows learnt.
    n_features_in_ : int
        The width of the rows.
    feature_names_in_ : array of shape (n_features_in_,)
        The column names, where the rows had them.

    See Also
    --------
    CoreVectorClassifier : The hyperplanes of the first features, as a classifier.
    MaximumMarginCriterion : Linear directions by means and scatters; no kernel, and much faster.

    References
    ----------
    Tsang, Kocsor and Kwok, Efficient kernel feature extraction for massive data sets, 2006. Kocsor, Kovács and
    Szepesvári, Margin maximizing discriminant analysis, 2004.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.neighbors import KNeighborsClassifier
    >>> from kampong import MaximumMarginDiscriminant
    >>> X, y = load_digits(return_X_y=True)
    >>> model = MaximumMarginDiscriminant().fit(X[:1000], y[:1000])
    >>> Z = model.transform(X)
    >>> Z.shape
    (1797, 10)
    >>> KNeighborsClassifier(1).fit(Z[:1000], y[:1000]).score(Z[1000:], y[1000:]) > 0.95
    True
    """

    n_samples_seen_: int
    _sample: RowSample

    def __init__(
        self,
        n_components_per_class: int = 1,
        *,
        C: float = 1.0,
        kernel: Any = "rbf",
        gamma: Any = "mean",
        degree: float = 3,
        coef0: float = 0.0,
        method: str = "core",
        tol: float = 0.05,
        criterion: str = "gap",
        orthogonal: str = "class",
        selection: str = "furthest",
        max_iter: int = 1_000_000,
        warm_start: bool = False,
        cache_size: float = 1500,
        random_state: Any = 0,
        verbose: int = 0,
    ) -> None:
        self.n_components_per_class = n_components_per_class
        self.C = C
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.method = method
        self.tol = tol
        self.criterion = criterion
        self.orthogonal = orthogonal
        self.selection = selection
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.cache_size = cache_size
        self.random_state = random_state
        self.verbose = verbose

    @with_callbacks
    @whole
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Extract the features.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The rows; a square matrix of kernel values for kernel="precomputed".
        y : array-like of shape (n_samples,)
            Their labels.
        sample_weight : array-like of shape (n_samples,), optional
            How often each row counts: a weight of 2 is the row twice, 0 leaves it out.

        Returns
        -------
        object
            This estimator.
        """
        self._fit(X, y, sample_weight)
        return self

    @with_callbacks
    @whole
    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None, **fit_params: Any) -> Float:
        """Extract the features and return them for the same rows, which takes no further kernel values.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The rows; a square matrix of kernel values for kernel="precomputed".
        y : array-like of shape (n_samples,)
            Their labels.
        sample_weight : array-like of shape (n_samples,), optional
            How often each row counts, as in `fit`; a row of weight 0 gets its features too.
        **fit_params : dict
            Must be empty: `fit` takes no others.

        Returns
        -------
        array of shape (n_samples, n_features_out)
            One column per feature.
        """
        if fit_params:
            raise TypeError(
                f"{type(self).__name__}.fit takes X, y and sample_weight only, got {', '.join(fit_params)}."
            )
        X, values = self._fit(X, y, sample_weight)
        return values.astype(X.dtype, copy=False)

    @whole
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from a batch and the rows stored so far, then forget all rows that no feature uses.

        The kernel is that of the first batch. Rows that were forgotten may matter again later, so the features are near
        those of one `fit`, but not equal.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The rows.
        y : array-like of shape (n_samples,)
            Their labels.
        classes : array-like of shape (n_classes,), optional
            All classes of the stream; needed in the first call unless its batch holds them all.
        sample_weight : array-like of shape (n_samples,), optional
            How often each row counts, as in `fit`; a stored row keeps its weight.

        Returns
        -------
        object
            This estimator.
        """
        name, first = type(self).__name__, not hasattr(self, "support_")
        if isinstance(self.kernel, str) and self.kernel == "precomputed":
            raise ValueError(
                f"{name}.partial_fit cannot use kernel='precomputed': its matrix has no values for the stored rows. "
                "Use a named kernel or a callable."
            )
        if not first and not hasattr(self, "_sample"):
            raise ValueError(
                f"{name}.partial_fit: this model was fitted in parts and has no sample of the rows to go on from. Fit "
                "again on all rows, or begin with partial_fit."
            )
        X, y = self._validate(X, y, reset=first)
        counts, n_rows = check_weights(sample_weight, X.shape[0]), len(y)
        seen, given = 0 if first else self.n_samples_seen_, np.flatnonzero(counts)
        if not len(given):
            if not first:
                self.n_samples_seen_ = seen + n_rows
            return self
        if len(given) < n_rows:
            X, y, counts = X[given], y[given], counts[given]
        if first:
            self._encode(y if classes is None else np.asarray(classes))
        codes, numbers_ = self._known_codes(y), seen + given
        sample = RowSample(X, codes, numbers_, counts)
        sample = sample if first else self._sample.joined(sample)
        start: Start = {}
        if not first:
            start = {key: np.concatenate([point, np.zeros(X.shape[0])]) for key, point in self._points.items()}
            X = stack(self.support_vectors_, X)
            codes, numbers_ = np.concatenate([self._stored_codes, codes]), np.concatenate([self.support_, numbers_])
            counts = np.concatenate([self._stored_counts, counts])
        self._extract(X, codes, counts, start, fresh=first)
        # the weights kept no longer belong to the rows of the last fit
        self.__dict__.pop("_codes", None)
        self.n_samples_seen_ = seen + n_rows
        self.support_, self._sample = numbers_[self.support_], sample
        self.class_means_ = class_means(self._project(sample.X), sample.codes, len(self.classes_), sample.counts)
        return self

    @one_at_a_time
    def transform(self, X: Any) -> Float:
        """Return the features of each row: one block product with the support vectors.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The rows; for a precomputed kernel the kernel values between them and all training rows.

        Returns
        -------
        array of shape (n_samples, n_features_out)
            One column per feature.
        """
        check_is_fitted(self)
        rows = validate_rows(self, X)
        return self._project(rows).astype(rows.dtype, copy=False)

    @one_at_a_time
    def decision_function(self, X: Any) -> Float:
        """Return how near each row is to each class mean in the space of the features.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            The rows.

        Returns
        -------
        array of shape (n_samples,) or (n_samples, n_classes)
            Minus half the squared distance, up to a constant for each row; for two classes the difference of the two.
            float32 for float32 rows.
        """
        check_is_fitted(self)
        rows = validate_rows(self, X)
        return in_dtype_of(rows, self._scores(rows))

    def _scores(self, rows: Rows) -> Float:
        seen = ~np.isnan(self.class_means_[:, 0])
        head = NearestMean.of_means(self.class_means_, seen)
        scores = head.scores(self._project(rows))
        return scores[:, 1] - scores[:, 0] if len(self.classes_) == 2 else scores

    @property
    @one_at_a_time
    def coef_(self) -> Float:
        """The weights of the columns in `decision_function`, (n_classes, n_features) or one row; linear kernel only."""
        check_is_fitted(self)
        self._check_linear("coef_")
        weights: Float = self._plain()[1] @ self.components_
        return weights[1:] - weights[:1] if len(weights) == 2 else weights

    @property
    @one_at_a_time
    def intercept_(self) -> Float:
        """The constants of `decision_function`, (n_classes,) or one; for the linear kernel only, as `coef_`."""
        check_is_fitted(self)
        self._check_linear("intercept_")
        offsets = self._plain()[2]
        return offsets[1:] - offsets[:1] if len(offsets) == 2 else offsets

    def _plain(self) -> tuple[Float, Float, Float]:
        """Return the features' coefficients, and weights and offsets of the nearest class mean."""
        seen = ~np.isnan(self.class_means_[:, 0])
        head = NearestMean.of_means(self.class_means_, seen)
        return self.features_.toarray(), head.weights, head.offsets

    @property
    @one_at_a_time
    def components_(self) -> Float:
        """The directions, one per row; they exist as vectors for the linear kernel only."""
        check_is_fitted(self)
        if self._components is None:
            raise AttributeError(
                f"{type(self).__name__}: components_ exists for kernel='linear' only; with kernel={self.kernel!r} a "
                "direction is in the feature space. Read features_ and support_vectors_."
            )
        return self._components

    def __sklearn_tags__(self) -> Any:
        parent: Any = super()
        tags = parent.__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    # How.

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> tuple[Rows, Float]:
        """Validate, extract, and return the rows and their features."""
        X, y = self._validate(X, y)
        counts, every = check_weights(sample_weight, X.shape[0]), X
        given, n = np.flatnonzero(counts), len(counts)
        if not len(given):
            raise ValueError(
                f"{type(self).__name__}: sample_weight is zero for all rows, so none is left. Give some a weight "
                "above 0."
            )
        precomputed = isinstance(self.kernel, str) and self.kernel == "precomputed"
        if len(given) < n:
            X, y, counts = X[given], y[given], counts[given]
            X = X[:, given] if precomputed else X
        codes, all_codes = self._encode(y), np.full(n, -1)
        all_codes[given] = codes
        warm = self.warm_start and hasattr(self, "_codes") and np.array_equal(self._codes, all_codes)
        start: Start = {}
        for key, point in self._points.items() if warm else ():
            everywhere = np.zeros(n)
            everywhere[self.support_] = point
            start[key] = everywhere[given]
        values = self._extract(X, codes, counts, start, y=y)
        self._codes, self.support_, self.n_samples_seen_ = all_codes, given[self.support_], n
        if not precomputed:
            self._sample = RowSample(X, codes, given, counts)
        return every, values if len(given) == n else self._project(every)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        name, wanted = type(self).__name__, self.n_components_per_class
        if isinstance(wanted, bool) or not isinstance(wanted, numbers.Integral) or wanted < 1:
            raise ValueError(f"{name}: n_components_per_class must be a whole number ≥ 1, got {wanted!r}.")
        check_number(name, "C", self.C, low=1e-12, high=1e12, next_step="1 is the default.")
        check_choice(name, "method", self.method, ("core", "exact"))
        check_choice(name, "criterion", self.criterion, ("gap", "meb"))
        check_choice(name, "orthogonal", self.orthogonal, ("class", "all"))
        check_choice(name, "selection", self.selection, ("furthest", "sample"))
