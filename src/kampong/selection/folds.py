"""Heads tried on rows held out in parts, along the directions of any criterion found without them.

Class means and covariance without the rows give the scores of the plain heads. Those that are trained learn from the
rows of the sample that were not held out, along the same directions, so no head has seen its validation rows. The
head that wins is then built along the directions of all rows. `leave_one_out` does the same for Fisher's criterion, row
by row, where a d × d scatter is kept.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from kampong._core.compute import floats, project
from kampong.heads.calibration import ValidationRows
from kampong.heads.hinge import USUAL, Hinge, Machines, most_rows, optimum
from kampong.heads.hinge import scores_of as margin_scores
from kampong.heads.linear import noise_of
from kampong.heads.logistic import PENALTIES, Logistic, fit_logistic
from kampong.heads.quadratic import ClassShapes, Quadratic, class_shapes
from kampong.selection.evidence import EMPTY, Built, Candidate, ClassEvidence, Parts, member_scores, penalty_of
from kampong.selection.settings import SETTINGS
from kampong.statistics.answers import keeps_rows, rows_are_here

if TYPE_CHECKING:
    from kampong._core.compute import Float, Integer, Rows
    from kampong.criteria import Criterion
    from kampong.heads.head import Inside
    from kampong.selection.held_out_scores import HeldOutFold
    from kampong.statistics.held_out import Kept
    from kampong.statistics.means import ClassMeans


SAME = 1e-6
"""Directions that lie in a space but for this part of them lie in it: they do to rounding, or not at all."""


@dataclass(frozen=True)
class Piece:
    """What rows held out together say, along the directions of a criterion that was solved without them.

    Attributes
    ----------
    parts : Parts
        Their products with the class means, in coordinates where the covariance is the identity.
    counts : array of shape (K,)
        The weight of each class without them.
    points : array of shape (n, p)
        Those coordinates.
    white : array of shape (q, p)
        Where they come from, in the coordinates of a basis.
    basis : array of shape (q, d)
        The basis.
    mean : array of shape (d,)
        The mean of the other rows.
    fold : array of int of shape (n,)
        Their places in the sample.
    lift : array of shape (p, p)
        What a ridge adds to the covariance.
    plain : array of shape (n, K)
        What the nearest mean scores, in coordinates that are not whitened, times the mean variance of a feature.
    rows : array or sparse matrix of shape (n, d)
        The rows themselves.
    """

    parts: Parts
    counts: Float
    points: Float
    white: Float
    basis: Float
    mean: Float
    fold: Integer
    lift: Float
    plain: Float
    rows: Rows

    @cached_property
    def directions(self) -> Float:
        """The directions of the coordinates, (p, d): they are (x − mean)·directionsᵀ."""
        result: Float = self.white.T @ self.basis
        return result


class HeldOutEvidence(ClassEvidence):
    """Heads along the directions of a criterion, compared on rows held out in parts.

    Parameters
    ----------
    folds : list of HeldOutFold
        The parts of the rows that were held out, none of them empty.
    criterion : Criterion
        What the directions maximise.
    validation : ValidationRows
        The classes and weights of the rows, in the same order.
    inside : Inside
        What is known of the classes along the directions of all rows.
    components : array of shape (p, d)
        Those directions.
    statistics : ClassRows, ClassReservoir or KernelScatter
        Where rows to train with come from.
    provisional : bool
        Whether the choice is provisional: then no support vector machines are trained on all columns.
    """

    def __init__(
        self,
        folds: list[HeldOutFold],
        criterion: Criterion,
        validation: ValidationRows,
        inside: Inside,
        components: Float,
        statistics: Kept,
        *,
        provisional: bool = False,
    ) -> None:
        self.folds, self.criterion = folds, criterion
        self.pieces = [fold.piece(criterion) for fold in folds]
        scores, noise = scores_of([(piece.parts, piece.counts) for piece in self.pieces], validation)
        super().__init__(scores, validation, noise, inside, components.shape[1])
        self.components, self.statistics, self.provisional = components, statistics, provisional
        self._known: dict[int, tuple[Float, Integer, Float]] = {}

    def _offers_shapes(self) -> bool:
        """Tell whether classes have rows enough for a covariance of their own."""
        if not self.statistics.holds_scatter:
            return False  # text, of which covariances a class tell nothing more: arXiv's 10 groups
        p, seen = len(self.components), max(int(np.count_nonzero(self.inside.counts)), 1)
        return bool(p <= SETTINGS.exact_columns // 2 and self._rows() / seen >= max(2 * p, 10))

    def _sees_columns(self) -> bool:
        """Tell whether support vector machines see all columns: those of text, where there are rows enough."""
        text = not self.statistics.holds_scatter
        text = text and not self.provisional and not isinstance(self.pieces[0].rows, np.ndarray)
        fits = 8 * len(self.inside.counts) * self.components.shape[1] <= SETTINGS.hinge_bytes
        return text and fits and self.statistics.rows_kept >= SETTINGS.hinge_rows

    def _linear_name(self) -> str:
        return Hinge.name if self._sees_columns() else super()._linear_name()

    def _mixes_linear(self) -> bool:
        """Tell whether support vector machines are a member of the mixture."""
        return self._sees_columns()

    def _rows(self) -> float:
        """Return the weight of the rows that could train a head, without looking at them."""
        known = self.statistics
        return known.total * min(known.rows_kept, self._most()) / max(known.n_samples, 1)

    def _most(self) -> int:
        return int(min(SETTINGS.training_rows, SETTINGS.training_bytes // (8 * max(len(self.components), 1))))

    def _nearest(self) -> Float:
        variance = self.inside.variance if self.inside.variance > 0 else 1.0
        scores: Float = np.concatenate([piece.plain for piece in self.pieces]) / variance
        return scores

    def _own_scores(self, name: str) -> Float:
        scores: Float = np.concatenate([fold.scores(self.criterion, name) for fold in self.folds])
        return np.maximum(scores, EMPTY)

    def _trainers(self, number: int) -> tuple[Float, Integer, Float]:
        """Return coordinates, classes and weights of rows that a piece has not held out."""
        if number not in self._known:
            piece = self.pieces[number]
            points, codes, own = rows_along(self.statistics, piece.directions, piece.mean, self._most())
            others = np.ones(len(codes), dtype=bool)
            others[piece.fold] = False
            self._known[number] = points[others], codes[others], own[others]
        return self._known[number]

    @cached_property
    def _everybody(self) -> Inside:
        mean = self.statistics.mean
        points, codes, own = rows_along(self.statistics, self.components, mean, self._most())
        return replace(self.inside, points=points, codes=codes, own=own)

    def _taught(self) -> Inside:
        return self._everybody

    def _quadratic(self) -> Candidate:
        """Return one covariance per class, trained without each part, and in the end on all rows."""
        scores, logs = [], []
        for number, piece in enumerate(self.pieces):
            points, codes, own = self._trainers(number)
            log_priors = _log_priors(piece.counts)
            shapes = ClassShapes(points, codes, own, len(piece.counts), piece.lift)
            few = ValidationRows(codes[: SETTINGS.wide_rows], own[: SETTINGS.wide_rows])
            shrinkage = shapes.shrinkage(
                points[: SETTINGS.wide_rows], few, np.minimum(own[: SETTINGS.wide_rows], 1.0), log_priors
            )
            found = Quadratic.of(shapes, shrinkage, log_priors, np.eye(points.shape[1])).scores(piece.points)
            found[:, piece.counts <= 0] = EMPTY
            scores.append(found)
            logs.append(np.log(shrinkage))

        def build() -> Built:
            whitener, shapes = class_shapes(self._everybody)
            shrinkage = float(np.exp(np.mean(logs)))
            return Built(Quadratic.of(shapes, shrinkage, self.inside.log_priors(), whitener), self.nothing)

        return Candidate(Quadratic.name, np.concatenate(scores), build)

    def _hinge(self) -> Candidate:
        """Train support vector machines without each part, and in the end on all rows."""
        return self._on_columns() if self._sees_columns() else self._on_directions()

    def _on_columns(self) -> Candidate:
        counts, known = self.inside.counts, self.statistics
        X, places, codes, own = rows_to_train(known, most_rows(len(counts)))
        scores = []
        for piece in self.pieces:
            machines = Machines(X, places, codes, own, len(counts))
            others = np.setdiff1d(np.arange(len(codes)), piece.fold, assume_unique=True)
            scores.append(machines.ascend(USUAL, some=others).scores(piece.rows))
            scores[-1][:, piece.counts <= 0] = EMPTY

        last = machines

        def build() -> Built:
            whole = last
            if len(self.pieces) > 1:
                whole = Machines(X, places, codes, own, len(counts)).ascend(USUAL)
            elif len(self.pieces[0].fold) > SETTINGS.hinge_spared_share * len(codes):
                whole.ascend(USUAL, SETTINGS.hinge_last_epochs)
            return Built(*columns_head(whole, known, len(self.components), USUAL))

        return Candidate(Hinge.name, np.concatenate(scores), build)

    def _on_directions(self) -> Candidate:
        """Train along the directions alone, with the usual cost."""
        scores, counts = [], self.inside.counts
        for number, piece in enumerate(self.pieces):
            points, codes, own = self._trainers(number)
            weights, offsets = optimum(points, codes, own, len(counts), USUAL)
            scores.append(margin_scores(piece.points @ weights.T + offsets))
            scores[-1][:, piece.counts <= 0] = EMPTY
        return Candidate(Hinge.name, np.concatenate(scores), lambda: Built(Hinge.build(self._everybody), self.nothing))

    def _logistic(self) -> Candidate:
        """Train without each part, choose the penalty there, and in the end train on all.

        Where that would take long, only the first part is held out; and where the directions were found without it
        too, the first weights are used.
        """
        counts = self.inside.counts
        heavy = self._trainers(0)[0].size * len(counts) > SETTINGS.logistic_cost
        pieces = self.pieces[:1] if heavy else self.pieces
        penalties, most = (
            (np.array([SETTINGS.logistic_weak_penalty]), SETTINGS.logistic_steps) if heavy else (PENALTIES, 60)
        )
        validation = self.validation.first(sum(len(piece.points) for piece in pieces))
        folds = [(self._trainers(number), piece.points) for number, piece in enumerate(pieces)]
        penalty, theta, scores = penalty_of(folds, counts, validation, penalties, most)
        del folds
        self._known.clear()  # they may be large
        unseen = np.concatenate([np.broadcast_to(piece.counts <= 0, piece.plain.shape) for piece in pieces])
        scores[unseen] = EMPTY

        def build() -> Built:
            head = self._carried(theta, penalty) if heavy else None
            if head is None:
                taught = self._everybody
                assert taught.points is not None
                assert taught.codes is not None
                assert taught.own is not None
                whitener = taught.whitener()
                points = taught.points @ whitener
                final = fit_logistic(points, taught.codes, taught.own, counts, penalty, None, most)
                head = Logistic.of(final, counts, whitener, penalty)
            return Built(head, self.nothing)

        return Candidate(Logistic.name, scores, build)

    def _carried(self, theta: Float, penalty: float) -> Logistic | None:
        """Return weights along the directions of the first part as a head along those of all rows, if they span one."""
        piece, found, counts = self.pieces[0], self.components, self.inside.counts
        back = np.linalg.lstsq(found @ found.T, found @ piece.directions.T, rcond=None)[0].T
        if np.linalg.norm(piece.directions - back @ found) > SAME * np.linalg.norm(piece.directions):
            return None
        weights, seen = theta[:, :-1], counts > 0
        offsets = theta[:, -1] + weights @ (piece.directions @ (self.statistics.mean - piece.mean))
        return Logistic(False, np.where(seen[:, None], weights @ back, 0.0), np.where(seen, offsets, -np.inf), penalty)


def scores_of(pieces: list[tuple[Parts, Float]], validation: ValidationRows) -> tuple[Float, float]:
    """Return the scores of the members of a mixture, (4, n, K), and the noise of the regression."""
    noise = noise_of(np.concatenate([parts.regression for parts, _ in pieces]), validation.codes, validation.weights)
    scores = [member_scores(parts, _log_priors(counts), noise, counts > 0) for parts, counts in pieces]
    return np.concatenate(scores, axis=1), float(noise)


def rows_along(statistics: Kept, directions: Float, mean: Float, most: int) -> tuple[Float, Integer, Float]:
    """Return coordinates, classes and weights of a sample of rows with one label each, in the order of their keys."""
    if rows_are_here(statistics):
        chosen, codes, own = statistics.drawn(most)
        points = project(statistics.held()[0], directions, mean, chosen)
        return points.astype(np.float64, copy=False), codes, own
    sample = statistics.sample(most)
    points = project(sample.rows, directions, mean)
    return points.astype(np.float64, copy=False), sample.members.codes, sample.own


def rows_to_train(statistics: Kept, most: int) -> tuple[Rows, Integer, Integer, Float]:
    """Return rows, which of them to train with in the order of their keys, and the classes and weights of those."""
    if rows_are_here(statistics):
        return floats(statistics.held()[0]), *statistics.drawn(most)
    sample = statistics.sample(min(most, SETTINGS.training_rows))
    return sample.rows, np.arange(len(sample.own)), sample.members.codes, sample.own


def columns_head(machines: Machines, statistics: ClassMeans, n_directions: int, cost: float) -> tuple[Hinge, Float]:
    """Return support vector machines on all columns as a head, and their weights as hidden directions, (K, d)."""
    counts = statistics.counts
    weights, offsets = machines.weights()
    weights[counts <= 0] = 0.0
    n_rows = statistics.n_samples
    return Hinge.of_columns(offsets + weights @ statistics.mean, counts, n_directions, cost, n_rows), weights


def columns_again(
    hinge: Hinge, statistics: ClassMeans, keep_mean: Float, hidden: Float, n_directions: int, *, new: bool
) -> tuple[Hinge, Float] | None:
    """Return support vector machines on all columns for other statistics, and their weights.

    They are trained again where a class is new or the rows have grown by half; None where no rows are kept for that.
    """
    if not new and statistics.n_samples <= SETTINGS.regrowth * hinge.n_rows:
        return hinge.about(hidden @ (statistics.mean - keep_mean), n_directions), hidden
    if not keeps_rows(statistics):
        return None
    K = len(statistics.counts)
    machines = Machines(*rows_to_train(statistics, most_rows(K)), K).ascend(hinge.cost)
    return columns_head(machines, statistics, n_directions, hinge.cost)


def _log_priors(counts: Float) -> Float:
    with np.errstate(divide="ignore"):
        logs: Float = np.where(counts > 0, np.log(counts / counts.sum()), EMPTY)
    return logs
