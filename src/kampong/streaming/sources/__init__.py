"""The kinds of sources, by name: a new one is a file here and a line in `_KINDS`, or a call of `register`.

`kind` defines what a kind is. A source with an address, such as `redis://host/stream`, is of the kind that its scheme
names; all others are files, folders and pipes. A module is imported when its kind is first used, and the package of a
client only when a source is opened.
"""

from __future__ import annotations

import difflib
import importlib
import re
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from kampong.streaming.errors import SourceError

if TYPE_CHECKING:
    from kampong.streaming.sources.kind import Kind

_KINDS: dict[str, Kind | str] = {
    "file": "paths.FILE",
    "folder": "paths.FOLDER",
    "pipe": "paths.PIPE",
    "sqlite": "sqlite_table.SQLITE",
    "duckdb": "duckdb_table.DUCKDB",
    "postgresql": "postgresql_table.POSTGRESQL",
    "redis": "redis_stream.REDIS",
    "nats": "nats_stream.NATS",
    "kafka": "kafka_topic.KAFKA",
    "s3": "objects.S3",
    "gs": "objects.GS",
    "https": "objects.HTTPS",
    "http": "objects.HTTP",
}
HANDED_OUT_ONCE = ("mqtt", "mqtts", "amqp", "amqps", "stomp", "zmq", "pubsub", "sqs", "ws", "wss")
"""Schemes of what cannot be replayed."""

ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
HALF_ADDRESS = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")


def names() -> tuple[str, ...]:
    """Return the names of all kinds, in the order in which they were registered."""
    return tuple(_KINDS)


def get(name: str) -> Kind:
    """Return a kind by its name.

    Parameters
    ----------
    name : str
        One of `names`.

    Returns
    -------
    Kind
        The kind.
    """
    found = _KINDS[name]
    if isinstance(found, str):
        module, _, attribute = found.partition(".")
        loaded: Kind = getattr(importlib.import_module(f"{__name__}.{module}"), attribute)
        _KINDS[name] = found = loaded
    return found


def scheme_of(path: str) -> str:
    """Return the scheme of an address in lower case; "" for a path."""
    found = ADDRESS.match(path)
    return "" if found is None else found[1].lower()


def kind_of(path: str) -> Kind:
    """Return the kind of a source.

    Parameters
    ----------
    path : str
        A path, "-", or an address.

    Returns
    -------
    Kind
        The kind that its scheme names; that of a path without one.
    """
    scheme = scheme_of(path)
    if not scheme:
        half = HALF_ADDRESS.match(path)
        if half is not None and _has_address(name := half[1].lower()) and not Path(path).exists():
            raise SourceError(f"{half[0]} begins no file that is there. An address begins with {name}://, two slashes.")
        return get("pipe" if path == "-" else "folder" if Path(path).is_dir() else "file")
    if not _has_address(scheme):
        known = ", ".join(f"{name}://" for name in names() if get(name).has_address)
        if scheme in HANDED_OUT_ONCE:
            raise SourceError(
                f"{scheme}:// hands a message out once, so nothing can be read again after a crash. Pipe it into "
                "`kampong learn - --live --format jsonl`, which goes on with what comes then."
            )
        near = "".join(f" Is {name}:// meant?" for name in difflib.get_close_matches(scheme, names(), 1))
        raise SourceError(f"{scheme}:// is no source that is known.{near} Give a path, - for stdin, or one of {known}.")
    return get(scheme)


def _has_address(scheme: str) -> bool:
    """Tell whether a kind has addresses of this scheme."""
    return scheme in _KINDS and get(scheme).has_address


def opened(path: str) -> BinaryIO:
    """Open an address for reading bytes from any place.

    Parameters
    ----------
    path : str
        An address of one file.

    Returns
    -------
    file object
        Its bytes.
    """
    return kind_of(path).bytes_of(path)


def saved_kind(name: str) -> Kind:
    """Return the kind of a source that a model file names; "file" for one that is not known here."""
    scheme = scheme_of(name)
    return get(scheme if scheme in _KINDS else "file")


def register(new: Kind) -> None:
    """Add a kind, for the sources opened from now on.

    Parameters
    ----------
    new : Kind
        The kind; its name, which is the scheme of its addresses, must be free.
    """
    if not ADDRESS.fullmatch(f"{new.name}://") or new.name != new.name.lower() or new.name in _KINDS:
        raise ValueError(
            f"register: a kind of source cannot be named {new.name!r}; it must be the scheme of its addresses, in "
            f"lower case, and {', '.join(names())} are taken. Give it another name, or remove the other one with "
            "`unregister`."
        )
    _KINDS[new.name] = new


def unregister(name: str) -> None:
    """Remove a kind.

    Parameters
    ----------
    name : str
        One of `names`.
    """
    del _KINDS[name]
