"""What a format is: how a source is recognised, opened, described and parsed; and what formats of lines share."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from kampong.streaming.arrow import pa
from kampong.streaming.columns.cells import is_missing, is_plain
from kampong.streaming.columns.records import Batch, Dead, encode, joined, shown
from kampong.streaming.columns.schema import infer
from kampong.streaming.errors import ResumeError, SourceError
from kampong.streaming.opening import open_bytes
from kampong.streaming.sources.blocks import GO_ON, Block, Blocks, Place
from kampong.streaming.sources.learnt import LearntSource, chain, fingerprint

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator, Mapping, Sequence

    from kampong.files import Contents
    from kampong.streaming.columns.schema import Schema
    from kampong.streaming.sources.learnt import Fingerprint
    from kampong.streaming.sources.source import Source


FIRST = 1000
"""The lines or records from which columns are found."""


class AnyPlace(Protocol):
    """A place in a source, which a model file keeps: a dataclass of plain values."""

    def to_state(self) -> dict[str, Any]:
        """Return the values."""

    @classmethod
    def from_state(cls, contents: Contents) -> AnyPlace:
        """Return the place that `to_state` wrote, once all values are checked."""

    def fits(self, records: int) -> bool:
        """Tell whether this many records can be before it."""

    @property
    def started(self) -> bool:
        """Whether something of its file is before it."""

    def next_source(self) -> AnyPlace:
        """Return the place where a source begins that is learnt after all this."""

    def with_more(self, records: int) -> AnyPlace:
        """Return the same place, after more records that were learnt from no source."""

    def fingerprint(self) -> Fingerprint:
        """Return what the file of this place is recognised by, once it is read to its end."""


class Part(Protocol):
    """Some consecutive records of a source, and the place after them."""

    @property
    def end(self) -> AnyPlace:
        """The place after them."""

    @property
    def blank(self) -> bool:
        """Whether it holds no records."""

    @property
    def begins(self) -> bool:
        """Whether it is the first of its file, and may hold a header."""

    def sample(self) -> Any:
        """Return it with the records that come next, where they were read already."""


class Opened(Protocol):
    """A source that is open: its parts, the files that were learnt before and left out, and how to close it."""

    @property
    def skipped(self) -> list[str]:
        """The files of `Source.known` that were met so far."""

    def __iter__(self) -> Iterator[Any]:
        """Return the parts."""

    def close(self) -> None:
        """Close what is open."""


class Format(ABC):
    """A file format for labelled records.

    Attributes
    ----------
    name : str
        What `--format` calls it.
    endings : tuple of str
        How the names of such files end, in lower case, with the dot.
    place_type : type
        What a place in such a source is.
    can_grow : bool
        Whether records can be appended to such a file, so that `--follow` can wait for them.
    named_columns : bool
        Whether columns have names; otherwise they have numbers, up to the width of the schema.
    from_strangers : bool
        Whether any bytes at all can be read without harm, so that `--untrusted` allows it.
    in_stores : bool
        Whether it is read from object stores and web servers too, and not only from this machine.
    """

    name: str
    endings: tuple[str, ...] = ()
    place_type: ClassVar[type[AnyPlace]]
    can_grow: ClassVar[bool] = False
    named_columns: ClassVar[bool] = True
    from_strangers: ClassVar[bool] = False
    in_stores: bool = False

    def recognises(self, first: bytes) -> bool:
        """Tell whether the first bytes of a source can be of no other format."""
        return False

    @abstractmethod
    def open(self, source: Source, place: Mapping[str, Any] | None, stop: threading.Event | None) -> Opened:
        """Open a source at a place, or at its start.

        Parameters
        ----------
        source : Source
            The source.
        place : mapping or None
            The values of a place.
        stop : threading.Event or None
            Ends the wait for more of a followed file.

        Returns
        -------
        Opened
            An iterable of parts.
        """

    def header(self, source: Source, part: Any) -> tuple[list[str], Any]:
        """Return the names of the columns where the start of a source says them, and the first part without them."""
        return [], part

    @abstractmethod
    def describe(self, source: Source, columns: Sequence[str], part: Any, classes: Sequence[Any]) -> Schema:
        """Return what every record must look like, from the first ones.

        Parameters
        ----------
        source : Source
            The source, with what its user says of it.
        columns : sequence of str
            The names that `header` found.
        part : Part
            The first records.
        classes : sequence
            The only labels allowed, where they are known.

        Returns
        -------
        Schema
            The schema.
        """

    def fit(self, source: Source, schema: Schema, columns: Sequence[str]) -> Schema:
        """Return the schema of a model for a source to which it is applied; the label is ignored.

        Parameters
        ----------
        source : Source
            The source, perhaps of another format or with its columns in another order.
        schema : Schema
            What the model was learnt from.
        columns : sequence of str
            The names that `header` found.

        Returns
        -------
        Schema
            The schema for this source.
        """
        if self.named_columns != bool(schema.columns):
            raise SourceError(
                f"{source.path}: the model was learnt from {schema.format}, and {self.name} has other columns."
            )
        fitting = schema.of_columns(columns or schema.features, source.path)
        return dataclasses.replace(fitting, format=self.name, label=None)

    @abstractmethod
    def parse(self, schema: Schema, part: Any) -> Batch:
        """Return the records of a part: rows for the model, and dead letters."""


class LineFormat(Format):
    """A format with a record a line: read in blocks of whole lines, plain or compressed, and followed as it grows.

    Attributes
    ----------
    block_factor : int
        How many times larger the first blocks are than those of other formats.
    """

    place_type = Place
    can_grow = True
    from_strangers = True
    in_stores = True
    block_factor: ClassVar[int] = 1

    def open(self, source: Source, place: Mapping[str, Any] | None, stop: threading.Event | None) -> Opened:
        """Open a source at a place, or at its start."""
        files, start = source.files(self), Place(**place) if place else Place()
        if source.follow and len(files) > 1:
            raise SourceError(f"{source.name}: --follow needs one file that grows; there are {len(files)}.")
        return FilesOfLines(self, source, files, start, stop)

    def open_file(
        self,
        source: Source,
        path: str,
        place: Place,
        stop: threading.Event | None,
        known: Sequence[LearntSource] = (),
    ) -> Blocks:
        """Open one file of a source at a place; one that is known is left out, and one that has grown since goes on."""
        return Blocks(
            path,
            place=place,
            skip=not source.live,
            follow=source.follow,
            max_record=source.layout.max_record_bytes,
            times=self.block_factor,
            quoted=self.quoted(source),
            stop=stop,
            known=known,
        )

    def quoted(self, source: Source) -> bytes:
        """Return what may separate the columns of a source whose quoted fields may hold line breaks; "" for others."""
        return b""

    def parse(self, schema: Schema, part: Block) -> Batch:
        """Return the records of a block; a line that is longer than a record may be is a dead letter."""
        if part.too_long:
            reason = f"the line has {part.too_long:,} bytes, more than a record may have"
            dead = [Dead(0, part.line + 1, part.offset, reason, shown(part.data))]
            return Batch(None, None, np.empty(0, dtype=np.int64), dead, 1)
        return self.parse_lines(schema, part)

    @abstractmethod
    def parse_lines(self, schema: Schema, block: Block) -> Batch:
        """Return the records of a block of whole lines."""


class RecordFormat(LineFormat):
    """A format with a record per line that one method reads; the columns are found from the first records."""

    @abstractmethod
    def record(self, line: bytes) -> Mapping[str, Any]:
        """Return the values of a line by column: texts, numbers, or None for nothing.

        Parameters
        ----------
        line : bytes
            A line without its end.

        Returns
        -------
        mapping of str to value
            The values. A ValueError or a LookupError makes the line a dead letter, with its text as the reason.
        """

    def describe(self, source: Source, columns: Sequence[str], part: Block, classes: Sequence[Any]) -> Schema:
        """Return the schema of the first records: the columns that at least half of them have."""
        records, reason = [], "they are blank"
        for _, _, line in part.lines()[:FIRST]:
            try:
                records.append(self.record(line))
            except (ValueError, LookupError) as error:
                reason = _reason(error)
        if not records:
            raise SourceError(f"{source.path}: the first lines hold no record of the format {self.name}: {reason}.")
        layout, names = source.layout, dict.fromkeys(name for record in records for name in record)
        asked = layout.named
        counts = {name: sum(name in record for record in records) for name in names}
        columns = [name for name in names if 2 * counts[name] >= len(records) or name in asked]
        values = {name: [record.get(name) for record in records] for name in columns}
        return infer(layout, self.name, columns, values, source.path, classes)

    def parse_lines(self, schema: Schema, block: Block) -> Batch:
        """Return the records of a block."""
        lines, dead = block.lines(), dict[int, str]()
        cells: dict[str, list[Any]] = {name: [] for name in schema.used}
        for i, (_, _, line) in enumerate(lines):
            try:
                record = self.record(line)
                row = [_cell(name, record.get(name), name in schema.numeric) for name in cells]
            except (ValueError, LookupError) as error:
                dead[i] = _reason(error)
                continue
            for column, value in zip(cells.values(), row, strict=True):
                column.append(value)
        kinds = {name: pa.float64() if name in schema.numeric else pa.string() for name in cells}
        arrays = {name: pa.array(column, kinds[name]) for name, column in cells.items()}
        encoded = encode(schema, arrays, len(lines) - len(dead))
        return joined(schema, encoded, np.delete(np.arange(len(lines)), list(dead)), dead, len(lines), lambda: lines)


def _cell(name: str, value: Any, number: bool) -> float | str | None:
    """Return a value as a column holds it, None where there is nothing."""
    if is_missing(value):
        return None
    if not number:
        return str(value)
    if not is_plain(value):
        raise ValueError(f"column {name!r} holds {value[:40]!r}, which is not a number")
    return float(value)


def _reason(error: Exception) -> str:
    """Return the text of an error; that of a LookupError is what was not found."""
    return f"{error.args[0]!r} is missing" if isinstance(error, KeyError) and error.args else str(error)


class FilesOfLines:
    """The blocks of the files of a source, one after the other."""

    def __init__(
        self, line_format: LineFormat, source: Source, files: list[str], place: Place, stop: threading.Event | None
    ) -> None:
        self._format, self._source, self._files, self._stop = line_format, source, files, stop
        self._place, self.skipped = place, list[str]()
        self._known = list(source.known or ())
        if place.file >= len(files):
            raise ResumeError(f"{source.name}: {len(files)} files, and {place.file} were learnt already. {GO_ON}")
        if place.file and _witness(files[: place.file]) != place.files:
            raise ResumeError(f"{source.name}: the files are not those this model was learnt from. {GO_ON}")
        self._blocks: Blocks | None = None
        self._open()

    def _open(self) -> None:
        path = self._files[self._place.file]
        self._blocks = self._format.open_file(self._source, path, self._place, self._stop, self._known)

    def close(self) -> None:
        """Close the file that is open."""
        if self._blocks is not None:
            self._blocks.close()

    def __iter__(self) -> Iterator[Block]:
        while True:
            assert self._blocks is not None
            path, found = self._files[self._place.file], False
            for block in self._blocks:
                found = True
                yield block
            self._place = end = self._blocks.place
            if self._blocks.recognised and not found:
                self.skipped.append(path)
            if end.file + 1 >= len(self._files):
                return
            if self._source.known is not None and end.offset:  # a second copy of it is left out
                self._known.append(LearntSource(path, end.fingerprint()))
            self._place = replace(end.next_source(), file=end.file + 1, files=chain(end.files, end.digest))
            self._open()


def _witness(files: Sequence[str]) -> str:
    """Return a digest of all bytes of files."""
    found = ""
    for path in files:
        file, _, raw = open_bytes(path)
        with raw, file:
            one = fingerprint(file)
        found = chain(found, one.digest if one.size else "")
    return found


def first_line(first: bytes) -> bytes:
    """Return the first line that is not blank."""
    return first.lstrip().split(b"\n")[0]
