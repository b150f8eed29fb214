"""The classifiers of Martinetz 2004: MinOver, and MaxMinOver with its soft form."""

from __future__ import annotations

from typing import Any

from kampong.files import savable
from kampong.margin.minover import OverClassifier


@savable
class MinOverClassifier(OverClassifier):
    """Maximum margin by learning the pattern of least margin again and again (hard margin).

    Finds the point v of the hull of z_i = y_i (φ(x_i), −1) nearest to the origin: v/‖v‖ maximises min_i v · z_i/‖v‖
    (Martinetz 2004, section II). MinOver adds the z_i of least margin in every step: Frank–Wolfe with steps 1/t. With
    walk="fast" the same point is found by pairwise steps with exact line search on core sets.

    Where we deviate. The paper says that the augmented pattern gives the hyperplane of maximum margin. In general it
    does not: it maximises the margin of the augmented patterns. bias="exact" gives the true one. The paper's equation 4
    has the sign of b reversed: v = Σ n z gives b = −Σ n y. The walk ends when the duality gap is small enough, not
    after a number of steps. Decision scores are in units of the margin: the nearest pattern scores 1.

    Parameters
    ----------
    kernel : {"rbf", "laplacian", "linear", "polynomial", "sigmoid", "precomputed"} or callable
        The kernel; a callable gets two blocks of rows and returns their kernel values.
    gamma : float, "mean" or "scale"
        The factor of rbf, Laplacian, polynomial and sigmoid kernels. "mean" is one over the mean squared distance of
        two rows, and for the Laplacian kernel one over their mean distance if columns are normal; in a stream it is
        computed again whenever the number of rows has doubled.
    degree : float
        The degree of the polynomial.
    coef0 : float
        The constant of the polynomial and of the sigmoid.
    bias : {"augmented", "exact"}
        The paper's bias, a coordinate of the pattern; or the nearest points of the two class hulls, which give the
        true maximum margin: then a step takes one pattern of each class.
    walk : {"fast", "paper"}
        Pairwise steps, or the paper's steps, which count patterns in whole numbers.
    tol : float
        The relative duality gap at which to stop: the margin is then this close to the largest possible, relatively.
    max_iter : int
        The most steps for each problem.
    warm_start : bool
        Whether `fit` starts from the last fit, where the labels are the same.
    cache_size : float
        Megabytes, as in scikit-learn's SVC, for kernel rows, and as many again for the kernel blocks of core sets. What
        does not fit is computed again when needed, so a smaller cache costs time and changes no result beyond `tol`.
    random_state : int, RandomState or None
        Chooses the subsets to start with; the same seed gives the same model.
    verbose : int
        Print the gap, the core set and the kernel evaluations.

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
    counts_ : array of shape (n_problems, n_support)
        With walk="paper", how often each pattern was learnt, minus how often it was forgotten.
    trace_ : list of arrays
        With walk="paper", the course of each problem: `step`, `length` ‖v_t‖, `margin` (the least v · z over it, or
        the mean of the K least), `stored` patterns, relative `gap`, and the largest `share` α_i.
    margin_ : array of shape (n_problems,)
        The distance of the nearest pattern from the hyperplane, in feature space.
    dual_gap_ : array of shape (n_problems,)
        The relative duality gap reached.
    status_ : array of shape (n_problems,)
        "converged", or why not.
    n_core_ : array of shape (n_problems,)
        The size of the core set.
    n_iter_ : array of shape (n_problems,)
        Steps taken.
    n_kernel_evaluations_ : int
        Kernel values computed.
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
    MaxMinOverClassifier : Forgets patterns, so that only support vectors remain; also has soft margins.

    References
    ----------
    Martinetz, MaxMinOver: a simple incremental learning procedure for support vector classification, 2004. Martinetz,
    MinOver revisited for incremental support-vector-classification, 2004: DoubleMinOver, here bias="exact".

    Examples
    --------
    >>> import numpy as np
    >>> from kampong import MinOverClassifier
    >>> X, y = np.array([[0.0], [1.0], [3.0], [9.0]]), [0, 0, 1, 1]
    >>> model = MinOverClassifier(kernel="linear", bias="exact").fit(X, y)
    >>> model.margin_.round(3).tolist(), model.support_.tolist()
    ([1.0], [1, 2])
    """

    def __init__(
        self,
        *,
        kernel: Any = "rbf",
        gamma: Any = "mean",
        degree: float = 3,
        coef0: float = 0.0,
        bias: str = "augmented",
        walk: str = "fast",
        tol: float = 1e-3,
        max_iter: int = 100_000,
        warm_start: bool = False,
        cache_size: float = 1500,
        random_state: Any = 0,
        verbose: int = 0,
    ) -> None:
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.bias = bias
        self.walk = walk
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.cache_size = cache_size
        self.random_state = random_state
        self.verbose = verbose


