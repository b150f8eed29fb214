"""Untrusted tables, read in a process of their own: its crash, hang or flood of memory is an error with a name.

The reader of Arrow and Parquet is C++ that follows offsets in the file. Here it runs in a child whose memory and time
are limited, and that may write no file. What it has read comes back as plain numbers and texts, not as Arrow: each
message is its length, a line of JSON, and the bytes of the columns, and every length in it is checked.
"""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from kampong.streaming.arrow import pa
from kampong.streaming.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

if sys.platform != "win32":
    import resource

MEMORY = 2**30
"""How much more memory than at its start the reading process may have."""

LARGEST_BATCH = 2**29
"""The most bytes of one batch of rows."""

LARGEST_HEADER = 2**24
SECONDS = 60.0
"""The most seconds of processor for one batch."""

LENGTH = struct.Struct("<Q")
NUMBERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64")
TRUTH, TEXT, UNUSABLE = "bool", "text", "unusable"
ADVICE = "It is damaged, or made to do harm."

START = "from kampong.streaming.formats.sandboxed_reader import serve; serve()"


# The process that asks.


def batches_apart(name: str) -> Callable[[Any, int], Iterator[tuple[int, Any]]]:
    """Return what yields the record batches of a file of a format, read in another process.

    Parameters
    ----------
    name : str
        The format.

    Returns
    -------
    callable
        It takes a path and the rows to skip, and yields rows before and record batch.
    """

    def batches(path: Any, skip: int) -> Iterator[tuple[int, Any]]:
        if sys.platform == "win32":
            raise SourceError(f"{path}: --untrusted limits a process of its own, which needs Linux or macOS.")
        command = [sys.executable, "-c", START, name, str(path), str(skip)]
        with closing(_Child(command, str(path))) as child:
            yield from child

    return batches


class _Child:
    """The process that reads, and what it says."""

    def __init__(self, command: list[str], path: str) -> None:
        self.path, self.rows = path, 0
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "OMP_NUM_THREADS": "1"}
        environment |= {"OPENBLAS_NUM_THREADS": "1", "ARROW_DEFAULT_MEMORY_POOL": "system"}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment)

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()
        if self.process.stdout is not None:
            self.process.stdout.close()

    def __iter__(self) -> Iterator[tuple[int, Any]]:
        assert self.process.stdout is not None
        pipe = self.process.stdout
        while True:
            size = LENGTH.unpack(self._take(pipe, LENGTH.size))[0]
            self._require(size <= LARGEST_HEADER, "a header is too long")
            try:
                header = json.loads(self._take(pipe, size))
                kind = header["kind"]
            except (ValueError, KeyError, TypeError, RecursionError):
                self._require(False, "a header is no JSON")
            if kind == "end":
                return
            if kind == "error":
                raise SourceError(" ".join(str(header.get("text", "")).split())[:500])
            try:
                start, batch = self._batch(pipe, header)
            except SourceError:
                raise
            except (pa.ArrowException, ValueError, TypeError, OverflowError, MemoryError):
                self._require(False, "a batch holds something other than numbers and texts")
            self.rows = start + batch.num_rows
            yield start, batch

    def _batch(self, pipe: IO[bytes], header: Any) -> tuple[int, Any]:
        """Return the rows before a batch, and the batch."""
        start, rows, columns = header.get("start"), header.get("rows"), header.get("columns")
        whole = all(type(value) is int and 0 <= value < 2**48 for value in (start, rows))
        self._require(whole and isinstance(columns, list), "a batch has no rows or columns")
        left, arrays, names = LARGEST_BATCH, [], []
        for column in columns:
            fits = isinstance(column, list) and len(column) == 3 and type(column[0]) is str and type(column[2]) is int
            self._require(fits, "a column is not described")
            name, kind, size = column
            left -= size + 2 * rows
            self._require(size >= 0 and left >= 0, "a batch is too large")
            arrays.append(self._column(pipe, kind, rows, size))
            names.append(name)
        return start, pa.RecordBatch.from_arrays(arrays, names=names)

    def _column(self, pipe: IO[bytes], kind: Any, rows: int, size: int) -> Any:
        """Return one column, from bytes whose lengths agree."""
        if kind == UNUSABLE:
            self._require(size == 0, "a column without values has bytes")
            return pa.array([{}] * rows, type=pa.struct([]))
        valid = np.frombuffer(self._take(pipe, rows), dtype=np.uint8) != 0
        if kind == TEXT:
            lengths = np.frombuffer(self._take(pipe, 4 * rows), dtype="<u4").astype(np.int64)
            self._require(int(lengths.sum()) == size, "the lengths of texts do not add up")
            offsets = np.concatenate([[0], np.cumsum(lengths)])
            bits = pa.py_buffer(np.packbits(valid, bitorder="little").tobytes())
            data = pa.py_buffer(self._take(pipe, size))
            found = pa.LargeStringArray.from_buffers(rows, pa.py_buffer(offsets.tobytes()), data, bits)
            found.validate(full=True)
            return found.cast(pa.string())
        self._require(kind == TRUTH or kind in NUMBERS, "a column is of no known kind")
        dtype = np.dtype(np.uint8 if kind == TRUTH else kind)
        self._require(size == rows * dtype.itemsize, "a column has another size")
        values = np.frombuffer(self._take(pipe, size), dtype=dtype)
        return pa.array(values != 0 if kind == TRUTH else values, mask=~valid)

    def _take(self, pipe: IO[bytes], size: int) -> bytes:
        found = pipe.read(size)
        if len(found) == size:
            return found
        code = self.process.wait()
        if code == -signal.SIGPROF:
            reason = f"it took its reader more than {SECONDS:.0f} s of processor for one batch"
        elif code < 0:
            reason = f"it crashed its reader ({signal.Signals(-code).name}), which ran in a process of its own"
        else:
            reason = f"its reader, in a process of its own, ended with {code}"
        raise SourceError(f"{self.path}: reading stopped at row {self.rows + 1:,}: {reason}. {ADVICE}")

    def _require(self, holds: object, what: str) -> None:
        if not holds:
            raise SourceError(f"{self.path}: reading stopped at row {self.rows + 1:,}: {what}. {ADVICE}")


