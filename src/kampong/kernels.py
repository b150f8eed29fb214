"""Kernel functions, and `KernelRows`: the rows of a kernel matrix that is never held as a whole.

Values come in blocks of hundreds of rows by matrix products: one row at a time costs many times more per row. Rows
are kept up to a budget in bytes and computed again past it. A low-rank part FFᵀ may be taken off (deflation).
"""

from __future__ import annotations

import math
import numbers
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy import sparse

from kampong._linalg import csr_times_block, one_blas_thread, run, split
from kampong._validation import check_number

if TYPE_CHECKING:
    from collections.abc import Callable

    from kampong._linalg import Float, Integer, Rows

NAMES = ("linear", "rbf", "polynomial", "sigmoid", "precomputed")
SYNONYMS = {"poly": "polynomial"}
BLOCK_ROWS = 256
"""Rows computed together: enough for a matrix product to run at full speed."""
TILE_BYTES = 8 * 2**20
"""A temporary block of kernel values: small enough for the cache, and for the allocator to reuse its pages."""


class Points(NamedTuple):
    """Rows as a kernel reads them, and their squared norms (of the rows as read)."""

    rows: Rows
    norms: Float


@dataclass(frozen=True)
class Kernel:
    """A kernel function with its parameters fixed.

    linear a·b; rbf exp(−γ‖a − b‖²); polynomial (γ a·b + c)^degree; sigmoid tanh(γ a·b + c); a callable of two blocks
    of rows; or precomputed, where the rows are kernel values.

    Attributes
    ----------
    name : str
        One of the names above, or "callable".
    gamma : float
        The factor γ.
    degree : float
        The degree of the polynomial.
    coef0 : float
        The constant c.
    function : callable or None
        Called with two blocks of rows, it returns the matrix of their kernel values.
    centre : array or None
        Taken off dense rows before distances are computed, which keeps their digits.
    varying : array or None
        The columns that are not the same in all training rows; the others add to the length of a row only.
    """

    name: str
    gamma: float = 1.0
    degree: float = 3.0
    coef0: float = 0.0
    function: Callable[..., Any] | None = None
    centre: Float | None = None
    varying: Integer | None = None

    def prepare(self, X: Rows) -> Points:
        """Return rows as this kernel reads them; X itself is unchanged."""
        if self.name == "rbf":
            root = math.sqrt(2.0 * self.gamma)
            if self.centre is not None:
                return self._centred(X, self.centre, root)
            rows: Rows = X * root if isinstance(X, np.ndarray) else sparse.csr_array(X) * root
            rows = rows.astype(X.dtype, copy=False)
        else:
            rows = np.ascontiguousarray(X) if isinstance(X, np.ndarray) else sparse.csr_array(X)
        if self.name in ("precomputed", "callable"):
            return Points(rows, np.zeros(rows.shape[0]))
        with np.errstate(over="ignore"):
            return Points(rows, _squared_norms(rows))

    def _centred(self, X: Rows, centre: Float, root: float) -> Points:
        """Return rows (x, −½‖x‖², 1) about the centre: one product of two such rows is the exponent of the kernel."""
        n = X.shape[0]
        varying = slice(None) if self.varying is None else self.varying
        d = X.shape[1] if self.varying is None else len(self.varying)
        rows = np.empty((n, d + 2), dtype=X.dtype)
        norms = np.empty(n)
        for start, stop in split(n, 1 + n // 4096):
            part: Any = X[start:stop]
            # float64 in between: the centre of float32 rows far from the origin has more digits than they do
            part = (part if isinstance(part, np.ndarray) else part.toarray()).astype(np.float64)
            part -= centre
            part *= root
            norms[start:stop] = np.einsum("ij,ij->i", part, part)
            rows[start:stop, :d] = part[:, varying]
        rows[:, d], rows[:, d + 1] = -0.5 * norms, 1.0
        return Points(rows, norms)

    def between(self, left: Points, right: Points) -> Float:
        """Return the kernel values of two sets of prepared rows, one row a left point."""
        if self.name == "callable":
            return self._call(left.rows, right.rows)
        if self.centre is None:
            values = _product(left.rows, right.rows)
        else:
            swapped: Any = left.rows
            swapped = swapped.copy()
            swapped[:, -2:] = swapped[:, :-3:-1]
            values = _product(swapped, right.rows)
        if self.name != "linear":
            self._finish(values, left.norms, right.norms)
        return values

    def diagonal(self, points: Points) -> Float:
        """Return k(x, x) for each prepared row, float64."""
        if self.name == "rbf":
            return np.ones(points.rows.shape[0])
        if self.name == "callable":
            pieces = [
                np.diagonal(self._call(points.rows[a:b], points.rows[a:b]))
                for a, b in split(points.rows.shape[0], 1 + points.rows.shape[0] // 64)
            ]
            return np.concatenate(pieces).astype(np.float64)
        if self.name == "precomputed":
            matrix: Any = points.rows
            return np.asarray(matrix.diagonal(), dtype=np.float64)
        values = points.norms.astype(np.float64)[:, None].copy()
        with np.errstate(over="ignore"):
            if self.name != "linear":
                self._finish(values, points.norms, np.zeros(1))
        return values[:, 0]

    def _finish(self, values: Float, left: Float, right: Float) -> None:
        """Turn products a·b into kernel values, in place."""
        if self.name == "rbf":
            if self.centre is None:
                values -= (0.5 * left).astype(values.dtype)[:, None]
                values -= (0.5 * right).astype(values.dtype)
            np.minimum(values, 0.0, out=values)
            np.exp(values, out=values)
            return
        values *= self.gamma
        values += self.coef0
        if self.name == "sigmoid":
            np.tanh(values, out=values)
        elif self.degree == int(self.degree) and self.degree <= 4:
            base = values.copy()
            for _ in range(int(self.degree) - 1):
                values *= base
        else:
            with np.errstate(invalid="ignore", over="ignore"):
                np.power(values, self.degree, out=values)
            _check_finite(values, f"The polynomial kernel of degree {self.degree:g} returned")

    def _call(self, left: Rows, right: Rows) -> Float:
        assert self.function is not None
        values = np.asarray(self.function(left, right))
        name = getattr(self.function, "__name__", repr(self.function))
        expected = (left.shape[0], right.shape[0])
        if values.shape != expected or values.dtype.kind not in "fiub":
            raise ValueError(
                f"The kernel {name} returned an array of shape {values.shape} and dtype {values.dtype} for blocks of "
                f"{expected[0]} and {expected[1]} rows; it must return real numbers of shape {expected}."
            )
        _check_finite(values, f"The kernel {name} returned")
        return values.astype(left.dtype, copy=False)


def make_kernel(owner: str, kernel: Any, X: Rows, *, gamma: Any, degree: Any, coef0: Any) -> Kernel:
    """Check the parameters of a kernel and fix what depends on the data.

    Parameters
    ----------
    owner : str
        Who asks, for the messages.
    kernel : str or callable
        One of "linear", "rbf", "polynomial" ("poly"), "sigmoid", "precomputed", or a callable of two blocks of rows.
    X : array or sparse matrix of shape (n_samples, n_features)
        The rows that "mean" and "scale" are computed from.
    gamma : float, "mean" or "scale"
        "mean" is one over the mean squared distance of two rows; "scale" is 1 / (n_features · X.var()).
    degree : float
        The degree of the polynomial.
    coef0 : float
        The constant of the polynomial and of the sigmoid.

    Returns
    -------
    Kernel
        Ready to use.
    """
    if callable(kernel):
        return Kernel("callable", function=kernel)
    name = SYNONYMS.get(kernel, kernel) if isinstance(kernel, str) else kernel
    if name not in NAMES:
        raise ValueError(f"{owner}: kernel must be a callable or one of {', '.join(map(repr, NAMES))}, got {kernel!r}.")
    if name in ("linear", "precomputed"):
        return Kernel(name)
    step = "3 is common; a polynomial of degree 1 is the linear kernel."
    degree = check_number(owner, "degree", degree, low=1.0, high=64.0, next_step=step)
    coef0 = check_number(owner, "coef0", coef0, low=-1e300, high=1e300, next_step="0 is the default.")
    mean, variances = _moments(X)
    value = _gamma(owner, gamma, X, mean, variances)
    if name != "rbf" or not isinstance(X, np.ndarray):
        return Kernel(name, gamma=value, degree=degree, coef0=coef0)
    constant = X.max(axis=0) == X.min(axis=0)
    mean[constant] = X[0, constant]
    varying = np.flatnonzero(~constant) if constant.any() else None
    return Kernel(name, gamma=value, centre=mean, varying=varying)


def _gamma(owner: str, gamma: Any, X: Rows, mean: Float, variances: Float) -> float:
    if isinstance(gamma, str) and gamma in ("mean", "scale"):
        spread = 2.0 * float(variances.sum())
        if gamma == "scale":
            spread = float((variances + (mean - mean.mean()) ** 2).sum())
        if not math.isfinite(spread) or spread > 1e300:
            raise ValueError(
                f"{owner}: the squares of X overflow, so gamma={gamma!r} cannot be computed. "
                "Scale the features, for instance with sklearn.preprocessing.StandardScaler."
            )
        # below this all rows are one point up to rounding, and any gamma gives the same kernel
        return 1.0 / spread if spread > 1e-300 else 1.0
    if isinstance(gamma, bool) or not isinstance(gamma, numbers.Real) or not 0 < float(gamma) < math.inf:
        raise ValueError(f"{owner}: gamma must be 'mean', 'scale' or a number > 0, got {gamma!r}.")
    return float(gamma)


def _moments(X: Rows) -> tuple[Float, Float]:
    """Return the mean and the variance of each column in O(n·d), float64."""
    if isinstance(X, np.ndarray):
        mean = X.mean(axis=0, dtype=np.float64)
        squares = np.zeros(X.shape[1])
        with np.errstate(over="ignore"):
            for start, stop in split(X.shape[0], 1 + X.shape[0] // 4096):
                centred = X[start:stop] - mean
                squares += np.einsum("ij,ij->j", centred, centred)
        return mean, squares / X.shape[0]
    wide = X.astype(np.float64)
    mean = np.asarray(wide.mean(axis=0)).ravel()
    with np.errstate(over="ignore"):
        second = np.asarray(wide.power(2).mean(axis=0)).ravel()
    return mean, np.maximum(second - mean**2, 0.0)


class KernelRows:
    """Rows of the kernel matrix of a training set, computed in blocks, kept up to a budget, shared by all problems.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    X : array or sparse matrix of shape (n_samples, n_features)
        The training rows; for a precomputed kernel the matrix itself.
    budget : int
        Bytes for the rows kept; the least recently used give way.
    features : array of shape (n_samples, n_features_extracted), optional
        F, for the deflated kernel K − FFᵀ.

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
    >>> from kampong.kernels import KernelRows, Kernel
    >>> rows = KernelRows(Kernel("linear"), np.array([[1.0, 0.0], [1.0, 2.0]]))
    >>> rows.block(np.array([1])).tolist()
    [[1.0, 5.0]]
    """

    def __init__(self, kernel: Kernel, X: Rows, *, budget: int = 2**30, features: Float | None = None) -> None:
        if kernel.name == "precomputed":
            _check_finite(X.data if not isinstance(X, np.ndarray) else X, "The precomputed kernel matrix contains")
            X = X if isinstance(X, np.ndarray) else X.toarray()
        self.kernel = kernel
        self.budget = budget
        self.n_samples = int(X.shape[0])
        self.dtype = X.dtype
        self.n_evaluations = 0
        self._points = kernel.prepare(X)
        self._features = None if features is None else np.asarray(features, dtype=X.dtype)
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
        part._points = Points(rows, self._points.norms[indices])
        part._features = None if self._features is None else self._features[indices]
        part.diagonal = self.diagonal[indices]
        part._empty_store()
        return part

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
        stored = self.slot_of[rows] >= 0
        for place in np.flatnonzero(stored):
            row = self.store[self.slot_of[rows[place]]]
            out[place] = row if columns is None else row[columns]
        self._fill(out, np.flatnonzero(~stored), rows[~stored], columns)
        return out

    def fetch(self, rows: Integer) -> None:
        """Put rows into the store, the least recently used giving way; at most `capacity` of them."""
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
            Whether to store what is computed, as far as it fits: it pays where the same columns come again and again.

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
        """Compute blocks of rows on all cores; a callable, which may not like that, on one."""
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

    def _values(self, rows: Integer, columns: Integer | None, right: Points) -> Float:
        """Return kernel values less the deflated part; `right` are the points of the columns."""
        if self.kernel.name == "precomputed":
            matrix: Any = self._points.rows
            values: Float = matrix[rows] if columns is None else matrix[np.ix_(rows, columns)]
        else:
            values = self.kernel.between(self._take(rows), right)
        if self._features is not None:
            other = self._features if columns is None else self._features[columns]
            values = values - self._features[rows] @ other.T
        return values

    def _take(self, indices: Integer) -> Points:
        if self.kernel.name == "precomputed":
            return Points(np.empty((len(indices), 0), dtype=self.dtype), np.empty(len(indices)))
        return Points(self._points.rows[indices], self._points.norms[indices])

    def _diagonal(self, X: Rows) -> Float:
        diagonal = self.kernel.diagonal(self._points)
        if self._features is not None:
            diagonal = diagonal - np.einsum("ij,ij->i", self._features, self._features, dtype=np.float64)
        limit = float(np.finfo(self.dtype).max)
        if not (np.abs(diagonal) < limit).all():
            largest = float(np.abs(X.data if not isinstance(X, np.ndarray) else X).max())
            raise ValueError(
                f"The {self.kernel.name} kernel overflows in {self.dtype} (largest magnitude of X {largest:.3g}). "
                "Scale the features, for instance with sklearn.preprocessing.StandardScaler, or pass float64."
            )
        return diagonal


def kernel_scores(kernel: Kernel, X: Rows, support: Points, weights: Float) -> Float:
    """Return k(X, support) @ weights in blocks; for a precomputed kernel X are the values at the support already."""
    out = np.zeros((X.shape[0], weights.shape[1]))
    if kernel.name == "precomputed":
        out[:] = X @ weights
        return out
    step = min(2048, max(64, TILE_BYTES // (8 * max(1, support.rows.shape[0], X.shape[1]))))

    def tile(start: int, stop: int) -> None:
        values = kernel.between(kernel.prepare(X[start:stop]), support)
        out[start:stop] = values @ weights.astype(values.dtype, copy=False)

    tasks = [(start, min(start + step, X.shape[0])) for start in range(0, X.shape[0], step)]
    if kernel.name == "callable" or len(tasks) == 1:
        for task in tasks:
            tile(*task)
        return out
    with one_blas_thread():
        run(tile, tasks)
    return out


def _product(left: Rows, right: Rows) -> Float:
    """Return left @ right.T as a dense array, whatever is sparse."""
    with np.errstate(over="ignore", invalid="ignore"):
        if isinstance(left, np.ndarray):
            if isinstance(right, np.ndarray):
                return np.asarray(left @ right.T)
            return np.ascontiguousarray(csr_times_block(right, np.ascontiguousarray(left.T, dtype=right.dtype)).T)
        if isinstance(right, np.ndarray):
            return csr_times_block(left, np.ascontiguousarray(right.T, dtype=left.dtype))
        return np.asarray((left @ right.T).toarray())


def _squared_norms(X: Rows) -> Float:
    if isinstance(X, np.ndarray):
        return np.asarray(np.einsum("ij,ij->i", X, X))
    return np.asarray(X.multiply(X).sum(axis=1), dtype=X.dtype).ravel()


def _check_finite(values: Any, what: str) -> None:
    if not np.isfinite(values).all():
        kind = "NaN" if np.isnan(values).any() else "infinity"
        raise ValueError(f"{what} {kind}; a kernel value is a finite number. Check the kernel, or scale the features.")
