"""No parameter left to guess: ε, a and the ridge are chosen by accuracy on rows held back from the statistics.

The rows to judge by are a sample that the statistics keep, or rows in hand. They are held back without another pass:
what they added to the class means and to S_w is taken out again. The candidates are compared inside one Krylov space,
which serves every ε and every ridge, so that a choice costs about one solve; it is made anew when a result is read, and
reading leaves no trace. Where rows are many, one part is held back, and the directions come from the space of the rest;
where they are few, each of five parts in turn. (A space built with the rows held back inside would flatter them: 0.96
in place of 0.87 on text.)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import linalg, sparse, special

from kampong._runtime.arrays import project
from kampong._runtime.hashing import row_marks
from kampong._runtime.threads import one_blas_thread
from kampong.data.labels import Members
from kampong.statistics import ClassMeans, ClassScatter
from kampong.statistics.reservoir import ClassReservoir
from kampong.statistics.rows import ClassRows, within_times
from kampong.subspace.criteria import FisherCriterion, MarginCriterion
from kampong.subspace.heads import class_head, label_head
from kampong.subspace.solvers import resolvent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kampong._runtime.arrays import Float, Integer
    from kampong.statistics.rows import Sample
    from kampong.subspace.criteria import Criterion
    from kampong.subspace.heads import LinearHead
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

EPSILONS = (0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 5.0, 10.0, 20.0)
"""The grid of ε: a threshold on a ratio, so it has no unit."""

RIDGES = 10.0 ** np.arange(-6.0, 1.1, 0.5)
"""The grid of ridges, in units of the mean within-class variance of a feature."""


TINY = np.finfo(float).tiny

Sampled = ClassRows | ClassReservoir


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


def choose(
    candidates: Sequence[Criterion],
    statistics: Sampled,
    n_components: int | None,
    *,
    usual: float,
    nearest_mean: bool,
) -> tuple[Choice, Krylov | None]:
    """Return the best of some criteria of one kind, and the space in which they were compared, if it is of use.

    Parameters
    ----------
    candidates : sequence of MarginCriterion or of FisherCriterion
        The grid.
    statistics : ClassRows or ClassReservoir
        Statistics that hold S_w and a sample of rows.
    n_components : int or None
        As for `solve`.
    usual : float
        The value to stay near to among candidates that cannot be told apart.
    nearest_mean : bool
        Whether the nearest class mean predicts, or Gaussian classes.

    Returns
    -------
    tuple
        The choice, and the Krylov space for the directions: None where a scatter gives them exactly.
    """
    sample = statistics.sample(JUDGES if isinstance(statistics, ClassRows | ClassScatter) else JUDGES // 2)
    folds = _folds(sample, statistics.total)
    exact = isinstance(statistics, ClassScatter)
    steps, curves = [], []
    for fold in folds:
        judge = _Judge(candidates, HeldBack(statistics, sample, fold), n_components, nearest_mean=nearest_mean)
        if exact and statistics.n_features <= EXACT:
            space = resolvent.whole(judge.trained)
        elif exact:
            space = resolvent.build(judge.trained, judge.fisher)
        else:
            space = resolvent.build(judge.trained, judge.accuracy, TOLERANCE, PATIENCE)
        steps.append(space.n_steps)
        curves.append(judge.curves(space, TEMPERATURES))
    weight = sum(curve.weight for curve in curves)
    scale = max(weight, TINY)
    accuracies = np.asarray(sum(curve.hits for curve in curves)) / scale
    losses = (np.asarray(sum(curve.losses for curve in curves)) / scale).min(axis=1)
    values = np.array([_value(candidate) for candidate in candidates])
    best = _best(values, accuracies, losses, min(weight, float(JUDGES)), usual)
    choice = Choice(values, accuracies, losses, best, sum(len(fold) for fold in folds), weight)
    if exact:
        return choice, None
    if len(folds) == 1:
        return choice, space
    enough = int(np.median(steps)) - 1
    del judge, space  # a basis at a time
    return choice, resolvent.build(statistics, lambda grown: float(min(grown.n_steps, enough)), 0.0)


class HeldBack(ClassMeans):
    """Statistics as if some of their rows had never come.

    Parameters
    ----------
    statistics : ClassRows or ClassReservoir
        What is known of all rows.
    sample : Sample
        Some of these rows.
    fold : array of int
        Which rows of the sample to hold back.
    """

    holds_within = True

    def __init__(self, statistics: Sampled, sample: Sample, fold: Integer) -> None:
        super().__init__(statistics.n_features)
        self.multilabel, self._index = statistics.multilabel, statistics._index
        self.everything, self.sample, self.fold = statistics, sample, fold
        self.rows = sample.rows[fold]
        order = self._index.order
        held = np.full(sample.rows.shape[0], -1)
        held[fold] = np.arange(len(fold))
        mine = held[sample.members.rows] >= 0
        rows, codes = held[sample.members.rows[mine]], order[sample.members.codes[mine]]
        own = sample.own[fold]
        self.members = Members(rows, codes, own[rows], len(fold))
        everything = statistics._counts[: len(order)]
        gone: Float = np.bincount(codes, weights=own[rows], minlength=len(order)).astype(np.float64)
        self._counts = everything - gone
        self._counts[self._counts <= 1e-9 * everything] = 0.0
        sums = sparse.csr_array((own[rows], (codes, rows)), shape=(len(order), len(fold))) @ self.rows
        sums = sums if isinstance(sums, np.ndarray) else sums.toarray()
        self._means = statistics._means[: len(order)].copy()
        left = self._counts > 0
        # Σ w (x − m) over what stays is minus that over what goes.
        self.shift = np.zeros_like(self._means)
        self.shift[left] = (gone[left, None] * self._means[left] - sums[left]) / self._counts[left, None]
        self._means += self.shift
        self.truth = np.zeros((len(fold), len(order)))
        self.truth[rows, sample.members.codes[mine]] = 1.0
        self.others = None
        if not isinstance(statistics, ClassScatter):
            X, members = statistics.held()
            self.others = X, members.without(sample.numbers[fold])
        self._squares = statistics._squares[: len(order)] * (self._counts / np.maximum(everything, TINY))
        if self.multilabel:
            self._row_weight = statistics.row_weight - float(own.sum())
            total = statistics.row_weight * statistics.row_mean - np.asarray(own @ self.rows).ravel()
            self._row_mean = total / max(self._row_weight, TINY)

    def within_times(self, block: Float) -> Float:
        """Return S_w @ block, without the rows held back."""
        if self.others is not None:
            X, members = self.others
            return within_times(X, members, self._means, block) / max(float(members.weights.sum()), TINY)
        old = self._means - self.shift
        product = self.everything.total * self.everything.within_times(block)
        product -= within_times(self.rows, self.members, old, block)
        moved = self.shift * np.sqrt(self._counts)[:, None]
        product -= moved.T @ (moved @ block)
        result: Float = product / max(self.total, TINY)
        return result


class _Curves(NamedTuple):
    """What the candidates make of the rows held back: sums of hits and losses, and the weight of the rows."""

    hits: Float
    losses: Float
    weight: float


class _Judge:
    """Rows held back, in a growing space, and what each candidate makes of them."""

    def __init__(
        self, candidates: Sequence[Criterion], trained: HeldBack, n_components: int | None, *, nearest_mean: bool
    ) -> None:
        self.candidates, self.trained = candidates, trained
        self.n_components, self.nearest_mean = n_components, nearest_mean
        self.counts, self.mean = trained.counts, trained.mean
        self.offsets = np.where(self.counts[:, None] > 0, trained.means - self.mean, 0.0)
        self.weights = trained.sample.weights[trained.fold]
        self.known = trained.truth @ (self.counts > 0) > 0
        self.points, self.means = np.empty((len(self.weights), 0)), np.empty((len(self.counts), 0))
        self.centre = np.empty(0)

    def accuracy(self, space: Krylov) -> float:
        """Return the best accuracy of a candidate inside a space."""
        curves = self.curves(space, ())
        return float(curves.hits.max()) / max(curves.weight, TINY)

    def fisher(self, space: Krylov) -> float:
        """Return the Fisher ratios inside a space, at a small ridge."""
        ridge = 1e-4 * self.trained.within_trace / self.trained.n_features
        return resolvent.criterion_value(space, FisherCriterion(ridge))

    def curves(self, space: Krylov, temperatures: Sequence[float]) -> _Curves:
        """Return what all candidates make of the rows inside a space that contains the last one."""
        new = space.basis[self.points.shape[1] :]
        if len(new):
            self.points = np.hstack([self.points, project(self.trained.rows, new, self.mean).astype(np.float64)])
            self.means = np.hstack([self.means, self.offsets @ new.T])
            if self.trained.multilabel:
                self.centre = np.append(self.centre, (self.trained.row_mean - self.mean) @ new.T)
        hits, losses = np.zeros(len(self.candidates)), np.zeros((len(self.candidates), len(temperatures)))
        points, truth, weights = self.points[self.known], self.trained.truth[self.known], self.weights[self.known]
        if not len(points):
            return _Curves(hits, losses, 0.0)
        with one_blas_thread():  # many small products: threads would wait for each other
            for number, directions in enumerate(self._directions(space.within)):
                head = self._head(space.within, directions, self.candidates[number])
                scores = head.scores(points @ directions)
                hits[number] = _hits(head, scores, truth) @ weights
                losses[number] = [_losses(head, scores / t, truth) @ weights for t in temperatures]
        return _Curves(hits, losses, float(weights.sum()))

    def _directions(self, within: Float) -> list[Float]:
        """Return the directions of each candidate, as columns."""
        priors = self.counts / self.counts.sum()
        factor = np.sqrt(priors)[:, None] * self.means
        size, asked = len(within), self.n_components
        most = min(size, max(1, int(np.count_nonzero(self.counts)) - 1))
        found = []
        if isinstance(self.candidates[0], FisherCriterion):
            values, vectors = linalg.eigh(within, check_finite=False)
            rotated = factor @ vectors
            for candidate in self.candidates:
                lift = _value(candidate) + 1e-12 * np.trace(within) / size
                root = 1.0 / np.sqrt(np.maximum(values, 0.0) + (lift if lift > 0 else 1.0))
                _, _, right = linalg.svd(rotated * root, full_matrices=False, check_finite=False)
                found.append(vectors @ (right[: min(asked or most, most)] * root).T)
            return found
        between = factor.T @ factor
        count = min(size, max(most, asked or 0))
        for candidate in self.candidates:
            matrix = between - _value(candidate) * within
            values, vectors = linalg.eigh(matrix, subset_by_index=(size - count, size - 1), check_finite=False)
            positive = int(np.count_nonzero(values[-most:] > 1e-12 * np.trace(between)))
            found.append(vectors[:, ::-1][:, : asked or max(positive, 1)])
        return found

    def _head(self, within: Float, directions: Float, criterion: Criterion) -> LinearHead:
        """Return what predicts along some directions."""
        means, trained = self.means @ directions, self.trained
        # Where nothing varies in what is left, taking rows out leaves rounding: it must not decide.
        lift = 1e-13 * trained.everything.within_trace
        if isinstance(criterion, FisherCriterion):
            lift += criterion.ridge
        covariance: Float | float = directions.T @ within @ directions + lift * directions.T @ directions
        if self.nearest_mean:
            covariance = trained.within_trace / trained.n_features
        if trained.multilabel:
            return label_head(means, self.counts, self.centre @ directions, trained.row_weight, covariance)
        return class_head(means, self.counts, covariance)


def _hits(head: LinearHead, scores: Float, truth: Float) -> Float:
    """Return what part of each row is predicted right: 0 or 1, or the part of its labels."""
    if head.multilabel:
        return np.asarray(((scores > 0) == (truth > 0)).mean(axis=1))
    return np.asarray(np.argmax(scores, axis=1) == np.argmax(truth, axis=1), dtype=np.float64)


def _losses(head: LinearHead, scores: Float, truth: Float) -> Float:
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


def _value(criterion: Criterion) -> float:
    return criterion.epsilon if isinstance(criterion, MarginCriterion) else criterion.ridge


def _folds(sample: Sample, total: float) -> list[Integer]:
    """Return the rows to hold back, together or in turns; rows with equal entries go together."""
    n = sample.rows.shape[0]
    if sample.own.sum() <= total / 8:
        return [np.arange(n)]
    marks = row_marks(sample.rows) % np.uint64(FOLDS)
    parts = [np.flatnonzero(marks == np.uint64(part)) for part in range(FOLDS)]
    return [part for part in parts if len(part)]
