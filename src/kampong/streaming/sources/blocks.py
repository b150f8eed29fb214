"""Bytes in, blocks of whole records out: from files, pipes and growing files, plain or compressed.

A block starts where the one before ended. In a file its end depends only on its start and on the bytes themselves. So
the same file always gives the same batches, also after a stop between two blocks. A pipe gives the same ones as long as
its bytes come at once; what it holds after a second of waiting is a block too, so that answers are not late.
"""

from __future__ import annotations

import hashlib
import io
import os
import select
import stat
import time
import zlib
from dataclasses import dataclass, replace
from typing import IO, TYPE_CHECKING, Any

from kampong.streaming.errors import ResumeError, SourceError
from kampong.streaming.opening import Put, open_bytes, room_on_disk
from kampong.streaming.sources import scheme_of
from kampong.streaming.sources.learnt import CHUNK, DIGITS, WITNESS, Fingerprint, alike, digest, read_up_to
from kampong.streaming.sources.quoted_lines import MOST_BYTES, cut_at

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator, Sequence

    from kampong.files import Contents
    from kampong.streaming.sources.learnt import LearntSource

SMALLEST, LARGEST = 4 * 2**10, 4 * 2**20
GROWTH = 4  # a block is at most this part of what came before, so that early predictions come from enough rows
MAX_RECORD = 8 * 2**20
HOPELESS = 8  # a line this many times longer than the longest record is not read as a line
LARGEST_SIZE = 2**60
PAUSE = 0.2
SAMPLE = 64 * 2**10  # bytes by which it is decided what the columns are; the cells of more would take too long to read
LATE = 1.0  # seconds after which the lines that a pipe has given so far are a block
BLANK = (b"", b"\r")

GO_ON = (
    "Give the same source to finish it first; or learn the other source with another --model, and merge both models."
)


@dataclass(frozen=True)
class Place:
    """A place in a stream of bytes, and a digest by which all bytes before it are recognised.

    Attributes
    ----------
    offset : int
        Bytes before it in its file, decompressed.
    line : int
        Lines before it in its file.
    digest : str
        A digest of all these bytes.
    head : str
        A digest of the first of them, at most 4096.
    head_size : int
        How many those are.
    file : int
        Files before this one, where a source has several.
    files : str
        A digest of all bytes of those files.
    before, lines : int
        Bytes and lines that the model has learnt before this file: of those files, and of earlier sources.
    """

    offset: int = 0
    line: int = 0
    digest: str = ""
    head: str = ""
    head_size: int = 0
    file: int = 0
    files: str = ""
    before: int = 0
    lines: int = 0

    def to_state(self) -> dict[str, Any]:
        """Return the place as plain values."""
        return dict(vars(self))

    @classmethod
    def from_state(cls, contents: Contents) -> Place:
        """Return the place that `to_state` wrote."""
        offset, file = contents.whole("offset", high=LARGEST_SIZE), contents.whole("file")
        before, some = contents.whole("before", high=LARGEST_SIZE), int(offset > 0)
        contents.require(offset + before > 0, "offset and before are 0, and something was read")
        return cls(
            offset=offset,
            line=contents.whole("line", low=some, high=offset),
            digest=contents.digest("digest", some * DIGITS),
            head=contents.digest("head", some * DIGITS),
            head_size=contents.whole("head_size", low=some, high=min(WITNESS, offset)),
            file=file,
            files=contents.digest("files", DIGITS if file else 0),
            before=before,
            lines=contents.whole("lines", high=before),
        )

    def fits(self, records: int) -> bool:
        """Tell whether this many records can be before it: a line holds at most one."""
        return records <= self.lines + self.line

    @property
    def started(self) -> bool:
        """Whether something of its file is before it."""
        return self.offset > 0

    def next_source(self) -> Place:
        """Return the place where a source begins that is learnt after all this."""
        return Place(before=self.before + self.offset, lines=self.lines + self.line)

    def with_more(self, records: int) -> Place:
        """Return the same place, after more records that were learnt from no source: a line with one byte each."""
        return replace(self, before=self.before + records, lines=self.lines + records)

    def fingerprint(self) -> Fingerprint:
        """Return what the bytes before it in its file are recognised by."""
        return Fingerprint(self.offset, self.digest, self.head, self.head_size)


