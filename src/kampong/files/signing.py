"""Keys: what tells a file of those who have the key from a file of anyone else. HMAC-SHA256 of the standard library."""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
import stat
from pathlib import Path
from typing import Protocol, TypeAlias

from kampong.files.model_errors import CheckpointError

Key: TypeAlias = bytes | str | os.PathLike[str] | None
"""The key itself, or the path of a file that holds it; None for files that are not signed."""

SHORTEST, LONGEST, USUAL = 16, 4096, 32
"""Bytes of a key: the fewest, the most, and those of a new one."""


class Digest(Protocol):
    """What hashlib and hmac make."""

    def update(self, data: bytes | memoryview, /) -> None:
        """Take more bytes."""

    def digest(self) -> bytes:
        """Return the digest of all bytes so far."""


def key_bytes(key: Key) -> bytes | None:
    """Return a key that was given as bytes, or as the path of a file that holds them."""
    if key is None:
        return None
    if isinstance(key, bytes | bytearray | memoryview):
        name, found = "key", bytes(key)
    elif isinstance(key, str | os.PathLike):
        name = f"key {os.fspath(key)}"
        found = _from_file(name, key)
    else:
        raise TypeError(f"key: got a {type(key).__name__}. Give bytes, or the path of a file that holds the key.")
    if not SHORTEST <= len(found) <= LONGEST:
        size = f"more than {LONGEST:,}" if len(found) > LONGEST else f"{len(found)}"
        raise CheckpointError(
            f"{name}: a key has {SHORTEST} to {LONGEST:,} bytes, and this has {size}. Make one with `kampong key FILE`."
        )
    return found


def _from_file(name: str, path: str | os.PathLike[str]) -> bytes:
    try:
        with Path(path).open("rb") as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise CheckpointError(f"{name}: this is not a regular file. Name the file that holds the key.")
            return file.read(LONGEST + 1)
    except OSError as error:
        raise CheckpointError(
            f"{name}: the file of the key could not be read ({error.strerror}). Check the path, or make a new key with "
            "`kampong key FILE`."
        ) from None


def fingerprint(key: bytes) -> int:
    """Return a number that tells keys apart and does not give them away."""
    return int.from_bytes(hmac.digest(key, b"kampong: fingerprint of a key", "sha256")[:8], "little") or 1


def digest_of(key: bytes | None, start: bytes) -> Digest:
    """Return the digest of some bytes, to be updated: SHA-256, or HMAC-SHA256 where there is a key."""
    return hashlib.sha256(start) if key is None else hmac.new(key, start, "sha256")


def make_key(path: str | os.PathLike[str]) -> str:
    """Write a new random key to a file that only its owner may read; an existing file stays as it is."""
    key = secrets.token_bytes(USUAL)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(key)
                file.flush()
                os.fsync(descriptor)
        except OSError:
            Path(path).unlink(missing_ok=True)
            raise
    except FileExistsError:
        raise CheckpointError(f"{path}: this file exists and may hold a key. Choose another name.") from None
    except OSError as error:
        reason = error.strerror or error
        raise CheckpointError(f"{path}: the key could not be written ({reason}). Choose another place.") from None
    return f"{fingerprint(key):016x}"
