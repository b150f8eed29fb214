"""The estimators of the margin criterion S_b − ε S_w: any ε, and the names of the papers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kampong.criteria import MarginCriterion
from kampong.data.validation import check_number
from kampong.estimators.subspace import DiscriminantSubspace
from kampong.files import savable
from kampong.statistics.reservoir import BUDGET

if TYPE_CHECKING:
    from kampong.criteria import Criterion
    from kampong.statistics.means import ClassMeans


@savable
class MarginSubspace(DiscriminantSubspace):
    """The directions that maximise the margin criterion S_b − ε S_w, exactly, in one pass.

    Solves max tr W(S_b − ε S_w)Wᵀ over orthonormal rows W, where S_b is the scatter of the class means and S_w the
    scatter within the classes, both weighted by the class priors. ε is a threshold on the ratio of between-class to
    within-class variance: as many directions raise the criterion as linear discriminant analysis has ratios above ε.

    `partial_fit` only accumulates statistics, which merge, decay and do not depend on order or batches; the
    eigenproblem is solved when a result is read. Where rows carry several labels, a row counts for each of its
    labels, in S_b, in S_w and in the means.

    Parameters
    ----------
    n_components : int, "auto" or None
        How many directions. "auto" and None keep those that raise the criterion, and one at least; at most one less
        than there are classes do. More may be asked for, up to the number of features; a warning says
        how many of them lower the criterion.
    epsilon : float or "auto"
        The weight ε ≥ 0 of the within-class scatter. "auto" chooses it from a grid (0 to 20) by the accuracy on
        held-out rows: rows in memory, or a sample of the stream (see `reservoir_bytes`); five parts in turn if rows are
        few. The statistics of the held-out rows are subtracted, so no second pass is needed. A choice is made again
        when a result is read.
    solver : {"auto", "gram", "scatter", "resolvent", "reservoir"}
        "gram" works from the class means alone (ε = 0, any width), "scatter" from a d × d matrix (any criterion, up
        to 8192 features), "resolvent" from products with the rows, in `fit` only, "reservoir" from a bounded sample of
        the rows of a stream (both any criterion, any width). "auto" takes the first of them that can serve.
    decay : float
        Each row multiplies the weight of all rows before it by this factor in (0, 1], whatever its own weight. 1
        forgets nothing. Time is counted in rows, so the cut into batches does not matter.
    half_life : float, optional
        Rows until a weight halves. Set only one of `decay` and `half_life`.
    head : {"auto", "best"} or str
        Or "gaussian", "nearest_mean", "cosine", "regression", "quadratic", "logistic", "hinge", "mixture".
        The classifier in the subspace, in this order: Gaussian classes with the shared covariance W S_w Wᵀ and the
        observed priors; the nearest class mean; the cosine to the class means; least squares on the classes; one
        covariance per class; logistic regression; one linear support vector machine per class; a mixture of them.
        "best" takes the one that errs least on held-out rows, and calibrates its probabilities there.
        "auto" is "best" where ε is chosen too;
        else it is Gaussian where S_w is kept or `fit` has the rows in memory (it measures the covariance on 8,192 of
        them or more), and the nearest mean otherwise. Several labels per row: Gaussian, nearest mean or logistic.
    reservoir_bytes : int
        Memory limit for the sample of rows, 64 MiB by default. The sample serves solver "reservoir", head="gaussian"
        above 8192 features, and the choice of parameters (at most 16,384 rows).
    random_state : int, RandomState or None
        The seed of that sample. Streams that are to be merged should have different ones. A RandomState, or numpy's
        own for None, draws one for each fit or stream. Work in parts (dask, Spark, clients) needs a number.
    priors : {"observed", "uniform"}, array-like of shape (n_classes,) or None
        The shares of the classes where the model will be used, in the order of `classes_`; None is "observed". S_b
        weighs the class means by them, and with any head the logarithm of a probability moves by log(given /
        observed). S_w and all choices are those of the rows. Not for several labels per row.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        The directions, best first, orthonormal. The sign of each is fixed: its largest entry is positive.
    eigenvalues_ : array of shape (n_components,)
        What each direction adds to the criterion: eigenvalues of S_b − ε S_w.
    criterion_ratio_ : array of shape (n_components,)
        Each eigenvalue over the sum of all positive ones.
    classes_ : array of shape (n_classes,)
        The labels, sorted.
    class_counts_ : array of shape (n_classes,)
        The weight of each class.
    class_means_ : array of shape (n_classes, n_features)
        The mean of each class.
    mean_ : array of shape (n_features,)
        The mean of all rows.
    n_samples_seen_ : int
        The number of rows of positive weight learnt.
    n_features_in_ : int
        The width of the rows.
    feature_names_in_ : array of shape (n_features_in_,)
        The column names, where the rows had them.
    solver_ : str
        The solver that found the directions.
    solver_reason_ : str
        Why it was that one.
    choice_ : Choice or None
        How a parameter given as "auto" was chosen: its `value`, the nodes `values` of the curve and their `losses` on
        rows held out, and the losses of the `heads` that were compared.
    epsilon_ : float
        The weight ε in use.
    head_ : str
        Name of the classifier in the subspace.
    n_steps_ : int
        Products with S_w that an iterative solver took; fewer act as a ridge of their own. 0 for the exact solvers.
    coef_, intercept_ : array of shape (n_classes, n_features) and (n_classes,)
        Weights and constants of the features, of one score for two classes: `predict` takes the largest
        X @ coef_.T + intercept_. For linear heads that is `decision_function`; for "regression" and "hinge" the score
        of a class is an increasing function of it. Other heads have neither, and say so.
    sampling_error_ : float
        Where a stream keeps a sample: the part of the criterion lost if one half gives the directions of the other.

    See Also
    --------
    InterClassScatter : The case ε = 0, for any width.
    MaximumMarginCriterion : The case ε = 1.
    SupervisedKampongMeasure : The case ε = (a − 1)/2.
    FisherDiscriminant : The ratio in place of the difference.

    Notes
    -----
    A pickle, and the file that `save` writes, hold what is needed to learn on: the statistics and, where a parameter
    or head is chosen or trained ("auto", "best", "logistic", …) or the rows are wide, the sample of training rows
    (`reservoir_bytes`). `to_sklearn` returns a pipeline with the same answers that holds no rows and is small. A
    number as the parameter and head="gaussian" keep no rows, up to 8,192 columns.

    References
    ----------
    Yan et al., IMMC: incremental maximum margin criterion, KDD 2004 (weighted MMC, IWMMC, section 4.2). Yan et al., A
    scalable supervised algorithm for dimensionality reduction on streaming data, Information Sciences 176, 2006. Both
    use an order-dependent recursion with a shift θ; the directions here are exact and need no shift.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kampong import MarginSubspace
    >>> X, y = load_iris(return_X_y=True)
    >>> model = MarginSubspace(epsilon=0.05).fit(X, y)
    >>> model.transform(X).shape, round(model.score(X, y), 3)
    ((150, 2), 0.94)
    """

    def __init__(
        self,
        n_components: Any = "auto",
        *,
        epsilon: Any = 1.0,
        solver: str = "auto",
        decay: float = 1.0,
        half_life: float | None = None,
        head: str = "auto",
        reservoir_bytes: int = BUDGET,
        random_state: Any = 0,
        priors: str | list[float] = "observed",
    ) -> None:
        self.n_components = n_components
        self.epsilon = epsilon
        self.solver = solver
        self.decay = decay
        self.half_life = half_life
        self.head = head
        self.reservoir_bytes = reservoir_bytes
        self.random_state = random_state
        self.priors = priors

    @property
    def epsilon_(self) -> float:
        """The weight ε in use."""
        return self._read().criterion.value

    def _kind(self) -> type[Criterion]:
        return MarginCriterion

    def _value(self, statistics: ClassMeans | None) -> float | None:
        if isinstance(self.epsilon, str) and self.epsilon == "auto":
            return None
        name, step = type(self).__name__, "0 weighs the class means alone; 'auto' has it chosen."
        return check_number(name, "epsilon", self.epsilon, low=0.0, high=1e300, next_step=step)


@savable
class InterClassScatter(MarginSubspace):
    """The directions in which the class means differ most (IIS): ε = 0, exact at any width.

    Solves max tr W S_b Wᵀ over orthonormal rows W from counts and class sums alone: O(non-zeros) a row, O(K·d) memory,
    no d × d array.

    Parameters
    ----------
    n_components : int, "auto" or None
        How many directions. "auto" and None keep those that raise the criterion, and one at least; at most one less
        than there are classes do. More may be asked for, up to the number of features with solver="scatter"; a warning
        says how many of them lower the criterion.
    solver : {"auto", "gram", "scatter", "resolvent", "reservoir"}
        "gram" works from the class means alone (ε = 0, any width), "scatter" from a d × d matrix (any criterion, up
        to 8192 features), "resolvent" from products with the rows, in `fit` only, "reservoir" from a bounded sample of
        the rows of a stream (both any criterion, any width). "auto" takes the first of them that can serve.
    decay : float
        Each row multiplies the weight of all rows before it by this factor in (0, 1], whatever its own weight. 1
        forgets nothing. Time is counted in rows, so the cut into batches does not matter.
    half_life : float, optional
        Rows until a weight halves. Set only one of `decay` and `half_life`.
    head : {"auto", "best"} or str
        Or "gaussian", "nearest_mean", "cosine", "regression", "quadratic", "logistic", "hinge", "mixture".
        The classifier in the subspace, in this order: Gaussian classes with the shared covariance W S_w Wᵀ and the
        observed priors; the nearest class mean; the cosine to the class means; least squares on the classes; one
        covariance per class; logistic regression; one linear support vector machine per class; a mixture of them.
        "best" takes the one that errs least on held-out rows, and calibrates its probabilities there.
        "auto" is Gaussian where S_w is kept or
        `fit` has the rows in memory (it measures the covariance on 8,192 of them or more), and the nearest mean
        otherwise. Several labels per row: Gaussian, nearest mean or logistic.
    reservoir_bytes : int
        Memory limit for the sample of rows, 64 MiB by default. The sample serves solver "reservoir", head="gaussian"
        above 8192 features, and the choice of parameters (at most 16,384 rows).
    random_state : int, RandomState or None
        The seed of that sample. Streams that are to be merged should have different ones. A RandomState, or numpy's
        own for None, draws one for each fit or stream. Work in parts (dask, Spark, clients) needs a number.
    priors : {"observed", "uniform"}, array-like of shape (n_classes,) or None
        The shares of the classes where the model will be used, in the order of `classes_`; None is "observed". S_b
        weighs the class means by them, and with any head the logarithm of a probability moves by log(given /
        observed). S_w and all choices are those of the rows. Not for several labels per row.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        The directions, best first, orthonormal. The sign of each is fixed: its largest entry is positive.
    eigenvalues_ : array of shape (n_components,)
        What each direction adds to the criterion: eigenvalues of S_b.
    criterion_ratio_ : array of shape (n_components,)
        Each eigenvalue over the sum of all positive ones.
    classes_ : array of shape (n_classes,)
        The labels, sorted.
    class_counts_ : array of shape (n_classes,)
        The weight of each class.
    class_means_ : array of shape (n_classes, n_features)
        The mean of each class.
    mean_ : array of shape (n_features,)
        The mean of all rows.
    n_samples_seen_ : int
        The number of rows of positive weight learnt.
    n_features_in_ : int
        The width of the rows.
    feature_names_in_ : array of shape (n_features_in_,)
        The column names, where the rows had them.
    solver_ : str
        The solver that found the directions.
    solver_reason_ : str
        Why it was that one.
    choice_ : Choice or None
        How a parameter given as "auto" was chosen: its `value`, the nodes `values` of the curve and their `losses` on
        rows held out, and the losses of the `heads` that were compared.
    epsilon_ : float
        The weight ε in use.
    head_ : str
        Name of the classifier in the subspace.
    n_steps_ : int
        Products with S_w that an iterative solver took; fewer act as a ridge of their own. 0 for the exact solvers.
    coef_, intercept_ : array of shape (n_classes, n_features) and (n_classes,)
        Weights and constants of the features, of one score for two classes: `predict` takes the largest
        X @ coef_.T + intercept_. For linear heads that is `decision_function`; for "regression" and "hinge" the score
        of a class is an increasing function of it. Other heads have neither, and say so.
    sampling_error_ : float
        Where a stream keeps a sample: the part of the criterion lost if one half gives the directions of the other.

    See Also
    --------
    MarginSubspace : Any ε.

    Notes
    -----
    A pickle, and the file that `save` writes, hold what is needed to learn on: the statistics and, where a parameter
    or head is chosen or trained ("auto", "best", "logistic", …) or the rows are wide, the sample of training rows
    (`reservoir_bytes`). `to_sklearn` returns a pipeline with the same answers that holds no rows and is small. A
    number as the parameter and head="gaussian" keep no rows, up to 8,192 columns.

    References
    ----------
    Yan et al., A scalable supervised algorithm for dimensionality reduction on streaming data, Information Sciences
    176, 2006, section 3.2: there by a recursion, here exactly.

    Examples
    --------
    >>> from kampong import InterClassScatter
    >>> from kampong.datasets import sparse_text
    >>> X, y = sparse_text(60, 100_000, n_classes=3, random_state=0)
    >>> InterClassScatter().fit(X, y).transform(X).shape
    (60, 2)
    """

    def __init__(
        self,
        n_components: Any = "auto",
        *,
        solver: str = "auto",
        decay: float = 1.0,
        half_life: float | None = None,
        head: str = "auto",
        reservoir_bytes: int = BUDGET,
        random_state: Any = 0,
        priors: str | list[float] = "observed",
    ) -> None:
        self.n_components = n_components
        self.solver = solver
        self.decay = decay
        self.half_life = half_life
        self.head = head
        self.reservoir_bytes = reservoir_bytes
        self.random_state = random_state
        self.priors = priors

    def _value(self, statistics: ClassMeans | None) -> float | None:
        return MarginCriterion.inter_class().epsilon


@savable
class MaximumMarginCriterion(MarginSubspace):
    """The directions that maximise S_b − S_w (MMC): ε = 1.

    Parameters
    ----------
    n_components : int, "auto" or None
        How many directions. "auto" and None keep those that raise the criterion, and one at least; at most one less
        than there are classes do. More may be asked for, up to the number of features; a warning says
        how many of them lower the criterion.
    solver : {"auto", "gram", "scatter", "resolvent", "reservoir"}
        "gram" works from the class means alone (ε = 0, any width), "scatter" from a d × d matrix (any criterion, up
        to 8192 features), "resolvent" from products with the rows, in `fit` only, "reservoir" from a bounded sample of
        the rows of a stream (both any criterion, any width). "auto" takes the first of them that can serve.
    decay : float
        Each row multiplies the weight of all rows before it by this factor in (0, 1], whatever its own weight. 1
        forgets nothing. Time is counted in rows, so the cut into batches does not matter.
    half_life : float, optional
        Rows until a weight halves. Set only one of `decay` and `half_life`.
    head : {"auto", "best"} or str
        Or "gaussian", "nearest_mean", "cosine", "regression", "quadratic", "logistic", "hinge", "mixture".
        The classifier in the subspace, in this order: Gaussian classes with the shared covariance W S_w Wᵀ and the
        observed priors; the nearest class mean; the cosine to the class means; least squares on the classes; one
        covariance per class; logistic regression; one linear support vector machine per class; a mixture of them.
        "best" takes the one that errs least on held-out rows, and calibrates its probabilities there.
        "auto" is Gaussian where S_w is kept or
        `fit` has the rows in memory (it measures the covariance on 8,192 of them or more), and the nearest mean
        otherwise. Several labels per row: Gaussian, nearest mean or logistic.
    reservoir_bytes : int
        Memory limit for the sample of rows, 64 MiB by default. The sample serves solver "reservoir", head="gaussian"
        above 8192 features, and the choice of parameters (at most 16,384 rows).
    random_state : int, RandomState or None
        The seed of that sample. Streams that are to be merged should have different ones. A RandomState, or numpy's
        own for None, draws one for each fit or stream. Work in parts (dask, Spark, clients) needs a number.
    priors : {"observed", "uniform"}, array-like of shape (n_classes,) or None
        The shares of the classes where the model will be used, in the order of `classes_`; None is "observed". S_b
        weighs the class means by them, and with any head the logarithm of a probability moves by log(given /
        observed). S_w and all choices are those of the rows. Not for several labels per row.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        The directions, best first, orthonormal. The sign of each is fixed: its largest entry is positive.
    eigenvalues_ : array of shape (n_components,)
        What each direction adds to the criterion: eigenvalues of S_b − S_w = 2 S_b − S_t.
    criterion_ratio_ : array of shape (n_components,)
        Each eigenvalue over the sum of all positive ones.
    classes_ : array of shape (n_classes,)
        The labels, sorted.
    class_counts_ : array of shape (n_classes,)
        The weight of each class.
    class_means_ : array of shape (n_classes, n_features)
        The mean of each class.
    mean_ : array of shape (n_features,)
        The mean of all rows.
    n_samples_seen_ : int
        The number of rows of positive weight learnt.
    n_features_in_ : int
        The width of the rows.
    feature_names_in_ : array of shape (n_features_in_,)
        The column names, where the rows had them.
    solver_ : str
        The solver that found the directions.
    solver_reason_ : str
        Why it was that one.
    choice_ : Choice or None
        How a parameter given as "auto" was chosen: its `value`, the nodes `values` of the curve and their `losses` on
        rows held out, and the losses of the `heads` that were compared.
    epsilon_ : float
        The weight ε in use.
    head_ : str
        Name of the classifier in the subspace.
    n_steps_ : int
        Products with S_w that an iterative solver took; fewer act as a ridge of their own. 0 for the exact solvers.
    coef_, intercept_ : array of shape (n_classes, n_features) and (n_classes,)
        Weights and constants of the features, of one score for two classes: `predict` takes the largest
        X @ coef_.T + intercept_. For linear heads that is `decision_function`; for "regression" and "hinge" the score
        of a class is an increasing function of it. Other heads have neither, and say so.
    sampling_error_ : float
        Where a stream keeps a sample: the part of the criterion lost if one half gives the directions of the other.

    See Also
    --------
    MarginSubspace : Any ε.

    Notes
    -----
    A pickle, and the file that `save` writes, hold what is needed to learn on: the statistics and, where a parameter
    or head is chosen or trained ("auto", "best", "logistic", …) or the rows are wide, the sample of training rows
    (`reservoir_bytes`). `to_sklearn` returns a pipeline with the same answers that holds no rows and is small. A
    number as the parameter and head="gaussian" keep no rows, up to 8,192 columns.

    References
    ----------
    Li, Jiang and Zhang, Efficient and robust feature extraction by maximum margin criterion, NIPS 2004. Yan et al.,
    IMMC: incremental maximum margin criterion, KDD 2004.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kampong import MaximumMarginCriterion
    >>> X, y = load_iris(return_X_y=True)
    >>> MaximumMarginCriterion().fit(X, y).eigenvalues_.round(4)
    array([3.6435])
    """

    def __init__(
        self,
        n_components: Any = "auto",
        *,
        solver: str = "auto",
        decay: float = 1.0,
        half_life: float | None = None,
        head: str = "auto",
        reservoir_bytes: int = BUDGET,
        random_state: Any = 0,
        priors: str | list[float] = "observed",
    ) -> None:
        self.n_components = n_components
        self.solver = solver
        self.decay = decay
        self.half_life = half_life
        self.head = head
        self.reservoir_bytes = reservoir_bytes
        self.random_state = random_state
        self.priors = priors

    def _value(self, statistics: ClassMeans | None) -> float | None:
        return MarginCriterion.maximum_margin().epsilon


@savable
class SupervisedKampongMeasure(MarginSubspace):
    """The directions of the Supervised Kampong Measure (SKM) with parameter a: ε = (a − 1)/2.

    The measure weighs each pair of a row and a class mean; its matrix is exactly twice S_b − ((a − 1)/2) S_w, so a = 1
    is the inter-class scatter and a = 3 the maximum margin criterion. `eigenvalues_` are those of S_b − ε S_w, half of
    the paper's.

    Parameters
    ----------
    n_components : int, "auto" or None
        How many directions. "auto" and None keep those that raise the criterion, and one at least; at most one less
        than there are classes do. More may be asked for, up to the number of features; a warning says
        how many of them lower the criterion.
    a : float or "auto"
        The weight a ≥ 1 of the pull of a row towards the mean of its own class. "auto" chooses it by the accuracy on
        rows held out, as `MarginSubspace` chooses ε.
    solver : {"auto", "gram", "scatter", "resolvent", "reservoir"}
        "gram" works from the class means alone (ε = 0, any width), "scatter" from a d × d matrix (any criterion, up
        to 8192 features), "resolvent" from products with the rows, in `fit` only, "reservoir" from a bounded sample of
        the rows of a stream (both any criterion, any width). "auto" takes the first of them that can serve.
    decay : float
        Each row multiplies the weight of all rows before it by this factor in (0, 1], whatever its own weight. 1
        forgets nothing. Time is counted in rows, so the cut into batches does not matter.
    half_life : float, optional
        Rows until a weight halves. Set only one of `decay` and `half_life`.
    head : {"auto", "best"} or str
        Or "gaussian", "nearest_mean", "cosine", "regression", "quadratic", "logistic", "hinge", "mixture".
        The classifier in the subspace, in this order: Gaussian classes with the shared covariance W S_w Wᵀ and the
        observed priors; the nearest class mean; the cosine to the class means; least squares on the classes; one
        covariance per class; logistic regression; one linear support vector machine per class; a mixture of them.
        "best" takes the one that errs least on held-out rows, and calibrates its probabilities there.
        "auto" is "best" where a is chosen too;
        else it is Gaussian where S_w is kept or `fit` has the rows in memory (it measures the covariance on 8,192 of
        them or more), and the nearest mean otherwise. Several labels per row: Gaussian, nearest mean or logistic.
    reservoir_bytes : int
        Memory limit for the sample of rows, 64 MiB by default. The sample serves solver "reservoir", head="gaussian"
        above 8192 features, and the choice of parameters (at most 16,384 rows).
    random_state : int, RandomState or None
        The seed of that sample. Streams that are to be merged should have different ones. A RandomState, or numpy's
        own for None, draws one for each fit or stream. Work in parts (dask, Spark, clients) needs a number.
    priors : {"observed", "uniform"}, array-like of shape (n_classes,) or None
        The shares of the classes where the model will be used, in the order of `classes_`; None is "observed". S_b
        weighs the class means by them, and with any head the logarithm of a probability moves by log(given /
        observed). S_w and all choices are those of the rows. Not for several labels per row.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        The directions, best first, orthonormal. The sign of each is fixed: its largest entry is positive.
    eigenvalues_ : array of shape (n_components,)
        What each direction adds to the criterion: eigenvalues of S_b − ((a − 1)/2) S_w.
    criterion_ratio_ : array of shape (n_components,)
        Each eigenvalue over the sum of all positive ones.
    classes_ : array of shape (n_classes,)
        The labels, sorted.
    class_counts_ : array of shape (n_classes,)
        The weight of each class.
    class_means_ : array of shape (n_classes, n_features)
        The mean of each class.
    mean_ : array of shape (n_features,)
        The mean of all rows.
    n_samples_seen_ : int
        The number of rows of positive weight learnt.
    n_features_in_ : int
        The width of the rows.
    feature_names_in_ : array of shape (n_features_in_,)
        The column names, where the rows had them.
    solver_ : str
        The solver that found the directions.
    solver_reason_ : str
        Why it was that one.
    choice_ : Choice or None
        How a parameter given as "auto" was chosen: its `value`, the nodes `values` of the curve and their `losses` on
        rows held out, and the losses of the `heads` that were compared.
    epsilon_ : float
        The weight ε in use.
    a_ : float
        The parameter a in use.
    head_ : str
        Name of the classifier in the subspace.
    n_steps_ : int
        Products with S_w that an iterative solver took; fewer act as a ridge of their own. 0 for the exact solvers.
    coef_, intercept_ : array of shape (n_classes, n_features) and (n_classes,)
        Weights and constants of the features, of one score for two classes: `predict` takes the largest
        X @ coef_.T + intercept_. For linear heads that is `decision_function`; for "regression" and "hinge" the score
        of a class is an increasing function of it. Other heads have neither, and say so.
    sampling_error_ : float
        Where a stream keeps a sample: the part of the criterion lost if one half gives the directions of the other.

    See Also
    --------
    MarginSubspace : The same with ε itself as the parameter.

    Notes
    -----
    A pickle, and the file that `save` writes, hold what is needed to learn on: the statistics and, where a parameter
    or head is chosen or trained ("auto", "best", "logistic", …) or the rows are wide, the sample of training rows
    (`reservoir_bytes`). `to_sklearn` returns a pipeline with the same answers that holds no rows and is small. A
    number as the parameter and head="gaussian" keep no rows, up to 8,192 columns.

    References
    ----------
    The Supervised Kampong Measure, equations 22 and 23: there by a recursion, here exactly.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from kampong import SupervisedKampongMeasure
    >>> X, y = load_wine(return_X_y=True)
    >>> SupervisedKampongMeasure(a=1.5).fit(X, y).components_.shape
    (2, 13)
    """

    def __init__(
        self,
        n_components: Any = "auto",
        *,
        a: Any = 2.0,
        solver: str = "auto",
        decay: float = 1.0,
        half_life: float | None = None,
        head: str = "auto",
        reservoir_bytes: int = BUDGET,
        random_state: Any = 0,
        priors: str | list[float] = "observed",
    ) -> None:
        self.n_components = n_components
        self.a = a
        self.solver = solver
        self.decay = decay
        self.half_life = half_life
        self.head = head
        self.reservoir_bytes = reservoir_bytes
        self.random_state = random_state
        self.priors = priors

    @property
    def a_(self) -> float:
        """The weight a in use."""
        return 1.0 + 2.0 * self.epsilon_

    def _value(self, statistics: ClassMeans | None) -> float | None:
        if isinstance(self.a, str) and self.a == "auto":
            return None
        name, step = type(self).__name__, "1 is the inter-class scatter, 3 the maximum margin criterion; or 'auto'."
        return MarginCriterion.kampong(check_number(name, "a", self.a, low=1.0, high=1e300, next_step=step)).epsilon

    def _spell(self, value: float) -> str:
        return f"a={2 * value + 1:g}"