@dataclass(frozen=True)
class Block:
    """Whole lines, and where they are; or the first bytes of one line that is too long."""

    data: bytes
    offset: int
    line: int
    end: Place
    too_long: int = 0
    ahead: bytes = b""
    """The lines that come next, at the start of a source: they help to find what the columns are."""

    @property
    def blank(self) -> bool:
        """Whether it holds only blanks."""
        return not self.data.strip()

    @property
    def begins(self) -> bool:
        """Whether it is the first of its file."""
        return self.offset == 0

    @property
    def count(self) -> int:
        """The number of lines, blank ones included."""
        return self.end.line - self.line

    def lines(self, spans: Sequence[tuple[int, int]] = ()) -> list[tuple[int, int, bytes]]:
        """Return number, offset and bytes of every record that is not blank: a line, or what one of the spans holds."""
        found, number, at = [], self.line + 1, 0
        for start, stop in [*spans, (len(self.data), len(self.data))]:
            for line in self.data[at:start].removesuffix(b"\n").split(b"\n") if start > at else ():
                if line not in BLANK:
                    found.append((number, self.offset + at, line))
                number, at = number + 1, at + len(line) + 1
            if stop > start:
                record = self.data[start:stop].removesuffix(b"\n")
                found.append((number, self.offset + start, record))
                number, at = number + record.count(b"\n") + 1, stop
        return found

    def without_start(self, size: int) -> Block:
        """Return the block less its first bytes, which were a header."""
        line = self.line + self.data.count(b"\n", 0, size)
        return replace(self, data=self.data[size:], offset=self.offset + size, line=line)

    def sample(self) -> Block:
        """Return the block with the lines that come next, where they were read already."""
        return replace(self, data=self.data + self.ahead, ahead=b"")


