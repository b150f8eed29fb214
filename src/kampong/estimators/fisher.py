"""FisherDiscriminant: linear discriminant analysis as a stream, of any width."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from sklearn.utils.validation import check_is_fitted

from kampong._core.locks import one_at_a_time
from kampong.criteria import FisherCriterion, ridge_rule
from kampong.data.validation import check_number
from kampong.estimators.following import FollowsDrift
from kampong.estimators.novelty import predict_known, score_known, score_samples
from kampong.estimators.parameters import check_scale, explain_lda_arguments, scale_reason
from kampong.estimators.verification import same_class
from kampong.files import savable
from kampong.online.settings import Settings
from kampong.selection.settings import SETTINGS
from kampong.statistics.reservoir import BUDGET
from kampong.statistics.scatter import WIDEST

if TYPE_CHECKING:
    from kampong._core.compute import Float
    from kampong.build import Recipe
    from kampong.criteria import Criterion
    from kampong.predictor import Predictor
    from kampong.statistics.means import ClassMeans


@savable
class FisherDiscriminant(FollowsDrift):
    """Linear discriminant analysis with a ridge: incremental, mergeable, for sparse rows, weights and new classes.

    Maximises wᵀS_b w / wᵀ(S_w + ρI)w, one direction after another, conjugate in S_w + ρI. At ridge 0 this is
    scikit-learn's `LinearDiscriminantAnalysis`, directions and predictions.

    Parameters
    ----------
    n_components : int, "auto" or None
        The number of directions that `transform` gives. None, the default, and "auto" give all: one less than there
        are classes. With `ridge="auto"` the chosen head may use further directions in `predict`.
    ridge : float, "auto" or "rule"
        The ridge ρ ≥ 0, in the squared units of the features, or without a unit if columns are scaled. "auto", the
        default, chooses it: by leave-one-out in closed form up to 1,024 features, on held-out rows above. "rule" is a
        formula, for models that are read after each row: d/n times the lower quartile of the within-class variances of
        the d features, where n is the weight of the rows. Above 8192 features it is tr(S_w)/n.
    solver : {"auto", "scatter", "resolvent", "reservoir"}
        "scatter" works from a d × d matrix, up to 8192 features. Above, "resolvent" works from products with the rows,
        in `fit` only, and "reservoir" from a bounded sample of the rows of a stream. "auto", the default, takes
        "scatter" where it fits.
    decay : float
        Each row multiplies the weight of all rows before it by this factor in (0, 1], whatever its own weight. 1
        forgets nothing. Time is counted in rows, so the cut into batches does not matter.
    half_life : float or "auto", optional
        Rows until a weight halves. Set only one of `decay` and `half_life`. "auto" follows drift: the statistics, and
        with them directions and `transform`, are those of all rows, and classes are predicted by the contest of
        `kampong.online.OnlineClassifier`. Its members learn every row and are weighed by their recent losses; in a
        stream (`kampong.streaming.learn`) the model of all rows is one of them. Rows must come in their order. Members
        can neither be merged nor unlearn: a model after `merge` or `unlearn` answers by all rows, as does one of
        several labels per row.
    head : {"auto", "best"} or str
        The classifier that `predict` uses in the subspace. "auto", the default, chooses it on held-out rows if the
        ridge is chosen, and is "gaussian" otherwise; "best" always chooses. By name: "gaussian", classes with the
        shared covariance W(S_w + ρI)Wᵀ and the observed priors; "nearest_mean"; "cosine", the angle to the class means;
        "regression", least squares on the classes; "quadratic", one covariance per class; "logistic"; "hinge", one
        linear support vector machine per class; "mixture", several of these, weighed. "quadratic", "logistic" and
        "hinge" are trained on rows in memory or on the sample of a stream. If the ridge or the head is chosen,
        probabilities are calibrated on the held-out rows. Above 8192 sparse columns "hinge" sees all columns.
    reservoir_bytes : int
        Memory limit in bytes for the sample of rows, 64 MiB by default. The sample serves solver "reservoir",
        head="gaussian" above 8192 features, and the choice of parameters (at most 16,384 rows). Results depend on it
        once the rows do not fit.
    random_state : int, RandomState or None
        The seed of that sample. Streams that are to be merged should have different ones. A RandomState, or numpy's
        own for None, draws one for each fit or stream. Work in parts (dask, Spark, clients) needs a number.
    priors : {"observed", "uniform"}, array-like of shape (n_classes,) or None
        The shares of the classes where the model will be used, in the order of `classes_`; None is "observed". S_b
        weighs the class means by them, and with any head the logarithm of a probability moves by log(given /
        observed). S_w and all choices are those of the rows. Not for several labels per row.
    scale : {"auto", True, False}
        Whether each column is divided by its standard deviation first, so that the ridge means the same for all of
        them; the answers are for the rows as they come. "auto" tries both if the ridge is chosen too, and divides if
        that errs less on held-out rows; `scale_reason_` says what was found. Above 1,024 columns it also tries to
        divide large columns alone, if most of the variance is that of a few; for sparse rows, and above 8,192 columns,
        it tries nothing else there. True needs the d × d scatter, and is refused above 8,192 columns.
    effort : float
        With half_life="auto": nominal cost of a row of up to 20 columns in the contest, in microseconds of one core; a
        longer row may cost as much more. Members take part while their costs fit, the cheapest first, by the number of
        columns and classes alone; softmax regression always does.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        The directions, best first, with wᵀ(S_w + ρI)w = 1. The sign of each is fixed: its largest entry is positive.
        Where columns are scaled, both hold of their entries times `scale_`.
    eigenvalues_ : array of shape (n_components,)
        The ratio that each direction reaches.
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
        held-out rows, and the losses of the `heads` that were compared.
    head_ : str
        Name of the classifier in the subspace.
    half_life_ : float
        The half-life of the statistics; infinite where they forget nothing, as with "auto".
    member_weights_ : dict of str to float
        How much each answer counts in the contest of half_life="auto", "all_rows 0" that of the model of all rows;
        empty without a contest.
    n_steps_ : int
        Products with S_w that an iterative solver took; fewer act as a ridge of their own. 0 for the exact solvers.
    sampling_error_ : float
        If a stream keeps a sample: the part of the criterion lost if one half gives the directions of the other.
    ridge_ : float
        The ridge in use; in units of the variances of the columns where they are scaled.
    scale_ : array of shape (n_features,) or None
        What the columns are divided by: their standard deviations, or 1 for all but large columns; None where they are
        taken as they are.
    scale_reason_ : str
        Why the columns are divided or not: the selection loss of both.
    coef_, intercept_ : array of shape (n_classes, n_features) and (n_classes,)
        Weights and constants of the features, of one score for two classes: `predict` takes the largest
        X @ coef_.T + intercept_. For linear heads that is `decision_function`; for "regression" and "hinge" the score
        of a class is an increasing function of it. Other heads have neither, and say so.
    priors_ : array of shape (n_classes,)
        The shares of the classes in use.
    means_, xbar_, scalings_, explained_variance_ratio_ : array
        What scikit-learn's LinearDiscriminantAnalysis calls `class_means_`, `mean_` (with the shares in use),
        `components_.T` and `criterion_ratio_`.

    See Also
    --------
    MarginSubspace : The difference in place of the ratio; a margin direction of eigenvalue λ is the Fisher direction
        at ridge λ/ε.

    Notes
    -----
    A pickle, and the file that `save` writes, hold what is needed to learn on: the statistics and, where a parameter
    or head is chosen or trained ("auto", "best", "logistic", …) or the rows are wide, the sample of training rows
    (`reservoir_bytes`). `to_sklearn` returns a pipeline with the same answers that holds no rows and is small. A
    number as the parameter and head="gaussian" keep no rows, up to 8,192 columns.

    References
    ----------
    Fisher, The use of multiple measurements in taxonomic problems, 1936. Friedman, Regularized discriminant analysis,
    1989, for the ridge.

    Examples
    --------
    >>> from sklearn.datasets import load_wine
    >>> from kampong import FisherDiscriminant
    >>> X, y = load_wine(return_X_y=True)
    >>> model = FisherDiscriminant(ridge=0)
    >>> for start in range(0, len(X), 50):
    ...     model = model.partial_fit(X[start : start + 50], y[start : start + 50])
    >>> model.score(X, y)
    1.0
    """

    @explain_lda_arguments
    def __init__(
        self,
        n_components: Any = None,
        *,
        ridge: Any = "auto",
        solver: str = "auto",
        decay: float = 1.0,
        half_life: float | str | None = None,
        head: str = "auto",
        reservoir_bytes: int = BUDGET,
        random_state: Any = 0,
        priors: str | list[float] = "observed",
        scale: bool | str = "auto",
        effort: float = Settings.effort,
    ) -> None:
        self.n_components = n_components
        self.ridge = ridge
        self.solver = solver
        self.decay = decay
        self.half_life = half_life
        self.head = head
        self.reservoir_bytes = reservoir_bytes
        self.random_state = random_state
        self.priors = priors
        self.scale = scale
        self.effort = effort

    score_samples = score_samples
    score_known = score_known
    predict_known = predict_known
    same_class = same_class

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_scale(type(self).__name__, self.scale)

    @property
    def half_life_(self) -> float:
        """The half-life of the statistics; infinite where they forget nothing, as with "auto"."""
        check_is_fitted(self)
        if self.half_life is None or isinstance(self.half_life, str):
            return math.inf if self.decay == 1.0 else math.log(0.5) / math.log(self.decay)
        return float(self.half_life)

    @property
    def ridge_(self) -> float:
        """The ridge in use, in units of the variances of the columns where `scale_` is not None."""
        return self._read().criterion.value

    @property
    @one_at_a_time
    def scale_(self) -> Float | None:
        """What the columns are divided by first; None where they are taken as they are."""
        return self._units_of(self._read())

    def _units_of(self, known: Predictor) -> Float | None:
        """Return what a predictor of these statistics divides the columns by."""
        statistics = self._statistics
        if isinstance(self.scale, str) and known.choice is not None and known.choice.units is not None:
            return known.choice.units.copy()
        scaled = known.choice is not None and known.choice.scaled if isinstance(self.scale, str) else self.scale
        return statistics.units() if scaled and statistics.holds_scatter else None

    @property
    def scale_reason_(self) -> str:
        """Why the columns are divided by their standard deviations or not, in one sentence."""
        known, statistics = self._read(), self._statistics
        if self.ridge != "auto":
            why = "scale='auto' tries both only if ridge='auto'"
        elif statistics.n_features > SETTINGS.leave_one_out_columns and known.choice is not None:
            why = (
                f"of sparse rows above {SETTINGS.leave_one_out_columns} columns, and of all rows above {WIDEST}, only "
                "large columns are divided, and here most of the variance is not that of a few"
            )
        else:
            why = "there are too few rows to compare both"
        choice = known.choice
        losses, own = ({}, "") if choice is None else (choice.scales, choice.own_scale)
        large = choice is not None and choice.units is not None and not own
        return scale_reason(self.scale, self.scale_ is not None, losses, why, large=large, own=own)

    # The names of scikit-learn's LinearDiscriminantAnalysis, for code that was written for it.

    @property
    def means_(self) -> Float:
        """The mean of each class: `class_means_`."""
        return self.class_means_

    @property
    def xbar_(self) -> Float:
        """The mean of the class means with the shares in use; with those observed, `mean_`."""
        mean: Float = self.mean_ if self._priors() is None else self.priors_ @ self.class_means_
        return mean

    @property
    def scalings_(self) -> Float:
        """The directions, one a column: `components_.T`."""
        return self.components_.T

    @property
    def explained_variance_ratio_(self) -> Float:
        """The share of each direction in the sum of the ratios: `criterion_ratio_`."""
        return self.criterion_ratio_

    def _freeze_provisional(self, keep: Predictor | None, *, provisional: bool) -> Predictor | None:
        """Return a frozen predictor; see `freeze` and `Recipe.provisional`."""
        if self._statistics.classes_seen < 2:
            return None
        return self._made(replace(self._recipe(), provisional=provisional), None, keep)

    def _recipe(self) -> Recipe:
        scale = None if isinstance(self.scale, str) else bool(self.scale)
        return replace(super()._recipe(), scale=scale)

    def _kind(self) -> type[Criterion]:
        return FisherCriterion

    def _value(self, statistics: ClassMeans | None) -> float | None:
        if isinstance(self.ridge, str) and self.ridge == "auto":
            return None
        if isinstance(self.ridge, str) and self.ridge == "rule":
            return 0.0 if statistics is None else ridge_rule(statistics)
        name, step = type(self).__name__, "Use 'auto' to have it chosen."
        return check_number(name, "ridge", self.ridge, low=0.0, high=1e300, next_step=step)
