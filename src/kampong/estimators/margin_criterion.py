"""The estimators of the margin criterion S_b − ε S_w, under the names of the papers too, and of any criterion."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kampong._core.docstrings import described_like
from kampong.criteria import CRITERIA, MarginCriterion
from kampong.data.validation import check_choice, check_number
from kampong.estimators.fisher import FisherDiscriminant
from kampong.estimators.subspace import DiscriminantSubspace
from kampong.files import savable
from kampong.statistics.reservoir import BUDGET

if TYPE_CHECKING:
    from kampong.criteria import Criterion
    from kampong.statistics.means import ClassMeans


@savable
@described_like(FisherDiscriminant)
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
    half_life : float, optional
        Rows until a weight halves. Set only one of `decay` and `half_life`.
    head : {"auto", "best"} or str
        Or "gaussian", "nearest_mean", "cosine", "regression", "quadratic", "logistic", "hinge", "mixture".
        The classifier in the subspace, in this order: Gaussian classes with the shared covariance W S_w Wᵀ and the
        observed priors; the nearest class mean; the cosine to the class means; least squares on the classes; one
        covariance per class; logistic regression; one linear support vector machine per class; a mixture of them.
        "best" takes the one that errs least on held-out rows, and calibrates its probabilities there.
        "auto" is "best" where the parameter is chosen too;
        else it is Gaussian where S_w is kept or `fit` has the rows in memory (it measures the covariance on 8,192 of
        them or more), and the nearest mean otherwise. Several labels per row: Gaussian, nearest mean or logistic.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        The directions, best first, orthonormal. The sign of each is fixed: its largest entry is positive.
    eigenvalues_ : array of shape (n_components,)
        What each direction adds to the criterion: eigenvalues of S_b − ε S_w.
    epsilon_ : float
        The weight ε in use.

    See Also
    --------
    InterClassScatter : The case ε = 0, for any width.
    MaximumMarginCriterion : The case ε = 1.
    SupervisedKampongMeasure : The case ε = (a − 1)/2.
    FisherDiscriminant : The ratio in place of the difference.

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
@described_like(MarginSubspace)
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

    Attributes
    ----------
    eigenvalues_ : array of shape (n_components,)
        What each direction adds to the criterion: eigenvalues of S_b.

    See Also
    --------
    MarginSubspace : Any ε.

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
@described_like(MarginSubspace)
class MaximumMarginCriterion(MarginSubspace):
    """The directions that maximise S_b − S_w (MMC): ε = 1.

    Attributes
    ----------
    eigenvalues_ : array of shape (n_components,)
        What each direction adds to the criterion: eigenvalues of S_b − S_w = 2 S_b − S_t.

    See Also
    --------
    MarginSubspace : Any ε.

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
@described_like(MarginSubspace)
class SupervisedKampongMeasure(MarginSubspace):
    """The directions of the Supervised Kampong Measure (SKM) with parameter a: ε = (a − 1)/2.

    The measure weighs each pair of a row and a class mean; its matrix is exactly twice S_b − ((a − 1)/2) S_w, so a = 1
    is the inter-class scatter and a = 3 the maximum margin criterion. `eigenvalues_` are those of S_b − ε S_w, half of
    the paper's.

    Parameters
    ----------
    a : float or "auto"
        The weight a ≥ 1 of the pull of a row towards the mean of its own class. "auto" chooses it by the accuracy on
        rows held out, as `MarginSubspace` chooses ε.

    Attributes
    ----------
    eigenvalues_ : array of shape (n_components,)
        What each direction adds to the criterion: eigenvalues of S_b − ((a − 1)/2) S_w.
    a_ : float
        The parameter a in use.

    See Also
    --------
    MarginSubspace : The same with ε itself as the parameter.

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


@savable
@described_like(MarginSubspace)
class CriterionSubspace(DiscriminantSubspace):
    """The directions that maximise a criterion given by name, "margin", "fisher" or one of your own.

    A criterion of your own is a subclass of `kampong.criteria.Criterion` with a name; CONTRIBUTING.md shows
    one. It is then served by every solver, its parameter can be chosen, and models of it can be saved and streamed.

    Parameters
    ----------
    n_components : int, "auto" or None
        How many directions. "auto" and None keep those that raise the criterion, and one at least.
    criterion : str
        The name of the criterion.
    parameter : float or "auto"
        Its number: ε of "margin", which has no unit, or the ridge of "fisher", in the squared units of the features.
        "auto" chooses it by the accuracy on held-out rows.
    solver : {"auto", "gram", "scatter", "resolvent", "reservoir"}
        "gram" works from the class means alone, "scatter" from a d × d matrix, up to 8192 features, "resolvent" from
        products with the rows, in `fit` only, "reservoir" from a bounded sample of the rows of a stream. "auto" takes
        the first of them that can serve.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        The directions, best first. The sign of each is fixed: its largest entry is positive.
    eigenvalues_ : array of shape (n_components,)
        What each direction adds to the criterion.
    parameter_ : float
        The parameter in use.

    See Also
    --------
    MarginSubspace : The margin criterion, with its own parameter.
    FisherDiscriminant : Fisher's criterion, with its own parameter.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from kampong import CriterionSubspace
    >>> X, y = load_iris(return_X_y=True)
    >>> CriterionSubspace(criterion="margin", parameter=1.0).fit(X, y).eigenvalues_.round(4)
    array([3.6435])
    """

    def __init__(
        self,
        n_components: Any = "auto",
        *,
        criterion: str = "fisher",
        parameter: Any = "auto",
        solver: str = "auto",
        decay: float = 1.0,
        half_life: float | None = None,
        head: str = "auto",
        reservoir_bytes: int = BUDGET,
        random_state: Any = 0,
        priors: str | list[float] = "observed",
    ) -> None:
        self.n_components = n_components
        self.criterion = criterion
        self.parameter = parameter
        self.solver = solver
        self.decay = decay
        self.half_life = half_life
        self.head = head
        self.reservoir_bytes = reservoir_bytes
        self.random_state = random_state
        self.priors = priors

    @property
    def parameter_(self) -> float:
        """The parameter in use."""
        return self._read().criterion.value

    def _kind(self) -> type[Criterion]:
        return CRITERIA[check_choice(type(self).__name__, "criterion", self.criterion, tuple(CRITERIA))]

    def _value(self, statistics: ClassMeans | None) -> float | None:
        if isinstance(self.parameter, str) and self.parameter == "auto":
            return None
        name, step = type(self).__name__, "Use 'auto' to have it chosen."
        return check_number(name, "parameter", self.parameter, low=-1e300, high=1e300, next_step=step)

    def _spell(self, value: float) -> str:
        return f"parameter={value:g}"
