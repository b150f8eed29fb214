"""From a point of the subspace to a class: heads that build themselves from what is known of the classes there.

A new head is one subclass of `Head`; estimators, choice, files and streams need no change.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from scipy import linalg, special

from kampong.checkpoint.contents import record_from

if TYPE_CHECKING:
    from kampong._runtime.compute import Float
    from kampong.checkpoint.contents import Contents

HEADS: dict[str, type[Head]] = {}
"""All heads by name; a subclass of `Head` that has a name enters by itself."""


@dataclass(frozen=True)
class Inside:
    """What is known of the classes inside a subspace of p directions: all that a head is built from.

    Attributes
    ----------
    means : array of shape (K, p)
        Class means, about the mean of all rows.
    counts : array of shape (K,)
        Class weights; a class of weight 0 is never predicted.
    covariance : array of shape (p, p) or None
        The shared within-class covariance, ridge included, where it is known.
    variance : float
        The mean within-class variance of a feature.
    multilabel : bool
        Whether a row may have several labels.
    row_mean : array of shape (p,)
        The mean of the rows, each counted once.
    row_weight : float
        The weight of the rows.
    """

    means: Float
    counts: Float
    covariance: Float | None
    variance: float
    multilabel: bool
    row_mean: Float
    row_weight: float


@dataclass(frozen=True)
class Head(ABC):
    """What predicts inside a subspace: one score a class.

    A subclass is a frozen dataclass of arrays, numbers and booleans, which is also what a file holds of it.

    Attributes
    ----------
    multilabel : bool
        Whether a score is the log-odds of its own label, or a log-posterior among all classes.
    name : str
        What `head=` calls it.
    needs_covariance : bool
        Whether it can only be built where the within-class covariance is known.
    shapes : dict of str to tuple
        The shape of each array, "K" for the classes and "p" for the directions.
    infinite : tuple of str
        The arrays that may hold infinity.
    """

    multilabel: bool
    name: ClassVar[str]
    needs_covariance: ClassVar[bool] = False
    shapes: ClassVar[dict[str, tuple[str, ...]]] = {}
    infinite: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if "name" in vars(cls):
            HEADS[cls.name] = cls

    @classmethod
    @abstractmethod
    def build(cls, inside: Inside) -> Self:
        """Return the head for these classes."""

    @abstractmethod
    def scores(self, points: Float) -> Float:
        """Return one score a class for each point; the largest one is predicted."""

    def probabilities(self, points: Float) -> Float:
        """Return the probability of each class, or of each label on its own."""
        scores = self.scores(points)
        result: Float = special.expit(scores) if self.multilabel else special.softmax(scores, axis=1)
        return result

    def to_state(self) -> dict[str, Any]:
        """Return what a checkpoint holds."""
        return {"name": self.name, **vars(self)}

    @staticmethod
    def from_state(contents: Contents, n_classes: int, n_directions: int) -> Head:
        """Return the head that `to_state` wrote."""
        kind = HEADS[contents.word("name", tuple(HEADS))]
        sizes = {"K": n_classes, "p": n_directions}
        shapes = {name: tuple(sizes[size] for size in shape) for name, shape in kind.shapes.items()}
        head = record_from(contents, kind, kind.infinite, **shapes)
        if reason := head.inconsistent():
            contents.refuse(reason)
        return head

    def inconsistent(self) -> str:
        """Say why a head that was read from a file cannot be one, "" where it can."""
        return ""


def build_head(name: str, inside: Inside) -> Head:
    """Return a head by name; "auto" is Gaussian where the covariance is known, else the nearest mean.

    Parameters
    ----------
    name : str
        A name in `HEADS`, or "auto".
    inside : Inside
        What is known of the classes.

    Returns
    -------
    Head
        The head.
    """
    if name == "auto":
        name = NearestMean.name if inside.covariance is None else Gaussian.name
    kind = HEADS[name]
    if kind.needs_covariance and inside.covariance is None:
        raise ValueError(
            f"head={name!r} needs the within-class scatter, which was measured in fit and is out of date after "
            "partial_fit. Use head='auto' or fit all rows at once."
        )
    return kind.build(inside)


@dataclass(frozen=True)
class LinearHead(Head):
    """Scores z ↦ z·weightsᵀ + offsets.

    Attributes
    ----------
    weights : array of shape (K, p)
        One row a class.
    offsets : array of shape (K,)
        −∞ for a class that has no weight; ±∞ for a label that every row or no row has.
    """

    weights: Float
    offsets: Float
    shapes: ClassVar[dict[str, tuple[str, ...]]] = {"weights": ("K", "p"), "offsets": ("K",)}
    infinite: ClassVar[tuple[str, ...]] = ("offsets",)

    def inconsistent(self) -> str:
        """Say where offsets would leave no class to predict, or one that always wins."""
        if not self.multilabel and (np.isposinf(self.offsets).any() or not np.isfinite(self.offsets).any()):
            return "offsets holds infinity for a class, or none that is finite"
        return ""

    def scores(self, points: Float) -> Float:
        """Return one score a class for each point."""
        result: Float = points.astype(np.float64, copy=False) @ self.weights.T + self.offsets
        return result

    @classmethod
    def _of(cls, inside: Inside, covariance: Float | float, *, priors: bool) -> Self:
        """Return the head of classes that share a covariance (a matrix, or one variance)."""
        if inside.multilabel:
            return cls._of_labels(inside, covariance, priors=priors)
        seen = inside.counts > 0
        scaled = _solve(covariance, inside.means)
        with np.errstate(divide="ignore"):
            log_priors = np.log(inside.counts / inside.counts.sum()) if priors else np.log(seen)
        offsets = -0.5 * np.einsum("kp,kp->k", inside.means, scaled) + log_priors
        return cls(False, np.where(seen[:, None], scaled, 0.0), offsets)

    @classmethod
    def _of_labels(cls, inside: Inside, covariance: Float | float, *, priors: bool) -> Self:
        """Return the head for several labels a row: for each label, rows that have it against rows that do not."""
        means, weights, total = inside.means, inside.counts, inside.row_weight
        rest = total - weights
        mixed = (weights > 0) & (rest > 1e-12 * total)
        others = np.where(mixed[:, None], total * inside.row_mean - weights[:, None] * means, 0.0)
        others /= np.where(mixed, rest, 1.0)[:, None]
        scaled, scaled_others = _solve(covariance, means), _solve(covariance, others)
        offsets = -0.5 * (np.einsum("kp,kp->k", means, scaled) - np.einsum("kp,kp->k", others, scaled_others))
        if priors:
            offsets += np.log(np.where(mixed, weights, 1.0) / np.where(mixed, rest, 1.0))
        offsets = np.where(mixed, offsets, np.where(weights > 0, np.inf, -np.inf))
        return cls(True, np.where(mixed[:, None], scaled - scaled_others, 0.0), offsets)


@dataclass(frozen=True)
class Gaussian(LinearHead):
    """Gaussian classes with one shared covariance and the observed priors: what LDA predicts with."""

    name: ClassVar[str] = "gaussian"
    needs_covariance: ClassVar[bool] = True

    @classmethod
    def build(cls, inside: Inside) -> Self:
        """Return log-posteriors up to a constant of the point."""
        assert inside.covariance is not None  # `build_head` has seen to it
        return cls._of(inside, inside.covariance, priors=True)


@dataclass(frozen=True)
class NearestMean(LinearHead):
    """The nearest class mean: Gaussian classes with a round covariance and equal priors."""

    name: ClassVar[str] = "nearest_mean"

    @classmethod
    def build(cls, inside: Inside) -> Self:
        """Return minus half the squared distance to each mean, over the mean variance of a feature."""
        return cls._of(inside, inside.variance, priors=False)

    @classmethod
    def of_means(cls, means: Float, seen: np.ndarray) -> Self:
        """Return minus half the squared distance to the mean of each class that has been seen."""
        known = np.where(seen[:, None], means, 0.0)
        return cls.build(Inside(known, seen.astype(np.float64), None, 1.0, False, np.zeros(means.shape[1]), 1.0))


def _solve(covariance: Float | float, rows: Float) -> Float:
    """Return rows·C⁻¹; where C vanishes its eigenvalues are lifted to a 1e-12 part of the largest."""
    if not isinstance(covariance, np.ndarray):
        return rows / (covariance if covariance > 0 else 1.0)
    values, vectors = linalg.eigh(covariance)
    floor = max(values[-1] * 1e-12, np.finfo(float).tiny) if values[-1] > 0 else 1.0
    result: Float = (rows @ vectors) / np.maximum(values, floor) @ vectors.T
    return result