@savable
class MaxMinOverClassifier(OverClassifier):
    """Maximum margin by learning the pattern of least margin and forgetting the stored one of largest margin.

    A hard margin (nu=None) is the problem of `MinOverClassifier`: min ‖Σ α_i z_i‖² over α ≥ 0, Σ α_i = 1. A soft margin
    (`nu`; SoftMaxMinOver, Martinetz 2004, section IV) adds α_i ≤ 1/K, K = ⌈νM⌉, the reduced hull of the ν-SVM: the
    mean margin of the K nearest patterns is maximised. A pattern is forgotten where v · z_ω − v · z_α ≥ 4R² (section
    III), so that after finitely many steps only support vectors are stored.

    Where we deviate: as in `MinOverClassifier`. In addition, the paper's soft steps may give a pattern more than the
    share 1/K that its own problem allows, because patterns are learnt in groups but forgotten one by one. Then they do
    not reach the best mean margin (only 97 % of it in our test, as `dual_gap_` shows). walk="paper" does what the paper
    says, walk="fast" solves the capped problem. With bias="exact" each class
    has ⌈νM/2⌉ patterns, so that the answer is that of the ν-SVM.

    Parameters
    ----------
    nu : float, sequence of float, "auto" or None
        None for a hard margin; else at most this fraction of the patterns is inside the margin, and at least this
        fraction is stored. At most ν_max = 2·min(M₊, M₋)/M; with walk="paper" and the augmented bias up to 1. One
        number, or one per problem. "auto" takes the smallest K = νM of each problem for which a margin exists, found by
        bisection: it exists, which the paper shows, but it is narrow; use it as a lower bound.
    nu_of : {"patterns", "largest"}
        What `nu` is a fraction of: the patterns of a problem, as in the paper, or its ν_max, which suits classes of
        very different size.
    kernel : {"rbf", "laplacian", "linear", "polynomial", "sigmoid", "precomputed"} or callable
        The kernel; a callable gets two blocks of rows and returns their kernel values.
    gamma : float, "mean" or "scale"
        The factor of rbf, Laplacian, polynomial and sigmoid kernels. "mean" is one over the mean squared distance of
        two rows, and for the Laplacian kernel one over their mean distance if columns are normal; in a stream it is
        computed again whenever the number of rows has doubled.
    degree : float
        The degree of the polynomial.
    coef0 : float
        The constant of the polynomial and of the sigmoid.
    bias : {"augmented", "exact"}
        The paper's bias, a coordinate of the pattern; or the nearest points of the two class hulls, which give the
        true maximum margin.
    walk : {"fast", "paper"}
        Pairwise steps, or the paper's steps, which count patterns in whole numbers.
    tol : float
        The relative duality gap at which to stop.
    max_iter : int
        The most steps for each problem.
    warm_start : bool
        Whether `fit` starts from the last fit, where the labels are the same.
    cache_size : float
        Megabytes, as in scikit-learn's SVC, for kernel rows, and as many again for the kernel blocks of core sets. What
        does not fit is computed again when needed, so a smaller cache costs time and changes no result beyond `tol`.
    random_state : int, RandomState or None
        Chooses the subsets to start with; the same seed gives the same model.
    verbose : int
        Print the gap, the core set and the kernel evaluations.

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
    counts_ : array of shape (n_problems, n_support)
        With walk="paper", how often each pattern was learnt, minus how often it was forgotten.
    trace_ : list of arrays
        With walk="paper", the course of each problem: `step`, `length` ‖v_t‖, `margin` (the least v · z over it, or
        the mean of the K least), `stored` patterns, relative `gap`, and the largest `share` α_i.
    nu_ : array of shape (n_problems,)
        With a soft margin, the fraction K/M in use in each problem.
    margin_ : array of shape (n_problems,)
        The half-width of the corridor: the distance of its edge from the hyperplane, in feature space.
    dual_gap_ : array of shape (n_problems,)
        The relative duality gap reached.
    status_ : array of shape (n_problems,)
        "converged", or why not.
    n_core_ : array of shape (n_problems,)
        The size of the core set.
    n_iter_ : array of shape (n_problems,)
        Steps taken.
    n_kernel_evaluations_ : int
        Kernel values computed.
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
    CoreVectorClassifier : Squared slack in place of a capped share; for many rows.

    References
    ----------
    Martinetz, MaxMinOver: a simple incremental learning procedure for support vector classification, 2004. Martinetz,
    Labusch and Schneegaß, SoftDoubleMaxMinOver: perceptron-like training of support vector machines, IEEE Transactions
    on Neural Networks 20, 2009: here bias="exact", walk="paper", on kernel values K + I/C.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kampong import MaxMinOverClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> MaxMinOverClassifier(nu=0.1).fit(X, y).score(X, y) > 0.95
    True
    """

    _forget = True

    def _soft(self) -> tuple[Any, str]:
        return self.nu, self.nu_of

    def __init__(
        self,
        nu: Any = None,
        *,
        nu_of: str = "patterns",
        kernel: Any = "rbf",
        gamma: Any = "mean",
        degree: float = 3,
        coef0: float = 0.0,
        bias: str = "augmented",
        walk: str = "fast",
        tol: float = 1e-3,
        max_iter: int = 100_000,
        warm_start: bool = False,
        cache_size: float = 1500,
        random_state: Any = 0,
        verbose: int = 0,
    ) -> None:
        self.nu = nu
        self.nu_of = nu_of
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.bias = bias
        self.walk = walk
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.cache_size = cache_size
        self.random_state = random_state
        self.verbose = verbose
