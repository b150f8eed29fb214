"""Bytes in, blocks of whole records out: from files, pipes and growing files, plain or compressed.

A block starts where the one before ended. In a file its end depends only on its start and on the bytes themselves. So
the same file always gives the same batches, also after a stop between two blocks. A pipe gives the same ones as long as
its bytes come at once; what it holds after a second of waiting is a block too, so that answers are not late.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import select
import stat
import time
import zlib
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any

from kampong.streaming.errors import ResumeError, SourceError
from kampong.streaming.quotes import MOST_BYTES, cut_at

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator, Sequence

    from kampong.checkpoint import Contents

SMALLEST, LARGEST = 4 * 2**10, 4 * 2**20
GROWTH = 4  # a block is at most this part of what came before, so that early predictions come from enough rows
MAX_RECORD = 8 * 2**20
HOPELESS = 8  # a line this many times longer than the longest record is not read as a line
WITNESS = 4096
DIGITS = 32  # of a digest that is a witness
LARGEST_SIZE = 2**60
PAUSE = 0.2
LATE = 1.0  # seconds after which the lines that a pipe has given so far are a block
BLANK = (b"", b"\r")

GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


@dataclass(frozen=True)
class Place:
    """A place in a stream of bytes, and digests by which the bytes before it are recognised.

    Attributes
    ----------
    offset : int
        Bytes before it, of the decompressed stream.
    line : int
        Lines before it.
    head, tail : str
        Digests of the first and of the last bytes before it, at most 4096 each.
    head_size, tail_size : int
        How many bytes those are.
    file : int
        Files before this one, where a source has several; offsets count from the start of the file.
    before : int
        Bytes of those files, as they are on the disk.
    files : str
        A digest of their names and sizes.
    """

    offset: int = 0
    line: int = 0
    head: str = ""
    head_size: int = 0
    tail: str = ""
    tail_size: int = 0
    file: int = 0
    before: int = 0
    files: str = ""

    def to_state(self) -> dict[str, Any]:
        """Return the place as plain values."""
        return dict(vars(self))

    @classmethod
    def from_state(cls, contents: Contents) -> Place:
        """Return the place that `to_state` wrote."""
        offset, file = contents.whole("offset", low=1), contents.whole("file")
        most = min(WITNESS, offset)
        before = contents.whole("before", high=LARGEST_SIZE if file else 0)
        return cls(
            file=file,
            before=before,
            files=contents.digest("files", DIGITS if file else 0),
            offset=offset,
            line=contents.whole("line", low=1, high=LARGEST_SIZE if file else offset),
            head=contents.digest("head", DIGITS),
            head_size=contents.whole("head_size", low=1, high=most),
            tail=contents.digest("tail", DIGITS),
            tail_size=contents.whole("tail_size", low=1, high=most),
        )

    def fits(self, records: int) -> bool:
        """Tell whether so many records can be before it: a line holds at most one."""
        return records <= self.line


@dataclass(frozen=True)
class Block:
    """Whole lines, and where they are; or the first bytes of one line that is too long."""

    data: bytes
    offset: int
    line: int
    end: Place
    too_long: int = 0

    @property
    def blank(self) -> bool:
        """Whether it holds only blanks."""
        return not self.data.strip()

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
        return Block(self.data[size:], self.offset + size, self.line + self.data.count(b"\n", 0, size), self.end)


def open_bytes(path: str) -> tuple[Any, str, Any]:
    """Open a file, or stdin for "-"; return it decompressed, how it was compressed, and the file itself to close."""
    try:
        raw: Any = io.FileIO(0, closefd=False) if path == "-" else io.FileIO(path)
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror}. Give a file that can be read, or - for stdin.") from None
    if path != "-" and raw.seekable():
        start = raw.read(4)
        raw.seek(0)
    else:
        start = _read_up_to(raw, 4)
        raw = _Put(start, raw)
    if start.startswith(GZIP):
        return gzip.GzipFile(fileobj=io.BufferedReader(raw, 2**18)), "gzip", raw
    if start.startswith(ZSTD):
        from kampong.streaming.arrow import pa

        return pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), "zstd"), "zstd", raw
    return raw, "", raw


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
    ) -> None:
        self.path, self.follow, self.max_record, self._stop = path, follow, max_record, stop
        self._quoted = quoted  # what separates columns, where a quoted field may run over several lines
        self._smallest = times * SMALLEST
        self._file, self.compression, self._raw = open_bytes(path)
        try:
            self._start(place or Place(), skip)
        except BaseException:
            self.close()
            raise

    def _start(self, place: Place, skip: bool) -> None:
        path, follow = self.path, self.follow
        if follow and (self.compression or path == "-"):
            what = self.compression or "stdin"
            raise SourceError(f"{path}: --follow needs a plain file that grows; this is {what}.")
        self.place = place
        self._buffer, self._ended = b"", False
        self._waits = not follow and not self.compression and self._is_pipe()
        if self.place.offset and skip:
            self._skip()

    def _is_pipe(self) -> bool:
        """Tell whether the bytes come as someone writes them."""
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
        self._fill(wanted, late=time.monotonic() + LATE)
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
        lines = data.count(b"\n") + (not data.endswith(b"\n"))
        return Block(data, self.place.offset, self.place.line, self._after(data, data, len(data), lines))

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
        """Read until so many bytes are here or the stream ends.

        A followed file ends when it holds whole lines, and a pipe when it is late; `more` asks for at least one byte.
        """
        if len(self._buffer) >= wanted:
            return
        parts, size = [self._buffer], len(self._buffer)
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
        self._buffer = b"".join(parts)

    def _comes(self, late: float) -> bool:
        """Wait until a pipe has bytes, or until it is late; tell whether it has some."""
        if isinstance(self._raw, _Put) and self._raw.waiting:
            return True
        return bool(select.select([self._descriptor()], [], [], max(late - time.monotonic(), 0.0))[0])

    def _stopped(self) -> bool:
        return self._stop is not None and self._stop.is_set()

    def _wait(self, size: int) -> None:
        if os.fstat(self._file.fileno()).st_size < self.place.offset + size:
            raise SourceError(f"{self.path}: the followed file has become shorter. Was it replaced? Start a new model.")
        time.sleep(PAUSE)

    def _read(self, size: int) -> bytes:
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
        start, size, last = self._buffer[:WITNESS], 0, b""
        while True:
            cut = self._buffer.find(b"\n") + 1
            part = self._buffer[:cut] if cut else self._buffer
            size, last = size + len(part), (last + part[-WITNESS:])[-WITNESS:]
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
        return Block(start, self.place.offset, self.place.line, self._after(start, last, size, 1), too_long=size)

    def _after(self, first: bytes, last: bytes, size: int, lines: int) -> Place:
        place, tail = self.place, last[-WITNESS:]
        head, head_size = place.head, place.head_size
        if place.offset == 0:
            head, head_size = _digest(first[:WITNESS]), min(WITNESS, len(first))
        rest = place.file, place.before, place.files
        return Place(place.offset + size, place.line + lines, head, head_size, _digest(tail), len(tail), *rest)

    def _skip(self) -> None:
        """Go to the place, and check that the bytes before it are those that were read then."""
        place = self.place
        if self.path != "-" and not self.compression:
            head = _read_up_to(self._file, place.head_size)
            self._file.seek(place.offset - place.tail_size)
            tail = _read_up_to(self._file, place.tail_size)
        else:
            head, tail = self._read_through(place)
        if len(tail) < place.tail_size:
            raise ResumeError(
                f"{self.path}: the source is shorter than the {place.offset:,} bytes already learnt. Give the same "
                "source, or start a new model with another --model."
            )
        if _digest(head) != place.head or _digest(tail) != place.tail:
            raise ResumeError(
                f"{self.path}: the source is not the one this model was learnt from (its first {place.offset:,} bytes "
                "differ). Give the same source, or start a new model with another --model."
            )
        if self.follow and not tail.endswith(b"\n") and _read_up_to(self._file, 1) not in (b"", b"\n"):
            raise ResumeError(
                f"{self.path}: the last line had no end when it was learnt, and has grown since. Start a new model."
            )

    def _read_through(self, place: Place) -> tuple[bytes, bytes]:
        head, tail, left = b"", b"", place.offset
        while left:
            part = self._read(min(left, 2**20))
            if not part:
                return head, b""
            head = (head + part)[: place.head_size] if len(head) < place.head_size else head
            tail = (tail + part)[-place.tail_size :]
            left -= len(part)
        return head, tail


class _Put(io.RawIOBase):
    """A stream with bytes that were already read put back in front."""

    def __init__(self, first: bytes, rest: IO[bytes]) -> None:
        self._first, self._rest = first, rest

    @property
    def waiting(self) -> bool:
        """Whether bytes wait that were put back."""
        return bool(self._first)

    def fileno(self) -> int:
        return self._rest.fileno()

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        part = self._first[: len(buffer)] or self._rest.read(len(buffer)) or b""
        self._first = self._first[len(part) :]
        buffer[: len(part)] = part
        return len(part)

    def close(self) -> None:
        self._rest.close()
        super().close()


def _read_up_to(file: IO[bytes], size: int) -> bytes:
    parts = b""
    while len(parts) < size and (part := file.read(size - len(parts))):
        parts += part
    return parts


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:DIGITS]