# The process that reads.


def serve() -> None:
    """Read the file that the arguments name, and write its batches to stdout; the main function of the child."""
    from kampong.streaming import formats

    name, path, skip = sys.argv[1:4]
    pipe = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # nothing else may write among the messages
    table: Any = formats.get(name)
    _limit()
    try:
        for start, batch in table.checked_batches(path if path == "-" else Path(path), int(skip)):
            _send_batch(pipe, start, batch)
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
        _send(pipe, {"kind": "end"})
    except SourceError as error:
        _send(pipe, {"kind": "error", "text": str(error)})
    except BrokenPipeError:
        os._exit(0)
    pipe.close()
    os._exit(0)


def _limit() -> None:
    """Limit what the process may use; SIGPROF, which the timer sends, ends it."""
    if sys.platform == "win32":
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that asks
    used = sum(int(line.split()[1]) * 1024 for line in _status() if line.startswith("VmData"))
    which = resource.RLIMIT_DATA if used else resource.RLIMIT_AS
    resource.setrlimit(which, (used + MEMORY, used + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    signal.setitimer(signal.ITIMER_PROF, SECONDS)


def _status() -> list[str]:
    try:
        return Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return []


def _send_batch(pipe: IO[bytes], start: int, batch: Any) -> None:
    columns, data = [], []
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        kind, parts = _plain(column)
        columns.append([name, kind, len(parts[-1]) if parts else 0])
        data += parts
    size = sum(map(len, data)) + 2 * batch.num_rows * len(columns)
    if size > LARGEST_BATCH:
        raise SourceError(
            f"row {start + 1:,}: a batch of {batch.num_rows:,} rows takes {size >> 20:,} MiB, and --untrusted allows "
            f"{LARGEST_BATCH >> 20}. Write the file with smaller batches or row groups."
        )
    _send(pipe, {"kind": "batch", "start": start, "rows": batch.num_rows, "columns": columns}, *data)


def _send(pipe: IO[bytes], header: dict[str, Any], *data: bytes) -> None:
    text = json.dumps(header).encode()
    for part in (LENGTH.pack(len(text)), text, *data):
        pipe.write(part)
    pipe.flush()


def _plain(column: Any) -> tuple[str, list[bytes]]:
    """Return the kind of a column and its bytes: which values are there, lengths of texts, values."""
    types, kind = pa.types, column.type
    if types.is_decimal(kind):
        column, kind = column.cast(pa.float64()), pa.float64()
    valid = np.asarray(column.is_valid()).astype(np.uint8).tobytes()
    stop = column.offset + len(column)
    if types.is_boolean(kind):
        bits = np.frombuffer(column.buffers()[1] or b"", dtype=np.uint8)
        return TRUTH, [valid, np.unpackbits(bits, bitorder="little")[column.offset : stop].tobytes()]
    if types.is_integer(kind) or types.is_floating(kind):
        dtype = np.dtype(kind.to_pandas_dtype())
        return dtype.name, [valid, np.frombuffer(column.buffers()[1] or b"", dtype)[column.offset : stop].tobytes()]
    try:
        found = (column.dictionary_decode() if types.is_dictionary(kind) else column).cast(pa.large_string())
    except pa.ArrowException:
        return UNUSABLE, []
    valid, texts = np.asarray(found.is_valid()).astype(np.uint8).tobytes(), found.fill_null("")
    lengths = np.asarray(pa.compute.binary_length(texts)).astype("<u4")
    _, offsets, data = texts.buffers()
    places = np.frombuffer(offsets or bytes(8), dtype=np.int64)[[texts.offset, texts.offset + len(texts)]]
    content = b"" if data is None else data.slice(places[0], places[1] - places[0]).to_pybytes()
    return TEXT, [valid, lengths.tobytes(), content]
