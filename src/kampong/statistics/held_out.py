"""Statistics without some of their rows: what these rows added is subtracted, without another pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from scipy import sparse

from kampong.data.labels import Members
from kampong.statistics.all_rows import ClassRows, PartRows, within_squares, within_times
from kampong.statistics.kernel_scatter import KernelScatter
from kampong.statistics.means import ClassMeans
from kampong.statistics.reservoir import ClassReservoir
from kampong.statistics.scatter import ClassScatter

if TYPE_CHECKING:
    from kampong._core.compute import Float, Integer
    from kampong.statistics.all_rows import Sample

Kept = ClassRows | ClassReservoir | KernelScatter

TINY = np.finfo(float).tiny


class TrainingStatistics(ClassMeans):
    """Statistics without some of their rows: what these rows added is subtracted.

    Parameters
    ----------
    statistics : ClassRows, ClassReservoir or KernelScatter
        The statistics of all rows.
    sample : Sample
        Some of these rows.
    fold : array of int
        Which rows of the sample to hold out.
    """

    holds_within = True

    def __init__(self, statistics: Kept, sample: Sample, fold: Integer) -> None:
        super().__init__(statistics.n_features)
        self.multilabel, self._index = statistics.multilabel, statistics._index
        self.everything, self.sample, self.fold = statistics, sample, fold
        self.rows = sample.rows[fold]
        order = self._index.order
        held = np.full(sample.rows.shape[0], -1)
        held[fold] = np.arange(len(fold))
        mine = held[sample.members.rows] >= 0
        rows, codes = held[sample.members.rows[mine]], order[sample.members.codes[mine]]
        own = sample.own[fold]
        self.members = Members(rows, codes, own[rows], len(fold))
        everything = statistics._counts[: len(order)]
        gone: Float = np.bincount(codes, weights=own[rows], minlength=len(order)).astype(np.float64)
        self._counts = everything - gone
        self._counts[self._counts <= 1e-9 * everything] = 0.0
        sums = sparse.csr_array((own[rows], (codes, rows)), shape=(len(order), len(fold))) @ self.rows
        sums = sums if isinstance(sums, np.ndarray) else sums.toarray()
        self._means = np.empty((len(order), self.n_features))
        self._means[order] = statistics.means
        left = self._counts > 0
        # Σ w (x − m) over the rows that stay is minus the sum over the rows held out.
        self.shift = np.zeros_like(self._means)
        self.shift[left] = (gone[left, None] * self._means[left] - sums[left]) / self._counts[left, None]
        self._means += self.shift
        self.truth = np.zeros((len(fold), len(order)))
        self.truth[rows, sample.members.codes[mine]] = 1.0
        self.others = None
        if not isinstance(statistics, ClassScatter | PartRows):
            X, members = statistics.held()
            self.others = X, members.without(sample.numbers[fold])
        if isinstance(statistics, KernelScatter):  # which knows them for all classes together
            self._squares = statistics.within_trace * self._counts
        else:
            self._squares = statistics._squares[: len(order)] * (self._counts / np.maximum(everything, TINY))
        if self.multilabel:
            self._row_weight = statistics.row_weight - float(own.sum())
            total = statistics.row_weight * statistics.row_mean - np.asarray(own @ self.rows).ravel()
            self._row_mean = total / max(self._row_weight, TINY)

    def within_times(self, block: Float) -> Float:
        """Return S_w @ block, without the held-out rows."""
        if self.others is not None:
            X, members = self.others
            return within_times(X, members, self._means, block) / max(float(members.weights.sum()), TINY)
        old = self._means - self.shift
        product = self.everything.total * self.everything.within_times(block)
        product -= within_times(self.rows, self.members, old, block)
        moved = self.shift * np.sqrt(self._counts)[:, None]
        product -= moved.T @ (moved @ block)
        result: Float = product / max(self.total, TINY)
        return result

    def within_variances(self) -> Float:
        """Return the diagonal of S_w, without the rows held out."""
        if self.others is not None:
            X, members = self.others
            return within_squares(X, members, self._means) / max(float(members.weights.sum()), TINY)
        squares = self.everything.total * self.everything.within_variances()
        squares -= within_squares(self.rows, self.members, self._means - self.shift)
        squares -= self._counts @ np.square(self.shift)
        return np.asarray(np.maximum(squares, 0.0) / max(self.total, TINY))
