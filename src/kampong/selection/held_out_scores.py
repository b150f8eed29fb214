"""Rows held out together, and what candidates score for them inside the space of the other rows."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from scipy import linalg

from kampong._core.compute import project
from kampong.heads import HEADS, Inside, build_head
from kampong.heads.calibration import TINY
from kampong.heads.head import inverse_root
from kampong.heads.linear import regression_of
from kampong.selection.evidence import EMPTY, Parts
from kampong.selection.folds import Piece
from kampong.selection.settings import SETTINGS
from kampong.solvers import classes_seen, resolvent

if TYPE_CHECKING:
    from kampong._core.compute import Float
    from kampong.criteria import Criterion
    from kampong.heads import Head
    from kampong.statistics.held_out import TrainingStatistics


class HeldOutFold:
    """Rows held out, and what candidates make of them inside the space of the others."""

    def __init__(
        self, trained: TrainingStatistics, n_components: int | None, head: str, head_ridge: float | None = None
    ) -> None:
        self.trained, self.n_components, self.head, self.head_ridge = trained, n_components, head, head_ridge
        self.counts, mean = trained.counts, trained.mean
        whole = trained.everything.holds_scatter and trained.n_features <= SETTINGS.exact_columns
        self.space = resolvent.whole(trained) if whole else resolvent.build(trained)
        self.known = known = trained.truth @ (self.counts > 0) > 0
        truth = trained.truth[known]
        self.truth = truth if trained.multilabel else np.argmax(truth, axis=1)
        self.weights = trained.sample.weights[trained.fold][known]
        basis = self.space.basis
        self.rows = trained.rows if known.all() else trained.rows[known]
        self.points = project(self.rows, basis, mean).astype(np.float64)
        self.means = np.where(self.counts[:, None] > 0, trained.means - mean, 0.0) @ basis.T
        self.centre = (trained.row_mean - mean) @ basis.T

    def scores(self, candidate: Criterion, head: str | None = None) -> Float:
        """Return what a candidate scores for the rows held out."""
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
            root = np.sqrt(metric)
            points, centres = points[:most] * root, means * root
        else:
            directions = self._white(criterion, self._found(criterion))[0]
            points, centres = self.points[:most] @ directions, self.means @ directions
        products, gram = points @ centres.T, centres @ centres.T
        fitted = priors + regression_of(points, centres, products, gram, priors)
        squares = np.broadcast_to(gram.diagonal(), products.shape)
        return Parts(products, squares, fitted, centres), self.counts

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
        """Return the classifier along some directions."""
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
        trained_on = name in HEADS and HEADS[name].needs_sample
        return build_head(name, self._taught(inside, directions) if trained_on else inside)

    def _taught(self, inside: Inside, directions: Float) -> Inside:
        """Return what is known of the classes with the rows of the sample that are not held out."""
        sample, others = self.trained.sample, np.ones(len(self.trained.sample.own), dtype=bool)
        others[self.trained.fold] = False
        points = project(sample.rows[others], directions.T @ self.space.basis, self.trained.mean).astype(np.float64)
        return replace(inside, points=points, codes=sample.members.codes[others], own=sample.own[others])

    def _covariance(self, candidate: Criterion, directions: Float) -> Float:
        """Return the shared covariance along some directions, ridge included."""
        # Where nothing varies in what is left, taking rows out leaves rounding: it must not decide.
        lift = 1e-13 * self.trained.everything.within_trace + self._ridge(candidate) + TINY
        covariance: Float = directions.T @ self.space.within @ directions + lift * directions.T @ directions
        return covariance

    def _ridge(self, candidate: Criterion) -> float:
        return candidate.head_ridge if self.head_ridge is None else self.head_ridge
