"""What a recursion remembers between rows: vectors, class sums, counts; and which compiled step takes a batch.

A snapshot after 16, 32, 64 … rows tells how far the recursion has moved since. Rows between two snapshots are new to
the earlier one, so they validate it: the mean squared distance from the own class mean gives `predict_proba` its
variance. Its share in the sum with that from the nearest other class mean, the relative distance of Sato and Yamada
(1996), chooses between values of ε: an error is a share above one half.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from kampong._core.compute import blocks
from kampong.files.fields import array, plain, read, written
from kampong.recursions.steps import DEPENDENT, fill_gram, learn_dense, learn_sparse
from kampong.statistics.means import FURTHEST
from kampong.statistics.scatter import DENSE_SHARE

if TYPE_CHECKING:
    from scipy import sparse

    from kampong._core.compute import Float, Integer, Rows
    from kampong.files import Contents

FIELDS = (
    plain("rule", int, high=2),
    plain("n_classes", int),
    plain("epsilon", float, low=0.0),
    plain("amnesia", float, low=0.0),
    array("theta", "components"),
    array("counts", "capacity", low=0.0),
    array("quotients", "components"),
    array("_totals", "3", low=0.0),
    array("_started", "components", dtype=np.int64, low=0),
    array("_basis", "components+capacity", "features"),
    array("_mixing", "components", "1+components+capacity"),
    array("_gram", "1+components+capacity", "1+components+capacity"),
    plain("_gram_holds", bool),
)


class RecursionState:
    """The state of one recursion; its result depends on the order of the rows, not on the cut into batches.

    Parameters
    ----------
    rule : int
        SCATTER, DISTANCE or PRINCIPAL, of `steps.py`.
    n_components, n_features : int
        The number of vectors and their length.
    epsilon : float
        The weight of the within-class scatter.
    theta : array of shape (n_components,)
        The shift of each vector; NaN stands for "auto".
    amnesia : float
        The amnesic parameter l.

    Attributes
    ----------
    n_classes : int
        The number of class sums.
    counts : array of shape (capacity,)
        Rows by class.
    theta : array of shape (n_components,)
        The shift in each vector.
    quotients : array of shape (n_components,)
        The mean Rayleigh quotient of the rows' matrices along each vector as it was.
    snapshot : Snapshot
        Where the recursion stood some rows ago.
    """

    def __init__(
        self, rule: int, n_components: int, n_features: int, *, epsilon: float, theta: Float, amnesia: float
    ) -> None:
        self.rule, self.epsilon, self.fixed_theta, self.amnesia = rule, epsilon, theta, amnesia
        self.n_classes = 0
        self.counts: Float = np.zeros(0)
        self.theta: Float = np.where(np.isnan(theta), 0.0, theta)
        self.quotients: Float = np.zeros(n_components)
        self.snapshot = Snapshot(n_components, n_features)
        self._totals: Float = np.zeros(3)
        self._started: Integer = np.zeros(n_components, dtype=np.int64)
        self._basis: Float = np.zeros((n_components, n_features))
        self._mixing: Float = np.eye(n_components, 1 + n_components, 1)
        self._gram: Float = np.zeros((1 + n_components, 1 + n_components))
        self._gram_holds = True

    @property
    def n_samples(self) -> int:
        """Return the number of rows taken; a row of weight 2 counts twice, a fraction of a row once."""
        return int(self._totals[2])

    @property
    def within(self) -> float:
        """Return the mean within-class variance of a feature."""
        return float(self._totals[1] / self._totals[0] / self._basis.shape[1])

    @property
    def sums(self) -> Float:
        """Return the sum of each class, (n_classes, n_features)."""
        p = len(self.theta)
        return self._basis[p : p + self.n_classes]

    @property
    def mean(self) -> Float:
        """Return the mean of all rows."""
        mean: Float = self.sums.sum(axis=0) / self._totals[0]
        return mean

    @property
    def vectors(self) -> Float:
        """Return v_1 … v_p, one a row; zero where a vector has not started."""
        m = len(self.theta) + self.n_classes
        vectors: Float = self._mixing[:, 1 : 1 + m] @ self._basis[:m]
        vectors[self._started == 0] = 0.0
        return vectors

    @property
    def started(self) -> Integer:
        """Return for each vector 0 before it starts, 1 when it has, 2 when it has moved."""
        return self._started

    def is_finite(self) -> bool:
        """Tell whether no step has overflowed."""
        arrays = (self.theta, self.counts, self.quotients, self._totals, self._basis, self._mixing, self._gram)
        return all(bool(np.isfinite(array).all()) for array in arrays)

    def look(self) -> None:
        """Take a snapshot of the present directions."""
        counts = self.counts[: self.n_classes]
        means = self.sums / np.maximum(counts, np.finfo(float).tiny)[:, None]
        self.snapshot.renew(self.n_samples, orthonormal(self.vectors), counts, means)

    def grow(self, n_classes: int) -> None:
        """Make room for classes numbered up to `n_classes` − 1."""
        p, capacity = len(self.theta), len(self.counts)
        if n_classes > capacity:
            capacity = max(n_classes, 2 * capacity)
            width = self._basis.shape[1]
            rowwise = self._basis.flags.c_contiguous
            basis = np.zeros((p + capacity, width)) if rowwise else np.zeros((width, p + capacity)).T
            basis[: len(self._basis)] = self._basis
            gram = np.zeros((1 + p + capacity, 1 + p + capacity))
            gram[: len(self._gram), : len(self._gram)] = self._gram
            mixing = np.zeros((p, 1 + p + capacity))
            mixing[:, : self._mixing.shape[1]] = self._mixing
            counts = np.zeros(capacity)
            counts[: len(self.counts)] = self.counts
            self._basis, self._gram, self._mixing, self.counts = basis, gram, mixing, counts
        self.n_classes = max(self.n_classes, n_classes)

    def to_state(self) -> dict[str, Any]:
        """Return the whole state as arrays and plain values; the shift is left out where it is "auto"."""
        fixed = {} if np.isnan(self.fixed_theta).any() else {"fixed_theta": self.fixed_theta.copy()}
        return {**written(FIELDS, self), **fixed, "snapshot": self.snapshot.to_state()}

    @classmethod
    def from_state(cls, contents: Contents, n_features: int) -> Self:
        """Return the state that `to_state` wrote."""
        sizes = {"features": n_features}
        found = read(FIELDS, contents, sizes)
        p, capacity, n_classes = sizes["components"], sizes["capacity"], found["n_classes"]
        if not 1 <= p <= n_features or n_classes > capacity:
            contents.refuse(f"{p} vectors and {n_classes} classes do not fit {n_features} features and {capacity} sums")
        given = "fixed_theta" in contents
        fixed = contents.array("fixed_theta", np.float64, (p,), low=0.0) if given else np.full(p, np.nan)
        result = cls(found["rule"], p, n_features, epsilon=found["epsilon"], theta=fixed, amnesia=found["amnesia"])
        vars(result).update(found)
        result.snapshot = Snapshot.from_state(contents.part("snapshot"), p, n_features)
        contents.finish()
        counts, basis = result.counts, result._basis
        taken, first, edge = result.n_samples, result.snapshot.n_samples, result.snapshot.next_edge
        weight, known = float(result._totals[0]), float(counts[:n_classes].sum())
        same = abs(known - weight) <= 1e-6 * weight  # both are sums of the same numbers, in another order
        squarable = np.abs(basis[p:]).max(axis=1, initial=0.0) <= FURTHEST * counts
        contents.require(bool(squarable.all()), "basis holds class sums whose means cannot be squared")
        contents.require(same, f"counts are {known:g} in all, and the rows weigh {weight:g}")
        contents.require(first <= taken < edge, f"{taken} rows were taken, but a snapshot of {first} is due at {edge}")
        return result

    def learn(self, X: Rows, codes: Integer, weights: Float, points: Float) -> None:
        """Take rows one by one, in their order; X is finite, and canonical where it is sparse.

        Weights are above 0 and at most 1. Where `points` has a line per row, it receives the row's coordinates.
        """
        located = len(points) > 0
        if isinstance(X, np.ndarray):
            for part in blocks(X.shape[0], 8 * X.shape[1]):
                rows = np.ascontiguousarray(X[part], dtype=np.float64)
                self._learn_dense(rows, codes[part], weights[part], points[part if located else slice(0)])
            return
        full = np.diff(X.indptr) > DENSE_SHARE * X.shape[1]
        edges = np.flatnonzero(np.diff(full)) + 1
        for start, stop in itertools.pairwise([0, *edges.tolist(), X.shape[0]]):
            if full[start]:
                for part in blocks(stop - start, 8 * X.shape[1]):
                    chosen = slice(start + part.start, start + part.stop)
                    rows = X[chosen].toarray().astype(np.float64, copy=False)
                    self._learn_dense(rows, codes[chosen], weights[chosen], points[chosen if located else slice(0)])
            else:
                chosen = slice(start, stop)
                batch = X if stop - start == X.shape[0] else X[chosen]
                self._learn_sparse(batch, codes[chosen], weights[chosen], points[chosen if located else slice(0)])

    def _learn_dense(self, X: Float, codes: Integer, weights: Float, points: Float) -> None:
        p = len(self.theta)
        if self._gram_holds:
            vectors = self.vectors
            self._basis = np.ascontiguousarray(self._basis)
            self._basis[:p] = vectors
            self._mixing[:] = np.eye(p, self._mixing.shape[1], 1)
            self._gram_holds = False
        learn_dense(X, codes, weights, points, *self._memory(self._basis))

    def _learn_sparse(self, X: sparse.csr_array, codes: Integer, weights: Float, points: Float) -> None:
        m = 1 + len(self.theta) + self.n_classes
        self._basis = np.asfortranarray(self._basis)
        if not self._gram_holds:
            fill_gram(self._basis.T, self._gram, 1, m, m)
            self._gram_holds = True
        data: Float = X.data.astype(np.float64, copy=False)
        memory = self._memory(self._basis.T)
        learn_sparse(X.indptr, X.indices, data, codes, weights, points, *memory, self._mixing, self._gram)

    def _memory(self, basis: Float) -> tuple[int, int, float, Float, float, Float, Float, Float, Float, Integer, Float]:
        """Return what the compiled steps take besides rows: the settings, and the arrays that they change."""
        settings = self.n_classes, self.rule, self.epsilon, self.fixed_theta, self.amnesia
        return *settings, self.counts, self._totals, basis, self.theta, self._started, self.quotients


FIRST = 16
"""The first snapshot is taken after this many rows, the next ones after twice as many each."""

SNAPSHOT_FIELDS = (
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
            **written(SNAPSHOT_FIELDS, self),
            "figures": np.array([self.convergence, self.variance, self.loss, self.validated]),
        }

    @classmethod
    def from_state(cls, contents: Contents, n_components: int, n_features: int) -> Self:
        """Return the snapshot that `to_state` wrote."""
        result = cls(n_components, n_features)
        vars(result).update(read(SNAPSHOT_FIELDS, contents, {"features": n_features, "components": n_components}))
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
