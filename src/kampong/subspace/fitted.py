"""What a linear estimator knows in its present state: its attributes, computed from statistics when they are read."""

from __future__ import annotations

import math
import numbers
import warnings
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from kampong._runtime.arrays import project
from kampong.statistics import ClassScatter
from kampong.statistics.reservoir import ClassReservoir
from kampong.statistics.rows import ClassRows
from kampong.subspace import choice as selection
from kampong.subspace.criteria import CriterionWarning, FisherCriterion
from kampong.subspace.heads import LinearHead, class_head, label_head
from kampong.subspace.solvers import Subspace, classes_seen, scatter, solve, value_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kampong._runtime.arrays import Float, Rows
    from kampong.statistics import ClassMeans
    from kampong.subspace.choice import Choice
    from kampong.subspace.criteria import Criterion
    from kampong.subspace.solvers.base import Krylov

HEAD_ROWS, HEAD_ROWS_PER_DIRECTION = 2**13, 200
"""Rows on which `fit` measures the covariance of the Gaussian head where no scatter is kept: good to about 2 %."""


class FittedSubspace:
    """The attributes of a linear estimator: parameter chosen, directions, head, each computed at most once a state.

    They follow from `_statistics` and are kept in `_results`, which whoever learns a row has to empty.
    """

    n_components: Any
    solver: Any
    head: Any
    n_features_in_: int
    _statistics: ClassMeans
    _results: dict[str, Any]
    _said: bool

    # What a subclass says.

    def _criterion(self, statistics: ClassMeans | None) -> Criterion:
        """Return the criterion; before the first row `statistics` is None and a stand-in of the same kind will do."""
        raise NotImplementedError

    def _candidates(self, statistics: ClassMeans | None) -> Sequence[Criterion] | None:
        """Return the criteria to choose from by accuracy, weak to strong, or None where the parameter is given."""
        return None

    def _usual(self, statistics: ClassMeans) -> float:
        """Return what a parameter to be chosen would be without a choice."""
        return 1.0

    def _admit(self, ratio: float) -> str:
        """Return the parameter that would admit a direction of this Fisher ratio."""
        return f"epsilon={below(ratio):g}"

    # What a reader sees.

    @property
    def components_(self) -> Float:
        """The directions, one a row, best first."""
        return self._solve().components

    @property
    def eigenvalues_(self) -> Float:
        """What each direction adds to the criterion."""
        return self._solve().eigenvalues

    @property
    def criterion_ratio_(self) -> Float:
        """Each eigenvalue over the sum of all positive ones; zeros where none is positive."""
        subspace = self._solve()
        return subspace.eigenvalues / subspace.total if subspace.total > 0 else np.zeros(len(subspace.eigenvalues))

    @property
    def solver_(self) -> str:
        """The solver that found the directions."""
        return self._solve().solver

    @property
    def solver_reason_(self) -> str:
        """Why the directions were found by that solver."""
        name, d = self.solver_, self.n_features_in_
        if self.solver == name:
            return f"solver={name!r} was asked for"
        width = f"{d} features, {'up to' if d <= scatter.WIDEST else 'past'} the {scatter.WIDEST} of a d × d scatter"
        return {
            "gram": "S_b alone is maximised, and the class means hold all of it",
            "scatter": f"{width}: S_w is kept whole, and the result exact",
            "resolvent": f"{width}; the rows were in hand: products with them, {self.n_steps_} steps",
            "reservoir": f"{width}; the rows passed by: exact means and a sample of them, {self.n_steps_} steps",
        }[name]

    @property
    def n_steps_(self) -> int:
        """The number of products with S_w that an iterative solver took; 0 for the exact ones."""
        return self._solve().n_steps

    @property
    def sampling_error_(self) -> float:
        """What the sample of rows costs: the part of the criterion lost by judging one half of it by the other half.

        0 where no row was left out of the sample, and where none is needed. It compares samples of half the size, so
        it overstates what the whole sample costs.
        """
        results = self._results_checked()
        if "sampling_error" not in results:
            statistics = self._statistics
            sampled = isinstance(statistics, ClassReservoir) and not isinstance(statistics, ClassScatter)
            exact = not sampled or not cast("ClassReservoir", statistics).full
            results["sampling_error"] = 0.0 if exact else self._halves_differ()
        return float(results["sampling_error"])

    @property
    def choice_(self) -> Choice | None:
        """How a parameter given as "auto" was chosen: the candidates and their curves; None where none was."""
        self._solve()
        choice: Choice | None = self._results.get("choice")
        return choice

    @property
    def head_(self) -> str:
        """What predicts: "gaussian" or "nearest_mean"."""
        return self._head().name

    @property
    def classes_(self) -> np.ndarray:
        """The labels, sorted."""
        return np.asarray(self._read("classes"))

    @property
    def class_counts_(self) -> Float:
        """The weight of each class, decayed where rows age."""
        return np.asarray(self._read("counts"))

    @property
    def class_means_(self) -> Float:
        """The mean of each class, (n_classes, n_features); `mean_` for a class declared but not seen."""
        if "class_means" not in self._results_checked():
            means = self._statistics.means
            means[self._statistics.counts == 0] = self._statistics.mean
            self._results["class_means"] = means
        return np.asarray(self._results["class_means"])

    @property
    def mean_(self) -> Float:
        """The mean of all rows, each counted for each of its labels."""
        return np.asarray(self._read("mean"))

    @property
    def n_samples_seen_(self) -> int:
        """The number of rows of positive weight learnt."""
        check_is_fitted(self)
        return self._statistics.n_samples

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_statistics") and self._statistics.n_samples > 0

    def in_use(self) -> tuple[LinearHead, Criterion]:
        """Return the head that predicts in the present state, and the criterion that its directions maximise."""
        return self._head(), self._criterion(self._statistics)

    # How.

    def _wanted(self) -> int | None:
        """Return the number of directions asked for, None for as many as raise the criterion."""
        value = self.n_components
        if value is None or (isinstance(value, str) and value == "auto"):
            return None
        if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < 1:
            raise ValueError(
                f"{type(self).__name__}: n_components must be a whole number ≥ 1, 'auto' or None, got {value!r}."
            )
        return int(value)

    def _results_checked(self) -> dict[str, Any]:
        check_is_fitted(self)
        return self._results

    def _read(self, name: str) -> Any:
        """Return an attribute of the statistics, computed at most once a state."""
        results = self._results_checked()
        if name not in results:
            results[name] = getattr(self._statistics, name)
        return results[name]

    def _solve(self) -> Subspace:
        """Return the subspace of the present state, solved at most once."""
        results = self._results_checked()
        if "subspace" not in results:
            seen = classes_seen(self._statistics)
            if seen < 2:
                raise NotFittedError(
                    f"{type(self).__name__}: directions that tell classes apart need rows of at least 2 classes; so "
                    f"far there is {seen} class: {self.classes_[self.class_counts_ > 0].tolist()}. Go on with rows of "
                    "another class."
                )
            try:
                space = self._choose()
                criterion = self._criterion(self._statistics)
                found = solve(criterion, self._statistics, self._wanted(), solver=self.solver, space=space)
            except ValueError as error:
                raise ValueError(f"{type(self).__name__}: {error}") from None
            self._comment(criterion, found)
            results["subspace"] = found
        subspace: Subspace = results["subspace"]
        return subspace

    def _chosen(self, otherwise: float) -> float:
        """Return the value chosen in the present state, or another where none could be."""
        choice: Choice | None = self._results.get("choice")
        return otherwise if choice is None else choice.value

    def _choose(self) -> Krylov | None:
        """Choose a parameter that is left open; return the space it was chosen in, where that is used again."""
        statistics = self._statistics
        candidates = self._candidates(statistics)
        if not candidates:
            return None
        if not isinstance(statistics, ClassReservoir | ClassRows):
            return None
        nearest = self.head == "nearest_mean"
        usual = self._usual(statistics)
        choice, space = selection.choose(candidates, statistics, self._wanted(), usual=usual, nearest_mean=nearest)
        if choice.weight > 0:
            self._results["choice"] = choice
        return space

    def _comment(self, criterion: Criterion, found: Subspace) -> None:
        """Warn, once a model, where the directions are not what was hoped for."""
        if self._said:
            return
        name, kept = type(self).__name__, len(found.components)
        text = ""
        if isinstance(criterion, FisherCriterion):
            if found.n_dropped:
                text = (
                    f"{name}: S_w vanishes in {found.n_dropped} of {self.n_features_in_} directions (constant or "
                    "dependent features), which are left out. Use a positive ridge to let them take part."
                )
        elif kept > found.n_positive:
            effect = "leave it as it is" if criterion.epsilon == 0 else "lower it"
            text = f"{name}: {found.n_positive} of the {kept} directions raise the {criterion}; the others {effect}."
            if found.n_positive == 0 and criterion.epsilon > 0:
                ratio = float(solve(FisherCriterion(0.0), self._statistics, 1).eigenvalues[0])
                text += (
                    f" The largest ratio of between-class to within-class variance is {ratio:.4g}, below "
                    f"epsilon={criterion.epsilon:g}; {self._admit(ratio)} would admit it."
                )
        if text:
            self._said = True
            warnings.warn(text, CriterionWarning, stacklevel=4)

    def _halves_differ(self) -> float:
        assert isinstance(self._statistics, ClassReservoir)
        halves, criterion = self._statistics.halves(), self._criterion(self._statistics)
        wanted = len(self._solve().components)
        found = [solve(criterion, half, wanted).components for half in halves]
        lost = []
        for mine, other in ((0, 1), (1, 0)):
            best = value_of(criterion, found[mine], halves[mine])
            lost.append((best - value_of(criterion, found[other], halves[mine])) / abs(best))
        return float(np.mean(lost))

    def _head(self) -> LinearHead:
        """Return what predicts in the present state, computed at most once."""
        results = self._results_checked()
        if "head" not in results:
            statistics, components = self._statistics, self._solve().components
            means = (self.class_means_ - self.mean_) @ components.T
            covariance = self._covariance()
            if statistics.multilabel:
                centre = (statistics.row_mean - self.mean_) @ components.T
                results["head"] = label_head(means, statistics.counts, centre, statistics.row_weight, covariance)
            else:
                results["head"] = class_head(means, statistics.counts, covariance)
        head: LinearHead = results["head"]
        return head

    def _head_ridge(self) -> float:
        """Return the ridge that the covariance of the head takes: what regularises the directions regularises it."""
        criterion = self._criterion(self._statistics)
        return criterion.ridge if isinstance(criterion, FisherCriterion) else 0.0

    def _covariance(self) -> Float | float:
        """Return W S_w Wᵀ, ridge included, where it is known and wanted, else the mean variance of a feature."""
        statistics = self._statistics
        if self.head != "nearest_mean":
            if statistics.holds_within:
                components = self._solve().components
                covariance: Float = components @ statistics.within_times(np.ascontiguousarray(components.T))
                scaled = math.sqrt(self._head_ridge()) * components  # a faded column has a huge entry: no squares of it
                covariance += scaled @ scaled.T
                return (covariance + covariance.T) / 2
            if "covariance" in self._results:
                measured: Float = self._results["covariance"]
                return measured
            if self.head == "gaussian":
                raise ValueError(
                    f"{type(self).__name__}: head='gaussian' needs the within-class scatter, which was measured in fit "
                    "and is out of date after partial_fit. Use head='auto' or fit all rows at once."
                )
        return statistics.within_trace / statistics.n_features

    def _measure_covariance(self, X: Rows, y: Any, weights: Float | None) -> Float:
        """Return W S_w Wᵀ from rows in hand, where the statistics do not hold S_w: all of them, or a large sample."""
        rows, enough = None, max(HEAD_ROWS, HEAD_ROWS_PER_DIRECTION * len(self.components_))
        if X.shape[0] > enough:
            rows = np.sort(np.random.default_rng(0).choice(X.shape[0], enough, replace=False))
            y, weights = y[rows], None if weights is None else weights[rows]
        points = project(X, self.components_, self.mean_, rows)
        return ClassScatter(points.shape[1]).update(points, y, weights).within_scatter()


def below(ratio: float) -> float:
    """Return a short number a little below a ratio."""
    if ratio <= 0:
        return 0.0
    digits = 1 - math.floor(math.log10(ratio))
    return float(math.floor(0.95 * ratio * 10**digits) / 10**digits)
