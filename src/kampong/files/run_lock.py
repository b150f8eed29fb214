"""One run at a time on a model file: a lock that its process holds, and that its death releases."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from kampong.files.model_errors import CheckpointError
from kampong.files.replace import stem_of

if TYPE_CHECKING:
    from collections.abc import Iterator

if sys.platform != "win32":
    import fcntl


RECORD = 200
"""Bytes of a lock file, always the same, so that no file is ever cut."""


class LockedError(CheckpointError):
    """Another run is writing the model file; the message names its process."""


@contextlib.contextmanager
def held(path: str) -> Iterator[None]:
    """Hold the lock of a model file; the system releases it when this process ends, however it ends.

    The lock is a hidden file next to the model, because the model itself is replaced at every save. Where the folder
    cannot be written, or its file system has no locks, nothing is locked.

    Parameters
    ----------
    path : str
        The model file, "" for none.

    Yields
    ------
    None
        While the lock is held.
    """
    if not path or sys.platform == "win32":
        yield
        return
    target = Path(os.path.realpath(path))
    beside = target.with_name(f"{stem_of(target)}lock")
    descriptor = _take(beside, path)
    try:
        yield
    finally:
        if descriptor is not None:
            beside.unlink(missing_ok=True)  # before it is released: who waits looks again whether the file is the same
            os.close(descriptor)


def _take(beside: Path, path: str) -> int | None:
    while sys.platform != "win32":
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
            descriptor = os.open(beside, flags, 0o666)
        except OSError as error:
            if error.errno == errno.ELOOP:
                _refuse(beside)
            return None  # what cannot be written will be said when the model is saved
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink > 1 or found.st_size > RECORD:
            os.close(descriptor)
            _refuse(beside)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            who = os.read(descriptor, RECORD).decode("utf-8", "replace").strip() or "another process"
            os.close(descriptor)
            raise LockedError(
                f"{path}: another run is learning this model ({who}). Wait for it or stop it, or use another --model "
                "and merge both afterwards."
            ) from None
        except OSError:
            os.close(descriptor)
            return None
        with contextlib.suppress(FileNotFoundError):
            if os.fstat(descriptor).st_ino == beside.stat().st_ino:
                os.write(descriptor, f"process {os.getpid()} on {os.uname().nodename}".encode()[:RECORD].ljust(RECORD))
                return descriptor
        os.close(descriptor)  # its holder has just removed it
    return None


def _refuse(beside: Path) -> NoReturn:
    """Say that what has the name of the lock is something else: a link, or a file with another content."""
    raise CheckpointError(
        f"{beside}: this has the name of the lock of a model, and kampong did not make it (a link, or another file). "
        "It is left as it is. Find out who put it there, and remove it."
    )