class Blocks:
    """The blocks of one source, from a place on."""

    def __init__(
        self,
        path: str,
        *,
        place: Place | None = None,
        skip: bool = True,
        follow: bool = False,
        max_record: int = MAX_RECORD,
        times: int = 1,
        quoted: bytes = b"",
        stop: threading.Event | None = None,
        known: Sequence[LearntSource] = (),
    ) -> None:
        self.path, self.follow, self.max_record, self._stop = path, follow, max_record, stop
        self.recognised = False
        self._quoted = quoted  # what separates columns, where a quoted field may run over several lines
        self._smallest = times * SMALLEST
        self._file, self.compression, self._raw = open_bytes(path)
        try:
            self._start(place or Place(), skip, known)
        except BaseException:
            self.close()
            raise

    def _start(self, place: Place, skip: bool, known: Sequence[LearntSource]) -> None:
        path, follow = self.path, self.follow
        if follow and (self.compression or path == "-"):
            what = self.compression or "stdin"
            raise SourceError(f"{path}: --follow needs a plain file that grows; this is {what}.")
        self.place = place
        self._buffer, self._ended = b"", False
        self._damage: SourceError | None = None
        self._waits = not follow and not self.compression and self._is_pipe()
        self._running = hashlib.sha256()
        if self.place.offset and skip:
            self._skip()
        elif known and skip:
            self._recognise(known)

    def _is_pipe(self) -> bool:
        """Tell whether the bytes come as someone writes them."""
        if scheme_of(self.path):
            return False
        mode = os.fstat(self._descriptor()).st_mode
        return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or stat.S_ISCHR(mode)

    def _descriptor(self) -> int:
        return 0 if self.path == "-" else int(self._raw.fileno())

    def close(self) -> None:
        """Close the file."""
        self._file.close()
        self._raw.close()

    def __iter__(self) -> Iterator[Block]:
        while (block := self._next()) is not None:
            self.place = block.end
            yield block
        self.close()

    def _next(self) -> Block | None:
        wanted = min(LARGEST, max(self._smallest, (self.place.before + self.place.offset) // GROWTH))
        first, late = self.place.line <= 1, time.monotonic() + LATE  # a long header may be a block of its own
        self._fill(wanted, late=late)
        if first:
            try:
                self._fill(SAMPLE, late=late)
            except SourceError as error:  # what comes before the damage is learnt first
                self._damage = error
        cut = self._buffer.rfind(b"\n", 0, wanted) + 1
        if self._ended and len(self._buffer) <= wanted:
            cut = len(self._buffer)
        if cut == 0 and self._buffer:
            cut = self._long_line(wanted)
            if cut == 0:
                return self._too_long()
        if self._quoted and b'"' in self._buffer[:cut]:
            cut = self._whole_records(cut)
        if cut == 0:
            return None
        data, self._buffer = self._buffer[:cut], self._buffer[cut:]
        self._running.update(data)
        ahead = self._buffer[: self._buffer.rfind(b"\n", 0, SAMPLE) + 1] if first else b""
        end = self._after(data, len(data), _lines(data))
        return Block(data, self.place.offset, self.place.line, end, ahead=ahead)

    def _whole_records(self, end: int) -> int:
        """Return where to cut before the end of a line, so that a record of several lines stays whole."""
        most = min(self.max_record, MOST_BYTES)
        while True:
            cut, decided = cut_at(self._buffer, end, self._quoted, final=self._ended or self._stopped(), most=most)
            if decided or (cut and (self.follow or self._waits)):
                return cut
            size = len(self._buffer)
            self._fill(size + WITNESS, more=True)
            if len(self._buffer) == size and self.follow and not self._stopped():
                self._wait(size)

    def _fill(self, wanted: int, *, late: float | None = None, more: bool = False) -> None:
        """Read until this many bytes are here or the stream ends.

        A followed file ends when it holds whole lines, and a pipe when it is late; `more` asks for at least one byte.
        """
        if len(self._buffer) >= wanted:
            return
        parts, size = [self._buffer], len(self._buffer)
        try:
            while size < wanted and not self._ended:
                if late is not None and self._waits and not self._comes(late) and any(b"\n" in one for one in parts):
                    break
                part = self._read(wanted - size)
                parts.append(part)
                size += len(part)
                if part:
                    if more and self._waits:
                        break
                    continue
                if not self.follow:
                    self._ended = True
                elif self._stopped() or any(b"\n" in one for one in parts):
                    break
                else:
                    self._wait(size)
        finally:
            self._buffer = b"".join(parts)

    def _comes(self, late: float) -> bool:
        """Wait until a pipe has bytes, or until it is late; tell whether it has some."""
        if isinstance(self._raw, Put) and self._raw.waiting:
            return True
        return bool(select.select([self._descriptor()], [], [], max(late - time.monotonic(), 0.0))[0])

    def _stopped(self) -> bool:
        return self._stop is not None and self._stop.is_set()

    def _wait(self, size: int) -> None:
        if os.fstat(self._file.fileno()).st_size < self.place.offset + size:
            raise SourceError(f"{self.path}: the followed file has become shorter. Was it replaced? Start a new model.")
        time.sleep(PAUSE)

    def _read(self, size: int) -> bytes:
        if self._damage is not None:
            raise self._damage
        try:
            return bytes(self._file.read(size) or b"")
        except (OSError, EOFError, zlib.error) as error:
            where = self.place.offset + len(self._buffer)
            raise SourceError(
                f"{self.path}: reading stopped after {where:,} bytes: {error}. The file is damaged or cut short; what "
                "came before is learnt. Repair the file and start again: the run goes on from there."
            ) from None

    def _long_line(self, seen: int) -> int:
        """Return where the first line ends, or 0 if it is longer than a record may be."""
        while True:
            cut = self._buffer.find(b"\n", seen) + 1
            if 0 < cut <= self.max_record + 1:
                return cut
            seen = len(self._buffer)
            if cut or seen > self.max_record:
                return 0
            self._fill(min(2 * seen, self.max_record + 1))
            if len(self._buffer) == seen:
                return seen if self._ended else 0

    def _too_long(self) -> Block | None:
        """Pass over a line that is longer than a record may be; keep its first bytes."""
        if self.follow and len(self._buffer) <= self.max_record:
            return None
        start, size = self._buffer[:WITNESS], 0
        while True:
            cut = self._buffer.find(b"\n") + 1
            part = self._buffer[:cut] if cut else self._buffer
            size += len(part)
            self._running.update(part)
            self._buffer = self._buffer[len(part) :]
            if cut:
                break
            if size > HOPELESS * self.max_record:
                raise SourceError(
                    f"{self.path}: line {self.place.line + 1:,} has no end within {size:,} bytes. Is this the right "
                    "format? --max-record-bytes allows longer records."
                )
            self._fill(LARGEST)
            if not self._buffer:
                break
        return Block(start, self.place.offset, self.place.line, self._after(start, size, 1), too_long=size)

    def _after(self, first: bytes, size: int, lines: int) -> Place:
        place = self.place
        if place.offset == 0:
            place = replace(place, head=digest(first[:WITNESS]), head_size=min(WITNESS, len(first)))
        return replace(place, offset=place.offset + size, line=place.line + lines, digest=self._digest())

    def _digest(self) -> str:
        return self._running.hexdigest()[:DIGITS]

    def _skip(self) -> None:
        """Go to the place, and check that the bytes before it are those that were read then."""
        place, left, last = self.place, self.place.offset, b""
        while left and (part := self._read(min(left, CHUNK))):
            self._running.update(part)
            left, last = left - len(part), part
        if left:
            raise ResumeError(
                f"{self.path}: the source is shorter than the {place.offset:,} bytes already learnt. {GO_ON}"
            )
        if self._digest() != place.digest:
            raise ResumeError(
                f"{self.path}: the source is not the one this model was learnt from (its first {place.offset:,} bytes "
                f"differ). {GO_ON}"
            )
        if self.follow:
            self._check_last_line(last)

    def _recognise(self, known: Sequence[LearntSource]) -> None:
        """Go to the end of the longest source learnt before that the bytes begin with; else to their start."""
        kept = room_on_disk() if self.path == "-" or not self._raw.seekable() else None
        start, running, at, lines, last = self.place, self._running.copy(), 0, 0, b""
        waiting = read_up_to(self._file, WITNESS)
        for one in alike(known, waiting):
            while at < one.size and (part := waiting[: one.size - at] or self._read(min(one.size - at, CHUNK))):
                waiting = waiting[len(part) :]
                running.update(part)
                at, lines, last = at + len(part), lines + part.count(b"\n"), part
                if kept is not None:
                    kept.write(part)
            if at == one.size and running.hexdigest()[:DIGITS] == one.digest:
                self._running, self.recognised = running.copy(), True
                lines_here = lines + (not last.endswith(b"\n"))
                rest = max(start.before - at, 0), max(start.lines - lines_here, 0)  # a file may have grown twice
                self.place = replace(start, before=rest[0], lines=rest[1], offset=at, line=lines_here)
                self.place = replace(self.place, digest=one.digest, head=one.head, head_size=one.head_size)
                end = last
        self._go_to(self.place.offset, kept, waiting)
        if self.recognised:
            self._check_last_line(end)

    def _go_to(self, offset: int, kept: IO[bytes] | None, waiting: bytes) -> None:
        """Read on from an offset: what was read of a pipe is in a file, and in what waits after it."""
        if kept is not None:
            kept.seek(0, io.SEEK_END)
            kept.write(waiting)
            kept.seek(offset)
            self._file = Put(kept, self._file)
            self._raw = self._file if self._waits else self._raw
        elif self.compression:
            self.close()
            self._file, _, self._raw = open_bytes(self.path)
            while offset and (part := self._read(min(offset, CHUNK))):
                offset -= len(part)
        else:
            self._file.seek(offset)

    def _check_last_line(self, last: bytes) -> None:
        """Refuse a line that was learnt before its end had come."""
        if last.endswith(b"\n"):
            return
        following = self._read(1)
        self._buffer = following
        if following not in (b"", b"\n"):
            raise ResumeError(
                f"{self.path}: the last line had no end when it was learnt, and has grown since. Start a new model."
            )


def _lines(data: bytes) -> int:
    return data.count(b"\n") + (not data.endswith(b"\n"))
