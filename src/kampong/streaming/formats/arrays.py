"""NumPy files: the rows of an array in `.npy`, or of the arrays in `.npz`, as a table.

Arrays of `.npz` are decompressed a few rows at a time, so memory is bounded by a batch, whatever a file claims to hold.
"""

from __future__ import annotations

import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kampong.streaming.arrow import pa
from kampong.streaming.errors import SourceError
from kampong.streaming.formats.tables import LARGEST, Table

if TYPE_CHECKING:
    from collections.abc import Iterator

BATCH_BYTES = 2**26
"""The most memory for the rows of a batch; wide rows make batches of fewer rows."""

READERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
FAILS = (ValueError, OSError, EOFError, RuntimeError, NotImplementedError, zipfile.BadZipFile, zlib.error)
"""What zipfile and NumPy raise for files that are damaged, encrypted or of another kind."""


@dataclass(frozen=True)
class Stored:
    """An array of a `.npz` file that has not been read: what its header says."""

    member: zipfile.ZipInfo
    shape: tuple[int, ...]
    by_columns: bool
    dtype: np.dtype[Any]

    @property
    def ndim(self) -> int:
        """The number of its axes."""
        return len(self.shape)

    @property
    def row_bytes(self) -> int:
        """The bytes of a row."""
        return self.dtype.itemsize * (self.shape[1] if self.ndim == 2 else 1)

    def __len__(self) -> int:
        return self.shape[0]


def _npy_batches(path: Any, skip: int) -> Iterator[tuple[int, Any]]:
    """Yield the rows of an array as record batches; it is mapped, not read."""
    _refuse_pipe(path)
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except FAILS as error:
        raise SourceError(f"{path}: it cannot be read as a NumPy file: {error}") from None
    chosen = _chosen(path, {"": array})
    step = _rows_at_once(path, chosen)
    for start in range(skip // step * step, len(array), step):
        yield start, _batch({"": array[start : start + step]})


def _npz_batches(path: Any, skip: int) -> Iterator[tuple[int, Any]]:
    """Yield the rows of the arrays of a file as record batches, decompressed a batch at a time."""
    _refuse_pipe(path)
    try:
        with zipfile.ZipFile(path) as file:
            yield from _stored_batches(path, file, skip)
    except FAILS as error:
        raise SourceError(f"{path}: it cannot be read as a NumPy file: {error}") from None


def _stored_batches(path: Any, file: zipfile.ZipFile, skip: int) -> Iterator[tuple[int, Any]]:
    every = {}
    for member in file.infolist():
        if member.filename.endswith(".npy"):
            with file.open(member) as stream:
                every[member.filename.removesuffix(".npy")] = Stored(member, *_header(stream))
    chosen = _chosen(path, every)
    step = _rows_at_once(path, chosen)
    rows = len(next(iter(chosen.values())))
    streams = {name: file.open(stored.member) for name, stored in chosen.items()}
    try:
        for stream in streams.values():
            _header(stream)
        for start in range(0, rows, step):
            n = min(step, rows - start)
            parts = {name: _read(streams[name], stored, n) for name, stored in chosen.items()}
            if start + n > skip:
                yield start, _batch(parts)
    finally:
        for stream in streams.values():
            stream.close()


def _refuse_pipe(path: Any) -> None:
    if path == "-":
        raise SourceError("stdin: NumPy files are read from a file, not from a pipe. Give the path.")


def _header(stream: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Read shape, order and type of an array; the stream then stands at its first entry."""
    version = np.lib.format.read_magic(stream)
    if version not in READERS:
        raise ValueError(f"an array of format {version[0]}.{version[1]}, which is for named fields")
    shape, by_columns, dtype = READERS[version](stream)
    if any(length < 0 for length in shape):
        raise ValueError(f"an array of shape {shape}")
    return shape, by_columns, dtype


def _read(stream: Any, stored: Stored, n: int) -> Any:
    """Read the next rows of an array."""
    wanted = n * stored.row_bytes
    data = stream.read(wanted)
    if len(data) < wanted:
        raise EOFError(f"{stored.member.filename} ends before its last row")
    order: Any = "F" if stored.by_columns else "C"
    return np.frombuffer(data, dtype=stored.dtype).reshape(n, *stored.shape[1:], order=order)


def _chosen(path: Any, arrays: dict[str, Any]) -> dict[str, Any]:
    """Return the one matrix, and the arrays that hold a number or text for each of its rows."""
    if {"indptr", "indices", "data"} <= set(arrays):
        raise SourceError(f"{path}: this is a sparse matrix of SciPy. Write it as libsvm for a stream.")
    matrices = [name for name, array in arrays.items() if array.ndim == 2]
    if len(matrices) != 1:
        raise SourceError(
            f"{path}: it holds {len(matrices)} matrices, where one of rows and columns is needed; labels are a second "
            "array in .npz, or a column."
        )
    matrix = arrays[matrices[0]]
    found = {matrices[0]: matrix}
    found |= {name: array for name, array in arrays.items() if array.ndim == 1 and len(array) == len(matrix)}
    if not matrix.shape[1] + len(found) - 1 or any(array.dtype.kind not in "biufU" for array in found.values()):
        raise SourceError(f"{path}: its arrays hold something other than numbers, truths and texts.")
    return found


def _rows_at_once(path: Any, arrays: dict[str, Any]) -> int:
    """Return the rows of a batch, by the bytes of a row; refuse what cannot be read in batches."""
    widths = [array.dtype.itemsize * (array.shape[1] if array.ndim == 2 else 1) for array in arrays.values()]
    if sum(widths) > BATCH_BYTES:
        raise SourceError(
            f"{path}: a row takes {sum(widths):,} bytes, and a batch may take {BATCH_BYTES:,}. Write fewer columns, or "
            "shorter texts."
        )
    for name, array in arrays.items():
        if isinstance(array, Stored) and array.ndim == 2 and array.by_columns and len(array):
            size, came = len(array) * array.row_bytes, min(array.member.compress_size, Path(path).stat().st_size)
            if size > max(BATCH_BYTES, came):
                raise SourceError(
                    f"{path}: the array {name!r} lies column by column, so that reading a row takes all of its "
                    f"{size:,} bytes, from {came:,} bytes of the file. Save np.ascontiguousarray of it, or a .npy file."
                )
            return array.shape[0]
    return int(max(1, min(LARGEST, BATCH_BYTES // max(sum(widths), 1))))


def _batch(parts: dict[str, Any]) -> Any:
    """Return some rows as a record batch: the columns of the matrix have numbers, other arrays their own names."""
    columns: dict[str, Any] = {}
    for name, given in parts.items():
        part = given.astype(given.dtype.newbyteorder("="), copy=False)  # Arrow knows the machine's own order alone
        if part.ndim == 2:
            columns |= {str(j + 1): np.ascontiguousarray(part[:, j]) for j in range(part.shape[1])}
        else:
            columns[name] = np.ascontiguousarray(part)
    return pa.RecordBatch.from_arrays([pa.array(column) for column in columns.values()], names=list(columns))


NPY = Table("npy", (".npy",), b"\x93NUMPY", _npy_batches)
NPZ = Table("npz", (".npz",), b"PK\x03\x04", _npz_batches)
