"""Heads for several labels per row, tried on rows held out: each score is the log-odds of its own label.

All of them are linear, so their calibration, b·score + c with the same b and c for all labels, becomes a part of their
weights: it moves the line between yes and no as well. They are compared by the log-loss of a label.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import special

from kampong._core.compute import project
from kampong.heads.head import build_head
from kampong.heads.linear import Gaussian, LinearHead
from kampong.heads.logistic import USUAL, Logistic
from kampong.selection.evidence import Built, Candidate, Evidence
from kampong.selection.settings import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Callable

    from kampong._core.compute import Float
    from kampong.heads.head import Head, Inside
    from kampong.selection.folds import Piece
    from kampong.statistics.all_rows import Sample
    from kampong.statistics.held_out import Kept

FAR = 30.0
"""No log-odds count for more while a calibration is fitted: a label that every row has is infinitely likely."""


class LabelEvidence(Evidence):
    """Gaussian classes, the nearest mean and logistic regression, a label against the rows that do not have it.

    Parameters
    ----------
    pieces : list of Piece
        The parts of the rows that were held out.
    scores : dict of str to array of shape (n, L)
        What Gaussian classes and the nearest mean score for all of them.
    truth : array of shape (n, L)
        Their labels.
    weights : array of shape (n,)
        Their weights.
    inside : Inside
        What is known of the labels along the directions of all rows.
    components : array of shape (p, d)
        Those directions.
    statistics : ClassRows or ClassReservoir
        Where rows to train with come from.
    """

    def __init__(
        self,
        pieces: list[Piece],
        scores: dict[str, Float],
        truth: Float,
        weights: Float,
        inside: Inside,
        components: Float,
        statistics: Kept,
    ) -> None:
        self.pieces, self.scores, self.truth, self.weights = pieces, scores, truth, weights
        self.inside, self.components, self.statistics = inside, components, statistics
        self.sample = statistics.sample(SETTINGS.label_rows)

    @property
    def n_rows(self) -> int:
        """How many validation rows there are."""
        return len(self.weights)

    def offered(self) -> list[str]:
        """Return Gaussian classes, and logistic regression where rows are neither few nor too many."""
        rows, p = self.sample.rows.shape[0], len(self.components)
        trained = (
            rows >= SETTINGS.label_rows_per_direction * p and rows * p * self.truth.shape[1] <= SETTINGS.label_cost
        )
        return [Gaussian.name, Logistic.name] if trained else [Gaussian.name]

    def accepts(self, name: str) -> bool:
        """Tell that heads of users are not compared: calibrated log-odds need a linear head."""
        return False

    def candidate(self, name: str) -> Candidate:
        """Return the candidate of this name; a head that needs a single label per row says so."""
        if name == Logistic.name:
            return self._logistic()
        nothing: Float = np.empty((0, self.components.shape[1]))
        if name not in self.scores:
            build_head(name, self.inside)  # which says what it needs
            raise ValueError(
                f"head={name!r} needs one label per row. Use head='gaussian', 'nearest_mean' or 'logistic'."
            )
        return Candidate(name, self.scores[name], lambda: Built(build_head(name, self.inside), nothing))

    def calibrated(self, candidates: list[Candidate]) -> list[tuple[float, Callable[[Head], Head]]]:
        """Return the log-loss of a label for each candidate, and what gives its head log-odds that have it."""
        return [self._fitted(candidate) for candidate in candidates]

    def _fitted(self, candidate: Candidate) -> tuple[float, Callable[[Head], Head]]:
        sharpness, offset, loss = fit_odds(candidate.scores, self.truth, self.weights)

        def apply(head: Head) -> Head:
            assert isinstance(head, LinearHead)
            return replace(head, weights=sharpness * head.weights, offsets=sharpness * head.offsets + offset)

        return loss, apply

    def enough(self, least: float) -> float:
        """Return a little more than the least loss."""
        return SETTINGS.label_slack * least

    def _logistic(self) -> Candidate:
        """Train on the rows that each part leaves, and in the end on all."""
        sample = self.sample
        labels, own = labels_of(sample, self.truth.shape[1]), sample.own
        scores = []
        for piece in self.pieces:
            others = np.ones(sample.rows.shape[0], dtype=bool)
            others[piece.fold] = False
            points = project(sample.rows, piece.directions, piece.mean).astype(np.float64)
            theta = fit_labels(points[others], labels[others], own[others], USUAL)
            scores.append(piece.points @ theta[:, :-1].T + theta[:, -1])

        def build() -> Built:
            whitener = self.inside.whitener()
            points = project(sample.rows, self.components, self.statistics.mean).astype(np.float64) @ whitener
            theta = fit_labels(points, labels, own, USUAL)
            head = Logistic(True, theta[:, :-1] @ whitener.T, theta[:, -1], USUAL, settled=True)
            return Built(head, np.empty((0, self.components.shape[1])))

        return Candidate(Logistic.name, np.concatenate(scores), build)


def labels_of(sample: Sample, n_labels: int) -> Float:
    """Return the labels of a sample as a matrix of 0 and 1."""
    labels = np.zeros((sample.rows.shape[0], n_labels))
    labels[sample.members.rows, sample.members.codes] = 1.0
    return labels


def fit_odds(scores: Float, truth: Float, weights: Float) -> tuple[float, float, float]:
    """Return b > 0 and c for which log-odds b·score + c have the least log-loss, and that loss: the mean of a label.

    Parameters
    ----------
    scores : array of shape (n, L)
        Log-odds of rows that a head has not seen.
    truth : array of shape (n, L)
        1 for a label that a row has, else 0.
    weights : array of shape (n,)
        The weights of the rows.

    Returns
    -------
    sharpness, offset, loss : float
        The factor b, the offset c, and the loss. One row's weight pulls b towards 1 and c towards 0.
    """
    shares = weights / weights.sum()
    clipped, pull = np.clip(scores, -FAR, FAR), 1.0 / max(float(weights.sum()), 1.0)
    b, c = 1.0, 0.0

    def value(b: float, c: float) -> float:
        logs = special.log_expit(np.where(truth > 0, b * clipped + c, -b * clipped - c))
        return -float(shares @ logs.mean(axis=1)) + 0.5 * pull * ((b - 1.0) ** 2 + c**2)

    goal = value(b, c)
    for _ in range(40):
        chances = special.expit(b * clipped + c)
        error, curvature = chances - truth, chances * (1.0 - chances)
        slope = np.array([shares @ (error * clipped).mean(axis=1), shares @ error.mean(axis=1)])
        slope += pull * np.array([b - 1.0, c])
        cross = shares @ (curvature * clipped).mean(axis=1)
        matrix = np.array(
            [[shares @ (curvature * clipped**2).mean(axis=1), cross], [cross, shares @ curvature.mean(axis=1)]]
        )
        step = -np.linalg.solve(matrix + pull * np.eye(2), slope)
        if -float(slope @ step) < 1e-15:
            break
        length = 1.0
        while length > 1e-6 and (
            b + length * step[0] <= 0 or value(b + length * step[0], c + length * step[1]) > goal + 1e-15
        ):
            length /= 2
        b, c = float(b + length * step[0]), float(c + length * step[1])
        goal = value(b, c)
    logs = special.log_expit(np.where(truth > 0, b * clipped + c, -b * clipped - c))
    return b, c, -float(shares @ logs.mean(axis=1))


def fit_labels(points: Float, labels: Float, own: Float, penalty: float) -> Float:
    """Return weights and offsets, (L, p + 1), of logistic regression for each label on its own; all at once.

    Parameters
    ----------
    points : array of shape (n, p)
        Whitened coordinates.
    labels : array of shape (n, L)
        1 for a label that a row has, else 0.
    own : array of shape (n,)
        The weights of the rows.
    penalty : float
        The L2 penalty on the weights, relative to a mean over rows.

    Returns
    -------
    array of shape (L, p + 1)
        The offset stands last. A label that every row has, or none, has zero weights and an infinite offset.
    """
    L, q = labels.shape[1], points.shape[1] + 1
    extended, shares = np.hstack([points, np.ones((len(points), 1))]), own / own.sum()
    share = shares @ labels
    mixed = (share > 0) & (share < 1 - 1e-12)
    pull = np.full(q, penalty)
    pull[-1] = 1e-6
    odds = np.log(np.where(mixed, share, 0.5) / np.where(mixed, 1.0 - share, 0.5))
    start = np.zeros((L, q))
    start[:, -1] = odds
    # the loss of a label bends by its variance along a whitened coordinate: that is the unit of its row
    unit = 1.0 / np.sqrt(np.maximum(share * (1 - share), 1e-4)[:, None] + pull)

    def goal(flat: Float) -> tuple[float, Float]:
        theta = flat.reshape(L, q) * unit
        scores = extended @ theta.T
        logs = special.log_expit(np.where(labels > 0, scores, -scores))
        error = (special.expit(scores) - labels) * shares[:, None]
        value = -float(shares @ logs.sum(axis=1)) + 0.5 * float((pull * theta * theta).sum())
        return value, ((error.T @ extended + pull * theta) * unit).ravel()

    from scipy import optimize  # few fits need it, and it takes long to import

    minimise: Any = optimize.minimize  # its types know no function that returns its slope too
    options = {"maxiter": SETTINGS.label_steps, "gtol": 1e-10, "ftol": 0.0, "maxcor": 10}
    found = minimise(goal, (start / unit).ravel(), jac=True, method="L-BFGS-B", options=options)
    theta: Float = found.x.reshape(L, q) * unit
    theta[~mixed] = 0.0
    theta[~mixed, -1] = np.where(share[~mixed] > 0, np.inf, -np.inf)
    return theta
