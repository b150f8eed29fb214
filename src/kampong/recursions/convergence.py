"""Where a recursion stood when it had taken 16, 32, 64 … rows: how far it has moved since, and how it does on new rows.

Rows between two snapshots are new to the earlier one, so they validate it: the mean squared distance from the own class
mean gives `predict_proba` its variance. Its share in the sum with that from the nearest other class mean, the relative
distance of Sato and Yamada (1996), chooses between values of ε: an error is a share above one half.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np

from kampong._core.compute import blocks
from kampong.files.fields import array, plain, read, written
from kampong.recursions.steps import DEPENDENT

if TYPE_CHECKING:
    from kampong._core.compute import Float, Integer, Rows
    from kampong.files import Contents

FIRST = 16
"""The first snapshot is taken after this many rows, the next ones after twice as many each."""

FIELDS = (
    plain("n_samples", int),
    array("_spread", "2", low=0.0),
    array("_directions", "features", "components"),
    array("_centres", "classes", "components"),
    array("_known", "classes", dtype=np.int64, low=0, high=1),
)


class Snapshot:
    """The directions and class means of a recursion at one moment, and what later rows say of them.

    Parameters
    ----------
    n_components, n_features : int
        The number of directions and their length.

    Attributes
    ----------
    n_samples : int
        How many rows the recursion had taken; 0 before the first snapshot.
    convergence : float
        The sine of the largest angle between the subspaces of the last two snapshots; infinite before there are two.
    variance : float
        The mean squared distance, a direction, of rows from the mean of their class between the last two snapshots;
        infinite before there are two.
    loss : float
        The sum of these shares over new rows, and
    validated : float
        how many rows it counts.
    """

    def __init__(self, n_components: int, n_features: int) -> None:
        self.n_samples = 0
        self.convergence = self.variance = np.inf
        self.loss = self.validated = 0.0
        self._spread: Float = np.zeros(2)
        self._directions: Float = np.zeros((n_features, n_components))
        self._centres: Float = np.zeros((0, n_components))
        self._known: Integer = np.zeros(0, dtype=np.int64)

    @property
    def next_edge(self) -> int:
        """Return after how many rows the next snapshot is due."""
        return 2 * self.n_samples if self.n_samples else FIRST

    def validate(self, X: Rows, codes: Integer, weights: Float, *, losses: bool) -> None:
        """Note how far new rows are from the mean of their own class, and with `losses` from the others."""
        if not self.n_samples:
            return
        known = codes < len(self._known)
        known[known] = self._known[codes[known]] > 0
        rows = np.flatnonzero(known)
        if not len(rows):
            return
        X, codes, weights = (X, codes, weights) if len(rows) == len(codes) else (X[rows], codes[rows], weights[rows])
        points: Float = np.asarray(X @ self._directions.astype(X.dtype, copy=False), dtype=np.float64)
        own = ((points - self._centres[codes]) ** 2).sum(axis=1)
        self._spread += [weights @ own, weights.sum()]
        centres = np.flatnonzero(self._known)
        if not losses or len(centres) < 2:
            return
        for part in blocks(len(points), 8 * len(centres)):
            distances = (self._centres[centres] ** 2).sum(axis=1) - 2.0 * points[part] @ self._centres[centres].T
            distances += (points[part] ** 2).sum(axis=1)[:, None]
            distances[centres == codes[part, None]] = np.inf
            other = np.maximum(distances.min(axis=1), 0.0)
            total = np.maximum(own[part] + other, np.finfo(float).tiny)
            self.loss += float(weights[part] @ (own[part] / total))
        self.validated += float(weights.sum())

    def renew(self, n_samples: int, components: Float, counts: Float, means: Float) -> None:
        """Take a snapshot, and measure how far the subspace has moved since the last one."""
        if self.n_samples:
            self.convergence = _sine(components, self._directions)
            if self._spread[1] > 0:
                self.variance = float(self._spread[0] / self._spread[1] / len(components))
        self._spread[:] = 0.0
        self.n_samples = n_samples
        self._directions = np.ascontiguousarray(components.T)
        self._centres = means @ self._directions
        self._known = (counts > 0).astype(np.int64)

    def to_state(self) -> dict[str, Any]:
        """Return everything as arrays and plain values."""
        return {
            **written(FIELDS, self),
            "figures": np.array([self.convergence, self.variance, self.loss, self.validated]),
        }

    @classmethod
    def from_state(cls, contents: Contents, n_components: int, n_features: int) -> Self:
        """Return the snapshot that `to_state` wrote."""
        result = cls(n_components, n_features)
        vars(result).update(read(FIELDS, contents, {"features": n_features, "components": n_components}))
        figures = contents.array("figures", np.float64, (4,), finite=False, low=0.0)
        result.convergence, result.variance, result.loss, result.validated = figures.tolist()
        contents.finish()
        return result


def orthonormal(vectors: Float) -> Float:
    """Return directions of the vectors, each less its part along the earlier ones; zero where nothing is left."""
    result = np.zeros_like(vectors)
    for j, vector in enumerate(vectors):
        length = float(np.linalg.norm(vector))
        if not length > 0:
            continue
        direction = vector / length
        for _ in range(2):  # the second time takes out what rounding left of the first
            direction = direction - (result[:j] @ direction) @ result[:j]
        length = float(np.linalg.norm(direction))
        if length**2 > DEPENDENT:
            result[j] = direction / length
    return result


def _sine(components: Float, directions: Float) -> float:
    """Return the sine of the largest angle between two subspaces, infinite where one has directions missing."""
    if not components.any(axis=1).all() or not directions.any(axis=0).all():
        return np.inf
    # the part of the new directions outside the old subspace: exact for small angles too
    outside = components - (components @ directions) @ directions.T
    return float(min(1.0, np.linalg.svd(outside, compute_uv=False)[0]))
