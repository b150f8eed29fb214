"""Heads that follow from class means, counts and covariance alone: Gaussian, nearest mean, cosine, regression."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from scipy import linalg

from kampong.heads.calibration import TINY, log_softplus
from kampong.heads.head import Head, Inside

if TYPE_CHECKING:
    from collections.abc import Callable

    from kampong._core.compute import Float
    from kampong.heads.head import Moved


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

    def hyperplanes(self) -> tuple[Float, Float]:
        """Return weights and offsets of the scores."""
        return self.weights, self.offsets

    def scores(self, points: Float) -> Float:
        """Return one score per class for each point."""
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
        """Return the head for several labels per row: for each label, rows that have it against rows that do not."""
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


@dataclass(frozen=True)
class WhiteHead(Head):
    """Heads in coordinates where the within-class covariance is the identity.

    Attributes
    ----------
    whitener : array of shape (p, p)
        From coordinates of the subspace to those.
    centres : array of shape (K, p)
        The class means there.
    priors : array of shape (K,)
        The share of each class; 0 for a class that was not seen.
    """

    whitener: Float
    centres: Float
    priors: Float
    needs_covariance: ClassVar[bool] = True
    shapes: ClassVar[dict[str, tuple[str, ...]]] = {"whitener": ("p", "p"), "centres": ("K", "p"), "priors": ("K",)}

    @classmethod
    def white(cls, inside: Inside) -> tuple[Float, Float, Float]:
        """Return whitener, centres and priors of some classes."""
        if inside.multilabel:
            raise ValueError(f"head={cls.name!r} needs one label per row. Use head='gaussian' or 'nearest_mean'.")
        whitener = inside.whitener()
        return whitener, inside.means @ whitener, inside.counts / inside.counts.sum()

    def inconsistent(self) -> str:
        """Say where priors are no shares, or class means so far out that no length can be computed."""
        if self.priors.min() < 0 or np.count_nonzero(self.priors) < 2:
            return "priors are no shares of classes"
        with np.errstate(over="ignore"):
            return "" if np.isfinite(np.square(self.centres).sum()) else "centres are too large to be squared"

    def _hidden(self, scores: Float) -> Float:
        """Return scores in which no class wins that was not seen."""
        scores[:, self.priors == 0] = -np.inf
        return scores


def cosine_scores(products: Float, squares: Float, lengths: Float) -> Float:
    """Return the cosine of rows to class means from their products, the squared lengths of the means, and the rows'."""
    cosine: Float = products / np.maximum(np.sqrt(np.maximum(squares, 0.0)) * lengths[..., None], TINY)
    return np.clip(cosine, -2.0, 2.0)  # where both lengths vanish


def regression_map(centres: Float, priors: Float) -> Float:
    """Return Wᵀ, (p, K), of least squares on the classes: f(z) = priors + z·Wᵀ in whitened coordinates.

    With C the class means times √priors, (I + C·Cᵀ)⁻¹·C = C·(I + Cᵀ·C)⁻¹: the smaller system is solved. Axes before
    those of `centres` are problems of their own.
    """
    root = np.sqrt(priors)
    scaled = root[:, None] * centres
    turned = scaled.swapaxes(-1, -2)
    if scaled.shape[-1] < scaled.shape[-2]:
        return np.asarray(np.linalg.solve(_lifted(turned @ scaled), turned) * root)
    return np.asarray(np.linalg.solve(_lifted(scaled @ turned), scaled).swapaxes(-1, -2) * root)


def _lifted(matrix: Float) -> Float:
    """Return I + A, and a little more for classes without spread, which are very far apart."""
    places = np.arange(matrix.shape[-1])
    matrix[..., places, places] += 1.0 + 1e-14 * np.trace(matrix, axis1=-2, axis2=-1)[..., None]
    return matrix


