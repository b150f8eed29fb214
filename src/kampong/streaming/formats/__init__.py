"""The formats of sources, by name: a new one is a file here and a line in `_FORMATS`, or a call of `register`.

`format` defines what a format is. A module is imported when one of its formats is first used; the names are known
without that.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from kampong.streaming.errors import SourceError

if TYPE_CHECKING:
    from kampong.streaming.formats.format import Format

_FORMATS: dict[str, Format | str] = {
    "csv": "delimited.CSV",
    "tsv": "delimited.TSV",
    "jsonl": "json_lines.JSON_LINES",
    "libsvm": "libsvm.LIBSVM",
    "parquet": "tables.PARQUET",
    "arrow": "tables.ARROW",
    "npy": "arrays.NPY",
    "npz": "arrays.NPZ",
}


def names() -> tuple[str, ...]:
    """Return the names of all formats, in the order in which they were registered."""
    return tuple(_FORMATS)


def get(name: str) -> Format:
    """Return a format by its name.

    Parameters
    ----------
    name : str
        One of `names`.

    Returns
    -------
    Format
        The format.
    """
    if name not in _FORMATS:
        raise SourceError(f"--format {name!r} is unknown. Use one of {', '.join(names())}.")
    found = _FORMATS[name]
    if isinstance(found, str):
        module, _, attribute = found.partition(".")
        loaded: Format = getattr(importlib.import_module(f"{__name__}.{module}"), attribute)
        _FORMATS[name] = found = loaded
    return found


def latest_first() -> list[Format]:
    """Return all formats, the last registered first, so that new formats are tried before the built-in ones."""
    return [get(name) for name in reversed(names())]


def register(new: Format) -> None:
    """Add a format, for the sources opened from now on.

    Parameters
    ----------
    new : Format
        The format; its name must be free.
    """
    if not new.name or new.name == "auto" or new.name in _FORMATS:
        raise ValueError(
            f"register: a format cannot be named {new.name!r}; the names {', '.join(names())} and auto are taken. "
            "Give it another name, or remove the other one with `unregister`."
        )
    _FORMATS[new.name] = new


def unregister(name: str) -> None:
    """Remove a format.

    Parameters
    ----------
    name : str
        One of `names`.
    """
    get(name)
    del _FORMATS[name]
