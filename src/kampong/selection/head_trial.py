"""Heads tried on rows that they have not seen, calibrated there, and compared by smooth errors."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy import linalg

from kampong.heads.calibration import Judged, badness, fit_calibration, fit_weights, least_point, log_softplus
from kampong.heads.hinge import Hinge
from kampong.heads.linear import Cosine, Gaussian, NearestMean, Regression, cosine_scores
from kampong.heads.logistic import Logistic, fit_logistic
from kampong.heads.mixture import MEMBERS, PRIOR, START, TRAINED, Mixture
from kampong.heads.quadratic import Quadratic

if TYPE_CHECKING:
    from collections.abc import Callable

    from kampong._core.compute import Float, Integer
    from kampong.heads.head import Head, Inside

    Trainers = tuple[Float, Integer, Float]

WORTH_IT = 0.8
"""Where a quadratic member lowers the log-loss below this part of it, a logistic head is not tried."""

SLACK = 0.002
"""A simpler candidate may have a selection loss that is larger by so much: a simpler head, columns as they are."""

LARGEST = 1e9
"""No score is larger: classes without spread are infinitely far apart."""

EMPTY = -50.0
"""The score of a class without rows while weights are fitted."""


class Chosen(NamedTuple):
    """A head, the further directions that it looks at, and how bad the candidates were."""

    head: Head
    hidden: Float
    badness: dict[str, float]


@dataclass(frozen=True)
class Parts:
    """What rows of the sample score at one ridge: as they are, and each without itself."""

    products: Float
    squares: Float
    regression: Float
    gram: Float


def member_scores(parts: Parts, log_priors: Float, noise: float, seen: np.ndarray) -> Float:
    """Return Gaussian, cosine, regression and prior scores, (4, n, K)."""
    lengths = np.asarray(np.linalg.norm(among_means(parts.products, parts.gram), axis=1))
    gaussian = np.clip(parts.products - 0.5 * parts.squares, -LARGEST, LARGEST) + log_priors
    cosine = cosine_scores(parts.products, parts.squares, lengths)
    scores = np.stack(
        [gaussian, cosine, log_softplus(parts.regression / noise), np.broadcast_to(log_priors, gaussian.shape)]
    )
    scores[:, :, ~seen] = EMPTY
    return scores


def among_means(products: Float, gram: Float) -> Float:
    """Return orthonormal coordinates of rows in the span of the class means, from their products with them."""
    values, vectors = linalg.eigh(gram, check_finite=False)
    kept = values > 1e-9 * values[-1]
    return np.asarray(products @ (vectors[:, kept] / np.sqrt(values[kept])))


def penalty_of(
    folds: list[tuple[Trainers, Float]],
    counts: Float,
    judged: Judged,
    penalties: Float,
    most: int,
    shape: Float | None = None,
) -> tuple[float, Float, Float]:
    """Return the penalty of logistic regression of least loss on validation rows, weights near it, and their scores.

    Parameters
    ----------
    folds : list of tuple
        For each fold, coordinates, classes and weights of the rows to train with, and coordinates of the validation
        rows, which are not among them.
    counts : array of shape (K,)
        Class weights of all rows.
    judged : Judged
        Classes and weights of the validation rows, fold after fold.
    penalties : array
        Nodes, strong to weak.
    most : int
        The most steps for each.
    shape : array of shape (p,), optional
        What the penalty is multiplied by along each coordinate.

    Returns
    -------
    penalty : float
        Between the nodes where there are several.
    theta : array of shape (K, p + 1)
        The weights of the best node, without the last fold.
    scores : array of shape (n, K)
        The scores of the validation rows, fold after fold, at the best node.
    """
    paths, said = [], []
    for trainers, seen in folds:
        theta, path = None, []
        for penalty in penalties:
            theta = fit_logistic(*trainers, counts, float(penalty), theta, most, shape, gain=1e-10)
            path.append(theta)
        paths.append(path)
        said.append([seen @ theta[:, :-1].T + theta[:, -1] for theta in path])
    scores = [np.concatenate(one) for one in zip(*said, strict=True)]
    for one in scores:
        one[:, counts <= 0] = EMPTY
    losses = np.array([fit_weights(one[None], judged, np.array([1.0]))[1] for one in scores])
    best = int(np.argmin(losses))
    penalty = float(penalties[best])
    if len(penalties) > 1:
        penalty = float(10.0 ** least_point(np.log10(penalties)[::-1], losses[::-1]))
    return penalty, paths[-1][best], scores[best]


class HeadTrial:
    """The heads that follow from class means, counts and covariance, and their scores of rows that none has seen.

    Parameters
    ----------
    scores : array of shape (4, n, K)
        Gaussian, cosine, regression and prior scores of the rows.
    judged : Judged
        Their classes and weights.
    noise : float
        The noise of the regression.
    inside : Inside
        What is known of the classes, for the head that is built in the end.
    """

    def __init__(self, scores: Float, judged: Judged, noise: float, inside: Inside) -> None:
        self.scores, self.judged, self.noise, self.inside = scores, judged, noise, inside
        self.weights, self.loss = fit_weights(scores, judged, START, signed=PRIOR)
        self.quadratic: Quadratic | None = None
        self.trained: Logistic | Hinge | None = None
        self.mixed: Float | None = None
        self.share = 0.0
        self.hidden: Float = np.empty((0, 0))

    def best(self) -> Chosen:
        """Return the simplest head among those that err least."""
        tried = {name: self._calibrated(make()) for name, make in self._makers().items()}
        least = min(bad for _, bad in tried.values())
        name = next(name for name, (_, bad) in tried.items() if bad <= least + SLACK)
        return Chosen(tried[name][0], self._hidden_for(name), {one: bad for one, (_, bad) in tried.items()})

    def named(self, name: str) -> Chosen:
        """Return one head, calibrated."""
        if name == Mixture.name and self._offers_shapes():
            self._add_shapes()
        if name == Mixture.name and self._mixes_linear():
            self._add_linear()
        head, bad = self._calibrated(self._make(name))
        return Chosen(head, self._hidden_for(name), {name: bad})

    def _makers(self) -> dict[str, Callable[[], tuple[Head, Float]]]:
        """Return the heads to compare, simplest first: the best single one, a trained linear one, the mixture."""
        single = {
            name: fit_weights(self.scores[[place]], self.judged, START[:1])[1]
            for place, name in enumerate((Gaussian.name, Cosine.name, Regression.name))
        }
        first, loss = min(single, key=lambda name: single[name]), self.loss
        makers = {first: lambda: self._make(first)}
        if self._offers_shapes():
            loss = self._add_shapes()
            alone = fit_weights(self.scores[[MEMBERS]], self.judged, START[:1])[1]
            if alone < single[first]:
                makers = {Quadratic.name: lambda: self._make(Quadratic.name)}
        trained = self._linear_name()
        if trained and loss > WORTH_IT * self.loss:
            if self._mixes_linear():  # where a mixture holds it, it is ahead of it: arXiv's 10 groups, 0.885 and 0.881
                self._add_linear()
            else:
                makers[trained] = lambda: self._make(trained)
        makers[Mixture.name] = lambda: self._make(Mixture.name)
        return makers

    def _add_shapes(self) -> float:
        """Let the quadratic head be a member of the mixture; return the log-loss of the mixture."""
        self.scores = np.concatenate([self.scores, self._shape_scores()[None]])
        self.weights, loss = fit_weights(self.scores, self.judged, np.append(START, 0.0), signed=PRIOR)
        return loss

    def _add_linear(self) -> None:
        """Let a linear head that is trained be a member of the mixture."""
        head, scores = self._make(self._linear_name())
        assert isinstance(head, Logistic | Hinge)
        self.trained = head
        every = np.concatenate([self.scores, scores[None]])
        start = np.append(START, np.zeros(len(every) - MEMBERS))
        weights, _ = fit_weights(every, self.judged, start, signed=PRIOR)
        self.mixed, self.weights, self.share = np.tensordot(weights, every, 1), weights[:-1], float(weights[-1])

    def _linear_name(self) -> str:
        """Return the linear head that is trained where there are rows enough: "" for none."""
        return Logistic.name if self._offers_logistic() else ""

    def _mixes_linear(self) -> bool:
        """Tell whether that head may be a member of the mixture."""
        return False

    def _offers_shapes(self) -> bool:
        """Tell whether classes have rows enough for a covariance of their own."""
        return False

    def _offers_logistic(self) -> bool:
        """Tell whether there are rows enough to train logistic regression."""
        return False

    def _shape_scores(self) -> Float:
        """Train the quadratic head; return its scores of the rows that judge."""
        raise KeyError(Quadratic.name)

    def _logistic(self) -> tuple[Head, Float]:
        """Return logistic regression, and its scores of the first of the rows that judge."""
        raise KeyError(Logistic.name)

    def _hinge(self) -> tuple[Head, Float]:
        """Return support vector machines, and their scores of the first of the rows that judge."""
        raise KeyError(Hinge.name)

    def _make(self, name: str) -> tuple[Head, Float]:
        """Return a head and its scores of the rows that judge."""
        if name == Logistic.name:
            return self._logistic()
        if name == Hinge.name:
            return self._hinge()
        if name == Quadratic.name:
            if self.quadratic is None:
                self.scores = np.concatenate([self.scores, self._shape_scores()[None]])
            assert self.quadratic is not None
            return self.quadratic, self.scores[MEMBERS]
        if name == Gaussian.name:
            return Gaussian.build(self.inside), self.scores[0]
        if name == Cosine.name:
            return Cosine.build(self.inside), self.scores[1]
        if name == Regression.name:
            return Regression(False, *Regression.white(self.inside), self.noise), self.scores[2]
        if name == NearestMean.name:
            round_ = self.inside.variance if self.inside.variance > 0 else 1.0
            return NearestMean.build(self.inside), (self.scores[0] - self.scores[PRIOR]) / round_
        if name != Mixture.name:
            raise KeyError(name)
        weights = np.append(self.weights, np.zeros(TRAINED + 1 - len(self.weights)))
        weights[TRAINED] = self.share
        quadratic = self.quadratic if weights[MEMBERS] else None
        trained = self.trained if self.share else None
        head = Mixture(False, *Mixture.white(self.inside), self.noise, weights, quadratic, trained)
        mixed = np.tensordot(self.weights, self.scores[: len(self.weights)], 1) if self.mixed is None else self.mixed
        return head, mixed

    def _calibrated(self, made: tuple[Head, Float]) -> tuple[Head, float]:
        """Return a head with probabilities that mean something, and how bad it is."""
        head, scores = made
        n, weight = len(scores), float(self.judged.weights.sum())
        judged = self.judged.first(n)
        sharpness, tail = fit_calibration(scores, judged)
        bad = badness(scores, judged, sharpness, tail, weight)
        if n < len(self.judged.codes):
            # judged by some of the rows: what these are harder than the others for the mixture, they are for any head
            mixed = np.tensordot(self.weights, self.scores[: len(self.weights)], 1)
            bad += badness(mixed, self.judged) - badness(mixed[:n], judged, rows_in_all=weight)
        return replace(head, sharpness=sharpness, tail=tail), bad

    def _hidden_for(self, name: str) -> Float:
        """Return the further directions that a head looks at: none here."""
        return self.hidden
