"""What a kind of source is: how a source opens at a place, and what the places in it are."""

from __future__ import annotations

import importlib.util
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar

from kampong.streaming import formats
from kampong.streaming.errors import SourceError, UsageError

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Mapping

    from kampong.streaming.columns.records import Batch
    from kampong.streaming.columns.schema import Schema
    from kampong.streaming.formats.format import AnyPlace, Format, Opened
    from kampong.streaming.sources.connections import Sink
    from kampong.streaming.sources.source import Source


class Kind(ABC):
    """A kind of source: it opens at a place, and gives parts of consecutive records with the place after each.

    Attributes
    ----------
    name : str
        What it is called; the scheme of its addresses, if it has addresses.
    example : str
        How such a source is written on the command line.
    place : str
        What a place in it is, in words.
    replayable : str
        Whether it can be read again from a place, in words.
    extra : str
        The extra that installs what it needs; "" if it needs nothing.
    packages : tuple of str
        The modules that this extra installs.
    has_address : bool
        Whether such a source has an address and not a path.
    lone : bool
        Whether such a source is read alone, and not one after another.
    options : tuple of str
        The fields of `Source` that belong to it, of "query", "order_by", "field" and "start".
    untrusted : bool
        Whether bytes that may be made to do harm can come from it.
    """

    name: str
    example: str
    place: str
    replayable: str = "yes"
    extra: str = ""
    packages: tuple[str, ...] = ()
    has_address: ClassVar[bool] = True
    lone: ClassVar[bool] = True
    options: ClassVar[tuple[str, ...]] = ()
    untrusted: ClassVar[bool] = True

    @abstractmethod
    def place_type(self, chosen: Format) -> type[AnyPlace]:
        """Return what a place in such a source is, for records of a format."""

    @abstractmethod
    def open(
        self, source: Source, chosen: Format, place: Mapping[str, Any] | None, stop: threading.Event | None
    ) -> Opened:
        """Open a source at a place, or at its start.

        Parameters
        ----------
        source : Source
            The source.
        chosen : Format
            The format of its records.
        place : mapping or None
            The values of a place.
        stop : threading.Event or None
            Ends the wait for more when it is set.

        Returns
        -------
        Opened
            An iterable of parts, each with the place after it.
        """

    def format(self, source: Source) -> str:
        """Return the format of the records, as it was stated or as the source shows; "" to look at its path."""
        return ""

    def parser(self, chosen: Format) -> Callable[[Schema, Any], Batch]:
        """Return what makes rows and dead letters of a part."""
        return chosen.parse

    def can_follow(self, chosen: Format) -> bool:
        """Tell whether more can come after the end, so that `--follow` can wait for it."""
        return True

    def bytes_of(self, path: str) -> BinaryIO:
        """Open an address for reading bytes from any place."""
        raise SourceError(f"{path}: a source with an address is read alone. Give one at a time.")

    def listing(self, path: str) -> list[str] | None:
        """Return all files of a folder in their order, the hidden ones too; None for what is no folder."""
        return None

    def inputs(self, source: Source) -> list[str]:
        """Return what is read and must not be written to."""
        return []

    def check_to_write(self, path: str) -> None:
        """Refuse an address that predictions and dead letters cannot go to."""
        raise UsageError(f"{path}: only brokers can be written to. Give a file, or an address as redis://host/stream.")

    def sink(self, path: str) -> Sink:
        """Connect to an address that predictions or dead letters go to."""
        raise NotImplementedError

    def missing(self) -> list[str]:
        """Return the packages that it needs and that are not installed."""
        return [name for name in self.packages if not _there(name)]

    def check(self, source: Source) -> None:
        """Refuse options that do not belong to it."""
        if self.lone and source.more:
            raise SourceError(f"{source.name}: a source with an address is read alone. Give one at a time.")
        if self.has_address and source.live:
            raise UsageError(f"{source.path}: --live is for stdin; {self.name} goes on from the place it has come to.")
        if source.untrusted and not self.untrusted:
            raise UsageError(f"{source.path}: --untrusted is for files and messages. Leave it out for {self.name}.")
        for field in ("query", "order_by", "field", "start"):
            if getattr(source, field) and field not in self.options:
                option = {"order_by": "--order-by", "start": "--from"}.get(field, f"--{field}")
                raise UsageError(f"{source.path}: {option} does not belong to a source of the kind {self.name}.")

    def stated(self, source: Source, fixed: str, allowed: tuple[str, ...]) -> str:
        """Return the format that was stated, or the usual one, if such a source can have it."""
        name = fixed if source.layout.format == "auto" else formats.get(source.layout.format).name
        if name not in allowed:
            raise SourceError(f"{source.path}: --format {name} is not for {self.name}. Use {' or '.join(allowed)}.")
        return name


def _there(module: str) -> bool:
    """Tell whether a module is installed, without importing it."""
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False
