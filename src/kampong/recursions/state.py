"""What a recursion remembers between rows: vectors, class sums, counts; and which compiled step takes a batch."""

from __future__ import annotations

import copy
import itertools
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from kampong._runtime.compute import blocks
from kampong.recursions.steps import fill_gram, learn_dense, learn_sparse

if TYPE_CHECKING:
    from scipy import sparse

    from kampong._runtime.compute import Float, Integer, Rows
    from kampong.checkpoint import Contents

FULL_ROW = 0.5
"""A sparse row with a larger share of non-zeros takes the dense step, which loses no digits."""


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
    theta : float
        The shift; NaN stands for "auto".
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
    """

    def __init__(
        self, rule: int, n_components: int, n_features: int, *, epsilon: float, theta: float, amnesia: float
    ) -> None:
        self.rule, self.epsilon, self.fixed_theta, self.amnesia = rule, epsilon, theta, amnesia
        self.n_classes = 0
        self.counts: Float = np.zeros(0)
        self.theta: Float = np.full(n_components, 0.0 if np.isnan(theta) else theta)
        self._totals: Float = np.zeros(2)
        self._started: Integer = np.zeros(n_components, dtype=np.int64)
        self._basis: Float = np.zeros((n_components, n_features))
        self._mixing: Float = np.eye(n_components, 1 + n_components, 1)
        self._gram: Float = np.zeros((1 + n_components, 1 + n_components))
        self._gram_holds = True

    @property
    def n_samples(self) -> int:
        """Return the number of rows taken."""
        return int(self._totals[0])

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
        fixed = {} if np.isnan(self.fixed_theta) else {"fixed_theta": self.fixed_theta}
        names = ("rule", "epsilon", "amnesia", "n_classes", "counts", "theta")
        hidden = ("totals", "started", "basis", "mixing", "gram", "gram_holds")
        values = {name: getattr(self, name) for name in names} | {name: getattr(self, f"_{name}") for name in hidden}
        return {**copy.deepcopy(values), **fixed}  # learning changes the arrays in place

    @classmethod
    def from_state(cls, contents: Contents, n_features: int) -> Self:
        """Return the state that `to_state` wrote."""
        rule, n_classes = contents.whole("rule", high=2), contents.whole("n_classes")
        theta = contents.array("theta", np.float64, (None,))
        counts = contents.array("counts", np.float64, (None,), low=0.0)
        p, capacity = len(theta), len(counts)
        basis = contents.array("basis", np.float64, (p + capacity, n_features))
        if not 1 <= p <= n_features or n_classes > capacity:
            contents.refuse(f"{p} vectors and {n_classes} classes do not fit {n_features} features and {capacity} sums")
        result = cls(
            rule,
            p,
            n_features,
            epsilon=contents.number("epsilon", low=0.0),
            theta=contents.number("fixed_theta", low=0.0) if "fixed_theta" in contents else float("nan"),
            amnesia=contents.number("amnesia", low=0.0),
        )
        result.n_classes, result.theta, result.counts, result._basis = n_classes, theta, counts, basis
        result._totals = contents.array("totals", np.float64, (2,), low=0.0)
        result._started = contents.array("started", np.int64, (p,), low=0)
        result._mixing = contents.array("mixing", np.float64, (p, 1 + p + capacity))
        result._gram = contents.array("gram", np.float64, (1 + p + capacity, 1 + p + capacity))
        result._gram_holds = contents.flag("gram_holds")
        contents.finish()
        return result

    def learn(self, X: Rows, codes: Integer) -> None:
        """Take rows one by one, in their order; X is finite, and canonical where it is sparse."""
        if isinstance(X, np.ndarray):
            for part in blocks(X.shape[0], 8 * X.shape[1]):
                self._learn_dense(np.ascontiguousarray(X[part], dtype=np.float64), codes[part])
            return
        full = np.diff(X.indptr) > FULL_ROW * X.shape[1]
        edges = np.flatnonzero(np.diff(full)) + 1
        for start, stop in itertools.pairwise([0, *edges.tolist(), X.shape[0]]):
            if full[start]:
                for part in blocks(stop - start, 8 * X.shape[1]):
                    rows = slice(start + part.start, start + part.stop)
                    self._learn_dense(X[rows].toarray().astype(np.float64, copy=False), codes[rows])
            else:
                self._learn_sparse(X if stop - start == X.shape[0] else X[start:stop], codes[start:stop])

    def _learn_dense(self, X: Float, codes: Integer) -> None:
        p = len(self.theta)
        if self._gram_holds:
            vectors = self.vectors
            self._basis = np.ascontiguousarray(self._basis)
            self._basis[:p] = vectors
            self._mixing[:] = np.eye(p, self._mixing.shape[1], 1)
            self._gram_holds = False
        learn_dense(X, codes, *self._settings, *self._memory(self._basis))

    def _learn_sparse(self, X: sparse.csr_array, codes: Integer) -> None:
        m = 1 + len(self.theta) + self.n_classes
        self._basis = np.asfortranarray(self._basis)
        if not self._gram_holds:
            fill_gram(self._basis.T, self._gram, 1, m, m)
            self._gram_holds = True
        data: Float = X.data.astype(np.float64, copy=False)
        memory = self._memory(self._basis.T)
        learn_sparse(X.indptr, X.indices, data, codes, *self._settings, *memory, self._mixing, self._gram)

    @property
    def _settings(self) -> tuple[int, int, float, float, float]:
        return self.n_classes, self.rule, self.epsilon, self.fixed_theta, self.amnesia

    def _memory(self, basis: Float) -> tuple[Float, Float, Float, Float, Integer]:
        return self.counts, self._totals, basis, self.theta, self._started
