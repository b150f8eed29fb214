"""How accurate a stream is when labels come late: by frozen copies of the predictor, each one as old as the delay.

For a delay of D rows a copy is taken after s rows, and asked about rows s + D up to s + 2D. Then it is dropped, and the
next one is taken. Row numbers alone decide when, and which of these rows are asked about: all of them up to D = 10,
else every other one. So a run repeats, the cut into batches does not matter, and there is one copy for each delay. The
pause between two copies grows with the rows, so that a copy costs less and less; a row counts by the pause that it
stands for, so that all parts of a stream count equally. Where all of these rows are at hand, the model is asked about
them at once, and nothing is copied.
"""

from __future__ import annotations

import math
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from kampong.streaming.schedule import power_of_two
from kampong.streaming.settings import SETTINGS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kampong._core.compute import Rows
    from kampong.contract import Frozen
    from kampong.files import Contents

DELAYS = (1, 10, 100, 1_000, 10_000)
"""The delays, in rows."""

COPIES, SAVED_COPIES = 32, 8
"""The most copies while the rows double, those of short delays and those that are solved as for a save."""

LONGEST = 2**16
"""The longest pause between two copies, in rows, where the delay is shorter."""

ROOM = 2**24
"""Bytes for all copies. A copy of more than its share is left out, that of the longest delay first."""

COLUMNS = ("due", "since", "scored", "right", "weight", "weight_right", "weight_all_rows", "weight_squares", "large")


class Late(NamedTuple):
    """The accuracy when labels come this many rows late.

    Attributes
    ----------
    delay : int
        The delay, in rows.
    rows : int
        The rows asked about.
    accuracy, error : float
        The accuracy, and its standard error.
    all_rows : float
        The accuracy of the model of all rows alone; the same where nothing else answers.
    """

    delay: int
    rows: int
    accuracy: float
    error: float
    all_rows: float

    @property
    def all_rows_answer(self) -> bool:
        """Whether the model of all rows alone is right more often, by more than a standard error."""
        return self.all_rows - self.accuracy > self.error


class Ahead(NamedTuple):
    """Rows of the stream that are at hand before they are learnt.

    Attributes
    ----------
    X : array or sparse matrix
        The rows.
    y : array
        Their classes.
    first : int
        The rows before them.
    """

    X: Rows
    y: np.ndarray
    first: int


class Copying:
    """What is to be copied for one delay or several; a copy that nobody needs or has room for is never made.

    Parameters
    ----------
    frozen : Frozen or None
        The predictor now, None if there is none.
    size : int
        Its bytes.
    """

    def __init__(self, frozen: Frozen | None, size: int) -> None:
        self.size, self.frozen = size, frozen

    @cached_property
    def copy(self) -> Frozen | None:
        """The copy, which all who ask share."""
        return None if self.frozen is None else self.frozen.apart()


class Delay:
    """One delay: when its next copy is due, since when it has one, and what its copies had right.

    Parameters
    ----------
    delay : int
        The delay, in rows.
    """

    def __init__(self, delay: int) -> None:
        self.delay, self.due, self.since = delay, delay, 0
        self.scored = self.right = 0
        self.weight = self.weight_right = self.weight_all_rows = self.weight_squares = 0
        self.large = 0  # bytes of the copy that there was no room for; 0 if there was
        self.copy: Frozen | None = None

    @property
    def pause(self) -> int:
        """The rows from the copy in use to the next one."""
        return pause_after(self.since, self.delay)

    @property
    def end(self) -> int:
        """The rows before the first one that the copy is no more asked about."""
        return self.since + 2 * self.delay

    def places(self, first: int, rows: int) -> slice:
        """Return which of this many rows, from a row number on, the copy is asked about."""
        step = 1 if self.delay <= 10 else SETTINGS.delay_stride
        start = self.since + self.delay
        begin = max(first, start)
        begin += (start - begin) % step
        return slice(begin - first, max(min(first + rows, start + self.delay), begin) - first, step)

    def score(self, right: np.ndarray) -> None:
        """Count rows that the copy was asked about: which are right, (ways, rows)."""
        n, counts, pause = right.shape[1], np.count_nonzero(right, axis=1).tolist(), self.pause
        self.scored, self.right = self.scored + n, self.right + counts[0]
        self.weight, self.weight_right = self.weight + n * pause, self.weight_right + counts[0] * pause
        self.weight_all_rows += counts[-1] * pause
        self.weight_squares += n * pause * pause

    def found(self) -> Late | None:
        """Return what is known, None without any row."""
        if not self.scored:
            return None
        accuracy = self.weight_right / self.weight
        rows = self.weight**2 / self.weight_squares  # as many rows of equal weight say as much
        # One error more and one less, so that a few rows without any do not look certain.
        spread = (self.weight_right + self.weight / rows) / (self.weight + 2 * self.weight / rows)
        error = math.sqrt(spread * (1.0 - spread) / rows)
        return Late(self.delay, self.scored, accuracy, error, self.weight_all_rows / self.weight)


