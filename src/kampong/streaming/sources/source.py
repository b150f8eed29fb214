"""Sources: a path and what is known of it; other threads read ahead from a place, and batches come in order."""

from __future__ import annotations

import dataclasses
import itertools
import os
import queue
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kampong._core.compute import available_threads
from kampong._core.loops import expect_rows
from kampong.streaming import formats, sources
from kampong.streaming.columns.schema import Layout, Schema, some
from kampong.streaming.errors import EmptySourceError, SourceError
from kampong.streaming.opening import ZSTD, first_of_stdin, open_bytes
from kampong.streaming.sources.address import Address, check_address
from kampong.streaming.sources.blocks import GROWTH, SMALLEST

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from kampong.streaming.columns.records import Batch
    from kampong.streaming.formats.format import Format, Opened, Part
    from kampong.streaming.sources.kind import Kind
    from kampong.streaming.sources.learnt import LearntSource

COMPRESSED = (".gz", ".zst")
AHEAD = 2  # batches that each thread reads ahead
LONGEST_CALL = 10.0  # seconds that a server may take to answer while the stream is closed
PATIENCE = 0.2  # seconds until a request to stop is noticed while a pipe is silent


@dataclasses.dataclass(frozen=True)
class Source:
    r"""A labelled stream: where it is, and what is known of its columns.

    Parameters
    ----------
    path : str or path
        A file, a folder of files of one format, "-" for stdin, or an address such as "redis://host/stream": `kampong
        sources` lists them. gzip and Zstandard are recognised by their first bytes.
    layout : Layout
        The label, the format and other facts; the rest is found in the first records.
    follow : bool
        Whether to wait for more at the end of the source.
    live : bool
        Whether stdin is a feed that cannot be replayed. A resumed run then skips nothing.
    more : tuple of str or path
        Further files of the same format and columns, which are read after the first, in this order.
    untrusted : bool
        Whether the bytes may be made to do harm. Tables are then read in a process of their own, with limits, and
        formats that are not known to withstand any bytes are refused.
    known : tuple of LearntSource, optional
        What was learnt before: such files are left out, and one that has grown since goes on where it ended. By default
        every file is read.
    query : str
        A query whose rows are learnt, in place of a whole table.
    order_by : str
        The columns that a table is ordered by, such as "id" or "day,id". No two rows may have the same values.
    field : str
        The field of a message that holds the record, where messages have fields.
    start : {"", "earliest", "latest"}
        Where to begin a stream of messages that was not read before, or whose place its server has dropped. By default
        the first begins with the earliest message, and the second is an error.

    See Also
    --------
    learn : Learns from a source.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "points.csv"
    >>> _ = path.write_text("x,y,kind\n1,2,a\n3,4,b\n5,oops,b\n")
    >>> source = Source(str(path), Layout(label="kind"))
    >>> for batch in source.open():
    ...     print(batch.X.tolist(), batch.y.tolist(), batch.dead[0].reason)
    [[1.0, 2.0], [3.0, 4.0]] ['a', 'b'] column 'y' holds 'oops', which is not a number
    """

    path: str
    layout: Layout = dataclasses.field(default_factory=Layout)
    follow: bool = False
    live: bool = False
    more: tuple[str, ...] = ()
    untrusted: bool = False
    known: tuple[LearntSource, ...] | None = None
    query: str = ""
    order_by: str = ""
    field: str = ""
    start: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", os.fspath(self.path))
        object.__setattr__(self, "more", tuple(map(os.fspath, self.more)))
        for path in filter(sources.scheme_of, (self.path, *self.more)):
            check_address(path)  # before anything keeps the path, or prints it

    @property
    def kind(self) -> Kind:
        """The kind of the source."""
        return sources.kind_of(self.path)

    @property
    def name(self) -> str:
        """The paths, for messages."""
        return ", ".join((self.path, *self.more))

    def files(self, wanted: Format) -> list[str]:
        """Return all files in the order in which they are read: those of a folder by name."""
        if self.more and "-" in (self.path, *self.more):
            raise SourceError(f"{self.name}: stdin cannot be read together with files. Give files only.")
        found: list[str] = []
        for path in (self.path, *self.more):
            listing = sources.kind_of(path).listing(path)
            found += [path] if listing is None else _of_format(listing, wanted, path)
        return found

    def open(
        self,
        *,
        schema: Schema | None = None,
        place: Mapping[str, Any] | None = None,
        classes: Sequence[Any] = (),
        stop: threading.Event | None = None,
        apply: bool = False,
    ) -> Stream:
        """Open the source.

        Parameters
        ----------
        schema : Schema, optional
            What the columns are; by default this is found in the first block.
        place : mapping, optional
            Where to start, as `Stream.place` gave it.
        classes : sequence
            The only labels allowed, where they are known.
        stop : threading.Event, optional
            Ends the wait for more of a followed file.
        apply : bool
            Whether the schema is that of a model which is to be applied: columns are matched by name, and the label
            may be absent.

        Returns
        -------
        Stream
            An iterable of batches.
        """
        kind = self.kind
        kind.check(self)
        chosen = formats.get(self.format() if schema is None or apply else schema.format)
        if self.follow and not kind.can_follow(chosen):
            raise SourceError(
                f"{self.path}: --follow needs lines of text; {chosen.name} files do not grow line by line."
            )
        if self.untrusted and not chosen.from_strangers:
            raise SourceError(
                f"{self.path}: --untrusted allows formats that withstand any bytes, and {chosen.name} does not say so "
                "(`from_strangers`). Convert the file to CSV or JSON lines."
            )
        if not self._is_short():
            expect_rows()
        closed = threading.Event()
        opened = kind.open(self, chosen, place, Either(stop, closed) if kind.has_address else stop)
        try:
            parts = iter(opened)
            if schema is None or apply:
                schema, columns, first = self._begin(chosen, parts, schema, classes)
                parts = itertools.chain([first], self._bodies(chosen, parts, columns, schema))
            else:
                parts = self._bodies(chosen, parts, schema.columns, schema, goes_on=True)
        except BaseException:
            opened.close()
            raise
        return Stream(schema, parts, kind.parser(chosen), opened, stop, closed, waits=kind.has_address)

    def _is_short(self) -> bool:
        """Tell whether it is files whose first few blocks hold everything."""
        files = [Path(one) for one in (self.path, *self.more)]
        return all(one.is_file() for one in files) and sum(one.stat().st_size for one in files) <= GROWTH * SMALLEST

    def inputs(self) -> dict[str, list[str]]:
        """Return the files that are read, by the name that a message gives them."""
        return {"the source": self.kind.inputs(self)}

    def endings(self) -> tuple[str, ...]:
        """Return how the files of a folder end; () for a source that is no folder."""
        if not any(path != "-" and Path(path).is_dir() for path in (self.path, *self.more)):
            return ()
        return tuple(one + more for one in formats.get(self.format()).endings for more in ("", *COMPRESSED))

    def format(self) -> str:
        """Return the format that was stated, or that the name and the first bytes show."""
        if found_by_kind := self.kind.format(self):
            return found_by_kind
        if self.layout.format != "auto":
            return formats.get(self.layout.format).name
        if self.path == "-":
            return self._format_of_stdin()
        path, known, listing = self.path, formats.latest_first(), self.kind.listing(self.path)
        if listing is not None:
            found = [one for one in known if _of_format(listing, one)]
            if not found:
                raise SourceError(f"{path}: the folder holds no file of a known format: {', '.join(formats.names())}.")
            if len(found) > 1:
                names = " and ".join(one.name for one in found)
                raise SourceError(f"{path}: the folder holds files of {names}. State which with --format.")
        else:
            suffixes = Path(_plain(path)).suffixes
            endings = [ending.lower() for ending in suffixes if ending.lower() not in COMPRESSED]
            found = [one for one in known if endings and endings[-1] in one.endings] or self._recognised(known)
        if not found:
            raise SourceError(f"{path}: its format is not known. State it with --format: {', '.join(formats.names())}.")
        return found[0].name

    def _format_of_stdin(self) -> str:
        """Return the format of lines that the first bytes of stdin show; those of a feed are not waited for."""
        if self.live:
            raise SourceError("--live: the first bytes of a feed are not waited for. State its format with --format.")
        first = first_of_stdin()
        text = b"\0" not in first and not first.startswith(ZSTD)
        known = [one for one in formats.latest_first() if one.can_grow]
        found = [one for one in known if text and first.strip() and one.recognises(first)]
        if not found:
            raise SourceError(
                "stdin has no file name that shows its format, and its first bytes do not show one. State it, for "
                f"instance with --format {formats.names()[0]}."
            )
        return found[0].name

    def _recognised(self, known: Sequence[Format]) -> list[Format]:
        file, _, raw = open_bytes(self.path)
        with raw, file:
            first = bytes(file.read(2**16) or b"")
        return [one for one in known if one.recognises(first)]

    def _begin(
        self, chosen: Format, parts: Iterator[Part], schema: Schema | None, classes: Sequence[Any]
    ) -> tuple[Schema, Sequence[str], Part]:
        """Read the header and enough to know the columns; return the schema, the columns and the first records."""
        first = next(parts, None)
        if first is None:
            raise EmptySourceError(f"{self.path}: the source holds no record. Give one with a row of data at least.")
        columns, first = chosen.header(self, first)
        while first.blank and (more := next(parts, None)) is not None:
            first = more
        if schema is not None:
            return chosen.fit(self, schema, columns), columns, first
        if first.blank:
            raise EmptySourceError(f"{self.path}: the source holds no record. Give one with a row of data at least.")
        return chosen.describe(self, columns, first.sample(), classes), columns, first

    def _bodies(
        self, chosen: Format, parts: Iterator[Part], expected: Sequence[str], schema: Schema, *, goes_on: bool = False
    ) -> Iterator[Part]:
        """Yield parts without the headers of their files, which must all be the same."""
        for number, part in enumerate(parts):
            if self.live and goes_on and number == 0:  # a feed that is taken up again may have a header or none
                names, body = chosen.header(self, part)
                meant = list(names) == list(expected) or bool(set(names) & set(expected))
            else:
                names, body = chosen.header(self, part) if part.begins else ([], part)
                meant = bool(names)
            if meant:
                self._check_header(chosen, part, names, expected, schema, goes_on)
            yield body if meant else part

    def _check_header(
        self, chosen: Format, part: Part, names: Sequence[str], expected: Sequence[str], schema: Schema, goes_on: bool
    ) -> None:
        files = self.files(chosen)
        path = files[getattr(part.end, "file", 0)]
        others = "those that the model was learnt from" if goes_on else f"those of {files[0]}"
        if list(names) != list(expected):
            raise SourceError(
                f"{path}: its columns are not {others}: {_difference(names, expected)}. Give files of the same "
                "columns, in the same order."
            )
        delimiter = getattr(names, "delimiter", schema.delimiter)
        if delimiter != schema.delimiter:
            raise SourceError(
                f"{path}: its columns are separated by {delimiter!r}, and {others} by {schema.delimiter!r}. Convert it."
            )


