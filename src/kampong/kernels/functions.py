"""Kernel functions between blocks of rows, kernels of your own by name, and scores from kernel values."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from scipy import sparse

from kampong._core.compute import csr_times_block, floats, one_blas_thread, run, split, weighted_sum
from kampong._core.registries import enter
from kampong.data.validation import LARGEST_ENTRY, check_number, refuse_vanishing
from kampong.files.model_errors import CheckpointError
from kampong.kernels.city_block import city_block
from kampong.statistics.units import CONSTANT

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kampong._core.compute import Float, Integer, Rows
    from kampong.files.contents import Contents

NAMES = ("linear", "rbf", "laplacian", "polynomial", "sigmoid", "precomputed")
SYNONYMS = {"poly": "polynomial"}
LEAST_UNIT = 1e-150
"""Smaller deviations are taken for zero: a column divided by one would overflow."""

OWN: dict[str, Callable[..., Any]] = {}
"""Kernels that users have registered, by name."""
BLOCK_ROWS = 256
"""The number of rows computed together: enough for a matrix product to run at full speed."""
TILE_BYTES = 8 * 2**20
"""A temporary block of kernel values: small enough for the cache, and for the allocator to reuse its pages."""


def register(name: str, function: Callable[..., Any]) -> None:
    """Add a kernel, so that `kernel=` knows its name and models of it can be saved.

    Parameters
    ----------
    name : str
        Its name, which must be free.
    function : callable
        Called with two blocks of rows, it returns the matrix of their kernel values.
    """
    enter(OWN, "a kernel", name, function, (*NAMES, *SYNONYMS, "callable"))


class PreparedRows(NamedTuple):
    """Rows as a kernel reads them, and their squared norms (of the rows as read)."""

    rows: Rows
    norms: Float


@dataclass(frozen=True)
class Kernel:
    """A kernel function with its parameters fixed.

    linear a·b; rbf exp(−γ‖a − b‖²); laplacian exp(−γ Σ|a_j − b_j|); polynomial (γ a·b + c)^degree; sigmoid
    tanh(γ a·b + c); a callable of two blocks of rows; or precomputed, where the rows are kernel values.

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
    registered : str
        The name of that function, if it was registered.
    centre : array or None
        Subtracted from dense rows before distances are computed, so that no digits are lost.
    varying : array or None
        The columns that are not the same in all training rows; the others only add to the length of a row.
    units : array or None
        What each column is divided by before anything is computed.
    """

    name: str
    gamma: float = 1.0
    degree: float = 3.0
    coef0: float = 0.0
    function: Callable[..., Any] | None = None
    registered: str = ""
    centre: Float | None = None
    varying: Integer | None = None
    units: Float | None = None

    def prepare(self, X: Rows) -> PreparedRows:
        """Return rows as this kernel reads them; X itself is unchanged."""
        root = math.sqrt(2.0 * self.gamma) if self.name == "rbf" else 1.0
        if self.centre is not None:
            return self._centred(X, self.centre, root)
        rows: Rows = np.ascontiguousarray(X) if isinstance(X, np.ndarray) else sparse.csr_array(X)
        if self.units is not None or root != 1.0:
            rows = times_columns(rows, root if self.units is None else root / self.units)
        if self.name in ("precomputed", "callable", "laplacian"):
            return PreparedRows(rows, np.zeros(rows.shape[0]))
        with np.errstate(over="ignore"):
            return PreparedRows(rows, _squared_norms(rows))

    def _centred(self, X: Rows, centre: Float, root: float) -> PreparedRows:
        """Return rows about the centre, for rbf as (x, −½‖x‖², 1): a product of two is the exponent of the kernel."""
        n, more = X.shape[0], 2 if self.name == "rbf" else 0
        varying = slice(None) if self.varying is None else self.varying
        d = X.shape[1] if self.varying is None else len(self.varying)
        rows = np.empty((n, d + more), dtype=X.dtype)
        norms = np.empty(n)
        for start, stop in split(n, 1 + n // 4096):
            part: Any = X[start:stop]
            # float64 in between: the centre of float32 rows far from the origin has more digits than they do
            part = (part if isinstance(part, np.ndarray) else part.toarray()).astype(np.float64)
            part -= centre
            part *= root if self.units is None else root / self.units
            norms[start:stop] = np.einsum("ij,ij->i", part, part)
            rows[start:stop, :d] = part[:, varying]
        if more:
            rows[:, d], rows[:, d + 1] = -0.5 * norms, 1.0
        return PreparedRows(rows, norms)

    def same_units(self, other: Kernel) -> bool:
        """Tell whether both divide the columns by the same."""
        if self.units is None or other.units is None:
            return self.units is other.units
        return bool(np.array_equal(self.units, other.units))

    def between(self, left: PreparedRows, right: PreparedRows) -> Float:
        """Return the kernel values of two sets of prepared rows, one row a left point."""
        if self.name == "callable":
            return self._call(left.rows, right.rows)
        if self.name == "laplacian":
            return np.exp(np.multiply(city_block(left.rows, right.rows), -self.gamma))
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

    def to_state(self) -> dict[str, Any]:
        """Return what a checkpoint holds; a callable is refused."""
        if self.name not in NAMES and not self.registered:
            raise CheckpointError(
                f"a kernel that is a function ({self.function!r}) cannot be saved: a checkpoint holds no code. Use a "
                f"kernel by name ({', '.join(NAMES)}), kernel='precomputed', or give the function a name with "
                "kampong.kernels.register."
            )
        numbers = {name: getattr(self, name) for name in ("gamma", "degree", "coef0")}
        numbers["name"] = self.registered or self.name
        arrays = {name: getattr(self, name) for name in ("centre", "varying", "units")}
        return {**numbers, **{name: array for name, array in arrays.items() if array is not None}}

    @classmethod
    def from_state(cls, contents: Contents, n_features: int) -> Self:
        """Return the kernel that `to_state` wrote, for rows of this width."""
        name = contents.word("name", (*NAMES, *OWN))
        gamma, degree = contents.number("gamma", low=0.0, high=1e300), contents.number("degree", low=0.0, high=64.0)
        coef0, far = contents.number("coef0", low=-1e300, high=1e300), LARGEST_ENTRY
        centre = (
            contents.array("centre", np.float64, (n_features,), low=-far, high=far) if "centre" in contents else None
        )
        varying = None
        if "varying" in contents:
            varying = contents.array("varying", np.int64, (None,), low=0, high=n_features - 1)
            if (np.diff(varying) <= 0).any():
                contents.refuse("varying is not in order")
        units = None
        if "units" in contents:
            units = contents.array("units", np.float64, (n_features,), low=LEAST_UNIT, high=far)
        contents.finish()
        if name in OWN:
            return cls("callable", function=OWN[name], registered=name, units=units)
        return cls(name, gamma=gamma, degree=degree, coef0=coef0, centre=centre, varying=varying, units=units)

    def diagonal(self, points: PreparedRows) -> Float:
        """Return k(x, x) for each prepared row, float64."""
        if self.name in ("rbf", "laplacian"):
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
            check_kernel_values(values, f"The polynomial kernel of degree {self.degree:g} returned")

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
        check_kernel_values(values, f"The kernel {name} returned")
        return values.astype(left.dtype, copy=False)


def make_kernel(
    owner: str, kernel: Any, X: Rows | Columns, *, gamma: Any, degree: Any, coef0: Any, units: Float | None = None
) -> Kernel:
    """Check the parameters of a kernel and fix what depends on the data.

    Parameters
    ----------
    owner : str
        Who asks, for the messages.
    kernel : str or callable
        One of "linear", "rbf", "laplacian", "polynomial" ("poly"), "sigmoid", "precomputed", or a callable of two
        blocks of rows.
    X : array or sparse matrix of shape (n_samples, n_features), or Columns
        The rows that "mean" and "scale" are computed from, or what is known of them.
    gamma : float, "mean" or "scale"
        "mean" is one over the mean squared distance of two rows; "scale" is 1 / (n_features · X.var()).
    degree : float
        The degree of the polynomial.
    coef0 : float
        The constant of the polynomial and of the sigmoid.
    units : array of shape (n_features,), optional
        What each column is divided by first.

    Returns
    -------
    Kernel
        Ready to use.
    """
    if callable(kernel):
        return Kernel("callable", function=kernel, units=units)
    name = SYNONYMS.get(kernel, kernel) if isinstance(kernel, str) else kernel
    if isinstance(name, str) and name in OWN:
        return Kernel("callable", function=OWN[name], registered=name, units=units)
    if name not in NAMES:
        known = ", ".join(map(repr, (*NAMES, *OWN)))
        raise ValueError(f"{owner}: kernel must be a callable or one of {known}, got {kernel!r}.")
    if name in ("linear", "precomputed"):
        return Kernel(name, units=units)
    step = "3 is common; a polynomial of degree 1 is the linear kernel."
    degree = check_number(owner, "degree", degree, low=1.0, high=64.0, next_step=step)
    coef0 = check_number(owner, "coef0", coef0, low=-1e300, high=1e300, next_step="0 is the default.")
    columns = X if isinstance(X, Columns) else columns_of(X)
    mean, variances = columns.mean, columns.squares / columns.count
    if isinstance(gamma, str) and variances.sum() < 1e-290:
        refuse_vanishing(owner, float(np.abs([columns.low, columns.high]).max(initial=0.0)))
    divisors = 1.0 if units is None else units
    value = gamma_from(owner, gamma, mean / divisors, variances / divisors / divisors, name)
    if name not in ("rbf", "laplacian") or not columns.dense:
        return Kernel(name, gamma=value, degree=degree, coef0=coef0, units=units)
    constant = columns.high == columns.low
    mean = np.where(constant, columns.low, mean)
    varying = np.flatnonzero(~constant) if constant.any() and name == "rbf" else None
    return Kernel(name, gamma=value, centre=mean, varying=varying, units=units)


@dataclass(frozen=True)
class Columns:
    """What a kernel needs to know of rows that may lie elsewhere, column by column.

    Attributes
    ----------
    count : float
        The number of rows, or their weight.
    mean, squares : array of shape (n_features,)
        The mean, and the sum of squared distances from it.
    low, high : array of shape (n_features,)
        The least and the largest value.
    dense : bool
        Whether the rows are dense.
    """

    count: float
    mean: Float
    squares: Float
    low: Float
    high: Float
    dense: bool

    @classmethod
    def together(cls, parts: Sequence[Columns]) -> Columns:
        """Return the columns of the rows of all parts."""
        result: Columns = parts[0]
        for more in parts[1:]:
            count, step = result.count + more.count, more.mean - result.mean
            squares = result.squares + more.squares + step**2 * (result.count * more.count / count)
            mean = result.mean + step * (more.count / count)
            low, high = np.minimum(result.low, more.low), np.maximum(result.high, more.high)
            result = Columns(count, mean, squares, low, high, result.dense and more.dense)
        return result

    def units(self) -> Float:
        """Return the standard deviation of each column; a column that hardly varies is not blown up."""
        units: Float = np.sqrt(self.squares / self.count + CONSTANT * np.square(self.mean))
        return np.where((self.high > self.low) & (units > LEAST_UNIT), units, 1.0)


def columns_of(X: Rows, weights: Float | None = None) -> Columns:
    """Return what a kernel needs to know of the columns of rows; a weight of 2 is the row twice."""
    mean, variances = moments(X, weights)
    if isinstance(X, np.ndarray):
        low, high = X.min(axis=0), X.max(axis=0)
    else:
        low, high = (np.asarray(side(axis=0).todense()).ravel() for side in (X.min, X.max))
    count = float(X.shape[0] if weights is None else weights.sum())
    return Columns(count, mean, variances * count, low, high, isinstance(X, np.ndarray))


def gamma_from(owner: str, gamma: Any, mean: Float, variances: Float, name: str) -> float:
    """Return γ as a number, from the mean and the variance of each column where it is a word; `name` is the kernel's.

    A Laplacian kernel takes distances, not their squares: "mean" has the mean distance of two rows whose columns are
    normal, Σ 2σ_j/√π, because a stream knows no more than variances; "scale" is 1 / (n_features · X.std()).
    """
    if isinstance(gamma, str) and gamma in ("mean", "scale"):
        city = name == "laplacian"
        spread = float(np.sqrt(variances).sum()) * 2.0 / math.sqrt(math.pi) if city else 2.0 * float(variances.sum())
        if gamma == "scale":
            spread = float((variances + (mean - mean.mean()) ** 2).sum())
            spread = math.sqrt(spread * len(mean)) if city else spread
        if not math.isfinite(spread) or spread > 1e300:
            raise ValueError(
                f"{owner}: the squares of X overflow, so gamma={gamma!r} cannot be computed. "
                "Scale the features, for instance with sklearn.preprocessing.StandardScaler."
            )
        # below this all rows are the same point up to rounding, and any gamma gives the same kernel
        return 1.0 / spread if spread > 1e-300 else 1.0
    if isinstance(gamma, bool) or not isinstance(gamma, numbers.Real) or not 0 < float(gamma) < math.inf:
        raise ValueError(f"{owner}: gamma must be 'mean', 'scale' or a number > 0, got {gamma!r}.")
    return float(gamma)


def moments(X: Rows, weights: Float | None = None) -> tuple[Float, Float]:
    """Return the mean and the variance of each column in O(n·d), float64."""
    shares = None if weights is None else weights / weights.sum()
    if isinstance(X, np.ndarray):
        mean = weighted_sum(X, np.ones(len(X))) / len(X) if shares is None else weighted_sum(X, shares)
        squares = np.zeros(X.shape[1])
        with np.errstate(over="ignore"):
            for start, stop in split(X.shape[0], 1 + X.shape[0] // 4096):
                centred = X[start:stop] - mean
                if shares is None:
                    squares += np.einsum("ij,ij->j", centred, centred)
                else:
                    squares += shares[start:stop] @ np.square(centred)
        return mean, squares / X.shape[0] if shares is None else squares
    wide = sparse.csr_array(X.astype(np.float64))
    shares = np.full(X.shape[0], 1.0 / X.shape[0]) if shares is None else shares
    mean = np.asarray(shares @ wide).ravel()
    with np.errstate(over="ignore"):
        second = np.asarray(shares @ wide.power(2)).ravel()
    return mean, np.maximum(second - mean**2, 0.0)


def times_columns(X: Rows, factors: Float | float) -> Rows:
    """Return rows with each column multiplied by its factor, dense or CSR, in the dtype of the rows."""
    if isinstance(X, np.ndarray):
        return np.asarray(X * factors, dtype=X.dtype)
    rows = sparse.csr_array(X)
    data = rows.data * (factors if isinstance(factors, float) else factors[rows.indices])
    return sparse.csr_array((data.astype(X.dtype, copy=False), rows.indices, rows.indptr), shape=rows.shape)


def kernel_scores(kernel: Kernel, X: Rows, support: PreparedRows, weights: Float) -> Float:
    """Return k(X, support) @ weights in blocks; for a precomputed kernel X are the values at the support already."""
    out = np.zeros((X.shape[0], weights.shape[1]))
    if kernel.name == "precomputed":
        out[:] = X @ weights
        return out
    step = min(2048, max(64, TILE_BYTES // (8 * max(1, support.rows.shape[0], X.shape[1]))))

    def tile(start: int, stop: int) -> None:
        values = kernel.between(kernel.prepare(floats(X[start:stop])), support)
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


def check_kernel_values(values: Any, what: str) -> None:
    """Refuse kernel values that are not finite; `what` says where they come from."""
    if not np.isfinite(values).all():
        kind = "NaN" if np.isnan(values).any() else "infinity"
        raise ValueError(f"{what} {kind}; a kernel value is a finite number. Check the kernel, or scale the features.")
