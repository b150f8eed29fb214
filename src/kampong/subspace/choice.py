"""No parameter left to guess: it is chosen by accuracy on rows held back from the statistics.

The rows to judge by are a sample that the statistics keep, or rows in hand. They are held back without another pass:
what they added to the class means and to S_w is subtracted again. The candidates are compared inside one Krylov space,
which serves every ε and every ridge, so that a choice costs about one solve; it is made anew when a result is read, and
reading leaves no trace. Where rows are many, one part is held back, and the directions come from the space of the rest;
where they are few, each of five parts in turn. (A space built with the rows held back inside would flatter them: 0.96
in place of 0.87 on text.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import special

from kampong._runtime.compute import one_blas_thread, project, row_marks
from kampong.statistics.held_back import TINY, HeldBack
from kampong.statistics.reservoir import ClassReservoir
from kampong.statistics.rows import ClassRows
from kampong.statistics.scatter import ClassScatter
from kampong.subspace.criteria import FisherCriterion
from kampong.subspace.heads import Inside, build_head
from kampong.subspace.solvers import classes_seen, resolvent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kampong._runtime.compute import Float, Integer
    from kampong.statistics.means import ClassMeans
    from kampong.statistics.rows import Sample
    from kampong.subspace.criteria import Criterion
    from kampong.subspace.heads import Head
    from kampong.subspace.solvers.base import Krylov

JUDGES = 8192
"""The most rows to judge by: accuracy is then known to about half a percent, and differences to less."""

FOLDS = 5
"""In how many parts the sample is held back where it is a large part of all rows; else it is held back as one."""

EXACT = 64
"""Up to this width the space of the choice is the whole space."""

TOLERANCE, PATIENCE = 5e-4, 3
"""Steps of the Krylov space end when so many more raise the accuracy by a smaller part than this."""

TEMPERATURES = (1.0, 2.0, 4.0, 8.0)
"""What scores are divided by before they become probabilities: Gaussian classes are too sure of themselves on text."""


@dataclass(frozen=True)
class Choice:
    """What was chosen, and the curve that it was chosen from.

    Attributes
    ----------
    values : array of shape (n,)
        The candidates.
    accuracies : array of shape (n,)
        The part of the rows held back that each predicts right; for multi-label targets, of their labels.
    log_losses : array of shape (n,)
        Minus the mean logarithm of the probability that each gives to the true class, at the temperature that suits it.
    best : int
        Which was chosen.
    n_rows : int
        How many rows were held back, all folds together.
    weight : float
        What they weigh; 0 where none could be judged, as with one row a class.
    """

    values: Float
    accuracies: Float
    log_losses: Float
    best: int
    n_rows: int
    weight: float

    @property
    def value(self) -> float:
        """The value chosen."""
        return float(self.values[self.best])

    def is_consistent(self) -> bool:
        """Tell whether the curves are of one length, and the best is one of them."""
        return len(self.values) == len(self.accuracies) == len(self.log_losses) > self.best


def choose_parameter(
    kind: type[Criterion], statistics: ClassMeans, n_components: int | None, head: str
) -> tuple[Choice | None, Krylov | None]:
    """Return the best of the values of a criterion's grid, and the space in which they were compared, if it is of use.

    Parameters
    ----------
    kind : type of Criterion
        What is maximised.
    statistics : ClassMeans
        What is known of the data. Without a sample of rows (ClassRows or ClassReservoir) nothing can be chosen.
    n_components : int or None
        As for `solve`.
    head : str
        What will predict.

    Returns
    -------
    tuple
        The choice, None where no row could judge; and the Krylov space for the directions, None where they are found
        without one.
    """
    candidates = [kind.of(value) for value in kind.grid(statistics)]
    if not candidates or not isinstance(statistics, ClassRows | ClassReservoir):
        return None, None
    sample = statistics.sample(JUDGES)
    folds = _folds(sample, statistics.total)
    exact = isinstance(statistics, ClassScatter)
    steps, curves = [], []
    for fold in folds:
        judge = _Judge(candidates, HeldBack(statistics, sample, fold), n_components, head)
        if exact and statistics.n_features <= EXACT:
            space = resolvent.whole(judge.trained)
        elif exact:
            space = resolvent.build(judge.trained, judge.fisher)
        else:
            space = resolvent.build(judge.trained, judge.accuracy, TOLERANCE, PATIENCE)
        steps.append(space.n_steps)
        curves.append(judge.tally(space, TEMPERATURES))
    weight = sum(curve.weight for curve in curves)
    choice = None
    if weight > 0:
        accuracies = np.asarray(sum(curve.hits for curve in curves)) / weight
        losses = (np.asarray(sum(curve.losses for curve in curves)) / weight).min(axis=1)
        values = np.array([candidate.value for candidate in candidates])
        best = _best(values, accuracies, losses, min(weight, float(JUDGES)), kind.usual(statistics))
        choice = Choice(values, accuracies, losses, best, sum(len(fold) for fold in folds), weight)
    if exact:
        return choice, None
    if len(folds) == 1:
        return choice, space
    enough = int(np.median(steps)) - 1
    del judge, space  # a basis at a time
    return choice, resolvent.build(statistics, lambda grown: float(min(grown.n_steps, enough)), 0.0)


class _Tally(NamedTuple):
    """What the candidates make of the rows held back: sums of hits and losses, and the weight of the rows."""

    hits: Float
    losses: Float
    weight: float


class _Judge:
    """Rows held back, in a growing space, and what each candidate makes of them."""

    def __init__(self, candidates: Sequence[Criterion], trained: HeldBack, n_components: int | None, head: str) -> None:
        self.candidates, self.trained = candidates, trained
        self.n_components, self.head = n_components, head
        self.counts, self.mean = trained.counts, trained.mean
        self.offsets = np.where(self.counts[:, None] > 0, trained.means - self.mean, 0.0)
        self.weights = trained.sample.weights[trained.fold]
        self.known = trained.truth @ (self.counts > 0) > 0
        self.points, self.means = np.empty((len(self.weights), 0)), np.empty((len(self.counts), 0))
        self.centre = np.empty(0)

    def accuracy(self, space: Krylov) -> float:
        """Return the best accuracy of a candidate inside a space."""
        tally = self.tally(space, ())
        return float(tally.hits.max()) / max(tally.weight, TINY)

    def fisher(self, space: Krylov) -> float:
        """Return the Fisher ratios inside a space, at a small ridge."""
        ridge = 1e-4 * self.trained.within_trace / self.trained.n_features
        return resolvent.best_value(space, FisherCriterion(ridge))

    def tally(self, space: Krylov, temperatures: Sequence[float]) -> _Tally:
        """Return what all candidates make of the rows inside a space that contains the last one."""
        new = space.basis[self.points.shape[1] :]
        if len(new):
            self.points = np.hstack([self.points, project(self.trained.rows, new, self.mean).astype(np.float64)])
            self.means = np.hstack([self.means, self.offsets @ new.T])
            self.centre = np.append(self.centre, (self.trained.row_mean - self.mean) @ new.T)
        hits, losses = np.zeros(len(self.candidates)), np.zeros((len(self.candidates), len(temperatures)))
        points, truth, weights = self.points[self.known], self.trained.truth[self.known], self.weights[self.known]
        if not len(points):
            return _Tally(hits, losses, 0.0)
        factor = np.sqrt(self.counts / self.counts.sum())[:, None] * self.means
        with one_blas_thread():  # many small products: threads would wait for each other
            for number, candidate in enumerate(self.candidates):
                directions = self._directions(candidate, factor, space.within)
                head = self._head(candidate, space.within, directions)
                scores = head.scores(points @ directions)
                hits[number] = _hits(head, scores, truth) @ weights
                losses[number] = [_losses(head, scores / t, truth) @ weights for t in temperatures]
        return _Tally(hits, losses, float(weights.sum()))

    def _directions(self, candidate: Criterion, factor: Float, within: Float) -> Float:
        """Return the directions of a candidate, as columns."""
        classes = classes_seen(self.trained)
        most = max(1, min(len(within), classes - 1))
        wanted = self.n_components
        if wanted is not None:
            wanted = max(1, min(wanted, len(within), candidate.most_directions(classes, len(within))))
        return candidate.solve_small(factor, within.copy(), wanted, most).vectors

    def _head(self, candidate: Criterion, within: Float, directions: Float) -> Head:
        """Return what predicts along some directions."""
        trained = self.trained
        # Where nothing varies in what is left, taking rows out leaves rounding: it must not decide.
        lift = 1e-13 * trained.everything.within_trace + candidate.head_ridge
        inside = Inside(
            means=self.means @ directions,
            counts=self.counts,
            covariance=directions.T @ within @ directions + lift * directions.T @ directions,
            variance=trained.within_trace / trained.n_features,
            multilabel=bool(trained.multilabel),
            row_mean=self.centre @ directions,
            row_weight=trained.row_weight,
        )
        return build_head(self.head, inside)


def _hits(head: Head, scores: Float, truth: Float) -> Float:
    """Return what part of each row is predicted right: 0 or 1, or the part of its labels."""
    if head.multilabel:
        return np.asarray(((scores > 0) == (truth > 0)).mean(axis=1))
    return np.asarray(np.argmax(scores, axis=1) == np.argmax(truth, axis=1), dtype=np.float64)


def _losses(head: Head, scores: Float, truth: Float) -> Float:
    """Return minus the log-probability of the truth of each row; a certain error counts for 50."""
    if head.multilabel:
        logs = special.log_expit(np.where(truth > 0, scores, -scores)).mean(axis=1)
    else:
        logs = special.log_softmax(scores, axis=1)[np.arange(len(truth)), np.argmax(truth, axis=1)]
    losses: Float = -np.maximum(logs, -50.0)
    return losses


def _best(values: Float, accuracies: Float, losses: Float, weight: float, usual: float) -> int:
    """Return the candidate of least log-loss among those whose accuracy cannot be told from the best.

    Accuracy is what is wanted, and it is coarse: half its standard error counts as nothing. A thousandth of the
    log-loss counts as nothing either; among equals the one nearest to the usual value is taken.
    """
    top = min(float(accuracies.max()), 1.0)
    slack = 0.5 * np.sqrt(top * (1.0 - top) / max(weight, 1.0)) + 1e-12
    good = np.flatnonzero(accuracies >= top - slack)
    least = losses[good].min()
    equal = good[losses[good] <= least * (1 + 1e-3) + 1e-12]
    away = np.abs(np.log(np.maximum(values[equal], TINY)) - np.log(max(usual, TINY)))
    return int(equal[np.argmin(away)])


def _folds(sample: Sample, total: float) -> list[Integer]:
    """Return the rows to hold back, together or in turns; rows with equal entries go together."""
    n = sample.rows.shape[0]
    if sample.own.sum() <= total / 8:
        return [np.arange(n)]
    marks = row_marks(sample.rows) % np.uint64(FOLDS)
    parts = [np.flatnonzero(marks == np.uint64(part)) for part in range(FOLDS)]
    return [part for part in parts if len(part)]
