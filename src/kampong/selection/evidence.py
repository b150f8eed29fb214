"""Evidence: what candidates say of validation rows, which they have not learnt, and how the winner is built.

`leave_one_out`, `folds`, `several_labels` and `landmarks` make evidence; `choose.choose` reads it. Only the head that
is chosen is built.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np

from kampong.heads.calibration import (
    ValidationRows,
    calibrate_each,
    fit_each,
    fit_weights,
    log_softmax,
    log_softplus,
    selection_loss,
    selection_loss_each,
)
from kampong.heads.head import HEADS, build_head
from kampong.heads.hinge import Hinge
from kampong.heads.linear import Cosine, Gaussian, NearestMean, Regression, cosine_scores
from kampong.heads.logistic import LAST_GAIN, Logistic, fit_logistic
from kampong.heads.mixture import MEMBERS, PRIOR, START, TRAINED, Mixture
from kampong.heads.quadratic import Quadratic
from kampong.selection.settings import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Callable

    from kampong._core.compute import Float, Integer
    from kampong.heads.head import Head, Inside

    Trainers = tuple[Float, Integer, Float]

LARGEST = 1e9
"""No score is larger: classes without spread are infinitely far apart."""

EMPTY = -50.0
"""The score of a class without rows while weights are fitted."""


class Built(NamedTuple):
    """A head, and the further directions that it looks at, (q, d)."""

    head: Head
    hidden: Float


@dataclass(frozen=True)
class Candidate:
    """A head that could be chosen: what it says of validation rows, and how it is trained in the end.

    Attributes
    ----------
    name : str
        The name of the head.
    scores : array of shape (n, K)
        Its scores of the first n validation rows, which it has not learnt.
    build : callable
        Returns the head that has learnt all rows. Only that of the winner is called.
    """

    name: str
    scores: Float
    build: Callable[[], Built]


class Weighing(NamedTuple):
    """The weights of a mixture, and its log-loss."""

    weights: Float
    loss: float


class Evidence(ABC):
    """What candidates say of validation rows, which they have not learnt: all that `choose` reads.

    Attributes
    ----------
    validation : ValidationRows or None
        Classes and weights of the validation rows; None where a row has several labels.
    """

    validation: ValidationRows | None = None

    @abstractmethod
    def offered(self) -> list[str]:
        """Return the names of the heads to compare, simplest first."""

    @abstractmethod
    def candidate(self, name: str) -> Candidate:
        """Return the candidate of this name."""

    @abstractmethod
    def calibrated(self, candidates: list[Candidate]) -> list[tuple[float, Callable[[Head], Head]]]:
        """Return the selection loss of each candidate, and what calibrates its head."""

    @abstractmethod
    def enough(self, least: float) -> float:
        """Return the largest selection loss with which a simpler candidate is taken, given the least one."""

    def accepts(self, name: str) -> bool:
        """Tell whether a head that a user has registered can be a candidate."""
        return True

    @property
    @abstractmethod
    def n_rows(self) -> int:
        """How many validation rows there are."""


class Source(Protocol):
    """What makes evidence once the directions of all rows are known."""

    def evidence(self, inside: Inside, components: Float) -> Evidence:
        """Return the evidence on heads along some directions, given what is known of the classes along them."""


def own_heads() -> list[str]:
    """Return the names of the heads that users have registered."""
    return [name for name, kind in HEADS.items() if kind.__module__.partition(".")[0] != __name__.partition(".")[0]]


@dataclass(frozen=True)
class Parts:
    """What rows of the sample score at a ridge."""

    products: Float
    squares: Float
    regression: Float
    centres: Float


def gaussian_scores(products: Float, squares: Float, log_priors: Float) -> Float:
    """Return the scores of Gaussian classes, (…, n, K)."""
    scores: Float = np.clip(products - 0.5 * squares, -LARGEST, LARGEST) + log_priors
    return scores


def member_scores(parts: Parts, log_priors: Float, noise: Float, seen: np.ndarray) -> Float:
    """Return Gaussian, cosine, regression and prior scores, (…, 4, n, K)."""
    lengths = np.asarray(np.linalg.norm(among_means(parts.products, parts.centres), axis=-1))
    gaussian = gaussian_scores(parts.products, parts.squares, log_priors)
    cosine = cosine_scores(parts.products, parts.squares, lengths)
    regression = log_softplus(parts.regression / noise[..., None, None])
    scores = np.stack([gaussian, cosine, regression, np.broadcast_to(log_priors, gaussian.shape)], axis=-3)
    scores[..., ~seen] = EMPTY
    return scores


def among_means(products: Float, centres: Float) -> Float:
    """Return orthonormal coordinates of rows in the span of the class means, from their products with them.

    `centres`, (K, p), are the means where the metric is the identity. The smaller of two matrices is diagonalised.
    """
    narrow, other = centres.shape[-1] < centres.shape[-2], centres.swapaxes(-1, -2)
    values, vectors = np.linalg.eigh(other @ centres if narrow else centres @ other)
    kept = values > 1e-9 * values[..., -1:]
    inverse = np.where(kept, 1.0 / np.sqrt(np.where(kept, values, 1.0)), 0.0)[..., None, :]
    return np.asarray(products @ ((centres @ vectors * inverse if narrow else vectors) * inverse))


def penalty_of(
    folds: list[tuple[Trainers, Float]],
    counts: Float,
    validation: ValidationRows,
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
    validation : ValidationRows
        Classes and weights of the validation rows, fold after fold.
    penalties : array
        Penalties, strong to weak.
    most : int
        The most steps for each.
    shape : array of shape (p,), optional
        What the penalty is multiplied by along each coordinate.

    Returns
    -------
    penalty : float
        The best of those given.
    theta : array of shape (K, p + 1)
        Its weights, without the last fold.
    scores : array of shape (n, K)
        Its scores of the validation rows, fold after fold.
    """
    paths, said = [], []
    for trainers, seen in folds:
        theta, path = None, []
        for penalty in penalties:
            theta = fit_logistic(*trainers, counts, float(penalty), theta, most, shape, gain=LAST_GAIN)
            path.append(theta)
        paths.append(path)
        said.append([seen @ theta[:, :-1].T + theta[:, -1] for theta in path])
    scores = np.stack([np.concatenate(one) for one in zip(*said, strict=True)])
    best = least_loss(scores, counts, validation)
    return float(penalties[best]), paths[-1][best], scores[best]


