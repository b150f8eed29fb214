"""Arrays, dense and sparse: their types, products of sparse rows with few columns, stacked rows, fixed signs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from kampong._runtime.threads import blocks, compiled, run, split

if TYPE_CHECKING:
    from scipy.sparse import csr_array

    Rows = np.ndarray | csr_array

Float = np.ndarray[Any, np.dtype[np.floating[Any]]]
Integer = np.ndarray[Any, np.dtype[np.integer[Any]]]


def stack(first: Rows, second: Rows) -> Rows:
    """Return two sets of rows as one, sparse if either is."""
    if isinstance(first, np.ndarray) and isinstance(second, np.ndarray):
        return np.concatenate([first, second])
    stacked: Rows = sparse.vstack([sparse.csr_array(first), sparse.csr_array(second)], format="csr")
    return stacked


def fix_signs(components: Float) -> Float:
    """Flip each row so that its entry of largest magnitude is positive (the first one among equals)."""
    if components.size == 0:
        return components
    largest = np.argmax(np.abs(components), axis=1)
    signs = np.sign(components[np.arange(len(components)), largest])
    signs[signs == 0] = 1.0
    fixed: Float = components * signs[:, None]
    return fixed


def csr_times_block(X: csr_array, block: Float, rows: Integer | None = None) -> Float:
    """Return `X[rows] @ block` for a C-contiguous block of few columns, on all cores (scipy's product uses one)."""
    rows = np.arange(X.shape[0]) if rows is None else rows
    out = np.empty((len(rows), block.shape[1]), dtype=block.dtype)
    parts = split(len(rows), 8 if X.nnz * len(rows) > 2**21 * X.shape[0] else 1)
    run(_csr_times_block, [(X.indptr, X.indices, X.data, rows, block, out, a, b) for a, b in parts])
    return out


def project(X: Rows, components: Float, offset: Float, rows: Integer | None = None) -> Float:
    """Return `(X[rows] − offset) @ components.T` in the dtype of X; sparse rows stay sparse."""
    dtype = X.dtype
    if not isinstance(X, np.ndarray):
        block = np.ascontiguousarray(components.T, dtype=dtype)
        coordinates: Float = csr_times_block(X, block, rows) - (offset @ components.T).astype(dtype)
        return coordinates
    weights = np.ascontiguousarray(components, dtype=dtype)
    centre = offset.astype(dtype)
    X = X if rows is None else X[rows]
    out = np.empty((X.shape[0], len(weights)), dtype=dtype)
    for part in blocks(len(X), X.shape[1] * X.itemsize):
        np.dot(X[part] - centre, weights.T, out=out[part])
    return out


@compiled
def _csr_times_block(
    indptr: Integer, indices: Integer, data: Float, rows: Integer, block: Float, out: Float, start: int, stop: int
) -> None:
    width = block.shape[1]
    for p in range(start, stop):
        for c in range(width):
            out[p, c] = 0.0
        for position in range(indptr[rows[p]], indptr[rows[p] + 1]):
            j, value = indices[position], data[position]
            for c in range(width):
                out[p, c] += value * block[j, c]