class Delays:
    """The accuracy of a stream at each delay, with the copies that measure it."""

    def __init__(self) -> None:
        self.each = tuple(Delay(delay) for delay in DELAYS)
        self.expected: tuple[int, ...] = ()  # delays whose copies a model file must hold

    def score(self, X: Rows, y: np.ndarray, first: int) -> None:
        """Ask the copies about rows.

        Parameters
        ----------
        X : array or sparse matrix
            The rows, in the order of the stream.
        y : array
            Their classes.
        first : int
            The rows before them.
        """
        shared: dict[int, list[Delay]] = {}  # a copy that several delays share is asked once
        for one in self.each:
            if one.copy is not None:
                shared.setdefault(id(one.copy), []).append(one)
        for sharing in shared.values():
            assert sharing[0].copy is not None
            _ask(sharing[0].copy, sharing, Ahead(X, y, first))
        for one in self.each:
            if one.copy is not None and first + len(y) >= one.end:
                one.copy = None

    def due(self, rows: int) -> list[Delay]:
        """Return the delays whose next copy is due after this many rows."""
        return [one for one in self.each if rows >= one.due and one.copy is None]

    def take_all(self, copies: list[tuple[Delay, Copying]], rows: int, ahead: Ahead | None = None) -> None:
        """Give delays their next copies, or ask at once about the rows ahead.

        Parameters
        ----------
        copies : list of pairs of Delay and Copying
            Those that are due, and what is copied.
        rows : int
            The rows that it knows.
        ahead : Ahead or None
            Rows at hand that are not learnt; they are asked about here, and never by `score`.
        """
        shared: dict[int, tuple[Frozen, list[Delay]]] = {}  # what several delays share is asked once
        for one, what in copies:
            self.take(one, what, rows, ahead)
            if what.frozen is not None and not one.large:
                shared.setdefault(id(what), (what.frozen, []))[1].append(one)
        for frozen, sharing in shared.values():
            if ahead is not None:
                _ask(frozen, sharing, ahead)

    def take(self, one: Delay, what: Copying, rows: int, ahead: Ahead | None = None) -> None:
        """Give a delay its next copy, unless all its rows are at hand.

        Parameters
        ----------
        one : Delay
            One of those that are due.
        what : Copying
            What is copied.
        rows : int
            The rows that it knows.
        ahead : Ahead or None
            Rows at hand that are not learnt.
        """
        one.large = what.size if what.size * (DELAYS.index(one.delay) + 1) > ROOM else 0
        one.since, one.copy = rows, None
        if not one.large and (ahead is None or ahead.first + len(ahead.y) < one.end):
            one.copy = what.copy
        one.due = due_after(rows, one.delay)

    def found(self) -> list[Late]:
        """Return the accuracy at each delay that was measured."""
        return [late for one in self.each if (late := one.found()) is not None]

    def longest(self) -> Late | None:
        """Return the longest delay that was measured well, None if none was."""
        return next((late for late in reversed(self.found()) if late.error < SETTINGS.sure_error), None)

    @property
    def all_rows_answer(self) -> bool:
        """Whether the model of all rows alone is what is best in a saved model, at the longest delay known well."""
        longest = self.longest()
        return longest is not None and longest.all_rows_answer

    def too_large(self) -> list[Delay]:
        """Return the delays whose last copy there was no room for."""
        return [one for one in self.each if one.large]

    def widen(self, n_features: int) -> None:
        """Make room for more columns in all copies."""
        for one in self.each:
            one.copy = None if one.copy is None else one.copy.widened(n_features)

    def to_state(self) -> dict[str, Any]:
        """Return all but the copies by name."""
        values = [[getattr(one, name) for name in COLUMNS] + [one.copy is not None] for one in self.each]
        return {"counts": np.array(values, dtype=np.int64)}

    @classmethod
    def from_state(cls, contents: Contents, rows: int) -> Self:
        """Return what `to_state` wrote, if it can be of this many rows; the copies are still `expected`."""
        found, require = cls(), contents.require
        values = contents.array("counts", np.int64, (len(DELAYS), len(COLUMNS) + 1), low=0)
        contents.finish()
        copied = []
        for one, (*plain, has_copy) in zip(found.each, values.tolist(), strict=True):
            for name, value in zip(COLUMNS, plain, strict=True):
                setattr(one, name, value)
            began = one.since > 0
            require(one.since <= rows and has_copy <= 1, f"counts has a copy of more than {rows} rows")
            fits = one.right <= one.scored <= rows and one.weight_right <= one.weight <= one.weight_squares
            fits = fits and one.weight_all_rows <= one.weight
            require(fits and one.scored <= one.weight, "counts holds more than there are")
            require(bool(one.scored) <= began, "counts holds rows before a copy was taken")
            expected = due_after(one.since, one.delay) if began else one.delay
            require(one.due == expected, f"counts says that a copy is due after {one.due} rows, not {expected}")
            alive = began and not one.large and rows < one.since + 2 * one.delay
            require(alive or not has_copy, "counts has a copy that is too old, too large, or was never taken")
            if has_copy:
                copied.append(one.delay)
        found.expected = tuple(copied)
        return found


