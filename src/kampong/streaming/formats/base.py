"""What a format is: how a source is recognised, opened, described and parsed; and what formats of lines share."""

from __future__ import annotations

import dataclasses
import hashlib
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from kampong.streaming.blocks import DIGITS, Block, Blocks, Place
from kampong.streaming.errors import ResumeError, SourceError
from kampong.streaming.records import Batch, Dead, shown

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator, Mapping, Sequence

    from kampong.checkpoint import Contents
    from kampong.streaming.schema import Schema
    from kampong.streaming.sources import Source


class AnyPlace(Protocol):
    """A place in a source, which a model file keeps: a dataclass of plain values."""

    def to_state(self) -> dict[str, Any]:
        """Return the values."""

    @classmethod
    def from_state(cls, contents: Contents) -> AnyPlace:
        """Return the place that `to_state` wrote, once all values are checked."""

    def fits(self, records: int) -> bool:
        """Tell whether so many records can be before it."""


class Part(Protocol):
    """Some consecutive records of a source, and the place after them."""

    @property
    def end(self) -> AnyPlace:
        """The place after them."""

    @property
    def blank(self) -> bool:
        """Whether it holds no records."""


class Opened(Protocol):
    """A source that is open: its parts, and how to close it."""

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
    """

    name: str
    endings: tuple[str, ...] = ()
    place_type: ClassVar[type[AnyPlace]]
    can_grow: ClassVar[bool] = False
    named_columns: ClassVar[bool] = True
    from_strangers: ClassVar[bool] = False

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
    block_factor: ClassVar[int] = 1

    def open(self, source: Source, place: Mapping[str, Any] | None, stop: threading.Event | None) -> Opened:
        """Open a source at a place, or at its start."""
        files, start = source.files(self), Place(**place) if place else Place()
        if len(files) == 1 and not start.file:
            return self.open_file(source, files[0], start, stop)
        if source.follow:
            raise SourceError(f"{source.name}: --follow needs one file that grows; there are {len(files)}.")
        return FilesOfLines(self, source, files, start, stop)

    def open_file(self, source: Source, path: str, place: Place, stop: threading.Event | None) -> Blocks:
        """Open one file of a source at a place."""
        return Blocks(
            path,
            place=place,
            skip=not source.live,
            follow=source.follow,
            max_record=source.layout.max_record_bytes,
            times=self.block_factor,
            quoted=self.quoted(source),
            stop=stop,
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


class FilesOfLines:
    """The blocks of several files, one after the other; each may begin with a header, and all must have the same."""

    def __init__(
        self, line_format: LineFormat, source: Source, files: list[str], place: Place, stop: threading.Event | None
    ) -> None:
        self._format, self._source, self._files, self._stop = line_format, source, files, stop
        self._place = place
        if place.files and _witness(files[: place.file]) != place.files:
            raise ResumeError(
                f"{source.name}: the files are not those this model was learnt from. Give the same files, or start a "
                "new model with another --model."
            )
        if place.file >= len(files):
            raise ResumeError(f"{source.name}: {len(files)} files, and {place.file} were learnt already.")
        self._blocks: Blocks | None = None
        self._open()

    def _open(self) -> None:
        path = self._files[self._place.file]
        self._blocks = self._format.open_file(self._source, path, self._place, self._stop)

    def close(self) -> None:
        """Close the file that is open."""
        if self._blocks is not None:
            self._blocks.close()

    def __iter__(self) -> Iterator[Block]:
        while True:
            assert self._blocks is not None
            for block in self._blocks:
                yield self._without_header(block)
                self._place = block.end
            number = self._place.file + 1
            if number >= len(self._files):
                return
            before = sum(Path(path).stat().st_size for path in self._files[:number])
            self._place = Place(line=self._place.line, file=number, before=before, files=_witness(self._files[:number]))
            self._open()

    def _without_header(self, block: Block) -> Block:
        """Return the first block of a later file without its header."""
        if block.offset or not block.end.file:
            return block
        source, path = self._source, self._files[block.end.file]
        names, rest = self._format.header(source, block)
        without: Block = rest
        first = self._format.open_file(source, self._files[0], Place(), None)
        try:
            expected = self._format.header(source, next(iter(first)))[0]
        finally:
            first.close()
        if list(names) != list(expected):
            raise SourceError(
                f"{path}: its columns are not those of {self._files[0]}: {', '.join(names[:6])} in place of "
                f"{', '.join(expected[:6])}. Give files of the same columns, in the same order."
            )
        return without


def _witness(files: Sequence[str]) -> str:
    """Return a digest of the names and sizes of files."""
    facts = [(Path(path).name, Path(path).stat().st_size) for path in files]
    return hashlib.sha256(repr(facts).encode()).hexdigest()[:DIGITS]


def first_line(first: bytes) -> bytes:
    """Return the first line that is not blank."""
    return first.lstrip().split(b"\n")[0]
