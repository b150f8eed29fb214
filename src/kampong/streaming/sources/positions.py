"""Places in tables and in streams of messages: the last value read, or the next message of each partition."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from kampong.streaming.errors import ResumeError
from kampong.streaming.sources.blocks import GO_ON
from kampong.streaming.sources.learnt import Fingerprint

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kampong.files import Contents

SMALLEST, LARGEST, GROWTH = 128, 8192, 4
MOST_BYTES = 2**20


@dataclass(frozen=True)
class Position:
    """A place in a source that a server gives in order, and the places to which others were read before.

    Attributes
    ----------
    row : int
        Records before it, of all sources.
    in_source : int
        Records of this source that this run has read.
    source : str
        What tells the source from others: the stream of a server, or a table and its order.
    at : str
        Where it is, as a list in JSON: the last values of a table's order, or what each partition goes on with. "[]" at
        the start.
    turn : int
        The partition that is next.
    earlier : str
        The same of other sources that were read to their end, in JSON: `at` and `turn` by `source`.
    """

    row: int = 0
    in_source: int = 0
    source: str = ""
    at: str = "[]"
    turn: int = 0
    earlier: str = "{}"

    def to_state(self) -> dict[str, Any]:
        """Return the place as plain values."""
        return dict(vars(self))

    @classmethod
    def from_state(cls, contents: Contents) -> Position:
        """Return the place that `to_state` wrote."""
        row = contents.whole("row", low=1)
        found = cls(
            row,
            contents.whole("in_source", high=row),
            contents.text("source"),
            contents.text("at"),
            contents.whole("turn"),
            contents.text("earlier"),
        )
        contents.require(found.source != "", "source is empty")
        values = _json(found.at)
        contents.require(_is_list(values), f"at is {found.at!r:.100}, expected a list of numbers and strings")
        some = found.turn == 0 or (values is not None and found.turn < len(values))
        contents.require(some, f"turn is {found.turn}, and at has fewer partitions")
        earlier = _json(found.earlier)
        valid = isinstance(earlier, dict) and all(
            type(one) is list and len(one) == 2 and _is_list(one[0]) and type(one[1]) is int and one[1] >= 0
            for one in earlier.values()
        )
        contents.require(valid, f"earlier is {found.earlier!r:.100}, expected places by source")
        return found

    def fits(self, records: int) -> bool:
        """Tell whether this many records are before it: every row and every message is one."""
        return records == self.row

    @property
    def started(self) -> bool:
        """Whether something of its source is before it."""
        return self.in_source > 0

    def next_source(self) -> Position:
        """Return the place where a source begins that is read after all this."""
        return replace(self, in_source=0)

    def with_more(self, records: int) -> Position:
        """Return the same place, after more records that were learnt from no source."""
        return replace(self, row=self.row + records)

    def fingerprint(self) -> Fingerprint:
        """Return nothing: such a source is recognised by its places."""
        return Fingerprint()

    @property
    def values(self) -> list[Any]:
        """Where it is, as a list."""
        return list(json.loads(self.at))

    @property
    def size(self) -> int:
        """How many records the next part has: the more were read, the more, so that early predictions are honest."""
        return min(LARGEST, max(SMALLEST, self.row // GROWTH))

    def after(self, records: int, values: list[Any], turn: int = 0) -> Position:
        """Return the place after more records."""
        at = json.dumps(values, allow_nan=False)
        return replace(self, row=self.row + records, in_source=self.in_source + records, at=at, turn=turn)

    @classmethod
    def entering(cls, place: Mapping[str, Any] | None, source: str, name: str, *, again: bool) -> Position:
        """Return where to go on in a source: at the place of this run, or where an earlier one has ended.

        Parameters
        ----------
        place : mapping or None
            The values of a place; None to begin.
        source : str
            What tells the source from others.
        name : str
            What messages call it.
        again : bool
            Whether to begin at the start, though it was read before.

        Returns
        -------
        Position
            A place in this source.
        """
        before = cls(**place) if place else cls()
        if before.started:
            if before.source != source:
                raise ResumeError(f"{name}: the source is not the one this model was learnt from. {GO_ON}")
            return before
        known = json.loads(before.earlier)
        if before.source:
            known[before.source] = [before.values, before.turn]
        at, turn = ([], 0) if again else known.get(source, ([], 0))
        known.pop(source, None)
        earlier = json.dumps(known, sort_keys=True)
        return cls(before.row, 0, source, json.dumps(at), turn, earlier)


def _json(text: str) -> Any:
    try:
        return json.loads(text) if len(text) <= MOST_BYTES else None
    except (ValueError, RecursionError):
        return None


def _is_list(values: Any) -> bool:
    return isinstance(values, list) and all(type(one) in (int, float, str) for one in values)
