"""Parquet files, folders of them, and Arrow IPC: record batches cut at fixed row numbers."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from kampong.streaming.arrow import pa
from kampong.streaming.columns.cells import PLAIN
from kampong.streaming.columns.records import encode, joined
from kampong.streaming.columns.schema import infer
from kampong.streaming.errors import ResumeError, SourceError
from kampong.streaming.formats.delimited import to_numbers
from kampong.streaming.formats.format import FIRST, Format
from kampong.streaming.formats.sandboxed_reader import batches_apart
from kampong.streaming.sources import opened, scheme_of
from kampong.streaming.sources.blocks import GO_ON
from kampong.streaming.sources.learnt import DIGITS, WITNESS, Fingerprint, chain, fingerprint

if TYPE_CHECKING:
    import threading
    from collections.abc import Mapping, Sequence

    from kampong.files import Contents
    from kampong.streaming.columns.records import Batch
    from kampong.streaming.columns.schema import Schema
    from kampong.streaming.formats.format import AnyPlace
    from kampong.streaming.sources.source import Source

SMALLEST, LARGEST, GROWTH = 128, 8192, 4
SAMPLE = 2**16  # cells by which it is decided what the columns are

READING_FAILS = (pa.ArrowException, OSError, ValueError, KeyError, TypeError, OverflowError, MemoryError)
"""What pyarrow raises for damaged files, depending on where the damage is."""

MIXED = {b"kampong": b"numbers and texts"}
"""What is said of a column of text in which some texts were numbers; in other columns a text is never a number."""

Batches = Callable[[Any, int], Iterator[tuple[int, Any]]]


@dataclass(frozen=True)
class TablePlace:
    """A place among the rows of one file or several, and digests by which the files are recognised.

    Attributes
    ----------
    row : int
        Rows before it, of all files and of earlier sources.
    file : int
        Files that are read to their end.
    in_file : int
        Rows of the next file before it.
    files : str
        A digest of all bytes of the files that are read to their end.
    size : int
        Bytes of the next file; 0 for a pipe.
    digest, head : str
        Digests of all bytes of the next file, and of the first of them.
    head_size : int
        How many those are, at most 4096.
    """

    row: int = 0
    file: int = 0
    in_file: int = 0
    files: str = ""
    size: int = 0
    digest: str = ""
    head: str = ""
    head_size: int = 0

    def to_state(self) -> dict[str, Any]:
        """Return the place as plain values."""
        return dict(vars(self))

    @classmethod
    def from_state(cls, contents: Contents) -> TablePlace:
        """Return the place that `to_state` wrote."""
        row, file = contents.whole("row", low=1), contents.whole("file")
        in_file, size = contents.whole("in_file", high=row), contents.whole("size")
        some = DIGITS if size else 0
        return cls(
            row,
            file,
            in_file,
            contents.digest("files", DIGITS if file else 0),
            size,
            contents.digest("digest", some),
            contents.digest("head", some),
            contents.whole("head_size", low=min(size, 1), high=min(size, WITNESS)),
        )

    def fits(self, records: int) -> bool:
        """Tell whether this many records are before it: every row is one."""
        return records == self.row

    @property
    def started(self) -> bool:
        """Whether something of its file is before it."""
        return self.in_file > 0

    def next_source(self) -> TablePlace:
        """Return the place where a source begins that is learnt after all this."""
        return TablePlace(self.row)

    def with_more(self, records: int) -> TablePlace:
        """Return the same place, after more records that were learnt from no source."""
        return replace(self, row=self.row + records)

    def fingerprint(self) -> Fingerprint:
        """Return what its file is recognised by."""
        return Fingerprint(self.size, self.digest, self.head, self.head_size)


@dataclass(frozen=True)
class Slice:
    """A few rows of a table, and where they are in their file."""

    table: Any
    row: int
    end: AnyPlace
    blank: bool = False
    ahead: Any = None
    """The same rows and those that come next, at the start of a source."""

    @property
    def begins(self) -> bool:
        """Whether it is the first of its file."""
        return self.row == 0

    def sample(self) -> Slice:
        """Return the slice with the rows that come next, where they were read already."""
        return self if self.ahead is None else replace(self, table=self.ahead, ahead=None)

    def places(self) -> list[tuple[int, int, bytes]]:
        """Return number, rows before it and the text of every record."""
        records = self.table.to_pylist()
        return [(self.row + i + 1, self.row + i, repr(record).encode()) for i, record in enumerate(records)]


class Table(Format):
    """Rows of typed columns, in one file or in a folder of them.

    Parameters
    ----------
    name : str
        What `--format` calls it.
    endings : tuple of str
        How the names of such files end.
    magic : bytes
        What such a file begins with.
    batches : callable
        Yields the record batches of a file and the rows before each, from the first one that is not skipped.
    in_stores : bool
        Whether it is read from object stores and web servers too.
    """

    place_type = TablePlace
    from_strangers = True

    def __init__(
        self, name: str, endings: tuple[str, ...], magic: bytes, batches: Batches, *, in_stores: bool = False
    ) -> None:
        self.name, self.endings, self.magic, self.batches, self.in_stores = name, endings, magic, batches, in_stores

    def recognises(self, first: bytes) -> bool:
        """Tell whether a file begins as its format says."""
        return first.startswith(self.magic)

    def open(self, source: Source, place: Mapping[str, Any] | None, stop: threading.Event | None) -> Tables:
        """Open a source at a place, or at its start."""
        return Tables(source, self, TablePlace(**place) if place else TablePlace())

    def checked_batches(self, path: Any, skip: int) -> Iterator[tuple[int, Any]]:
        """Yield the record batches of a file and the rows before each, once what they say of themselves holds.

        Parameters
        ----------
        path : path or "-"
            The file, or stdin.
        skip : int
            Batches that end before this row are left out.

        Yields
        ------
        start : int
            The rows of the file before the batch.
        batch : RecordBatch
            Columns of one number or text a row.
        """
        row = skip
        try:
            for start, batch in self.batches(path, skip):
                batch.validate(full=True)  # offsets, indices and lengths; nothing else looks at them
                list(batch.schema.names)  # names that are no text end here
                yield start, _spread(batch, path, start)
                row = start + batch.num_rows
        except SourceError:
            raise
        except READING_FAILS as error:
            reason = str(error).strip().partition("\n")[0][:200] or type(error).__name__
            if isinstance(error, MemoryError):
                reason = "it takes more memory than this process may have. Write it with smaller batches or row groups"
            raise SourceError(f"{path}: reading stopped at row {row + 1:,}: {reason}") from None

    def header(self, source: Source, part: Slice) -> tuple[list[str], Slice]:
        """Return the names of the columns."""
        return list(part.table.schema.names), part

    def describe(self, source: Source, columns: Sequence[str], part: Slice, classes: Sequence[Any]) -> Schema:
        """Return the schema from the first rows."""
        table = part.table.slice(0, FIRST)
        values = {name: _examples(table.column(i), table.schema.field(i)) for i, name in enumerate(columns)}
        schema = infer(source.layout, self.name, columns, values, source.path, classes, typed=True)
        for name in schema.used:
            if pa.types.is_nested(kind := table.schema.field(columns.index(name)).type):
                raise SourceError(
                    f"{source.path}: column {name!r} holds {kind}, not a number or a text in each row. Leave it out "
                    f"with --drop {name}, or write what is inside as columns of their own."
                )
        return schema

    def parse(self, schema: Schema, part: Slice) -> Batch:
        """Return the records of a slice."""
        table, rows, wrong = part.table, part.table.num_rows, dict[int, str]()
        columns = {}
        for name in schema.used:
            column = table.column(name)
            if name in schema.numeric and (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
                columns[name] = to_numbers(column.cast(pa.string()), name, wrong)
            else:
                columns[name] = _as(column, pa.float64() if name in schema.numeric else pa.string(), name)
        return joined(schema, encode(schema, columns, rows, wrong), np.arange(rows), {}, rows, part.places)


class Tables:
    """The rows of the files of a source, from a place on."""

    def __init__(self, source: Source, table: Table, place: TablePlace) -> None:
        self._batches = batches_apart(table.name) if source.untrusted else table.checked_batches
        self._reading: Any = None
        self.place, self.skipped = place, list[str]()
        self._files: list[Any] = [
            Path(one) if one != "-" and not scheme_of(one) else one for one in source.files(table)
        ]
        for file in self._files:
            if isinstance(file, Path) and not file.is_file():
                raise SourceError(f"{file}: there is no such file or folder.")
        self._learns = source.known is not None
        self._known = {one.bytes.digest for one in source.known or () if one.bytes.size}
        read = ""
        for file in self._files[: place.file]:
            read = chain(read, _fingerprint(file).digest)
        there = place.in_file == 0 or (
            place.file < len(self._files) and _fingerprint(self._files[place.file]) == place.fingerprint()
        )
        if read != place.files or not there:
            raise ResumeError(f"{source.name}: the files are not those this model was learnt from. {GO_ON}")

    def close(self) -> None:
        """Close the file that is being read."""
        if self._reading is not None:
            self._reading.close()

    def __iter__(self) -> Iterator[Slice]:
        for number in range(self.place.file, len(self._files)):
            path = self._files[number]
            found = self.place.fingerprint() if self.place.in_file else _fingerprint(path)
            if not self.place.in_file and found.digest in self._known:
                self.skipped.append(str(path))
            else:
                self.place = replace(self.place, **vars(found))
                self._reading = self._batches(path, self.place.in_file)
                for start, batch in self._reading:
                    yield from self._cut(batch, start)
            if found.size and self._learns:  # a second copy of it is left out
                self._known.add(found.digest)
            self.place = TablePlace(self.place.row, number + 1, 0, chain(self.place.files, found.digest))

    def _cut(self, batch: Any, start: int) -> Iterator[Slice]:
        """Cut a record batch, which starts at a row of its file, at fixed row numbers."""
        at = self.place.in_file - start
        while at < batch.num_rows:
            size = min(LARGEST, max(SMALLEST, self.place.row // GROWTH), batch.num_rows - at)
            row = self.place.in_file
            self.place = replace(self.place, row=self.place.row + size, in_file=row + size)
            shown = max(size, min(FIRST, SAMPLE // max(batch.num_columns, 1)))
            yield Slice(batch.slice(at, size), row, self.place, ahead=None if row else batch.slice(at, shown))
            at += size


def _fingerprint(path: Any) -> Fingerprint:
    """Return what a file is recognised by; a pipe cannot be."""
    if path == "-":
        return Fingerprint()
    with opened(path) if isinstance(path, str) else path.open("rb") as file:
        return fingerprint(file)


def _as(column: Any, kind: Any, name: str) -> Any:
    """Return a column as float64 or string, whatever it was."""
    types = pa.types
    if types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if types.is_floating(kind) and types.is_boolean(column.type):
        column = column.cast(pa.int8())
    if types.is_floating(kind) and types.is_decimal(column.type):
        return column.cast(kind)
    try:
        return column.cast(kind, safe=False) if types.is_floating(kind) else column.cast(kind)
    except pa.ArrowException:
        raise SourceError(
            f"Column {name!r} of type {column.type} cannot be used as {kind}. Leave it out with --drop, or convert it."
        ) from None


def _spread(batch: Any, path: Any, start: int) -> Any:
    """Return a record batch with a column a number for each column of lists of numbers, such as embeddings."""
    fields = list(batch.schema)
    if not any(_is_list(field.type) for field in fields):
        return batch
    columns: dict[str, Any] = {}
    for field in fields:
        column = batch.column(field.name)
        if not _is_list(field.type):
            columns[field.name] = column
            continue
        lengths = np.asarray(pa.compute.fill_null(pa.compute.list_value_length(column), -1))
        wrong = np.flatnonzero((lengths != lengths[:1]) | (lengths < 1))
        if len(wrong):
            found = "nothing" if lengths[wrong[0]] < 0 else f"a list of {lengths[wrong[0]]:,}"
            raise SourceError(
                f"{path}: row {start + wrong[0] + 1:,} of the column {field.name!r} holds {found}, where the first row "
                f"has {max(lengths[0], 0):,} numbers. Every row needs a list of the same length."
            )
        values = np.asarray(column.flatten().to_numpy(zero_copy_only=False))
        matrix = values.reshape(len(lengths), -1).astype(np.float32 if values.dtype == np.float16 else values.dtype)
        columns |= {f"{field.name}.{j + 1}": pa.array(np.ascontiguousarray(one)) for j, one in enumerate(matrix.T)}
    return pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))


def _is_list(kind: Any) -> bool:
    """Tell whether a column holds lists of numbers."""
    lists = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    return bool(lists) and bool(pa.types.is_floating(kind.value_type) or pa.types.is_integer(kind.value_type))


def _examples(column: Any, field: Any) -> list[Any]:
    """Return values for finding a schema: numbers as numbers, all others as text."""
    types = pa.types
    kind = column.type
    if field.metadata == MIXED:
        return [_number(value) for value in column.to_pylist()]
    if types.is_integer(kind) or types.is_floating(kind):
        return list(column.to_pylist())
    if types.is_boolean(kind) or types.is_decimal(kind):
        return [None if value is None else float(value) for value in column.to_pylist()]
    texts = column.cast(pa.string()) if types.is_temporal(kind) else column
    return [None if value is None else str(value)[:80] for value in texts.to_pylist()]


def _number(text: str | None) -> float | str | None:
    """Return a value of a column of numbers and texts."""
    return text if text is None or PLAIN.fullmatch(text) is None else float(text)


def _parquet_batches(path: Any, skip: int) -> Iterator[tuple[int, Any]]:
    """Yield the record batches of a Parquet file; whole row groups are skipped unread."""
    start = 0
    with pa.parquet.ParquetFile(opened(path) if isinstance(path, str) else path) as file:
        for group in range(file.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            if start + rows <= skip:
                start += rows
                continue
            for batch in file.iter_batches(LARGEST, row_groups=[group], use_threads=False):
                if start + batch.num_rows > skip:
                    yield start, batch
                start += batch.num_rows


def _arrow_batches(path: Any, skip: int) -> Iterator[tuple[int, Any]]:
    """Yield the record batches of an Arrow file, or of a stream."""
    start = 0
    for batch in _all_arrow_batches(path):
        if start + batch.num_rows > skip:
            yield start, batch
        start += batch.num_rows


def _all_arrow_batches(path: Any) -> Iterator[Any]:
    if path == "-":
        with pa.ipc.open_stream(pa.PythonFile(io.FileIO(0, closefd=False), mode="r")) as stream:
            yield from stream
        return
    with pa.PythonFile(opened(path), mode="r") if isinstance(path, str) else pa.OSFile(str(path)) as raw:
        if raw.read(len(ARROW.magic)) == ARROW.magic:
            file = pa.ipc.open_file(raw)
            for i in range(file.num_record_batches):
                yield file.get_batch(i)
            return
        raw.seek(0)
        yield from pa.ipc.open_stream(raw)


PARQUET = Table("parquet", (".parquet", ".pq"), b"PAR1", _parquet_batches, in_stores=True)
ARROW = Table("arrow", (".arrow", ".ipc", ".feather"), b"ARROW1", _arrow_batches, in_stores=True)