def pauses(delays: Iterable[Delay], first: int, rows: int) -> list[int]:
    """Return before which of this many rows, from a row number on, copies are due, counted from that row."""
    found = set()
    for one in delays:
        due = one.due
        while due < first + rows:
            if due > first:
                found.add(due - first)
            due = due_after(due, one.delay)
    return sorted(found)


def _ask(frozen: Frozen, sharing: list[Delay], ahead: Ahead) -> None:
    """Ask about the rows of some delays together, and count what is right for each."""
    places = [np.arange(len(ahead.y))[one.places(ahead.first, len(ahead.y))] for one in sharing]
    rows = np.concatenate(places)
    if not len(rows):
        return
    right = right_of(frozen, ahead.X[rows], ahead.y[rows])
    ends = np.cumsum([len(mine) for mine in places])
    for one, mine in zip(sharing, np.split(right, ends[:-1], axis=1), strict=True):
        if mine.shape[1]:
            one.score(mine)


def right_of(copy: Frozen, X: Rows, y: np.ndarray) -> np.ndarray:
    """Return which rows a copy has right in each of its ways to answer, (ways, rows).

    A row that is too large for a model so old is wrong.
    """
    try:
        return np.array([labels == y for labels in copy.ways(X)], dtype=bool)
    except ValueError:
        if len(y) == 1:
            return np.zeros((1, 1), dtype=bool)
        found = [right_of(copy, X[i : i + 1], y[i : i + 1]) for i in range(len(y))]
        ways = max(len(right) for right in found)
        return np.concatenate([np.broadcast_to(right, (ways, 1)) for right in found], axis=1)


def pause_after(rows: int, delay: int) -> int:
    """Return the rows from a copy that knows this many rows to the next one.

    Those of short delays are powers of two, so that one copy serves several of them. As long as a save chooses all
    parameters again, a copy of a long delay comes when the rows have doubled.
    """
    doubled = power_of_two(rows)
    if delay < SETTINGS.saved_delay:
        return max(power_of_two(4 * delay - 1), min(doubled // COPIES, LONGEST))
    return max(2 * delay, min(doubled // SAVED_COPIES, LONGEST) if rows > SETTINGS.full_sample else rows)


def due_after(rows: int, delay: int) -> int:
    """Return the row number of the copy after one that knows this many rows: a multiple of a pause for short ones."""
    pause = pause_after(rows, delay)
    return rows + pause if delay >= SETTINGS.saved_delay else -(-(rows + 2 * delay) // pause) * pause
