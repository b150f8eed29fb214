"""What can go wrong with a stream: one class for each remedy, each with its exit code on the command line."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence


class StreamError(ValueError):
    """A stream cannot go on; the message says what was found and what to do."""


class UsageError(StreamError):
    """An option has a value that is not valid, or does not fit another option."""


class SourceError(StreamError):
    """The source cannot be read: it is absent, cut short, of another format, or holds no usable record."""


class EmptySourceError(SourceError):
    """The source holds no record at all."""


class ColumnError(StreamError):
    """A column that was asked for is not there."""


class RecordError(StreamError):
    """A record is bad and the run is strict."""


class ResumeError(StreamError):
    """The model file belongs to another run: other options, another source, or other outputs."""


class LearntError(StreamError):
    """Everything that was given has been learnt before."""


class OutputError(StreamError):
    """An output cannot be written."""


class ClosedPipeError(Exception):
    """The program that read our output has closed."""


def unknown_column(name: str, known: Sequence[str], what: str, taken: Collection[str] = ()) -> ColumnError:
    """Return the error for a name that no column has, with the nearest names that are not taken."""
    free = [column for column in known if column not in taken]
    near = difflib.get_close_matches(name, free, n=3, cutoff=0.5)
    lower = {column.lower(): column for column in free}
    if name.lower() in lower:
        near = [lower[name.lower()]]
    shown = ", ".join(repr(column) for column in known[:12]) + (", …" if len(known) > 12 else "")
    hint = f"Did you mean {' or '.join(repr(column) for column in near)}?" if near else f"The columns are {shown}."
    return ColumnError(f"{what}: no column is named {name!r}. {hint}")
