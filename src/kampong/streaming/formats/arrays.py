"""NumPy files: the rows of an array in `.npy`, or of the arrays in `.npz`, as a table."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING, Any

import numpy as np

from kampong.streaming.arrow import pa
from kampong.streaming.errors import SourceError
from kampong.streaming.formats.tables import LARGEST, Table

if TYPE_CHECKING:
    from collections.abc import Iterator


def _array_batches(path: Any, skip: int) -> Iterator[tuple[int, Any]]:
    """Yield the rows of the arrays of a file as record batches."""
    columns = _columns(path)
    rows = len(columns[next(iter(columns))])
    for start in range(skip // LARGEST * LARGEST, rows, LARGEST):
        part = {name: np.ascontiguousarray(column[start : start + LARGEST]) for name, column in columns.items()}
        yield start, pa.RecordBatch.from_arrays([pa.array(column) for column in part.values()], names=list(part))


def _columns(path: Any) -> dict[str, Any]:
    """Return the columns: those of the one matrix have numbers, arrays of one number or text a row their own names."""
    if path == "-":
        raise SourceError("stdin: NumPy files are read from a file, not from a pipe. Give the path.")
    try:
        loaded = np.load(path, mmap_mode="r", allow_pickle=False)
        arrays = {"": loaded} if isinstance(loaded, np.ndarray) else {name: loaded[name] for name in loaded.files}
    except (ValueError, OSError, zipfile.BadZipFile, EOFError) as error:
        raise SourceError(f"{path}: it cannot be read as a NumPy file: {error}") from None
    if {"indptr", "indices", "data"} <= set(arrays):
        raise SourceError(f"{path}: this is a sparse matrix of SciPy. Write it as libsvm for a stream.")
    matrices = [name for name, array in arrays.items() if array.ndim == 2]
    if len(matrices) != 1:
        raise SourceError(
            f"{path}: it holds {len(matrices)} matrices, where one of rows and columns is needed; labels are a second "
            "array in .npz, or a column."
        )
    matrix = arrays[matrices[0]]
    found = {str(j + 1): matrix[:, j] for j in range(matrix.shape[1])}
    found |= {name: array for name, array in arrays.items() if array.ndim == 1 and len(array) == len(matrix)}
    if not found or any(column.dtype.kind not in "biufU" for column in found.values()):
        raise SourceError(f"{path}: its arrays hold something other than numbers, truths and texts.")
    return found


NPY = Table("npy", (".npy",), b"\x93NUMPY", _array_batches)
NPZ = Table("npz", (".npz",), b"PK\x03\x04", _array_batches)