def least_loss(scores: Float, counts: Float, validation: ValidationRows) -> int:
    """Return which of several heads has the least log-loss, given their scores, (B, n, K).

    Scores of classes without rows are set to those of no chance.
    """
    scores[:, :, counts <= 0] = EMPTY
    if len(scores) == 1:
        return 0
    own = log_softmax(scores)[:, np.arange(len(validation.codes)), validation.codes]
    return int(np.argmax(own @ validation.weights))


def _calibration(sharpness: float, tail: float) -> Callable[[Head], Head]:
    """Return what gives a head a calibration."""
    return lambda head: replace(head, sharpness=sharpness, tail=tail)


class ClassEvidence(Evidence):
    """Evidence where a row has one label: heads that follow from class means and covariance, and trained ones.

    Parameters
    ----------
    scores : array of shape (4, n, K)
        Gaussian, cosine, regression and prior scores of the validation rows.
    validation : ValidationRows
        Their classes and weights.
    noise : float
        The noise of the regression.
    inside : Inside
        What is known of the classes, for the head that is built in the end.
    n_features : int
        The number of columns.
    """

    validation: ValidationRows

    def __init__(
        self, scores: Float, validation: ValidationRows, noise: float, inside: Inside, n_features: int
    ) -> None:
        self.scores, self.validation, self.noise, self.inside = scores, validation, noise, inside
        self.nothing: Float = np.empty((0, n_features))
        self._candidates: dict[str, Candidate] = {}

    @cached_property
    def near(self) -> Weighing:
        """The weights of a mixture of the four, and its log-loss."""
        return Weighing(*fit_weights(self.scores, self.validation, START, signed=PRIOR))

    @property
    def n_rows(self) -> int:
        """How many validation rows there are."""
        return len(self.validation.codes)

    def offered(self) -> list[str]:
        """Return the best single head, a trained linear one that no mixture holds, and the mixture."""
        names = [Gaussian.name, Cosine.name, Regression.name]
        names += [Quadratic.name] if self._offers_shapes() else []
        scores = np.stack([self.candidate(name).scores for name in names])
        _, losses = fit_each(scores[:, None], self.validation, START[:1])
        first, trained = names[int(np.argmin(losses))], self._linear_name()
        if not trained or self._mixes_linear() or self._weighed.loss <= SETTINGS.quadratic_gain * self.near.loss:
            return [first, Mixture.name]
        return [first, trained, Mixture.name]

    def candidate(self, name: str) -> Candidate:
        """Return the candidate of this name, worked out once."""
        if name not in self._candidates:
            self._candidates[name] = self._candidate(name)
        return self._candidates[name]

    def calibrated(self, candidates: list[Candidate]) -> list[tuple[float, Callable[[Head], Head]]]:
        """Return the smooth errors of each candidate at its best calibration, and what gives its head that."""
        found: dict[str, tuple[float, Callable[[Head], Head]]] = {}
        weight = float(self.validation.weights.sum())
        for n in {len(one.scores) for one in candidates}:
            same = [one for one in candidates if len(one.scores) == n]
            scores, validation = np.stack([one.scores for one in same]), self.validation.first(n)
            fitted = calibrate_each(scores, validation)
            sharpness, tail = np.transpose(fitted)
            losses = selection_loss_each(scores, validation, sharpness, tail, weight)
            if n < self.n_rows:
                # by some of the rows only: what these are harder than the others for the mixture, they are for any head
                mixed = np.tensordot(self.near.weights, self.scores, 1)
                losses += selection_loss(mixed, self.validation)
                losses -= selection_loss(mixed[:n], validation, rows_in_all=weight)
            for one, loss, values in zip(same, losses.tolist(), fitted, strict=True):
                found[one.name] = loss, _calibration(*values)
        return [found[one.name] for one in candidates]

    def enough(self, least: float) -> float:
        """Return the least selection loss and a little."""
        return least + SETTINGS.slack

    def _candidate(self, name: str) -> Candidate:
        trained = {Logistic.name: self._logistic, Hinge.name: self._hinge, Quadratic.name: self._quadratic}
        if name in trained:
            return trained[name]()
        if name == Mixture.name:
            return self._mixture()
        if name == NearestMean.name:
            return Candidate(name, self._nearest(), lambda: Built(NearestMean.build(self.inside), self.nothing))
        plain = {Gaussian.name: 0, Cosine.name: 1, Regression.name: 2}
        if name in plain:
            return Candidate(name, self.scores[plain[name]], lambda: Built(self._plain(name), self.nothing))
        with np.errstate(divide="ignore"):  # a class may lack rows in a fold
            scores = self._own_scores(name)
        return Candidate(name, scores, lambda: Built(build_head(name, self._taught()), self.nothing))

    def _plain(self, name: str) -> Head:
        if name == Regression.name:
            return Regression(False, *Regression.white(self.inside), self.noise)
        return HEADS[name].build(self.inside)

    def _nearest(self) -> Float:
        """Return the scores of the nearest class mean."""
        unit = self.inside.variance if self.inside.variance > 0 else 1.0
        scores: Float = (self.scores[0] - self.scores[PRIOR]) / unit
        return scores

    def _mixture(self) -> Candidate:
        """Weigh the heads together: the quadratic one and the trained linear one too, where they may be members."""
        members, (weights, _) = self._members, self._weighed

        def build() -> Built:
            built = {place: member.build() for place, member in members.items() if weights[place]}
            quadratic, trained = (built[place].head if place in built else None for place in (MEMBERS, TRAINED))
            assert quadratic is None or isinstance(quadratic, Quadratic)
            assert trained is None or isinstance(trained, Logistic | Hinge)
            head = Mixture(False, *Mixture.white(self.inside), self.noise, weights, quadratic, trained)
            return Built(head, next((one.hidden for one in built.values()), self.nothing))

        scores = np.tensordot(weights[:MEMBERS], self.scores, 1)
        for place, member in members.items():
            scores += weights[place] * member.scores
        return Candidate(Mixture.name, scores, build)

    @cached_property
    def _members(self) -> dict[int, Candidate]:
        """The members of the mixture that are trained on rows, by their places."""
        names = {MEMBERS: Quadratic.name if self._offers_shapes() else ""}
        names[TRAINED] = self._linear_name() if self._mixes_linear() else ""
        return {place: self.candidate(name) for place, name in names.items() if name}

    @cached_property
    def _weighed(self) -> Weighing:
        """The weights of all members of the mixture, and its log-loss."""
        every = np.concatenate([self.scores, *(member.scores[None] for member in self._members.values())])
        more = np.zeros(len(self._members))
        start, begin = np.append(START, more), np.append(self.near.weights, more)
        found, loss = fit_weights(every, self.validation, start, signed=PRIOR, begin=begin)
        weights = np.zeros(TRAINED + 1)
        weights[[*range(MEMBERS), *self._members]] = found
        return Weighing(weights, loss)

    def _linear_name(self) -> str:
        """Return the linear head that is trained: "" for none."""
        return Logistic.name if self.validation.weights.sum() >= SETTINGS.cross_fit_rows else ""

    def _mixes_linear(self) -> bool:
        """Tell whether that head may be a member of the mixture."""
        return False

    @abstractmethod
    def _offers_shapes(self) -> bool:
        """Tell whether classes have rows enough for a covariance of their own."""

    @abstractmethod
    def _quadratic(self) -> Candidate:
        """Return one covariance per class."""

    @abstractmethod
    def _logistic(self) -> Candidate:
        """Return logistic regression; it may have scored the first of the validation rows only."""

    @abstractmethod
    def _hinge(self) -> Candidate:
        """Return support vector machines; they may have scored the first of the validation rows only."""

    @abstractmethod
    def _own_scores(self, name: str) -> Float:
        """Return the scores of a user's head, built without the validation rows that it scores."""

    @abstractmethod
    def _taught(self) -> Inside:
        """Return what is known of the classes with the rows that train a head in the end."""
