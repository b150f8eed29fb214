"""City-block distances between blocks of rows, dense or sparse: what the Laplacian kernel is computed from.

Each distance is the sum over the columns in their order, by whatever loop: so it depends neither on the other rows of
a block nor on the processor.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ParamSpec, TypeVar

import numpy as np
from scipy import sparse

from kampong._core.compute import PLAIN, compiled, transposed

if TYPE_CHECKING:
    from collections.abc import Callable

    from kampong._core.compute import Float, Integer, Rows

P = ParamSpec("P")
R = TypeVar("R")


def exact(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a loop whose sums the compiler may not reorder."""
    return compiled(function, fastmath=False)


POINTS = 512
"""Points together: their column and a row of distances stay in the nearest cache."""


def city_block(left: Rows, right: Rows) -> Float:
    """Return Σ_j |a_j − b_j| for each row a of one block and each row b of the other, (n, m), in their precision."""
    dtype = np.result_type(left, right)
    out = np.zeros((left.shape[0], right.shape[0]), dtype=dtype)
    if isinstance(left, np.ndarray) and isinstance(right, np.ndarray):
        left, right = left.astype(dtype, copy=False), right.astype(dtype, copy=False)
        with np.errstate(over="ignore"):
            if out.size * left.shape[1] <= PLAIN:
                for j in range(left.shape[1]):
                    out += np.abs(left[:, j, None] - right[:, j])
                return out
            for first in range(0, len(right), POINTS):
                points = np.ascontiguousarray(right[first : first + POINTS])
                _add_dense(np.ascontiguousarray(left), transposed(points), out, first)
        return out
    rows, columns = sparse.csr_array(left).astype(dtype), sparse.csr_array(sparse.csr_array(right).T).astype(dtype)
    # |a − b| = |a| + |b| where only one of the two is there: the sum over all pairs needs those columns that both have
    lengths = [np.asarray(abs(sparse.csr_array(one)).sum(axis=1), dtype=dtype).ravel() for one in (left, right)]
    out += lengths[0][:, None]
    out += lengths[1]
    _add_sparse(rows.indptr, rows.indices, rows.data, columns.indptr, columns.indices, columns.data, out)
    # of equal rows only the rounding of these sums is left
    rounding = 4 * np.finfo(dtype).eps * (lengths[0][:, None] + lengths[1])
    out[out <= rounding] = 0.0
    return out


@exact
def _add_dense(left: Float, columns: Float, out: Float, first: int) -> None:
    """Add the distances of rows to points whose columns are the rows of an array."""
    m, d = columns.shape[1], left.shape[1]
    for i in range(left.shape[0]):
        here = out[i, first : first + m]
        for j in range(0, d - 3, 4):  # four columns a time: a distance is read and written less often
            a, b, c, e = left[i, j], left[i, j + 1], left[i, j + 2], left[i, j + 3]
            first_of, second, third, fourth = columns[j], columns[j + 1], columns[j + 2], columns[j + 3]
            for k in range(m):
                here[k] = (((here[k] + abs(a - first_of[k])) + abs(b - second[k])) + abs(c - third[k])) + abs(
                    e - fourth[k]
                )
        for j in range(d - d % 4, d):
            for k in range(m):
                here[k] += abs(left[i, j] - columns[j, k])


@exact
def _add_sparse(
    starts: Integer, places: Integer, entries: Float, tops: Integer, points: Integer, values: Float, out: Float
) -> None:
    """Correct the sum of both lengths in the columns where a row and a point both have an entry."""
    for i in range(len(starts) - 1):
        for position in range(starts[i], starts[i + 1]):
            j, a = places[position], entries[position]
            for other in range(tops[j], tops[j + 1]):
                b = values[other]
                out[i, points[other]] -= (abs(a) + abs(b)) - abs(a - b)
