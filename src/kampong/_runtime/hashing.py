"""Numbers that look random and repeat on every machine: one mixer of bits, and a mark for each row."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from kampong._runtime.threads import compiled

if TYPE_CHECKING:
    from kampong._runtime.arrays import Integer, Rows


@compiled
def mix(state: Any) -> Any:
    """Return the finaliser of splitmix64: every bit of the result depends on every bit of the state."""
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


def row_marks(X: Rows) -> np.ndarray:
    """Return a number for each row that depends on its entries alone: not on its place, nor on how it is stored."""
    marks = np.zeros(X.shape[0], dtype=np.uint64)
    if isinstance(X, np.ndarray):
        _mark_dense(np.ascontiguousarray(X, dtype=np.float64).view(np.uint64), marks)
    else:
        _mark_sparse(X.indptr, X.indices, X.data.astype(np.float64).view(np.uint64), marks)
    return marks


@compiled
def _mark_dense(bits: np.ndarray, marks: np.ndarray) -> None:
    step = np.uint64(0x9E3779B97F4A7C15)
    for i in range(bits.shape[0]):
        total = np.uint64(0)
        for j in range(bits.shape[1]):
            if bits[i, j] << np.uint64(1):  # neither zero nor minus zero
                total += mix(mix(np.uint64(j + 1) * step) ^ bits[i, j])
        marks[i] = mix(total)


@compiled
def _mark_sparse(indptr: Integer, indices: Integer, bits: np.ndarray, marks: np.ndarray) -> None:
    step = np.uint64(0x9E3779B97F4A7C15)
    for i in range(len(marks)):
        total = np.uint64(0)
        for position in range(indptr[i], indptr[i + 1]):
            if bits[position] << np.uint64(1):
                total += mix(mix(np.uint64(indices[position] + 1) * step) ^ bits[position])
        marks[i] = mix(total)
