"""Files that a run appends to, and cuts back to their saved length when it resumes."""

from __future__ import annotations

import hashlib
import os
import sys
from pathlib import Path
from typing import IO, NamedTuple

from kampong.streaming.errors import ClosedPipeError, OutputError, ResumeError
from kampong.streaming.sources.learnt import CHUNK, DIGITS, digest

NOTHING = digest(b"")


class Written(NamedTuple):
    """What a file held when the model was last saved: its length, and a digest of all its bytes."""

    length: int = 0
    digest: str = NOTHING


class Journal:
    """A file that only grows, and is opened when first written to.

    Parameters
    ----------
    path : str
        The file; "-" is stdout, which cannot be cut back; "" writes nothing.
    committed : Written or None
        What it held at the last checkpoint: it is cut back to that. None for a new file.
    goes_on : bool
        Whether to write after all that is there, whoever wrote it.
    follow : bool
        Whether a symbolic link is followed: yes for a path that the user gave, no for one that was derived.
    """

    begins = b""
    """How a file begins that can be gone on with."""

    def __init__(
        self, path: str, committed: Written | None = None, *, goes_on: bool = False, follow: bool = True
    ) -> None:
        self.path = path
        self._flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)
        if not follow:
            self._flags |= getattr(os, "O_NOFOLLOW", 0)
            if path and Path(path).is_symlink():
                raise OutputError(
                    f"{path}: this is a symbolic link that you did not name, so it is not followed. Remove it, or name "
                    "a file with --dead-letters."
                )
        self.length = 0
        self._running = hashlib.sha256()
        self._file: IO[bytes] | None = None
        # Neither stdout nor a device or named pipe has a length that could be cut back.
        self._grows = path not in ("", "-") and (Path(path).is_file() or not Path(path).exists())
        self._new = committed is None and not goes_on
        if not self._grows:
            self.length = committed.length if committed is not None else 0
            return
        if goes_on:
            self._go_on()
        elif committed is not None:
            self._cut_back(committed)

    def _go_on(self) -> None:
        """Write after what is there."""
        size = Path(self.path).stat().st_size if Path(self.path).exists() else 0
        self._read(size)
        if self.length:
            with Path(self.path).open("rb") as file:
                first = file.read(len(self.begins))
            if first != self.begins:
                raise OutputError(
                    f"{self.path}: the file holds something else (it begins {first[:40]!r}, expected "
                    f"{self.begins[:40]!r}), and is left as it is. Choose another file."
                )

    def _cut_back(self, committed: Written) -> None:
        """Cut what was written after the last checkpoint, if the rest is what was written before it."""
        size = Path(self.path).stat().st_size if Path(self.path).exists() else 0
        if size < committed.length:
            raise ResumeError(
                f"{self.path}: the file has {size:,} bytes, but {committed.length:,} were written when the model was "
                "last saved. Put the file back, or start a new model with another --model."
            )
        self._read(committed.length)
        if self._running.hexdigest()[:DIGITS] != committed.digest:
            raise ResumeError(
                f"{self.path}: its first {committed.length:,} bytes are not those that were written when the model was "
                "last saved, and it is left as it is. Put the file back, or start a new model with another --model."
            )
        if size > self.length:
            try:
                with self._append() as file:
                    file.truncate(self.length)
            except OSError as error:
                raise OutputError(f"{self.path}: {error.strerror}. Choose another place for it.") from None

    def _read(self, size: int) -> None:
        """Take this many bytes of the file as written."""
        if size:
            with Path(self.path).open("rb") as file:
                while self.length < size and (part := file.read(min(size - self.length, CHUNK))):
                    self._running.update(part)
                    self.length += len(part)

    def write(self, data: bytes) -> None:
        """Append bytes."""
        if not data or not self.path:
            return
        if self._file is None:
            self._file = self._open()
        try:
            self._file.write(data)
            self._file.flush()  # other readers of the file see whole batches
        except BrokenPipeError:
            raise ClosedPipeError(self.path) from None
        except OSError as error:
            raise OutputError(f"{self.path}: {error.strerror}. Make room, then start again.") from None
        self.length += len(data)
        self._running.update(data)

    def commit(self) -> Written:
        """Write everything to the disk; return what the file holds."""
        if self._file is None and self._new and self._grows and Path(self.path).exists():
            self._file = self._open()  # nothing was written: what an earlier model left goes
        if self._file is not None:
            try:
                self._file.flush()
                if self._grows:
                    os.fsync(self._file.fileno())
            except BrokenPipeError:
                raise ClosedPipeError(self.path) from None
            except OSError as error:
                raise OutputError(f"{self.path}: {error.strerror}. Make room, then start again.") from None
        return Written(self.length, self._running.hexdigest()[:DIGITS])

    def close(self) -> None:
        """Close the file."""
        if self._file is not None and self.path != "-":
            self._file.close()

    def _open(self) -> IO[bytes]:
        if self.path == "-":
            return sys.stdout.buffer
        try:
            file = self._append()
            if self._new and self._grows:
                file.truncate(0)
            return file
        except OSError as error:
            raise OutputError(f"{self.path}: {error.strerror}. Choose another place for it.") from None

    def _append(self) -> IO[bytes]:
        return os.fdopen(os.open(self.path, self._flags, 0o666), "ab")
