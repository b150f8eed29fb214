"""The core vector machine: squared slack on core sets, and the hinge loss in working sets."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.class_weight import compute_class_weight

from kampong._core.callbacks import FitWatcher, with_callbacks
from kampong._core.locks import whole
from kampong.data.validation import check_choice, check_number, check_weights
from kampong.files import savable
from kampong.margin.core_set import solve
from kampong.margin.enclosing_ball import enclose_all
from kampong.margin.hinge_loss import HingeSolution, solve_hinge
from kampong.margin.hull import Hull
from kampong.margin.kernel_rows import KernelRows
from kampong.margin.margin_classifier import Plane
from kampong.margin.one_pass import OnePassClassifier
from kampong.margin.probabilities import by_folds
from kampong.margin.problem import Options
from kampong.margin.remote import remote_hulls
from kampong.margin.spread import Spread, depends_on_rows
from kampong.margin.stored_rows import Solved, StoredRows

if TYPE_CHECKING:
    from kampong._core.compute import Float, Integer, Rows
    from kampong.kernels.functions import Columns
    from kampong.margin.remote import Holder


@savable
class CoreVectorClassifier(OnePassClassifier):
    """Support vector machine with squared slack, trained on core sets: for many rows.

    Minimises ‖w‖² + b² − 2ρ + C Σ ξ_i² subject to y_i (w · φ(x_i) + b) ≥ ρ − ξ_i (Tsang et al. 2006, equation 6 without
    its orthogonality constraints). The dual is the point of a hull nearest to the origin, min αᵀK̃α over α ≥ 0,
    Σ α_i = 1, with K̃ = y yᵀ ∘ (K + 1) + I/C (equation 10). The problem is solved exactly on a few rows, the core set.
    Then all rows are checked, those that violate the solution join the core set, and so on (algorithm 2).

    Where we deviate. The papers stop when all points are in the ball of (1 + ε) times the radius. But ρ² is a small
    part of the radius, and at their ε = 1e-3 the duality gap may still be larger than the objective. We stop when the
    gap is small (criterion="gap"). criterion="meb" is the papers' rule, one pattern a round, and warns if it leaves a
    large gap. Patterns join in batches, and subsets of the rows are solved first. Scores are divided by ρ: 1 at the
    margin. With loss="hinge" the gap is that of primal and dual, (P − D)/P. Its solution is that of the reduced hulls
    of `MaxMinOverClassifier(nu, bias="exact")` for one ν of each C: ν = Σ α_i/(C n).

    Parameters
    ----------
    C : float
        The weight of the slack: a large C allows little of it.
    loss : {"squared", "hinge"}
        The squared slack of the papers, with their bias; or the hinge loss with the exact bias, the problem of `SVC`:
        min ½‖w‖² + C Σ ξ_i. It stores fewer rows where classes overlap.
    kernel : {"rbf", "laplacian", "linear", "polynomial", "sigmoid", "precomputed"} or callable
        The kernel; a callable gets two blocks of rows and returns their kernel values.
    gamma : float, "mean" or "scale"
        The factor of rbf, Laplacian, polynomial and sigmoid kernels. "mean" is one over the mean squared distance of
        two rows, 1/β of Tsang et al. 2006, and for the Laplacian kernel one over their mean distance if columns are
        normal.
    degree : float
        The degree of the polynomial.
    coef0 : float
        The constant of the polynomial and of the sigmoid.
    tol : float or "auto"
        The relative duality gap at which to stop; the papers' ε with criterion="meb" or "ball". "auto" is 0.05 for the
        squared slack, and 0.01 for the hinge loss: at 0.05 its constant b may still be far off, for little less time.
    criterion : {"gap", "meb", "ball"}
        The duality gap, or for kernels with a constant k(x, x): the papers' minimum enclosing ball, or a ball of fixed
        radius, which needs no solver (the ball vector machine).
    selection : {"furthest", "sample"}
        Look for violators among all rows, or among 59 random ones for each pattern to add.
    class_weight : dict, "balanced" or None
        What C is multiplied by for the rows of each class. "balanced" is n / (n_classes · rows of the class).
    max_stored_rows : int
        The most rows that `partial_fit` and `merge` keep. A batch is solved together with them, so more rows cost time
        and memory, and fewer cost accuracy if more rows than this are support vectors.
    probability : bool
        Whether to calibrate probabilities for `predict_proba`. `fit` then also fits five folds; `partial_fit` scores
        each batch before it learns it, which costs little.
    max_iter : int
        The most pairwise steps for each problem.
    warm_start : bool
        Whether `fit` starts from the last fit, where the labels are the same: for a path of C or tol.
    cache_size : float
        Megabytes, as in scikit-learn's SVC, for kernel rows, and as many again for the kernel blocks of core sets. What
        does not fit is computed again when needed, so a smaller cache costs time and changes no result beyond `tol`.
    random_state : int, RandomState or None
        Chooses subsets and samples; the same seed gives the same model.
    verbose : int
        Print the gap, the core set and the kernel evaluations of each round.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The labels, sorted.
    support_ : array of shape (n_support,)
        The rows that carry weight in any problem; after `partial_fit`, their numbers in the stream.
    support_vectors_ : array or sparse matrix of shape (n_support, n_features)
        Those rows.
    dual_coef_ : array of shape (n_problems, n_support)
        Their weights times their labels, for one problem of two classes or one per class.
    intercept_ : array of shape (n_problems,)
        The constant of the score.
    coef_ : array of shape (n_problems, n_features)
        For kernel="linear", the normal vector of each hyperplane.
    margin_ : array of shape (n_problems,)
        ρ/‖w‖, the half-width of the corridor in feature space.
    dual_gap_ : array of shape (n_problems,)
        The relative duality gap reached, at the rows of the last solve.
    certified_gap_ : array of shape (n_problems,)
        The relative duality gap that is certified for all rows learnt: `dual_gap_` after `fit`, and in a stream as
        long as all rows could be stored. Infinite once rows have left, since these are no longer checked.
    n_samples_seen_ : int
        Rows learnt.
    status_ : array of shape (n_problems,)
        "converged", or why not.
    n_core_ : array of shape (n_problems,)
        The size of the core set.
    n_iter_ : array of shape (n_problems,)
        Pairwise steps taken.
    n_kernel_evaluations_ : int
        Kernel values computed.
    gamma_ : float
        The factor of the kernel in use.
    n_features_in_ : int
        The width of the rows.
    feature_names_in_ : array of shape (n_features_in_,)
        The column names, where the rows had them.

    See Also
    --------
    MaxMinOverClassifier : Hard margins, and soft ones with a capped share of each pattern.

    References
    ----------
    Tsang, Kocsor and Kwok, Efficient kernel feature extraction for massive data sets, 2006. Tsang, Kwok and Cheung,
    Core vector machines: fast SVM training on very large data sets, 2005. Tsang, Kocsor and Kwok, Simpler core vector
    machines with enclosing balls, 2007.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from kampong import CoreVectorClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> model = CoreVectorClassifier(C=10).fit(X[:1000], y[:1000])
    >>> model.score(X[1000:], y[1000:]) > 0.95
    True
    """

    def __init__(
        self,
        C: float = 1.0,
        *,
        loss: str = "squared",
        kernel: Any = "rbf",
        gamma: Any = "mean",
        degree: float = 3,
        coef0: float = 0.0,
        tol: float | str = "auto",
        criterion: str = "gap",
        selection: str = "furthest",
        class_weight: Any = None,
        max_stored_rows: int = 10_000,
        probability: bool = False,
        max_iter: int = 1_000_000,
        warm_start: bool = False,
        cache_size: float = 1500,
        random_state: Any = 0,
        verbose: int = 0,
    ) -> None:
        self.C = C
        self.loss = loss
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.tol = tol
        self.criterion = criterion
        self.selection = selection
        self.class_weight = class_weight
        self.max_stored_rows = max_stored_rows
        self.probability = probability
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.cache_size = cache_size
        self.random_state = random_state
        self.verbose = verbose

    @with_callbacks
    @whole
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Find the hyperplanes, one for two classes, else one per class.

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
        name = type(self).__name__
        C = self._check_own()
        X, y = self._validate(X, y)
        counts = check_weights(sample_weight, X.shape[0])
        self._check_weighted(counts)
        given, n = np.flatnonzero(counts), len(counts)
        if len(given) < n:
            X, y, counts = X[given], y[given], counts[given]
            X = X[:, given] if self.kernel == "precomputed" else X
        codes = self._encode(y)
        all_codes = np.full(n, -1)
        all_codes[given] = codes
        warm = self.warm_start and hasattr(self, "_weights") and np.array_equal(self._codes, all_codes)
        start = [weights[given] for weights in self._weights] if warm else None
        rows = self._open(X, weights=counts)
        totals: Float = np.bincount(codes, weights=counts).astype(np.float64)
        penalties = C * counts * self._class_factors(totals)[codes]
        solved = self._solve(X, codes, rows, penalties, start, y)
        self._warn(solved.outcomes)
        worst = float(np.max(self.dual_gap_))
        if self.criterion != "gap" and worst > 0.5:
            warnings.warn(
                f"{name}: all points are in the ball of 1 + {self._tolerance:g} times the radius, but the duality gap "
                f"is still {worst:.0%} of the objective. Use criterion='gap', or a smaller tol.",
                ConvergenceWarning,
                stacklevel=3,
            )
        self._codes, self._weights = all_codes, [np.zeros(n) for _ in solved.outcomes]
        fitted = replace(StoredRows.new(X, codes, given, counts, len(totals)), coefficients=solved.coefficients)
        for everywhere, here in zip(self._weights, self._as_weights(fitted), strict=True):
            everywhere[given] = here
        self.support_, self.n_samples_seen_, self.certified_gap_ = given[self.support_], n, self.dual_gap_
        for earlier in ("_stored", "_spread", "_held_out", "_calibration"):
            self.__dict__.pop(earlier, None)
        if depends_on_rows(self):
            self._spread = Spread.of_rows(X, counts)
        if self._kernel.name != "precomputed":
            self._stored = replace(fitted.kept(solved, 0), X=self.support_vectors_)
        if self.probability:
            self._hold_out(by_folds(self, X, codes, counts, len(totals)))
        return self

    @property
    def _tolerance(self) -> Any:
        if isinstance(self.tol, str) and self.tol == "auto":
            return 0.01 if self.loss == "hinge" else 0.05
        return self.tol

    def _check_own(self) -> float:
        """Check the parameters that only this classifier has; return C."""
        name = type(self).__name__
        check_choice(name, "loss", self.loss, ("squared", "hinge"))
        check_choice(name, "criterion", self.criterion, ("gap", "meb", "ball"))
        check_choice(name, "selection", self.selection, ("furthest", "sample"))
        for option, needed in {"criterion": "gap", "selection": "furthest"}.items():
            if self.loss == "hinge" and getattr(self, option) != needed:
                raise ValueError(
                    f"{name}: {option}={getattr(self, option)!r} is a rule of the squared slack. With loss='hinge' use "
                    f"{option}={needed!r}."
                )
        return check_number(name, "C", self.C, low=1e-12, high=1e12, next_step="1 is the default.")

    def _check_weighted(self, counts: Float) -> None:
        """Refuse weights that leave no row, or that the ball of the papers cannot hold."""
        name = type(self).__name__
        if not counts.any():
            raise ValueError(
                f"{name}: sample_weight is zero for all rows, so none is left. Give some a weight above 0."
            )
        if self.criterion != "gap" and (self.class_weight is not None or np.ptp(counts[counts > 0]) > 0):
            raise ValueError(
                f"{name}: criterion={self.criterion!r} needs the same weight for all rows, since the patterns must be "
                "equally long. Use criterion='gap' with sample_weight or class_weight."
            )

    def _class_factors(self, totals: Float, *, stream: bool = False) -> Float:
        """Return what class_weight multiplies C by, for each class; `totals` are the weights of their rows."""
        if self.class_weight is None:
            return np.ones(len(totals))
        name = type(self).__name__
        if isinstance(self.class_weight, str) and self.class_weight == "balanced":
            # a class that may come but has no row yet needs no factor
            return np.asarray(totals.sum() / (len(totals) * np.where(totals > 0, totals, 1.0)))
        if not isinstance(self.class_weight, dict):
            raise ValueError(
                f"{name}: class_weight must be None, 'balanced' or a dict of label: factor, got {self.class_weight!r}."
            )
        given = self.class_weight
        if stream:
            # later batches may bring the others
            given = {label: factor for label, factor in given.items() if label in self.classes_.tolist()}
        factors = np.asarray(compute_class_weight(given, classes=self.classes_, y=self.classes_), dtype=np.float64)
        if not (np.isfinite(factors) & (factors > 0)).all():
            raise ValueError(
                f"{name}: class_weight holds the factor {factors[~(factors > 0)].tolist()[:1]}; factors must be "
                "numbers > 0. Leave rows out with sample_weight=0."
            )
        return factors

    def _options(self, watcher: FitWatcher | None) -> Options:
        return Options(
            float(self._tolerance),
            self.criterion,
            self.selection,
            max_steps=int(self.max_iter),
            block_bytes=self._budget,
            verbose=int(self.verbose),
            watcher=watcher,
        )

    def _solve(
        self,
        X: Rows,
        codes: Integer,
        rows: KernelRows,
        penalties: Float,
        start: list[Float] | None,
        y: np.ndarray | None = None,
    ) -> Solved:
        """Solve all problems and keep the hyperplanes; callbacks are called only if `y` is given."""
        solve_all = self._solve_hinge if self.loss == "hinge" else self._solve_squared
        return solve_all(X, codes, rows, penalties, start, y)

    def _solve_squared(
        self,
        X: Rows,
        codes: Integer,
        rows: KernelRows,
        penalties: Float,
        start: list[Float] | None,
        y: np.ndarray | None,
    ) -> Solved:
        name, spread = type(self).__name__, float(np.ptp(rows.diagonal))
        if self.criterion != "gap" and spread > 1e-6 * float(np.abs(rows.diagonal).max()):
            raise ValueError(
                f"{name}: criterion={self.criterion!r} needs a kernel with k(x, x) the same for all x, and the "
                f"{self._kernel.name} kernel has values that differ by {spread:.3g}. Use criterion='gap'."
            )
        same = np.ptp(penalties) == 0.0
        ridge: Any = 1.0 / float(penalties[0]) if same else 1.0 / penalties
        hulls = [Hull(signs, offset=1.0, ridge=ridge) for signs in self._signs(codes)]
        watcher = None
        if y is not None:
            watcher = FitWatcher(self, X, y, lambda model, found: model._store(X, hulls, found, rows))
        start = None if start is None else [_on_hull(weights) for weights in start]
        if self.criterion == "ball":
            found = enclose_all(rows, hulls, self._options(watcher))
        else:
            found = solve(rows, hulls, self._options(watcher), check_random_state(self.random_state), start)
        self._store(X, hulls, found, rows)
        if watcher is not None:
            watcher.finish()
        signs = np.array([hull.signs for hull in hulls])
        alpha, gradient = (np.array([getattr(one, name) for one in found]) for name in ("alpha", "gradient"))
        edges = np.array([one.gap.objective for one in found])
        return Solved(signs * alpha, (gradient - ridge * alpha) / edges[:, None], found)

    def _solve_hinge(
        self,
        X: Rows,
        codes: Integer,
        rows: KernelRows,
        penalties: Float,
        start: list[Float] | None,
        y: np.ndarray | None,
    ) -> Solved:
        watcher = None
        if y is not None:
            watcher = FitWatcher(self, X, y, lambda model, found: model._keep_hinge(X, found, rows))
        found = solve_hinge(rows, self._signs(codes), penalties, self._options(watcher), start)
        self._keep_hinge(X, found, rows)
        if watcher is not None:
            watcher.finish()
        scores = np.array([one.values + one.constant for one in found])
        return Solved(np.array([one.beta for one in found]), np.array(self._signs(codes)) * scores, found)

    def _solve_stored(self, pool: StoredRows) -> Solved:
        self._check_weighted(pool.counts)
        penalties = self._check_own() * pool.counts * self._class_factors(pool.totals, stream=True)[pool.codes]
        rows = KernelRows(self._kernel, pool.X, budget=self._budget)
        start = self._as_weights(pool) if pool.coefficients.any() else None
        return self._solve(pool.X, pool.codes, rows, penalties, start)

    def _as_weights(self, pool: StoredRows) -> list[Float]:
        beta = pool.coefficients
        return list(beta if self.loss == "hinge" else np.array(self._signs(pool.codes)) * beta)

    def _keep_hinge(self, X: Rows, found: list[HingeSolution], rows: KernelRows) -> None:
        """Keep the support vectors; scores are 1 at the margin as they are."""
        planes = [Plane(one.constant, 1.0, 1.0 / one.length if one.length > 0 else 0.0) for one in found]
        self._keep_planes(X, np.array([one.beta for one in found]), planes, found, rows)

    def _fit_elsewhere(self, holder: Holder, columns: Columns, classes: np.ndarray, codes: Integer) -> None:
        """Fit on rows that lie elsewhere, in parts."""
        C = self._check_own()
        for option, needed in {"loss": "squared", "class_weight": None, "probability": False}.items():
            if getattr(self, option) != needed:
                raise ValueError(
                    f"{type(self).__name__}: {option}={getattr(self, option)!r} needs all rows here. In parts, use "
                    f"{option}={needed!r}."
                )
        rows = self._open_elsewhere(holder, columns, classes)
        hulls = remote_hulls(self._signs(codes), C)
        options = Options(
            float(self._tolerance), max_steps=int(self.max_iter), block_bytes=self._budget, verbose=int(self.verbose)
        )
        found = solve(rows, hulls, options, check_random_state(self.random_state))
        self._weights, self._codes = [solution.alpha for solution in found], codes
        self._store(rows.elsewhere, hulls, found, rows)
        self._warn(found)


def _on_hull(start: Float) -> Float:
    """Return weights as a point of the hull; from a negative one, as a file that lies may hold, no solve would end."""
    alpha: Float = np.maximum(start, 0.0, dtype=np.float64)
    return alpha / (float(alpha.sum()) or 1.0)