def _difference(names: Sequence[str], expected: Sequence[str]) -> str:
    """Return in words how the columns of a file differ from others."""
    missing, new = [one for one in expected if one not in names], [one for one in names if one not in expected]
    found = {"missing": missing, "new": new}
    said = [f"{word}: {some(map(repr, columns))}" for word, columns in found.items() if columns]
    return "; ".join(said) or f"they come in another order ({some(names)} in place of {some(expected)})"


def _of_format(listing: Sequence[str], wanted: Format, folder: str = "") -> list[str]:
    """Return the files of a format among those of a folder; hidden ones are left out. `folder` is one that has some."""
    endings = tuple(one + more for one in wanted.endings for more in ("", *COMPRESSED))
    found = []
    for one in listing:
        name = _plain(one).replace(os.sep, "/").rpartition("/")[2]
        if name.lower().endswith(endings) and not name.startswith((".", "_")):
            found.append(one)
    if folder and not found:
        raise SourceError(f"{folder}: the folder holds no {wanted.name} file (*{wanted.endings[0]}).")
    return found


def _plain(path: str) -> str:
    """Return a path, or that of an address."""
    return Address.of(path).path if sources.scheme_of(path) else path


class Either(threading.Event):
    """An event that is set when one of two is."""

    def __init__(self, one: threading.Event | None, other: threading.Event) -> None:
        super().__init__()
        self._events = [event for event in (one, other) if event is not None]

    def is_set(self) -> bool:
        """Tell whether one of them is set."""
        return any(event.is_set() for event in self._events)


