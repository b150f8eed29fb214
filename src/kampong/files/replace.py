"""Model files on disk: replaced as a whole whatever happens, and written by one run at a time."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import secrets
import stat
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from kampong.files.model_errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from io import BufferedWriter


def write_bytes(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a small file so that a crash at any time leaves the old one or the new one.

    Parameters
    ----------
    path : str or path
        The file; an existing one is replaced. A symbolic link is replaced too, and the file it points to stays.
    data : bytes
        What it holds.
    """
    with replacing(Path(path)) as file:
        file.write(data)


@contextlib.contextmanager
def replacing(target: Path) -> Iterator[BufferedWriter]:
    """Open a temporary file that replaces the target at the end, or is removed on any error."""
    _sweep(target)
    temporary = target.with_name(f"{stem_of(target)}{os.getpid()}-{secrets.token_hex(4)}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(temporary, flags, 0o666)
    try:
        with os.fdopen(descriptor, "wb") as file:
            _keep_permissions(target, descriptor)
            yield file
            file.flush()
            os.fsync(descriptor)
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    try:
        _flush_folder(target.parent)
    except OSError as error:
        raise CheckpointError(
            f"{target}: the checkpoint is written, but its folder could not be flushed to the disk "
            f"({error.strerror or error}): a power cut may bring the previous one back. Save again."
        ) from error


def _keep_permissions(target: Path, descriptor: int) -> None:
    try:
        old = target.lstat()
    except FileNotFoundError:
        return
    if stat.S_ISLNK(old.st_mode):
        return
    if stat.S_ISDIR(old.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(target))
    if os.name == "posix":
        new = os.fstat(descriptor)
        if (old.st_uid, old.st_gid) != (new.st_uid, new.st_gid):
            with contextlib.suppress(PermissionError):
                os.fchown(descriptor, old.st_uid, old.st_gid)
        os.fchmod(descriptor, stat.S_IMODE(old.st_mode))


def _flush_folder(folder: Path) -> None:
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def stem_of(target: Path) -> str:
    """Return the start of the names of temporary files; a file name has 255 bytes at most."""
    return f".kampong-{hashlib.sha256(os.fsencode(target.name)).hexdigest()[:16]}-"


def _sweep(target: Path) -> None:
    """Remove temporary files of this target that killed processes left behind."""
    if os.name != "posix":
        return
    pattern = re.compile(re.escape(stem_of(target)) + r"([0-9]{1,9})-[0-9a-f]{8}\.tmp")
    found: list[tuple[Path, re.Match[str]]] = []
    with contextlib.suppress(OSError), os.scandir(target.parent) as entries:
        found = [(Path(entry.path), match) for entry in entries if (match := pattern.fullmatch(entry.name))]
    for path, match in found:
        try:
            os.kill(int(match[1]), 0)
        except ProcessLookupError:
            with contextlib.suppress(OSError):
                path.unlink()
        except OSError:
            continue


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
