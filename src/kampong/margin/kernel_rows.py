"""`KernelRows`: the rows of a kernel matrix that is never held as a whole.

Values are computed in blocks of hundreds of rows by matrix products, because one row at a time costs many times more.
Rows are kept up to a budget in bytes; rows that do not fit are computed again.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from kampong._core.compute import compiled, one_blas_thread, run, split
from kampong.kernels.functions import BLOCK_ROWS, TILE_BYTES, Kernel, PreparedRows, check_kernel_values

if TYPE_CHECKING:
    from collections.abc import Callable

    from kampong._core.compute import Float, Integer, Rows

WIDE = 128
"""From this many features on, to read a kernel value from memory costs less than to compute it again."""


class KernelRows:
    """Rows of the kernel matrix of a training set, computed in blocks, kept up to a budget, shared by all problems.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    X : array or sparse matrix of shape (n_samples, n_features)
        The training rows; for a precomputed kernel the matrix itself.
    budget : int
        Bytes for the rows kept; the least recently used are dropped first.

    Attributes
    ----------
    n_samples : int
        The number of rows and columns.
    dtype : dtype
        That of X: float32 or float64.
    diagonal : array of shape (n_samples,)
        k(x, x), float64.
    store : array of shape (capacity, n_samples)
        The rows kept.
    slot_of : array of shape (n_samples,)
        Where in `store` a row is, or −1.
    n_evaluations : int
        Kernel values computed so far.

    Examples
    --------
    >>> import numpy as np
    >>> from kampong.kernels.functions import Kernel
    >>> from kampong.margin.kernel_rows import KernelRows
    >>> rows = KernelRows(Kernel("linear"), np.array([[1.0, 0.0], [1.0, 2.0]]))
    >>> rows.block(np.array([1])).tolist()
    [[1.0, 5.0]]
    """

    def __init__(self, kernel: Kernel, X: Rows, *, budget: int = 2**30) -> None:
        if kernel.name == "precomputed":
            X = X if isinstance(X, np.ndarray) else X.toarray()
            check_kernel_values(X, "The precomputed kernel matrix contains")
        self.kernel = kernel
        self.budget = budget
        self.n_samples = int(X.shape[0])
        self.dtype = X.dtype
        self.n_evaluations = 0
        self._points = kernel.prepare(X)
        self.diagonal = self._diagonal(X)
        self._empty_store()

    @property
    def width(self) -> int:
        """Return the number of features that a kernel value is computed from."""
        return int(self._points.rows.shape[1])

    def subset(self, indices: Integer) -> KernelRows:
        """Return the rows and columns of some points only, with a store of their own."""
        part = object.__new__(KernelRows)
        part.kernel, part.budget, part.dtype = self.kernel, self.budget, self.dtype
        part.n_samples, part.n_evaluations = len(indices), 0
        rows: Any = self._points.rows[indices]
        rows = rows[:, indices] if self.kernel.name == "precomputed" else rows
        part._points = PreparedRows(rows, self._points.norms[indices])
        part.diagonal = self.diagonal[indices]
        part._empty_store()
        if (self.slot_of >= 0).all():
            part.store, everything = self.block(indices, indices), np.arange(len(indices))
            part.capacity, part.slot_of, part._row_in = len(indices), everything, everything.copy()
            part._last_use = np.zeros(len(indices), dtype=np.int64)
        return part

    def bring(self, rows: Integer) -> None:
        """Have the points of some rows at hand; here they all are."""

    def fetch_all(self) -> bool:
        """Store all rows if they fit the budget; tell whether they did."""
        if self.n_samples > self.capacity:
            return False
        self.fetch(np.arange(self.n_samples))
        return True

    def _empty_store(self) -> None:
        n, self._lock = self.n_samples, threading.Lock()
        self.capacity = min(n, max(2 * BLOCK_ROWS, self.budget // max(1, n * self.dtype.itemsize)))
        self.store: Float = np.empty((0, n), dtype=self.dtype)
        self.slot_of: Integer = np.full(n, -1, dtype=np.int64)
        self._row_in: Integer = np.full(self.capacity, -1, dtype=np.int64)
        self._last_use: Integer = np.zeros(self.capacity, dtype=np.int64)
        self._clock = 0

    def block(self, rows: Integer, columns: Integer | None = None) -> Float:
        """Return K[rows][:, columns], all columns by default, computed now and not kept.

        Parameters
        ----------
        rows : array of int
            Which rows.
        columns : array of int, optional
            Which columns.

        Returns
        -------
        array of shape (len(rows), len(columns))
            Kernel values.
        """
        out = np.empty((len(rows), self.n_samples if columns is None else len(columns)), dtype=self.dtype)
        slots = self.slot_of[rows]
        stored = np.flatnonzero(slots >= 0)
        if len(stored):
            gather(self.store, slots[stored], np.arange(self.n_samples) if columns is None else columns, stored, out)
        missing = np.flatnonzero(slots < 0)
        self._fill(out, missing, rows[missing], columns)
        return out

    def square(self, rows: Integer) -> Float:
        """Return K[rows][:, rows] of stored rows: copied, or computed again if that is cheaper.

        Parameters
        ----------
        rows : array of int
            Rows that are stored.

        Returns
        -------
        array of shape (len(rows), len(rows))
            Kernel values.
        """
        out = np.empty((len(rows), len(rows)), dtype=self.dtype)
        if self.kernel.name in ("precomputed", "callable") or self.width >= WIDE:
            gather(self.store, self.slot_of[rows], rows, np.arange(len(rows)), out)
        else:
            self._fill(out, np.arange(len(rows)), rows, rows)
        return out

    def fetch(self, rows: Integer) -> None:
        """Store rows, at most `capacity` of them, in place of the least recently used."""
        self._clock += 1
        rows = np.unique(rows)[: self.capacity]
        present = rows[self.slot_of[rows] >= 0]
        self._last_use[self.slot_of[present]] = self._clock
        missing = rows[self.slot_of[rows] < 0]
        if not len(missing):
            return
        if not len(self.store):
            self.store = np.empty((self.capacity, self.n_samples), dtype=self.dtype)
        free = np.argsort(self._last_use, kind="stable")[: len(missing)]
        old = self._row_in[free]
        self.slot_of[old[old >= 0]] = -1
        self._row_in[free] = -1
        self._fill(self.store, free, missing, None)
        self._row_in[free], self.slot_of[missing] = missing, free
        self._last_use[free] = self._clock

    def times(self, columns: Integer, weights: Float, rows: Integer | None = None, *, keep: bool = False) -> Float:
        """Return K[rows][:, columns] @ weights; stored rows are used, others are computed.

        Parameters
        ----------
        columns : array of int
            Which columns (as the matrix is symmetric: which stored rows).
        weights : array of shape (len(columns), k)
            The factor on the right.
        rows : array of int, optional
            Which rows of the product, all by default.
        keep : bool
            Whether to store what is computed, as far as it fits. It saves time if the same columns are needed again.

        Returns
        -------
        array of shape (n_samples or len(rows), k)
            The product, float64.
        """
        weights = np.asarray(weights, dtype=self.dtype)
        if rows is not None:
            return self._times_computed(columns, weights, rows)
        if keep:
            present = self.slot_of[columns] >= 0
            self.fetch(np.concatenate([columns[present], columns[~present][: self.capacity - int(present.sum())]]))
        inside = self.slot_of[columns] >= 0
        out = np.zeros((self.n_samples, weights.shape[1]))
        if inside.any():
            by_slot = np.zeros((len(self.store), weights.shape[1]), dtype=self.dtype)
            by_slot[self.slot_of[columns[inside]]] = weights[inside]
            used = int(self.slot_of[columns[inside]].max()) + 1
            if (self._row_in[:used] < 0).any():
                # slots never written may hold anything, NaN included
                self.store[:used][self._row_in[:used] < 0] = 0.0
            strips = split(self.n_samples, max(1, self.n_samples * used // 2**22))

            def strip(start: int, stop: int) -> None:
                out[start:stop] = (by_slot[:used].T @ self.store[:used, start:stop]).T

            with one_blas_thread():
                run(strip, strips)
        if not inside.all():
            out += self._times_computed(columns[~inside], weights[~inside], None)
        return out

    def _times_computed(self, columns: Integer, weights: Float, rows: Integer | None) -> Float:
        chosen = np.arange(self.n_samples) if rows is None else rows
        out = np.zeros((len(chosen), weights.shape[1]))
        right = self._take(columns)

        def tile(start: int, stop: int) -> None:
            out[start:stop] = self._values(chosen[start:stop], columns, right) @ weights

        self._tiles(tile, len(chosen), len(columns))
        return out

    def _fill(self, out: Float, places: Integer, rows: Integer, columns: Integer | None) -> None:
        """Write K[rows][:, columns] to some rows of `out`."""
        right = self._points if columns is None else self._take(columns)

        def tile(start: int, stop: int) -> None:
            out[places[start:stop]] = self._values(rows[start:stop], columns, right)

        self._tiles(tile, len(rows), out.shape[1])

    def _tiles(self, tile: Callable[[int, int], None], n_rows: int, n_columns: int) -> None:
        """Compute blocks of rows on all cores; a callable runs on one, since it may not be safe in threads."""
        with self._lock:
            self.n_evaluations += n_rows * n_columns
        step = min(BLOCK_ROWS, max(128, TILE_BYTES // max(1, n_columns * self.dtype.itemsize)))
        tasks = [(start, min(start + step, n_rows)) for start in range(0, n_rows, step)]
        if self.kernel.name == "callable":
            for task in tasks:
                tile(*task)
            return
        with one_blas_thread():
            if n_rows * n_columns > 2**22:
                run(tile, tasks)
                return
            for task in tasks:
                tile(*task)

    def _values(self, rows: Integer, columns: Integer | None, right: PreparedRows) -> Float:
        """Return kernel values; `right` are the points of the columns."""
        if self.kernel.name == "precomputed":
            matrix: Any = self._points.rows
            values: Float = matrix[rows] if columns is None else matrix[np.ix_(rows, columns)]
        else:
            values = self.kernel.between(self._take(rows), right)
        return values

    def _take(self, indices: Integer) -> PreparedRows:
        if self.kernel.name == "precomputed":
            return PreparedRows(np.empty((len(indices), 0), dtype=self.dtype), np.empty(len(indices)))
        return PreparedRows(self._points.rows[indices], self._points.norms[indices])

    def _diagonal(self, X: Rows) -> Float:
        return diagonal_of(self.kernel, self._points, X)


def diagonal_of(kernel: Kernel, points: PreparedRows, X: Rows) -> Float:
    """Return k(x, x) of rows; refuse rows for which it overflows."""
    diagonal = kernel.diagonal(points)
    limit = float(np.finfo(X.dtype).max)
    if not (np.abs(diagonal) < limit).all():
        largest = float(np.abs(X.data if not isinstance(X, np.ndarray) else X).max())
        raise ValueError(
            f"The {kernel.name} kernel overflows in {X.dtype} (largest magnitude of X {largest:.3g}). "
            "Scale the features, for instance with sklearn.preprocessing.StandardScaler, or pass float64."
        )
    return diagonal


@compiled
def gather(store: Float, slots: Integer, columns: Integer, places: Integer, out: Float) -> None:
    """Copy some columns of stored rows to some rows of `out`."""
    for p in range(len(slots)):
        row, place = store[slots[p]], places[p]
        for c in range(len(columns)):
            out[place, c] = row[columns[c]]
