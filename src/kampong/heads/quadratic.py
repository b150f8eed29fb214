"""A covariance per class, shrunk towards the shared one, from a sample of rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np
from scipy import linalg

from kampong.heads.calibration import TINY, ValidationRows, fit_each, least_point
from kampong.heads.head import Head, Inside

if TYPE_CHECKING:
    from collections.abc import Callable

    from kampong._core.compute import Float, Integer
    from kampong.heads.head import Moved

SHRINKAGES = 10.0 ** np.array([0.5, 1.25, 2.0, 2.75, 3.5])
"""Nodes of the rows that the shared covariance counts for."""

USUAL = float(np.median(SHRINKAGES))
"""The same without validation rows: the middle."""


@dataclass(frozen=True)
class Quadratic(Head):
    """Gaussian classes with a covariance each.

    Attributes
    ----------
    centres : array of shape (K, p)
        The class means.
    roots : array of shape (K, p, p)
        The squared length of (z − centre)·root is the squared distance to a class.
    offsets : array of shape (K,)
        The log-prior less half the log-determinant, −∞ for a class that was not seen.
    shrinkage : float
        The rows that the shared covariance counts for.
    """

    centres: Float
    roots: Float
    offsets: Float
    shrinkage: float
    name: ClassVar[str] = "quadratic"
    needs_covariance: ClassVar[bool] = True
    needs_sample: ClassVar[bool] = True
    shapes: ClassVar[dict[str, tuple[str, ...]]] = {"centres": ("K", "p"), "roots": ("K", "p", "p"), "offsets": ("K",)}
    infinite: ClassVar[tuple[str, ...]] = ("offsets",)

    @classmethod
    def build(cls, inside: Inside) -> Self:
        """Return the head with the usual shrinkage."""
        whitener, shapes = class_shapes(inside)
        return cls.of(shapes, USUAL, inside.log_priors(), whitener)

    @classmethod
    def of(cls, shapes: ClassShapes, shrinkage: float, log_priors: Float, whitener: Float) -> Self:
        """Return the head of classes whose covariances have been summed up."""
        variances = (shapes.values + shrinkage) / (shapes.counts + shrinkage)[:, None]
        roots = whitener @ (shapes.vectors / np.sqrt(variances)[:, None, :])
        centres = shapes.means @ np.linalg.inv(whitener)
        seen = np.isfinite(log_priors)
        offsets = np.where(seen, np.where(seen, log_priors, 0.0) - 0.5 * np.log(variances).sum(axis=1), -np.inf)
        return cls(False, centres, roots, offsets, shrinkage)

    def again(self, inside: Inside, wide: Inside, moved: Callable[[], Moved]) -> Self:
        """Return the head for other statistics, with the shrinkage that was chosen."""
        whitener, shapes = class_shapes(wide)
        head = self.of(shapes, self.shrinkage, wide.log_priors(), whitener)
        return replace(head, sharpness=self.sharpness, tail=self.tail)

    def scores(self, points: Float) -> Float:
        """Return one log-posterior a class, up to a constant of the point."""
        points = points.astype(np.float64, copy=False)
        scores = np.empty((len(points), len(self.offsets)))
        for k, (centre, root, offset) in enumerate(zip(self.centres, self.roots, self.offsets, strict=True)):
            away = (points - centre) @ root
            scores[:, k] = offset - 0.5 * np.einsum("ij,ij->i", away, away)
        return scores

    def inconsistent(self) -> str:
        """Say where offsets would leave no class to predict, or one that always wins."""
        if np.isposinf(self.offsets).any() or not np.isfinite(self.offsets).any():
            return "offsets holds infinity for a class, or none that is finite"
        return "" if self.shrinkage >= 0 else f"shrinkage is {self.shrinkage}"


class ClassShapes:
    """The covariances of the classes of a sample, diagonalised: one sum serves every shrinkage.

    In coordinates where the shared covariance is the identity, a class has (N_k (S_k + R) + ν I) / (N_k + ν): its own
    rows, what the ridge adds (R), and ν rows of the shared covariance.

    Parameters
    ----------
    points : array of shape (n, p)
        Whitened coordinates of the sample.
    codes : array of int of shape (n,)
        Their classes.
    own : array of shape (n,)
        Their weights.
    n_classes : int
        K.
    lift : array of shape (p, p)
        R.
    """

    def __init__(self, points: Float, codes: Integer, own: Float, n_classes: int, lift: Float) -> None:
        p = points.shape[1]
        self.counts: Float = np.bincount(codes, weights=own, minlength=n_classes).astype(np.float64)
        self.means = np.zeros((n_classes, p))
        self.values, self.vectors = np.zeros((n_classes, p)), np.zeros((n_classes, p, p))
        order = np.argsort(codes, kind="stable")
        edges = np.searchsorted(codes[order], np.arange(n_classes + 1))
        for k in range(n_classes):
            mine = order[edges[k] : edges[k + 1]]
            if not len(mine):
                self.vectors[k] = np.eye(p)
                continue
            self.means[k] = own[mine] @ points[mine] / self.counts[k]
            centred = (points[mine] - self.means[k]) * np.sqrt(own[mine])[:, None]
            values, self.vectors[k] = linalg.eigh(centred.T @ centred + self.counts[k] * lift, check_finite=False)
            self.values[k] = np.maximum(values, 0.0)

    def left_out(
        self, points: Float, validation: ValidationRows, gone: Float, shrinkages: Float, log_priors: Float
    ) -> Float:
        """Return the scores of rows of the sample without themselves, (n, K, shrinkages).

        A row that leaves its class changes its covariance by a rank of one, which the formulas of Sherman and Morrison
        follow. `gone` is the weight that leaves with each row.
        """
        K, n = len(self.counts), len(points)
        squares = np.empty((n, K, len(shrinkages)))
        logs = np.empty((K, len(shrinkages)))
        for k in range(K):
            variances = (self.values[k][:, None] + shrinkages) / (self.counts[k] + shrinkages)
            away = (points - self.means[k]) @ self.vectors[k]
            squares[:, k] = np.square(away, out=away) @ (1.0 / variances)
            logs[k] = np.log(variances).sum(axis=0)
        rows, codes = np.arange(n), validation.codes
        count = self.counts[codes][:, None]
        left = np.maximum(count - gone[:, None], 1e-9 * count)
        own = squares[rows, codes]
        share = gone[:, None] * count / (left * (count + shrinkages))
        gap = np.maximum(1.0 - share * own, 1e-9)
        scale = (left + shrinkages) / (count + shrinkages)
        scores = -0.5 * (squares + logs) + log_priors[:, None]
        bent = (count / left) ** 2 * scale * own / gap + logs[codes] - points.shape[1] * np.log(scale) + np.log(gap)
        scores[rows, codes] = -0.5 * bent + log_priors[codes][:, None]
        return scores

    def shrinkage(self, points: Float, validation: ValidationRows, gone: Float, log_priors: Float) -> float:
        """Return the shrinkage of least log-loss on rows of the sample left out one by one."""
        scores = self.left_out(points, validation, gone, SHRINKAGES, log_priors)
        _, losses = fit_each(np.moveaxis(scores, 2, 0)[:, None], validation, np.array([0.5]))
        return float(10.0 ** least_point(np.log10(SHRINKAGES), losses))


def class_shapes(inside: Inside) -> tuple[Float, ClassShapes]:
    """Return the whitener of a subspace, and the shapes of its classes from the sample."""
    assert inside.points is not None
    assert inside.codes is not None
    assert inside.own is not None
    whitener = inside.whitener()
    lift = np.zeros_like(whitener) if inside.lift is None else whitener.T @ inside.lift @ whitener
    points = inside.points @ whitener
    return whitener, ClassShapes(points, inside.codes, np.maximum(inside.own, TINY), len(inside.counts), lift)
