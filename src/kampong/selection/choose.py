"""No parameter left to guess: it is chosen by rows held out from the statistics, smoothly.

The validation rows are a sample that the statistics keep, or rows in memory. They are held out without another pass:
what they added to the class means and to S_w is subtracted again. The candidates are compared inside one Krylov space
that is built without them (a space that knows them would flatter them: 0.96 in place of 0.87 on text), so a choice
costs about one solve. Where rows are many, one part is held out; where they are few, each of five parts in turn. Which
rows go together follows from their numbers, never from their entries: a last bit must not move a row to another part.

What is compared is a smooth count of errors at the best calibration, and the least point of the curve lies between its
nodes. `leave_one_out` does the same for Fisher's criterion without parts, where a d × d scatter is kept.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from scipy import special

from kampong._core.compute import one_blas_thread
from kampong.files.contents import to_lines
from kampong.heads import HEADS
from kampong.heads.calibration import ValidationRows, fit_calibration, fit_weights, least_point, selection_loss
from kampong.heads.mixture import PRIOR, START, Mixture
from kampong.selection.evidence import own_heads
from kampong.selection.folds import HeldOutEvidence, scores_of
from kampong.selection.held_out_scores import HeldOutFold
from kampong.selection.scales import OWN, SCALES
from kampong.selection.settings import SETTINGS
from kampong.selection.several_labels import LabelEvidence
from kampong.solvers import classes_seen, resolvent
from kampong.statistics.answers import keeps_rows
from kampong.statistics.held_out import TrainingStatistics

if TYPE_CHECKING:
    from kampong._core.compute import Float, Integer
    from kampong.criteria import Criterion
    from kampong.files.contents import Contents
    from kampong.heads import Head, Inside
    from kampong.selection.evidence import Evidence
    from kampong.solvers.solver import Krylov
    from kampong.statistics.all_rows import Sample
    from kampong.statistics.held_out import Kept
    from kampong.statistics.means import ClassMeans


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
        What each costs on rows held out: a smooth share of errors, and a little of the log-loss. Less is better.
    n_rows : int
        How many rows were held out, all parts together.
    heads : dict of str to float
        The same for the heads that were compared at the value chosen; empty where the head was not chosen.
    scaled : bool
        Whether the values are in units of the variances of the columns, because that erred less.
    scales : dict of str to float
        The least losses "unscaled", "scaled", with each column divided by its standard deviation, and "capped", with
        only the large columns divided, and those of own scales; empty if only one was tried.
    units : array of shape (n_features,) or None
        What the columns are divided by if only the large ones are, 1 for the others; or if an own scale was chosen.
    own_scale : str
        The name of the own scale that was chosen, "" for none.
    """

    value: float
    values: Float
    losses: Float
    n_rows: int
    heads: dict[str, float] = field(default_factory=dict)
    scaled: bool = False
    scales: dict[str, float] = field(default_factory=dict)
    units: Float | None = None
    own_scale: str = ""

    def to_state(self) -> dict[str, Any]:
        """Return what a checkpoint holds."""
        state = {name: value for name, value in vars(self).items() if name not in ("scales", "units", "own_scale")}
        state = {**state, "heads": dict(self.heads), "scaled": int(self.scaled)}
        state |= {"scales": dict(self.scales)} if self.scales else {}
        own = [name for name in self.scales if name not in SCALES]
        state |= {"own_scales": to_lines(own)} if own else {}
        state |= {"own_scale": self.own_scale} if self.own_scale else {}
        return state if self.units is None else {**state, "units": self.units}

    @classmethod
    def from_state(cls, contents: Contents, n_features: int) -> Self:
        """Return the choice that `to_state` wrote, for rows of this many columns."""
        values = contents.array("values", np.float64, (None,))
        losses = contents.array("losses", np.float64, (len(values),))
        heads = contents.part("heads")
        compared = {name: heads.number(name) for name in HEADS if name in heads}
        heads.finish()
        scaled = contents.whole("scaled")
        contents.require(scaled in (0, 1), f"scaled is {scaled}")
        scales, units = {}, None
        own = contents.words("own_scales") if "own_scales" in contents else ()
        unknown = [name for name in own if name not in OWN]
        contents.require(
            not unknown,
            f"the scale {next(iter(unknown), None)!r} is not known here: register it first (kampong.selection.scales)",
        )
        if "scales" in contents:
            part = contents.part("scales")
            built_in = [name for name in SCALES if name in part or name == "unscaled"]
            scales = {name: part.number(name) for name in (*built_in, *own)}
            part.finish()
        own_scale = contents.word("own_scale", own) if "own_scale" in contents else ""
        if "units" in contents:
            units = contents.array("units", np.float64, (n_features,))
            fits = bool(scaled and ((units > 0).all() if own_scale else (units >= 1).all()))
            contents.require(fits, "units are those of large columns, 1 or more")
        n_rows = contents.whole("n_rows")
        choice = cls(contents.number("value"), values, losses, n_rows, compared, bool(scaled), scales, units, own_scale)
        contents.require(not own_scale or units is not None, "an own scale was chosen, and units is missing")
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
    provisional: bool = False,
) -> tuple[Choice | None, Krylov | None, HeldOut | None]:
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
    provisional : bool
        Whether the choice is provisional: then directions are found without the validation rows, however many
        these are, and no head is trained on all columns.

    Returns
    -------
    choice : Choice or None
        None if there are no validation rows.
    space : Krylov or None
        The Krylov space for the directions; None where they are found without one.
    source : HeldOut or None
        What makes the evidence on heads.
    """
    nodes = kind.grid(statistics) if value is None else np.array([value])
    if not len(nodes) or not keeps_rows(statistics):
        return None, None, None
    sample, exact = statistics.sample(SETTINGS.validation_rows), statistics.holds_scatter
    parts = _parts(sample, statistics.total, statistics.rows_kept)
    name = head if head in HEADS and not HEADS[head].needs_sample and head != Mixture.name else "auto"
    held = [TrainingStatistics(statistics, sample, part) for part in parts]
    # Of three rows, what is left without one may be of one class: it has no directions to validate.
    folds = [HeldOutFold(one, n_components, name, head_ridge) for one in held if classes_seen(one) >= 2]
    if not folds:
        return None, None, None
    codes = np.concatenate([fold.truth for fold in folds])
    weights = np.concatenate([fold.weights for fold in folds])
    space = None
    if not exact and value is None:
        few = len(parts) == 1 and (provisional or sample.own[parts[0]].sum() <= statistics.total / 32)
        space = folds[0].space if few else resolvent.build(statistics)
    if not len(codes):
        return None, space, None
    n_rows = sum(len(part) for part in parts)
    if value is None:
        choice = _least(kind, statistics, nodes, folds, codes, weights, head)
        choice = replace(choice, n_rows=n_rows)
    else:
        choice = Choice(value, np.empty(0), np.empty(0), n_rows)
    criterion = kind.of(choice.value)
    if statistics.multilabel and sample.weights.sum() < SETTINGS.labelled_share * statistics.row_weight:
        return choice, space, None
    return choice, space, HeldOut(folds, criterion, codes, weights, statistics, provisional)


@dataclass(frozen=True)
class HeldOut:
    """Rows held out in parts, which make the evidence on heads along the directions of a criterion."""

    folds: list[HeldOutFold]
    criterion: Criterion
    truth: np.ndarray
    weights: Float
    statistics: Kept
    provisional: bool

    def evidence(self, inside: Inside, components: Float) -> Evidence:
        """Return the evidence on heads along some directions, given what is known of the classes along them."""
        folds, criterion = [fold for fold in self.folds if len(fold.points)], self.criterion
        if not self.statistics.multilabel:
            validation = ValidationRows(self.truth, self.weights)
            given = (folds, criterion, validation, inside, components, self.statistics)
            return HeldOutEvidence(*given, provisional=self.provisional)
        pieces = [fold.piece(criterion) for fold in folds]
        names = ("gaussian", "nearest_mean")
        scores = {one: np.concatenate([fold.scores(criterion, one) for fold in folds]) for one in names}
        return LabelEvidence(pieces, scores, self.truth, self.weights, inside, components, self.statistics)


class Chosen(NamedTuple):
    """The head of least selection loss, the further directions that it looks at, and the losses of all candidates.

    `scores` are those of the head for validation rows, before it learnt them.
    """

    head: Head
    hidden: Float
    losses: dict[str, float]
    scores: Float


def choose(evidence: Evidence, asked: str) -> Chosen:
    """Return the head asked for, calibrated; of several, the simplest of those with about the least selection loss.

    Parameters
    ----------
    evidence : Evidence
        What candidates say of validation rows.
    asked : str
        The name of a head; "auto" for those of the library, "best" for those that users have registered too.

    Returns
    -------
    Chosen
        Only its head has been trained on all rows.
    """
    names = evidence.offered() if asked in ("auto", "best") else [asked]
    if asked == "best":
        names += [name for name in own_heads() if evidence.accepts(name)]
    candidates = [evidence.candidate(name) for name in names]
    tried = [(one, *found) for one, found in zip(candidates, evidence.calibrated(candidates), strict=True)]
    enough = evidence.enough(min(loss for _, loss, _ in tried))
    winner, calibrate = next((candidate, apply) for candidate, loss, apply in tried if loss <= enough)
    head, hidden = winner.build()
    return Chosen(calibrate(head), hidden, {candidate.name: loss for candidate, loss, _ in tried}, winner.scores)


def _least(
    kind: type[Criterion],
    statistics: ClassMeans,
    nodes: Float,
    folds: list[HeldOutFold],
    codes: np.ndarray,
    weights: Float,
    head: str,
) -> Choice:
    """Return the value where the curve through the losses at the nodes is least."""
    mixes = kind.is_ridge and not statistics.multilabel and head in ("auto", "best", "mixture")
    loss = _mixed_loss if mixes else _loss
    with one_blas_thread():  # many small products: threads would wait for each other
        losses = np.array([loss(folds, kind.of(node), codes, weights) for node in nodes])
    places, usual = kind.coordinate(nodes), float(kind.coordinate(np.array([kind.usual(statistics)]))[0])
    n_rows = float(weights.sum() ** 2 / np.square(weights).sum())  # the pull weighs as much as one of them
    best = least_point(places, losses + (places - usual) ** 2 / n_rows)
    return Choice(float(kind.from_coordinate(np.array([best]))[0]), nodes, losses, 0)


def _parts(sample: Sample, total: float, kept: int) -> list[Integer]:
    """Return the rows to hold out, together or in turns; of all rows kept some are left to train heads."""
    rows = np.arange(sample.rows.shape[0])
    if sample.own.sum() <= total / 8:
        return [rows if kept >= 2 * len(rows) else rows[: -(-len(rows) // 2)]]
    if len(rows) // 8 >= SETTINGS.single_fold_rows:
        return [rows[: len(rows) // 8]]
    return [rows[first :: SETTINGS.folds] for first in range(min(SETTINGS.folds, len(rows)))]


def _mixed_loss(folds: list[HeldOutFold], candidate: Criterion, truth: np.ndarray, weights: Float) -> float:
    """Return what a mixture of heads costs along the directions of a candidate."""
    validation, pieces = ValidationRows(truth, weights), [fold for fold in folds if len(fold.points)]
    if len(pieces) == 1:
        validation = validation.first(max(SETTINGS.single_fold_rows, SETTINGS.curve_scores // len(pieces[0].counts)))
    scores, _ = scores_of([fold.parts(candidate, len(validation.codes)) for fold in pieces], validation)
    mixed, _ = fit_weights(scores, validation, START, signed=PRIOR)
    return selection_loss(np.tensordot(mixed, scores, 1), validation)


def _loss(folds: list[HeldOutFold], candidate: Criterion, truth: np.ndarray, weights: Float) -> float:
    """Return the loss of a head along directions; with several labels per row, the log-loss of each."""
    scores = np.concatenate([fold.scores(candidate) for fold in folds])
    if truth.ndim == 2:
        logs = np.maximum(special.log_expit(np.where(truth > 0, scores, -scores)), -50.0)
        return -float(np.average(logs.mean(axis=1), weights=weights))
    validation = ValidationRows(truth, weights)
    finite = np.maximum(scores, -1e6)  # a class that was never seen
    return selection_loss(finite, validation, *fit_calibration(finite, validation))
