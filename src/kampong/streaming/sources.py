"""Sources: a path and what is known of it, opened at a place, read ahead on other threads, batch by batch in order."""

from __future__ import annotations

import dataclasses
import itertools
import queue
import re
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kampong._runtime.threads import available_threads
from kampong.streaming import delimited, json_lines, libsvm, tables
from kampong.streaming.blocks import Block, Blocks, Place, open_bytes
from kampong.streaming.errors import SourceError
from kampong.streaming.schema import FORMATS, Layout, Schema
from kampong.streaming.tables import Slice, TablePlace, Tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from kampong.streaming.records import Batch

ENDINGS = {
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".svm": "libsvm",
    ".libsvm": "libsvm",
    ".svmlight": "libsvm",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "arrow",
    ".ipc": "arrow",
    ".feather": "arrow",
}
PAIRS = re.compile(rb"\s*[+-]?[0-9.eE+-]+(\s+[0-9]+:\S+)+\s*(#.*)?\r?")
AHEAD = 2  # batches read ahead, a thread
PATIENCE = 0.2  # seconds until a request to stop is noticed while a pipe is silent


@dataclasses.dataclass(frozen=True)
class Source:
    r"""A labelled stream: where it is, and what is known of its columns.

    Parameters
    ----------
    path : str
        A file, a folder of Parquet files, or "-" for stdin. gzip and Zstandard are recognised by their first bytes.
    layout : Layout
        The label, the format and other facts; what is not said is found in the first block.
    follow : bool
        Whether to wait for more at the end of the file.
    live : bool
        Whether stdin is a feed that cannot be replayed: a resumed run then learns what comes, and skips nothing.

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
    [[1.0, 2.0], [3.0, 4.0]] ['a', 'b'] column 'y' holds 'oops', which is no number
    """

    path: str
    layout: Layout = dataclasses.field(default_factory=Layout)
    follow: bool = False
    live: bool = False

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
            What the columns are; found in the first block where it is not given.
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
        name = self.format() if schema is None or apply else schema.format
        if self.follow and name in ("parquet", "arrow"):
            raise SourceError(f"{self.path}: --follow needs lines of text; {name} files do not grow line by line.")
        if name in ("parquet", "arrow"):
            return self._open_tables(name, schema, place, classes, apply, stop)
        return self._open_lines(name, schema, place, classes, apply, stop)

    def format(self) -> str:
        """Return the format that was stated, or that the name and the first bytes show."""
        stated = self.layout.format
        if stated != "auto":
            if stated not in FORMATS:
                raise SourceError(f"--format {stated!r} is unknown. Use one of {', '.join(FORMATS)}.")
            return stated
        if self.path == "-":
            raise SourceError("stdin has no name to tell its format by. State it, for instance with --format csv.")
        path = Path(self.path)
        if path.is_dir():
            return "parquet"
        endings = [ending.lower() for ending in path.suffixes if ending.lower() not in (".gz", ".zst")]
        if endings and endings[-1] in ENDINGS:
            return ENDINGS[endings[-1]]
        return self._sniff()

    def _sniff(self) -> str:
        file, _, raw = open_bytes(self.path)
        with raw, file:
            first = bytes(file.read(2**16) or b"")
        if first.startswith((b"PAR1", b"ARROW1")):
            return "parquet" if first.startswith(b"PAR1") else "arrow"
        line = first.lstrip().split(b"\n")[0]
        if line.startswith(b"{"):
            return "jsonl"
        return "libsvm" if PAIRS.fullmatch(line) else "csv"

    def _open_tables(
        self, name: str, schema: Schema | None, place: Any, classes: Any, apply: bool, stop: threading.Event | None
    ) -> Stream:
        parts: Any = Tables(self.path, name, place=TablePlace(**place) if place else None)
        rest: Iterator[Slice] = iter(parts)
        if schema is None or apply:
            first = next(rest, None)
            if first is None:
                raise SourceError(f"{self.path}: the source holds no record.")
            if schema is None:
                schema = tables.describe(self.layout, name, first, self.path, classes)
            else:
                schema = schema.of_columns(list(first.table.schema.names), self.path)
            rest = itertools.chain([first], rest)
        return Stream(schema, rest, tables.parse, parts, stop)

    def _open_lines(
        self, name: str, schema: Schema | None, place: Any, classes: Any, apply: bool, stop: threading.Event | None
    ) -> Stream:
        blocks = Blocks(
            self.path,
            place=Place(**place) if place else None,
            skip=not self.live,
            follow=self.follow,
            max_record=self.layout.max_record_bytes,
            times=16 if name == "libsvm" else 1,  # a batch of wide rows costs its width, however few they are
            stop=stop,
        )
        rest: Iterator[Block] = iter(blocks)
        if place is None:
            try:
                schema, rest = self._first_block(name, schema, classes, apply, rest)
            except BaseException:
                blocks.close()
                raise
        assert schema is not None
        parsers = {"jsonl": json_lines.parse, "libsvm": libsvm.parse}
        return Stream(schema, rest, parsers.get(name, delimited.parse), blocks, stop)

    def _first_block(
        self, name: str, schema: Schema | None, classes: Any, apply: bool, rest: Iterator[Block]
    ) -> tuple[Schema, Iterator[Block]]:
        """Read the header and enough to know the columns; return the schema and the blocks still to parse."""
        layout, source = self.layout, self.path
        block = next(rest, None)
        if block is None:
            raise SourceError(f"{source}: the source holds no record.")
        columns: list[str] = []
        if name in ("csv", "tsv"):
            if block.too_long:
                raise SourceError(f"{source}: the first line has {block.too_long:,} bytes. Is this CSV?")
            delimiter = layout.delimiter or ("\t" if name == "tsv" else ",")
            columns = delimited.columns_of(block.data.split(b"\n")[0], delimiter, layout.header, source)
            if layout.header:
                block = block.without_first_line()
        while not block.data.strip() and (more := next(rest, None)) is not None:
            block = more
        if not block.data.strip() and not apply:
            raise SourceError(f"{source}: the source holds no record.")
        if schema is not None:
            schema = _for_source(schema, name, columns, layout, source)
        elif name == "jsonl":
            schema = json_lines.describe(layout, block, source, classes)
        elif name == "libsvm":
            schema = libsvm.describe(layout, block, source, classes)
        else:
            schema = delimited.describe(layout, name, columns, block, source, classes)
        return schema, itertools.chain([block], rest)


