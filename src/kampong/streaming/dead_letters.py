"""Files that a run appends to, and cuts back to their saved length when it resumes: dead letters and outputs."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from kampong.streaming.errors import ClosedPipeError, OutputError, ResumeError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kampong.streaming.records import Dead


class Journal:
    """A file that only grows. It is opened when first written to, and cut back to its saved length when a run resumes.

    Parameters
    ----------
    path : str
        The file; "-" is stdout, which cannot be cut back; "" writes nothing.
    committed : int or None
        Its length at the last checkpoint; None for a new run.
    follow : bool
        Whether a symbolic link is followed: yes for a path that the user gave, no for one that was derived.
    """

    def __init__(self, path: str, committed: int | None = None, *, follow: bool = True) -> None:
        self.path = path
        self._flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | getattr(os, "O_BINARY", 0)
        if not follow:
            self._flags |= getattr(os, "O_NOFOLLOW", 0)
            if path and Path(path).is_symlink():
                raise OutputError(
                    f"{path}: this is a symbolic link that you did not name, so it is not followed. Remove it, or name "
                    "a file with --dead-letters."
                )
        self.length = committed or 0
        self._file: IO[bytes] | None = None
        # Neither stdout nor a device or named pipe has a length that could be cut back.
        self._grows = path not in ("", "-") and (Path(path).is_file() or not Path(path).exists())
        if not self._grows:
            return
        size = Path(path).stat().st_size if Path(path).exists() else 0
        if size < self.length:
            raise ResumeError(
                f"{path}: the file has {size:,} bytes, but {self.length:,} were written when the model was last saved. "
                "Put the file back, or start a new model with another --model."
            )
        if size > self.length:
            try:
                with self._append() as file:
                    file.truncate(self.length)
            except OSError as error:
                raise OutputError(f"{path}: {error.strerror}. Choose another place for it.") from None

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

    def commit(self) -> int:
        """Write everything to the disk and return the length."""
        if self._file is not None:
            try:
                self._file.flush()
                if self._grows:
                    os.fsync(self._file.fileno())
            except BrokenPipeError:
                raise ClosedPipeError(self.path) from None
            except OSError as error:
                raise OutputError(f"{self.path}: {error.strerror}. Make room, then start again.") from None
        return self.length

    def close(self) -> None:
        """Close the file."""
        if self._file is not None and self.path != "-":
            self._file.close()

    def _open(self) -> IO[bytes]:
        if self.path == "-":
            return sys.stdout.buffer
        try:
            return self._append()
        except OSError as error:
            raise OutputError(f"{self.path}: {error.strerror}. Choose another place for it.") from None

    def _append(self) -> IO[bytes]:
        return os.fdopen(os.open(self.path, self._flags, 0o666), "ab")


class DeadLetters(Journal):
    """The records that could not be used: one JSON object a line, with line, offset, reason and its beginning."""

    def add(self, letters: Iterable[Dead]) -> None:
        """Append letters."""
        self.write(b"".join(_line(letter) for letter in letters))


def _line(letter: Dead) -> bytes:
    facts: dict[str, Any] = {
        "line": letter.line,
        "offset": letter.offset,
        "reason": letter.reason,
        "record": letter.text,
    }
    return json.dumps(facts, ensure_ascii=False).encode("utf-8", "replace") + b"\n"
