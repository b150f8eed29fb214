"""CriterionSubspace: the estimator of any criterion by name, one of your own included."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kampong.criteria import CRITERIA
from kampong.data.validation import check_choice, check_number
from kampong.estimators.subspace import DiscriminantSubspace
from kampong.files import savable
from kampong.statistics.reservoir import BUDGET

if TYPE_CHECKING:
    from kampong.criteria import Criterion
    from kampong.statistics.means import ClassMeans


@savable
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
        Its number: ε of "margin", the ridge of "fisher". "auto" chooses it by the accuracy on rows held out.
    solver : {"auto", "gram", "scatter", "resolvent", "reservoir"}
        "gram" works from the class means alone, "scatter" from a d × d matrix, up to 8192 features, "resolvent" from
        products with the rows, in `fit` only, "reservoir" from a bounded sample of the rows of a stream. "auto" takes
        the first of them that can serve.
    decay : float
        Each row multiplies the weight of all rows before it by this factor in (0, 1], whatever its own weight. 1
        forgets nothing. Time is counted in rows, so the cut into batches does not matter.
    half_life : float, optional
        Rows until a weight halves. Set only one of `decay` and `half_life`.
    head : {"auto", "best"} or str
        Or "gaussian", "nearest_mean", "cosine", "regression", "quadratic", "logistic", "hinge", "mixture".
        What `predict` uses inside the subspace, or a head of your own by its name. "best" takes the one that errs least
        on rows held out; "auto" is the same where the parameter is chosen, else Gaussian classes.
    reservoir_bytes : int
        The most memory for the sample of rows that solver "reservoir" and the choice of the parameter keep.
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
        The directions, best first. The sign of each is fixed: its largest entry is positive.
    eigenvalues_ : array of shape (n_components,)
        What each direction adds to the criterion.
    criterion_ratio_ : array of shape (n_components,)
        Each eigenvalue over the sum of all positive ones.
    parameter_ : float
        The parameter in use.
    choice_ : Choice or None
        How it was chosen: its `value`, the nodes `values` of the curve and their `losses` on rows held out.
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
    MarginSubspace : The margin criterion, with its own parameter.
    FisherDiscriminant : Fisher's criterion, with its own parameter.

    Notes
    -----
    A pickle, and the file that `save` writes, hold what is needed to learn on: the statistics and, where a parameter
    or head is chosen or trained ("auto", "best", "logistic", …) or the rows are wide, the sample of training rows
    (`reservoir_bytes`). `to_sklearn` returns a pipeline with the same answers that holds no rows and is small. A
    number as the parameter and head="gaussian" keep no rows, up to 8,192 columns.

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
