"""Dead letters: the records that could not be used, as lines of a file or as messages of a broker."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from kampong.streaming.outputs.appended import Journal, Written
from kampong.streaming.outputs.keyed import Messages
from kampong.streaming.sources import scheme_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kampong.streaming.columns.records import Dead


class DeadLetters(Journal):
    """The records that could not be used: one JSON object a line, with line, offset, reason and its beginning."""

    begins = b"{"

    def add(self, letters: Sequence[Dead], source: str = "", keys: Sequence[str] = ()) -> None:
        """Append letters; `source` names the file that they come from, where there may be several."""
        self.write(b"".join(_line(letter, source) + b"\n" for letter in letters))


class LetterMessages(Messages):
    """Dead letters as messages of a broker."""

    def add(self, letters: Sequence[Dead], source: str = "", keys: Sequence[str] = ()) -> None:
        """Send letters, each with the key of its record."""
        self.send(keys, [_line(letter, source) for letter in letters])


def dead_letters(
    path: str, committed: Written | None = None, *, goes_on: bool = False, follow: bool = True
) -> DeadLetters | LetterMessages:
    """Return what takes dead letters: a file, or a stream of a broker.

    Parameters
    ----------
    path : str
        A path, an address, or "" for nothing.
    committed : Written or None
        What it held at the last checkpoint; None for a new one.
    goes_on : bool
        Whether to write after what is there.
    follow : bool
        Whether a symbolic link is followed.

    Returns
    -------
    DeadLetters or LetterMessages
        It is open.
    """
    if scheme_of(path):
        return LetterMessages(path, None if goes_on else committed)
    return DeadLetters(path, committed, goes_on=goes_on, follow=follow)


def _line(letter: Dead, source: str) -> bytes:
    facts: dict[str, Any] = {
        **({"source": source} if source else {}),
        "line": letter.line,
        "offset": letter.offset,
        "reason": letter.reason,
        "record": letter.text,
    }
    return json.dumps(facts, ensure_ascii=False).encode("utf-8", "replace")