class Stream:
    """An open source: iterate over its batches, each with the place after it; read and parsed ahead, in order."""

    def __init__(
        self,
        schema: Schema,
        parts: Iterable[Part],
        parse: Callable[[Schema, Any], Batch],
        opened: Opened,
        stop: threading.Event | None,
        closed: threading.Event,
        *,
        waits: bool,
    ) -> None:
        self.schema, self._stop = schema, stop
        self._parts, self._parse, self._opened = parts, parse, opened
        self._closed, self._waits = closed, waits
        self._reader: threading.Thread | None = None

    @property
    def skipped(self) -> list[str]:
        """The files that were learnt before, and left out."""
        return list(getattr(self._opened, "skipped", ()))

    def saved(self, place: Mapping[str, Any] | None) -> None:
        """Tell a source that shows it how far a model has come that was saved."""
        tell = getattr(self._opened, "saved", None)
        if place is not None and tell is not None:
            tell(place)

    def close(self) -> None:
        """Stop reading; the thread that reads closes the source when it has noticed.

        A client of a server must not be at work when the process ends, so it is waited for; a pipe may be silent for
        ever.
        """
        self._closed.set()
        if self._reader is None:
            self._opened.close()
        elif self._waits:
            self._reader.join(LONGEST_CALL)

    def __iter__(self) -> Iterator[Batch]:
        threads = max(1, available_threads())
        waiting: queue.Queue[Future[Batch] | BaseException | None] = queue.Queue(AHEAD * threads)
        with ThreadPoolExecutor(threads) as pool:
            # A daemon thread: it may wait for a pipe for ever, and must not keep the process alive.
            self._reader = threading.Thread(target=self._read, args=(pool, waiting), daemon=True)
            self._reader.start()
            try:
                while (item := self._next(waiting)) is not None:
                    if isinstance(item, BaseException):
                        raise item
                    yield item.result()
            finally:
                self._closed.set()
                while not waiting.empty():  # a reader that waits for room sees that it is closed
                    waiting.get_nowait()

    def _next(self, waiting: queue.Queue[Any]) -> Any:
        """Return what was read next; None at the end, or on a request to stop while nothing comes."""
        while True:
            try:
                return waiting.get(timeout=PATIENCE)
            except queue.Empty:
                if self._stop is not None and self._stop.is_set():
                    return None

    def _read(self, pool: ThreadPoolExecutor, waiting: queue.Queue[Any]) -> None:
        last: Any = None
        try:
            for part in self._parts:
                if self._closed.is_set():
                    break
                waiting.put(pool.submit(self._one, part))
        except BaseException as error:
            last = error
        self._opened.close()
        if not self._closed.is_set():
            waiting.put(last)

    def _one(self, part: Part) -> Batch:
        batch = self._parse(self.schema, part)
        batch.place = part.end.to_state()
        return batch
