"""A file or stdin opened for reading bytes, decompressed; bytes that were already read can be put back in front."""

from __future__ import annotations

import gzip
import io
import tempfile
import zlib
from pathlib import Path
from typing import IO, Any

from kampong.streaming.errors import SourceError
from kampong.streaming.sources import opened, scheme_of
from kampong.streaming.sources.learnt import read_up_to

LONGEST_LINE = 2**16
SEEN = bytearray()
"""What was read of stdin to see its format; a process has one stdin."""

GZIP, ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"


def open_bytes(path: str) -> tuple[Any, str, Any]:
    """Open a file, or stdin for "-"; return it decompressed, how it was compressed, and the file itself to close."""
    raw = _raw(path)
    if path != "-" and raw.seekable():
        start = raw.read(4)
        raw.seek(0)
    else:
        start = _take_seen() if path == "-" else b""
        start += read_up_to(raw, 4 - len(start))
        raw = Put(io.BytesIO(start), raw)
    if start.startswith(GZIP):
        return gzip.GzipFile(fileobj=io.BufferedReader(raw, 2**18)), "gzip", raw
    if start.startswith(ZSTD):
        from kampong.streaming.arrow import pa

        return pa.CompressedInputStream(pa.PythonFile(raw, mode="r"), "zstd"), "zstd", raw
    return raw, "", raw


def _raw(path: str) -> Any:
    """Return the bytes of a file, of stdin or of an address."""
    if scheme_of(path):
        return opened(path)
    try:
        return io.FileIO(0, closefd=False) if path == "-" else io.FileIO(path)
    except OSError as error:
        raise SourceError(f"{path}: {error.strerror}. Give a file that can be read, or - for stdin.") from None


def first_of_stdin() -> bytes:
    """Return the first line of stdin, or what there is of it; the bytes come again when stdin is opened."""
    try:
        with io.FileIO(0, closefd=False) as raw:
            while b"\n" not in SEEN and len(SEEN) < LONGEST_LINE and (part := raw.read(LONGEST_LINE)):
                SEEN.extend(part)
    except OSError:  # it is closed
        return b""
    if not SEEN.startswith(GZIP):
        return bytes(SEEN)
    try:
        return zlib.decompressobj(16 + zlib.MAX_WBITS).decompress(bytes(SEEN), LONGEST_LINE)
    except zlib.error:
        return b""


def _take_seen() -> bytes:
    """Return what was read of stdin to see its format."""
    found = bytes(SEEN)
    SEEN.clear()
    return found


def room_on_disk() -> IO[bytes]:
    """Return a file without a name, for bytes that may be too many for memory."""
    descriptor, name = tempfile.mkstemp(prefix="kampong-")
    Path(name).unlink()
    return io.FileIO(descriptor, "r+")


class Put(io.RawIOBase):
    """A stream with bytes that were already read put back in front."""

    def __init__(self, first: IO[bytes], rest: Any) -> None:
        self._first: IO[bytes] | None = first
        self._rest = rest

    @property
    def waiting(self) -> bool:
        """Whether bytes wait that were put back."""
        if self._first is None:
            return False
        at = self._first.tell()
        more = bool(self._first.read(1))
        self._first.seek(at)
        return more

    def fileno(self) -> int:
        """Return the descriptor of what follows."""
        return int(self._rest.fileno())

    def readable(self) -> bool:
        """Tell that it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer with what was put back, then with what follows."""
        part = self._first.read(len(buffer)) if self._first is not None else b""
        if not part:
            self._done()
            part = self._rest.read(len(buffer)) or b""
        buffer[: len(part)] = part
        return len(part)

    def close(self) -> None:
        """Close both."""
        self._done()
        self._rest.close()
        super().close()

    def _done(self) -> None:
        if self._first is not None:
            self._first.close()
            self._first = None
