"""Records of CSV that run over several lines, because a quoted field holds line breaks.

A field runs on into the next lines if a quote opens it at its start and the line ends before the quote is closed. It is
closed by the next quote that is not doubled, which must stand at the end of a field. Otherwise, or if no such quote
comes within `MOST_LINES` lines and the longest record, the quote is a stray one: its line is a record by itself, and a
bad one, so that a stray quote never swallows what follows it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

QUOTE, NEWLINE = ord('"'), ord("\n")
ENDS = b"\r\n"
MOST_LINES = 1000
MOST_BYTES = 2**20


class Joined(NamedTuple):
    """The records of more than one line, each from its first byte to the one after its last, and what is undecided.

    Attributes
    ----------
    spans : list of pairs of int
        The records.
    undecided : int
        Where a record begins of which the end has not come yet; −1 without one.
    """

    spans: list[tuple[int, int]]
    undecided: int


def joined_lines(data: bytes, delimiters: bytes, *, final: bool, most: int = MOST_BYTES) -> Joined:
    """Return the records of more than one line.

    Parameters
    ----------
    data : bytes
        Lines, from the start of a record on.
    delimiters : bytes
        What may separate columns.
    final : bool
        Whether nothing comes after the data: then nothing is undecided.
    most : int
        The most bytes of such a record.

    Returns
    -------
    Joined
        The records.
    """
    spans: list[tuple[int, int]] = []
    if QUOTE not in data:
        return Joined(spans, -1)
    characters = np.frombuffer(data, dtype=np.uint8)
    breaks = np.append(np.flatnonzero(characters == NEWLINE), len(data))
    quotes = np.searchsorted(np.flatnonzero(characters == QUOTE), breaks)
    odd = np.flatnonzero(np.diff(quotes, prepend=0) & 1)
    after = 0
    for line in odd.tolist():
        start = int(breaks[line - 1]) + 1 if line else 0
        if start < after:
            continue
        end = _end(data, start, int(breaks[line]), delimiters, breaks, line, most)
        if end is None and not final:
            return Joined(spans, start)
        if end:
            spans.append((start, end))
            after = end
    return Joined(spans, -1)


def _end(data: bytes, start: int, stop: int, delimiters: bytes, breaks: np.ndarray, line: int, most: int) -> int | None:
    """Return where a record ends that begins with an odd line; 0 if its quote is a stray one, None if it may go on."""
    last = int(breaks[min(line + MOST_LINES, len(breaks) - 1)])
    limit = min(start + most, last) if line + MOST_LINES < len(breaks) or start + most < len(data) else len(data)
    while _opens(data, start, stop, delimiters):
        close = _close(data, stop + 1, limit)
        if close < 0:
            return 0 if limit < len(data) else None
        if close + 1 == len(data):
            return None if data[-1] == QUOTE else 0
        if data[close + 1] not in delimiters and data[close + 1] not in ENDS:
            return 0
        start = close + 1
        found = data.find(b"\n", start)
        stop = len(data) if found < 0 else found
        if data.count(b'"', start, stop) % 2 == 0:
            return min(stop + 1, len(data))
    return 0


def _opens(data: bytes, start: int, stop: int, delimiters: bytes) -> bool:
    """Tell whether a line, or the rest of one, ends inside a quoted field."""
    at = start
    while at < stop:
        if data[at] == QUOTE:
            close = _close(data, at + 1, stop)
            if close < 0:
                return True
            at = close + 1
            if at < stop and data[at] not in delimiters and data[at] not in ENDS:
                return False
        found = [place for one in delimiters if (place := data.find(bytes([one]), at, stop)) >= 0]
        if not found:
            return False
        at = min(found) + 1
    return False


def _close(data: bytes, start: int, stop: int) -> int:
    """Return the first quote that is not doubled, −1 without one."""
    at = data.find(b'"', start, stop)
    while at >= 0 and data[at + 1 : at + 2] == b'"' and at + 1 < stop:
        at = data.find(b'"', at + 2, stop)
    return at


def cut_at(data: bytes, end: int, delimiters: bytes, *, final: bool, most: int) -> tuple[int, bool]:
    """Return the end of the last record that is whole before a line break, or of the first record if none is.

    Parameters
    ----------
    data : bytes
        Lines, from the start of a record on.
    end : int
        The place after a line break.
    delimiters : bytes
        What may separate columns.
    final : bool
        Whether nothing comes after the data.
    most : int
        The most bytes of a record.

    Returns
    -------
    cut : int
        Where to cut.
    decided : bool
        Whether more data cannot change it.
    """
    spans, undecided = joined_lines(data, delimiters, final=final, most=most)
    for start, stop in spans:
        if start < end < stop:
            return (start, True) if start else (stop, True)
    if 0 <= undecided < end:
        return undecided, False
    return end, True