def regression_of(points: Float, centres: Float, products: Float, gram: Float, priors: Float) -> Float:
    """Return what the regression adds to the priors, (n, K).

    Parameters
    ----------
    points : array of shape (n, p)
        Rows in whitened coordinates; they are read only if p < K.
    centres : array of shape (K, p)
        The class means there.
    products : array of shape (n, K)
        Products of rows with class means.
    gram : array of shape (K, K)
        Products of these.
    priors : array of shape (K,)
        The shares of the classes.

    Returns
    -------
    array of shape (n, K)
        The products, weighed by the smaller of two systems. Axes before these are problems of their own.
    """
    if centres.shape[-1] < centres.shape[-2]:
        return np.asarray(points @ regression_map(centres, priors))
    root = np.sqrt(priors)
    solved = np.linalg.solve(_lifted(gram * root * root[:, None]), (products * root).swapaxes(-1, -2))
    return np.asarray(solved.swapaxes(-1, -2) * root)


@dataclass(frozen=True)
class Cosine(WhiteHead):
    """The cosine to the class means: how far out a row lies does not matter, which suits text and embeddings."""

    name: ClassVar[str] = "cosine"

    @classmethod
    def build(cls, inside: Inside) -> Self:
        """Return the head; a temperature of a tenth makes ordinary probabilities of cosines."""
        return cls(False, *cls.white(inside), sharpness=10.0)

    def scores(self, points: Float) -> Float:
        """Return one cosine per class."""
        white = points.astype(np.float64, copy=False) @ self.whitener
        squares = np.einsum("kp,kp->k", self.centres, self.centres)
        return self._hidden(cosine_scores(white @ self.centres.T, squares, np.linalg.norm(white, axis=1)))


@dataclass(frozen=True)
class Regression(WhiteHead):
    """Least squares on the classes, with the ridge of the directions.

    Attributes
    ----------
    noise : float
        The usual size of the regression on a class that a row does not have.
    """

    noise: float
    name: ClassVar[str] = "regression"

    @classmethod
    def build(cls, inside: Inside) -> Self:
        """Return the head; the noise is what the class means say of it."""
        whitener, centres, priors = cls.white(inside)
        fitted = priors + centres @ regression_map(centres, priors)
        return cls(False, whitener, centres, priors, float(noise_of(fitted, np.arange(len(priors)), priors)))

    def again(self, inside: Inside, wide: Inside, moved: Callable[[], Moved]) -> Self:
        """Return the head for other statistics, with the noise that was measured."""
        return type(self)(False, *self.white(inside), self.noise, sharpness=self.sharpness, tail=self.tail)

    def hyperplanes(self) -> tuple[Float, Float]:
        """Return weights and offsets of the regression, of which the scores are an increasing function."""
        weights = (self.whitener @ regression_map(self.centres, self.priors)).T
        return weights, np.where(self.priors > 0, self.priors, -np.inf)

    def scores(self, points: Float) -> Float:
        """Return the logarithm of the regression, made positive."""
        white = points.astype(np.float64, copy=False) @ self.whitener
        return self._hidden(
            log_softplus((self.priors + white @ regression_map(self.centres, self.priors)) / self.noise)
        )

    def inconsistent(self) -> str:
        """Say where the noise is none."""
        return super().inconsistent() or ("" if self.noise > 0 else f"noise is {self.noise}")


def noise_of(fitted: Float, codes: np.ndarray, weights: Float) -> Float:
    """Return the root mean square of regressions, (…, n, K), on the classes that rows do not have."""
    own = fitted[..., np.arange(len(codes)), codes]
    squares = (np.square(fitted).sum(axis=-1) - np.square(own)) @ weights
    return np.asarray(np.sqrt(np.maximum(squares / max(weights.sum() * (fitted.shape[-1] - 1), TINY), 1e-12)))


def _solve(covariance: Float | float, rows: Float) -> Float:
    """Return rows·C⁻¹; where C vanishes its eigenvalues are lifted to a 1e-12 part of the largest."""
    if not isinstance(covariance, np.ndarray):
        return rows / (covariance if covariance > 0 else 1.0)
    values, vectors = linalg.eigh(covariance)
    floor = max(values[-1] * 1e-12, np.finfo(float).tiny) if values[-1] > 0 else 1.0
    result: Float = (rows @ vectors) / np.maximum(values, floor) @ vectors.T
    return result