def _for_source(schema: Schema, name: str, columns: list[str], layout: Layout, source: str) -> Schema:
    """Return a model's schema for a source of perhaps another format or order."""
    if (name == "libsvm") != (schema.format == "libsvm"):
        raise SourceError(f"{source}: the model was learnt from {schema.format}, and {name} has other columns.")
    if name == "libsvm":
        return dataclasses.replace(schema, zero_based=layout.zero_based or schema.zero_based, label=None)
    if name == "jsonl":
        features = (*schema.numbers, *schema.categories, *schema.texts)
        return dataclasses.replace(schema, format=name, columns=features, label=None)
    if not layout.header:
        wanted = [one for one in schema.columns if one != schema.label]
        if len(columns) == len(schema.columns):
            wanted = list(schema.columns)
        if len(columns) != len(wanted):
            raise SourceError(f"{source}: {len(columns)} columns, where the model was learnt from {len(wanted)}.")
        columns = wanted
    delimiter = layout.delimiter or ("\t" if name == "tsv" else ",")
    fitting = schema.of_columns(columns, source)
    return dataclasses.replace(fitting, format=name, delimiter=delimiter, label=None)


class Stream:
    """An open source: iterate over its batches, each with the place after it; read and parsed ahead, in order."""

    def __init__(
        self,
        schema: Schema,
        parts: Iterable[Any],
        parse: Callable[[Schema, Any], Batch],
        opened: Blocks | Tables,
        stop: threading.Event | None = None,
    ) -> None:
        self.schema, self._stop = schema, stop
        self._parts, self._parse, self._opened = parts, parse, opened
        self._closed, self._reading = threading.Event(), False

    def close(self) -> None:
        """Stop reading; the thread that reads closes the file when it has noticed."""
        self._closed.set()
        if not self._reading:
            self._opened.close()

    def __iter__(self) -> Iterator[Batch]:
        threads, self._reading = max(1, available_threads()), True
        waiting: queue.Queue[Future[Batch] | BaseException | None] = queue.Queue(AHEAD * threads)
        with ThreadPoolExecutor(threads) as pool:
            # A daemon: it may wait for a pipe for ever, and must not keep the process alive.
            threading.Thread(target=self._read, args=(pool, waiting), daemon=True).start()
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
        """Return what was read next; None at the end, or when asked to stop while nothing comes."""
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
        if not self._closed.is_set():
            waiting.put(last)
        self._opened.close()

    def _one(self, part: Block | Slice) -> Batch:
        batch = self._parse(self.schema, part)
        batch.place = dataclasses.asdict(part.end)
        return batch
