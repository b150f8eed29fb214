"""No parameter left to guess: it is chosen by rows held back from the statistics, smoothly.

The rows to judge by are a sample that the statistics keep, or rows in hand. They are held back without another pass:
what they added to the class means and to S_w is subtracted again. The candidates are compared inside one Krylov space
that is built without them (a space that knows them would flatter them: 0.96 in place of 0.87 on text), so a choice
costs about one solve. Where rows are many, one part is held back; where they are few, each of five parts in turn. Which
rows go together follows from their numbers, never from their entries: a last bit must not move a row to another part.

What is compared is a smooth count of errors at the best calibration, and the least point of the curve lies between its
nodes. `leave_one_out` does the same for Fisher's criterion without parts, where a d × d scatter is kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy import linalg, special

from kampong._core.compute import one_blas_thread, project
from kampong.heads import HEADS, Inside, build_head
from kampong.heads.calibration import TINY, Judged, badness, fit_calibration, fit_weights, least_point
from kampong.heads.head import inverse_root
from kampong.heads.linear import regression_map, regression_of
from kampong.heads.mixture import PRIOR, START, Mixture
from kampong.selection.folds import HeldTrial, Piece, keeps_rows, rows_kept, scores_of
from kampong.selection.head_trial import EMPTY, Parts
from kampong.selection.several_labels import LabelTrial
from kampong.solvers import classes_seen, resolvent
from kampong.statistics.held_out import HeldBack
from kampong.statistics.scatter import ClassScatter

if TYPE_CHECKING:
    from collections.abc import Callable

    from kampong._core.compute import Float, Integer
    from kampong.criteria import Criterion
    from kampong.files.contents import Contents
    from kampong.heads import Head
    from kampong.solvers.result import Krylov
    from kampong.statistics.all_rows import Sample
    from kampong.statistics.means import ClassMeans

JUDGES = 8192
"""The most rows to judge by: errors are then known to about half a percent, and differences to less."""

FOLDS = 5
"""In how many parts the sample is held back where it is a large part of all rows; else it is held back as one."""

ON_CURVE = 2**18
"""Rows × classes by which a parameter is chosen; heads are compared, weighed and calibrated by all judges."""

ENOUGH = 512
"""An eighth of the rows judges alone where it has so many."""

EXACT = 64
"""Up to this width the space of the choice is the whole space."""

LABELLED = 0.99
"""Where a smaller part of the rows has a label, none is judged: the sample has no rows without labels."""

PULL = 1e-4
"""What a decade away from the usual value costs, times its square: where rows say nothing, the usual value is taken."""


@dataclass(frozen=True)
class Choice:
    """What was chosen, and the curve that it was chosen from.

    Attributes
    ----------
    value : float
        The value chosen, where the curve through the losses is least.
    values : array of shape (n,)
        The nodes of the curve.
    losses : array of shape (n,)
        What each costs on rows held back: a smooth share of errors, and a little of the log-loss. Less is better.
    n_rows : int
        How many rows were held back, all parts together.
    heads : dict of str to float
        The same for the heads that were compared at the value chosen; empty where the head was not chosen.
    scaled : bool
        Whether the values are in units of the variances of the columns, because that erred less.
    scales : array of shape (2,) or (0,)
        The least loss with the columns as they are and with each divided by its standard deviation; empty where only
        one of the two was tried.
    """

    value: float
    values: Float
    losses: Float
    n_rows: int
    heads: dict[str, float] = field(default_factory=dict)
    scaled: bool = False
    scales: Float = field(default_factory=lambda: np.empty(0))

    def to_state(self) -> dict[str, Any]:
        """Return what a checkpoint holds."""
        return {**vars(self), "heads": dict(self.heads), "scaled": int(self.scaled)}

    @classmethod
    def from_state(cls, contents: Contents) -> Self:
        """Return the choice that `to_state` wrote."""
        values = contents.array("values", np.float64, (None,))
        losses = contents.array("losses", np.float64, (len(values),))
        heads = contents.part("heads")
        compared = {name: heads.number(name) for name in HEADS if name in heads}
        heads.finish()
        scaled = contents.whole("scaled")
        contents.require(scaled in (0, 1), f"scaled is {scaled}")
        scales = contents.array("scales", np.float64, (None,)) if "scales" in contents else np.empty(0)
        contents.require(len(scales) in (0, 2), f"scales holds {len(scales)} losses")
        value, n_rows = contents.number("value"), contents.whole("n_rows")
        choice = cls(value, values, losses, n_rows, compared, bool(scaled), scales)
        contents.finish()
        return choice


def choose_parameter(
    kind: type[Criterion],
    statistics: ClassMeans,
    n_components: int | None,
    head: str,
    value: float | None = None,
    head_ridge: float | None = None,
    *,
    brief: bool = False,
) -> tuple[Choice | None, Krylov | None, Callable[[Inside, Float], HeldTrial | LabelTrial] | None]:
    """Return the value of a criterion's parameter that errs least, and the space in which the directions are found.

    Parameters
    ----------
    kind : type of Criterion
        What is maximised.
    statistics : ClassMeans
        What is known of the data. Without a sample of rows nothing can be chosen.
    n_components : int or None
        As for `solve`.
    head : str
        What will predict; a head that is trained on rows, or weighed by them, is stood in for by Gaussian classes.
    value : float, optional
        The parameter, where it is given and only heads are to be tried.
    head_ridge : float, optional
        The ridge of the head's covariance, where it is not the criterion's own.
    brief : bool
        Whether what is chosen is for a while only: then directions are found without the rows that judged, however many
        these are, and no head is trained on all columns.

    Returns
    -------
    choice : Choice or None
        None where no row could judge.
    space : Krylov or None
        The Krylov space for the directions; None where they are found without one.
    trial : callable or None
        Given what is known of the classes along the directions, and these, returns heads to try on the rows held back.
    """
    nodes = kind.grid(statistics) if value is None else np.array([value])
    if not len(nodes) or not keeps_rows(statistics):
        return None, None, None
    sample, exact = statistics.sample(JUDGES), isinstance(statistics, ClassScatter)
    parts = _parts(sample, statistics.total, rows_kept(statistics))
    name = head if head in HEADS and not HEADS[head].needs_sample and head != Mixture.name else "auto"
    held = [HeldBack(statistics, sample, part) for part in parts]
    # Of three rows, what is left without one may be of one class: it has no directions to judge.
    judges = [_Judge(one, n_components, name, exact, head_ridge) for one in held if classes_seen(one) >= 2]
    if not judges:
        return None, None, None
    codes = np.concatenate([judge.truth for judge in judges])
    weights = np.concatenate([judge.weights for judge in judges])
    space = None
    if not exact and value is None:
        few = len(parts) == 1 and (brief or sample.own[parts[0]].sum() <= statistics.total / 32)
        space = judges[0].space if few else resolvent.build(statistics)
    if not len(codes):
        return None, space, None
    n_rows = sum(len(part) for part in parts)
    if value is None:
        choice = _least(kind, statistics, nodes, judges, codes, weights, head)
        choice = replace(choice, n_rows=n_rows)
    else:
        choice = Choice(value, np.empty(0), np.empty(0), n_rows)
    criterion = kind.of(choice.value)
    if statistics.multilabel and sample.weights.sum() < LABELLED * statistics.row_weight:
        return choice, space, None

    def trial(inside: Inside, components: Float) -> HeldTrial | LabelTrial:
        judging = [judge for judge in judges if len(judge.points)]
        pieces = [judge.piece(criterion) for judge in judging]
        if not statistics.multilabel:
            return HeldTrial(pieces, Judged(codes, weights), inside, components, statistics, brief=brief)
        names = ("gaussian", "nearest_mean")
        scores = {one: np.concatenate([judge.scores(criterion, one) for judge in judging]) for one in names}
        return LabelTrial(pieces, scores, codes, weights, inside, components, statistics)

    return choice, space, trial


def _least(
    kind: type[Criterion],
    statistics: ClassMeans,
    nodes: Float,
    judges: list[_Judge],
    codes: np.ndarray,
    weights: Float,
    head: str,
) -> Choice:
    """Return the value where the curve through the losses at the nodes is least."""
    mixes = kind.is_ridge and not statistics.multilabel and head in ("auto", "best", "mixture")
    loss = _mixed_loss if mixes else _loss
    with one_blas_thread():  # many small products: threads would wait for each other
        losses = np.array([loss(judges, kind.of(node), codes, weights) for node in nodes])
    places, usual = kind.coordinate(nodes), float(kind.coordinate(np.array([kind.usual(statistics)]))[0])
    best = least_point(places, losses + PULL * (places - usual) ** 2)
    return Choice(float(kind.from_coordinate(np.array([best]))[0]), nodes, losses, 0)


def _parts(sample: Sample, total: float, kept: int) -> list[Integer]:
    """Return the rows to hold back, together or in turns; of all rows kept some are left to train heads."""
    rows = np.arange(sample.rows.shape[0])
    if sample.own.sum() <= total / 8:
        return [rows if kept >= 2 * len(rows) else rows[: -(-len(rows) // 2)]]
    if len(rows) // 8 >= ENOUGH:
        return [rows[: len(rows) // 8]]
    return [rows[first::FOLDS] for first in range(min(FOLDS, len(rows)))]


def _mixed_loss(judges: list[_Judge], candidate: Criterion, truth: np.ndarray, weights: Float) -> float:
    """Return what a mixture of heads costs along the directions of a candidate."""
    judged, pieces = Judged(truth, weights), [judge for judge in judges if len(judge.points)]
    if len(pieces) == 1:
        judged = judged.first(max(ENOUGH, ON_CURVE // len(pieces[0].counts)))
    scores, _ = scores_of([judge.parts(candidate, len(judged.codes)) for judge in pieces], judged)
    mixed, _ = fit_weights(scores, judged, START, signed=PRIOR)
    return badness(np.tensordot(mixed, scores, 1), judged)


def _loss(judges: list[_Judge], candidate: Criterion, truth: np.ndarray, weights: Float) -> float:
    """Return what a head costs along the directions of a candidate; with several labels a row, the log-loss of each."""
    scores = np.concatenate([judge.scores(candidate) for judge in judges])
    if truth.ndim == 2:
        logs = np.maximum(special.log_expit(np.where(truth > 0, scores, -scores)), -50.0)
        return -float(np.average(logs.mean(axis=1), weights=weights))
    judged = Judged(truth, weights)
    finite = np.maximum(scores, -1e6)  # a class that was never seen
    return badness(finite, judged, *fit_calibration(finite, judged))


class _Judge:
    """Rows held back, and what candidates make of them inside the space of the others."""

    def __init__(
        self, trained: HeldBack, n_components: int | None, head: str, exact: bool, head_ridge: float | None
    ) -> None:
        self.trained, self.n_components, self.head, self.head_ridge = trained, n_components, head, head_ridge
        self.counts, mean = trained.counts, trained.mean
        whole = exact and trained.n_features <= EXACT
        self.space = resolvent.whole(trained) if whole else resolvent.build(trained)
        known = trained.truth @ (self.counts > 0) > 0
        truth = trained.truth[known]
        self.truth = truth if trained.multilabel else np.argmax(truth, axis=1)
        self.weights = trained.sample.weights[trained.fold][known]
        basis = self.space.basis
        self.rows = trained.rows if known.all() else trained.rows[known]
        self.points = project(self.rows, basis, mean).astype(np.float64)
        self.means = np.where(self.counts[:, None] > 0, trained.means - mean, 0.0) @ basis.T
        self.centre = (trained.row_mean - mean) @ basis.T

    def scores(self, candidate: Criterion, head: str | None = None) -> Float:
        """Return what a candidate scores for the rows held back."""
        if not len(self.points):
            return np.empty((0, len(self.counts)))
        directions = self._found(candidate)
        return self._head(candidate, directions, head or self.head).scores(self.points @ directions)

    def parts(self, criterion: Criterion, most: int | None = None) -> tuple[Parts, Float]:
        """Return products of the first rows with the class means along a criterion's directions, and class weights."""
        priors = self.counts / self.counts.sum()
        if criterion.is_ridge and self.n_components is None:
            values, points, means = self._diagonal
            metric = 1.0 / (values + criterion.value)
            products, gram = points[:most] @ (means * metric).T, means * metric @ means.T
            fitted = priors + regression_of(products, gram, priors)
        else:
            directions = self._white(criterion, self._found(criterion))[0]
            points, centres = self.points[:most] @ directions, self.means @ directions
            products, gram = points @ centres.T, centres @ centres.T
            fitted = priors + points @ regression_map(centres, priors)
        squares = np.broadcast_to(gram.diagonal(), products.shape)
        return Parts(products, squares, fitted, gram), self.counts

    def piece(self, criterion: Criterion) -> Piece:
        """Return all that heads are tried with along the directions of a criterion."""
        found = self._found(criterion)
        white, lift = self._white(criterion, found)
        centres = self.means @ found
        plain = self.points @ found @ centres.T - 0.5 * np.einsum("kp,kp->k", centres, centres)
        plain[:, self.counts <= 0] = EMPTY
        return Piece(
            *self.parts(criterion),
            self.points @ white,
            white,
            self.space.basis,
            self.trained.mean,
            self.trained.fold,
            lift,
            plain,
            self.rows,
        )

    def _found(self, criterion: Criterion) -> Float:
        """Return the directions of a criterion, as columns."""
        return self._directions(criterion, np.sqrt(self.counts / self.counts.sum())[:, None] * self.means)

    def _white(self, criterion: Criterion, found: Float) -> tuple[Float, Float]:
        """Return its directions in coordinates where the covariance is the identity, and what a ridge adds there."""
        root = inverse_root(self._covariance(criterion, found))
        white: Float = found @ root
        return white, self._ridge(criterion) * white.T @ white

    @cached_property
    def _diagonal(self) -> tuple[Float, Float, Float]:
        """Return S_w inside the space diagonalised, once for every ridge, with rows and class means there."""
        values, vectors = linalg.eigh(self.space.within, check_finite=False)
        lift = 1e-13 * float(np.trace(self.space.within)) + TINY
        return np.maximum(values, 0.0) + lift, self.points @ vectors, self.means @ vectors

    def _directions(self, candidate: Criterion, factor: Float) -> Float:
        """Return the directions of a candidate, as columns."""
        within = self.space.within.copy()
        classes, size = classes_seen(self.trained), len(within)
        wanted = self.n_components
        if wanted is not None:
            wanted = max(1, min(wanted, size, candidate.most_directions(classes, size)))
        return candidate.solve_small(factor, within, wanted, max(1, min(size, classes - 1))).vectors

    def _head(self, candidate: Criterion, directions: Float, name: str) -> Head:
        """Return what predicts along some directions."""
        trained = self.trained
        inside = Inside(
            means=self.means @ directions,
            counts=self.counts,
            covariance=self._covariance(candidate, directions),
            variance=trained.within_trace / trained.n_features,
            multilabel=bool(trained.multilabel),
            row_mean=self.centre @ directions,
            row_weight=trained.row_weight,
        )
        return build_head(name, inside)

    def _covariance(self, candidate: Criterion, directions: Float) -> Float:
        """Return the shared covariance along some directions, ridge included."""
        # Where nothing varies in what is left, taking rows out leaves rounding: it must not decide.
        lift = 1e-13 * self.trained.everything.within_trace + self._ridge(candidate) + TINY
        covariance: Float = directions.T @ self.space.within @ directions + lift * directions.T @ directions
        return covariance

    def _ridge(self, candidate: Criterion) -> float:
        return candidate.head_ridge if self.head_ridge is None else self.head_ridge
