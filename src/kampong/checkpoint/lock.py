"""One run at a time on a model file: a lock that its process holds, and that its death releases."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kampong.checkpoint.errors import CheckpointError
from kampong.checkpoint.replacing import stem_of

if TYPE_CHECKING:
    from collections.abc import Iterator

if sys.platform != "win32":
    import fcntl


class LockedError(CheckpointError):
    """Another run is writing the model file; the message names its process."""


@contextlib.contextmanager
def held(path: str) -> Iterator[None]:
    """Hold the lock of a model file; the system releases it when this process ends, however it ends.

    The lock is a hidden file beside the model, because the model itself is replaced at every save. Where the folder
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
            descriptor = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError:
            return None  # what cannot be written will be said when the model is saved
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            who = os.read(descriptor, 200).decode("utf-8", "replace").strip() or "another process"
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
                os.ftruncate(descriptor, 0)
                os.write(descriptor, f"process {os.getpid()} on {os.uname().nodename}".encode())
                return descriptor
        os.close(descriptor)  # its holder has just removed it
    return None
