"""A file replaced by another: a crash at any time leaves the old one or the new one."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import secrets
import stat
from pathlib import Path
from typing import TYPE_CHECKING

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
