"""ClassScatter: class means, and the pooled d × d within-class scatter about them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy import linalg

from kampong._core.compute import PLAIN, blocks, compiled, floats, one_blas_thread, run, split
from kampong.data.labels import Members
from kampong.statistics.batch import MOST, shift_far_columns
from kampong.statistics.means import ClassMeans
from kampong.statistics.removal import part_scatter

if TYPE_CHECKING:
    from kampong._core.compute import Float, Integer, Rows
    from kampong.data.labels import Label
    from kampong.files.contents import Contents
    from kampong.statistics.batch import Summary

WIDEST = 8192
"""The most features for which a scatter matrix is kept: it takes 512 MiB, and two to three times that to solve."""

ALONE = 2048
"""Up to this many features each thread has its own scatter: a batch then takes 5·d² numbers, 160 MiB here."""

SMALL = 512
"""Up to this many features the eigenvalues of a scatter read from a file are checked; above that only its entries."""

ROUNDING = 1e-6
"""What rounding, and rows taken out again, may leave of a law, relative to the largest sums there were."""

DENSE_SHARE = 0.1
"""Above this share of non-zeros products and steps of dense rows take less time than those of sparse ones."""


class ClassScatter(ClassMeans):
    """Class means, and the pooled within-class scatter matrix: O(K·d + d²) memory.

    Enough for every criterion of the library. The scatter is summed about the class means, so no digits are lost if the
    data are far from the origin or the classes far apart.

    Parameters
    ----------
    n_features : int
        The width d of the rows; the scatter takes 8·d² bytes.

    See Also
    --------
    ClassMeans : The same without the d × d matrix.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.array([[0.0, 1.0], [2.0, 3.0], [5.0, 5.0]])
    >>> ClassScatter(2).update(X, [0, 0, 1]).within_scatter() * 3
    array([[2., 2.],
           [2., 2.]])
    """

    holds_within = True
    holds_scatter = True
    _joins = True

    def __init__(self, n_features: int) -> None:
        super().__init__(n_features)
        self._scatter: Float = np.zeros((self.n_features, self.n_features))  # only the lower triangle is current
        self._peak_diagonal: Float = np.zeros(self.n_features)  # the largest before something was subtracted

    def within_scatter(self) -> Float:
        """Return S_w, (d, d), symmetric."""
        matrix = self._scatter / self.total
        mirror(matrix)
        return matrix

    def within_variances(self) -> Float:
        """Return the diagonal of S_w: the within-class variance of each feature."""
        variances: Float = self._scatter.diagonal() / self.total
        return variances

    def within_times(self, block: Float) -> Float:
        """Return S_w @ block."""
        block = np.asfortranarray(block, dtype=np.float64)
        product: Float = linalg.blas.dsymm(1.0 / self.total, self._scatter.T, block, lower=0)  # the current triangle
        return product

    def in_units(self, units: Float) -> Self:
        """Return these statistics, for reading only, as they would be of rows divided by `units`."""
        view = super().in_units(units)
        view._scatter = self._scatter / units / units[:, None]
        view._peak_diagonal = self._peak_diagonal / np.square(units)
        view._squares = self._counts * (np.trace(view._scatter) / self.total)
        return view

    def _scaled(self, factor: float) -> Self:
        view = super()._scaled(factor)
        view._scatter, view._peak_diagonal = self._scatter * factor, self._peak_diagonal * factor
        return view

    def decay(self, factor: float) -> Self:
        """Multiply every weight by `factor` in [0, 1]; the means stay where they are."""
        super().decay(factor)
        self._scatter *= factor
        return self

    def unlearn_class(self, label: Label) -> Self:
        """Raise an error: the scatter holds all classes together, so the rows of the class are needed.

        Parameters
        ----------
        label : bool, int or str
            The class.

        Returns
        -------
        ClassScatter
            Nothing is ever returned.
        """
        self._code_of(label)
        raise ValueError(
            f"class {label!r} cannot be taken out by its name: the scatter of all classes is kept as one matrix. Take "
            "its rows out with unlearn(X, y)."
        )

    def to_state(self) -> dict[str, Any]:
        """Return the whole state: arrays, plain values, and dictionaries of both; nothing to unpickle."""
        packed = np.empty(self.n_features * (self.n_features + 1) // 2)
        _pack(self._scatter, packed)
        return {**super().to_state(), "scatter": packed, "peak_diagonal": self._peak_diagonal.copy()}

    @classmethod
    def from_state(cls, contents: Contents, n_features: int) -> Self:
        """Return the statistics that `to_state` wrote, each value checked against the others.

        Parameters
        ----------
        contents : Contents
            The state, which is used up.
        n_features : int
            The width that the statistics must have.

        Returns
        -------
        ClassScatter
            The statistics.
        """
        contents.expect("scatter", (n_features * (n_features + 1) // 2,))
        return super().from_state(contents, n_features)

    def _restore(self, contents: Contents) -> None:
        super()._restore(contents)
        packed = contents.array("scatter", np.float64, (self.n_features * (self.n_features + 1) // 2,))
        diagonal = packed[np.cumsum(np.arange(1, self.n_features + 1)) - 1]
        if len(diagonal) and not 0 <= diagonal.min() <= diagonal.max() <= MOST:
            contents.refuse(f"scatter has diagonal entries from {diagonal.min()} to {diagonal.max()}")
        self._peak_diagonal = contents.array("peak_diagonal", np.float64, (self.n_features,), low=0.0, high=MOST)
        peaks = np.sqrt(np.maximum(self._peak_diagonal, diagonal))
        if _passes_bound(packed, np.sqrt(diagonal), peaks):
            contents.refuse("scatter has entries past the roots of its diagonal, so it is no sum of squares")
        if contents.trial and self.n_features > SMALL:
            return
        _unpack(packed, self._scatter)
        if 0 < self.n_features <= SMALL:
            least = _least_eigenvalue(self._scatter, ROUNDING * float(peaks @ peaks))
            if least is not None:
                contents.refuse(f"scatter has the negative eigenvalue {least}, so it is no sum of squares")

    def _triangle(self) -> Float:
        return self._scatter

    def _empty(self) -> ClassMeans:
        return ClassScatter(self.n_features)

    def _take_out(self, taken: Any) -> tuple[Float, Integer]:
        joined, gone = super()._take_out(taken)
        self._peak_diagonal = np.maximum(
            np.maximum(self._peak_diagonal, self._scatter.diagonal()), taken._peak_diagonal
        )
        part_scatter(self._scatter, taken._scatter, joined, self._peak_diagonal)
        if not self._scatter.diagonal().any():  # the squares of the classes are its trace, so rounding too
            self._squares[:] = 0.0
        return joined, gone

    def _move(self, places: Integer, n_features: int) -> None:
        super()._move(places, n_features)
        scatter, m = np.zeros((n_features, n_features)), len(places)
        moved = self._scatter[:m, :m].copy()
        mirror(moved)
        scatter[np.ix_(places, places)] = moved
        self._scatter = scatter
        peak = np.zeros(n_features)
        peak[places] = self._peak_diagonal[:m]
        self._peak_diagonal = peak

    def _join(self, other: Any, joined: Float) -> None:
        self._scatter += other._scatter
        self._peak_diagonal += other._peak_diagonal
        _add_products(joined, self._scatter)

    def _spread(self, X: Rows, members: Members, batch: Summary, joined: Float) -> None:
        _add_products(joined, self._scatter)
        local = np.zeros(int(batch.classes[-1]) + 1 if len(batch.classes) else 0, dtype=np.int64)
        local[batch.classes] = np.arange(len(batch.classes))
        members = Members(members.rows, local[members.codes], members.weights, members.n_rows)
        if isinstance(X, np.ndarray):
            self._spread_dense(X, members, batch.means)
            return
        matrix, shift = shift_far_columns(X, members, batch)
        if matrix.nnz > DENSE_SHARE * matrix.shape[0] * matrix.shape[1]:
            self._spread_dense(X, members, batch.means)
            return
        threads = 4 if matrix.nnz > 2**16 else 1
        arguments = (matrix.indptr, matrix.indices, matrix.data, members.rows, members.weights, self._scatter)
        run(_add_pairs, [(*arguments, part, threads) for part in range(threads)])
        self._peak_diagonal = np.maximum(self._peak_diagonal, self._scatter.diagonal())
        offset = np.sqrt(batch.counts)[:, None] * (batch.means - shift)
        _add_products(offset, self._scatter, -1.0)
        _clear_negative(self._scatter)

    def _spread_dense(self, X: Rows, members: Members, means: Float) -> None:
        d, n = self.n_features, len(members.rows)
        if d > ALONE or n * d < 2**20:
            _add_squares(X, members, means, (0, n), self._scatter)
            return
        # Two threads with a product each: threads of BLAS would wait in busy loops between two products.
        parts, found = split(n, 2), [self._scatter, np.zeros((d, d))]
        with one_blas_thread():
            run(_add_squares, [(X, members, means, part, squares) for part, squares in zip(parts, found, strict=True)])
        self._scatter += found[1]


def _clear_negative(scatter: Float) -> None:
    """Clear the columns of a lower triangle that rounding left with a negative diagonal: nothing of them is known."""
    for j in np.flatnonzero(scatter.diagonal() < 0):
        scatter[j, : j + 1] = 0.0
        scatter[j:, j] = 0.0


def _least_eigenvalue(scatter: Float, rounding: float) -> float | None:
    """Return the least eigenvalue of a lower triangle where it is below `-rounding`, else None."""
    with one_blas_thread():  # a small problem, which two threads only make slower
        lifted = scatter.copy()
        lifted.flat[:: len(scatter) + 1] += rounding
        try:
            np.linalg.cholesky(lifted)  # it reads the lower triangle; a fifth of the time of the eigenvalues
            return None
        except np.linalg.LinAlgError:  # negative, or zero to the last bit
            least = float(np.linalg.eigvalsh(scatter)[0])
    return least if least < -rounding else None


def _add_squares(X: Rows, members: Members, means: Float, part: tuple[int, int], scatter: Float) -> None:
    """Add the scatter of some memberships about the class means to a lower triangle, block by block."""
    d, (start, stop) = X.shape[1], part
    buffer = np.empty((0, d))
    for block_part in blocks(stop - start, 8 * d, target=max(1024 * 8 * d, 2**22)):
        own = slice(block_part.start + start, block_part.stop + start)
        rows, codes, weights = members.rows[own], members.codes[own], members.weights[own]
        block = X[rows[0] : rows[-1] + 1]
        block = np.ascontiguousarray(floats(block)) if isinstance(block, np.ndarray) else block.toarray()
        if len(buffer) < len(rows):
            buffer = np.empty((len(rows), d))
        centred = buffer[: len(rows)]
        if block.size <= PLAIN:
            np.subtract(block[rows - rows[0]], means[codes], out=centred)
            centred *= np.sqrt(weights)[:, None]
        else:
            _centre(block, rows - rows[0], codes, weights, means, centred)
        _add_products(centred, scatter)


def _add_products(rows: Float, scatter: Float, weight: float = 1.0) -> None:
    """Add the product of the transpose of rows with the rows to a lower triangle, in place."""
    if len(rows):
        # the transpose is in the order of LAPACK, and its upper triangle is the lower one here
        total = linalg.blas.dsyrk(weight, rows.T, 1.0, scatter.T, overwrite_c=1)
        assert np.may_share_memory(total, scatter)


@compiled
def _centre(
    X: Float,
    rows: Integer,
    codes: Integer,
    weights: Float,
    means: Float,
    out: Float,
) -> None:
    for p in range(len(rows)):
        i, k, root = rows[p], codes[p], np.sqrt(weights[p])
        for j in range(X.shape[1]):
            out[p, j] = root * (X[i, j] - means[k, j])


@compiled
def _add_pairs(
    indptr: Integer,
    indices: Integer,
    data: Float,
    rows: Integer,
    weights: Float,
    scatter: Float,
    part: int,
    parts: int,
) -> None:
    """Add the pairs of non-zeros of each row to a lower triangle; this thread writes every `parts`-th row of it."""
    for p in range(len(rows)):
        i, w = rows[p], weights[p]
        first = indptr[i]
        for a in range(first, indptr[i + 1]):
            j = indices[a]
            if j % parts != part:
                continue
            scaled = w * np.float64(data[a])
            for b in range(first, a + 1):
                scatter[j, indices[b]] += scaled * np.float64(data[b])


def _pack(matrix: Float, packed: Float) -> None:
    """Write the lower triangle row after row."""
    start = 0
    for i in range(matrix.shape[0]):
        packed[start : start + i + 1] = matrix[i, : i + 1]
        start += i + 1


def _unpack(packed: Float, matrix: Float) -> None:
    """Write rows of a lower triangle where they were."""
    start = 0
    for i in range(matrix.shape[0]):
        matrix[i, : i + 1] = packed[start : start + i + 1]
        start += i + 1


def mirror(matrix: Float) -> None:
    """Copy the lower triangle to the upper one, in tiles that fit the cache."""
    d, tile = matrix.shape[0], 64
    for first in range(0, d, tile):
        own = matrix[first : first + tile, first : first + tile]
        np.copyto(own, own.T.copy(), where=~np.tri(len(own), dtype=bool))
        for second in range(0, first, tile):
            matrix[second : second + tile, first : first + tile] = matrix[
                first : first + tile, second : second + tile
            ].T


def _passes_bound(packed: Float, roots: Float, peaks: Float) -> bool:
    """Tell whether an entry of a lower triangle is larger than a sum of squares can have, beyond rounding."""
    start = 0
    for i in range(len(roots)):
        row, root, peak = packed[start : start + i], (1.0 + ROUNDING) * roots[i], ROUNDING * peaks[i]
        if not (np.abs(row) <= root * roots[:i] + peak * peaks[:i]).all():
            return True
        start += i + 1
    return False
