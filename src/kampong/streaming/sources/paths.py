"""Files, folders and pipes as kinds of sources: their format opens them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from kampong.streaming.sources.kind import Kind

if TYPE_CHECKING:
    import threading
    from collections.abc import Mapping

    from kampong.streaming.formats.format import AnyPlace, Format, Opened
    from kampong.streaming.sources.source import Source


class Paths(Kind):
    """What has a path, or is stdin.

    Parameters
    ----------
    name, example, place, replayable : str
        See `Kind`.
    """

    has_address: ClassVar[bool] = False
    lone: ClassVar[bool] = False

    def __init__(self, name: str, example: str, place: str, replayable: str = "yes") -> None:
        self.name, self.example, self.place, self.replayable = name, example, place, replayable

    def place_type(self, chosen: Format) -> type[AnyPlace]:
        """Return the places of the format."""
        return chosen.place_type

    def open(
        self, source: Source, chosen: Format, place: Mapping[str, Any] | None, stop: threading.Event | None
    ) -> Opened:
        """Open a source at a place, or at its start."""
        return chosen.open(source, place, stop)

    def can_follow(self, chosen: Format) -> bool:
        """Tell whether such a file grows line by line."""
        return chosen.can_grow

    def listing(self, path: str) -> list[str] | None:
        """Return all files of a folder and of the folders in it, by name; None for what is no folder."""
        if path == "-" or not Path(path).is_dir():
            return None
        return sorted(str(one) for one in Path(path).rglob("*") if one.is_file())

    def inputs(self, source: Source) -> list[str]:
        """Return the paths."""
        return [source.path, *source.more]


FILE = Paths("file", "rows.csv", "bytes or rows, and a digest of those before")
FOLDER = Paths("folder", "rows/", "a file of the folder and a place in it")
PIPE = Paths("pipe", "-", "bytes, and a digest of those before", "if its bytes come again; otherwise --live")
