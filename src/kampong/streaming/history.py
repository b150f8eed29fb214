"""The history of a stream, in bounded memory: accuracy, speed, eigenvalues, classes, a few points."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from kampong.checkpoint.contents import to_lines
from kampong.streaming.history_state import (
    ALL,
    BATCH_SHARE,
    CAPACITY,
    CLASSES,
    DIRECTIONS,
    LONGEST_NAME,
    OTHER,
    OTHER_NAME,
    POINTS,
    RECENT_SLOTS,
    SLOT_ROWS,
    checked,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kampong._runtime.compute import Float, Integer
    from kampong.checkpoint import Contents


class Curves(NamedTuple):
    """One number for each entry: its own rows, predictions, seconds and dead letters, and the state at its end."""

    rows: Integer
    scored: Integer
    correct: Integer
    seconds: Float
    dead: Integer
    epsilon: Float
    eigenvalues: Float
    directions: Integer


class ClassTable(NamedTuple):
    """One number for each class, in order of appearance: rows, predictions and right ones, in all and recently."""

    names: list[str]
    rows: Integer
    scored: Integer
    correct: Integer
    recent_scored: Integer
    recent_correct: Integer


class Points(NamedTuple):
    """The kept points, oldest first; missing coordinates are NaN, an unknown prediction is the empty text."""

    coordinates: Float
    row_numbers: Integer
    labels: list[str]
    predicted: list[str]


class State(NamedTuple):
    """What the model was like at the end of an entry."""

    epsilon: float | None = None
    eigenvalues: tuple[float, ...] = ()
    directions: int = 0


class History:
    """The course of a stream in bounded memory, whatever its length.

    Each batch adds to the last of at most `capacity` entries. When all are full, neighbours are joined in pairs, so
    that each entry holds twice as many batches. The number of batches in an entry is the smallest power of two for
    which all batches fit. Rows, right predictions, time (in whole nanoseconds) and dead letters are sums, so that
    totals stay exact; eigenvalues and ε are those at the end of an entry.

    Parameters
    ----------
    capacity : int
        The most entries, an even number.

    Attributes
    ----------
    rows : int
        Rows observed.
    scored : int
        Those that were predicted before they were learnt.
    correct : int
        Those predicted rightly.
    dead : int
        Records that could not be used.
    seconds : float
        Time taken.
    n_batches : int
        Batches observed.

    Examples
    --------
    >>> history = History(capacity=2)
    >>> for _ in range(5):
    ...     history.observe(rows=10, correct=9, seconds=0.5)
    >>> history.rows, history.correct, history.curves().rows.tolist()
    (50, 45, [40, 10])
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        if capacity < 2 or capacity % 2:
            raise ValueError(f"History: capacity must be an even number ≥ 2, got {capacity!r}. Use {CAPACITY}.")
        self.capacity = int(capacity)
        self._stride = 1
        self._filled = 1  # batches in the last entry; an empty history has no entry to fill
        self._counts: list[list[int]] = []
        self._states: list[State] = []
        self._names = [OTHER_NAME]
        self._codes: dict[str, int] = {}
        self._class_counts = [[0, 0, 0]]
        self._recent: list[dict[int, list[int]]] = []
        self._points: Float = np.zeros((0, DIRECTIONS), dtype=np.float32)
        self._point_facts: Integer = np.zeros((0, 4), dtype=np.int64)
        self._centres: Float = np.zeros((0, DIRECTIONS))
        self._centre_facts: Integer = np.zeros((0, 2), dtype=np.int64)
        self._centres_given: Any = None

    def observe(
        self,
        *,
        rows: int,
        correct: int,
        seconds: float,
        scored: int | None = None,
        dead: int = 0,
        eigenvalues: Sequence[float] = (),
        epsilon: float | None = None,
        class_rows: Mapping[Any, int] | None = None,
        class_scored: Mapping[Any, int] | None = None,
        class_correct: Mapping[Any, int] | None = None,
    ) -> None:
        """Remember one batch.

        Parameters
        ----------
        rows : int
            Its labelled rows.
        correct : int
            How many of them were predicted rightly before they were learnt.
        seconds : float
            The time it took.
        scored : int, optional
            How many rows were predicted at all, by default all; before two classes are known none can be.
        dead : int
            Records that could not be used.
        eigenvalues : sequence of float
            Those of the model after the batch, best first; the first 8 are kept, up to one that is not finite.
        epsilon : float, optional
            The ε of the model after the batch.
        class_rows : mapping of label to int, optional
            The rows of each class in the batch.
        class_scored : mapping of label to int, optional
            The rows of each class that were predicted, by default all where all were.
        class_correct : mapping of label to int, optional
            The rows of each class that were predicted rightly.
        """
        rows, correct, dead = int(rows), int(correct), int(dead)
        predicted = rows if scored is None else int(scored)
        if not (0 <= correct <= predicted <= rows and dead >= 0 and 0 <= seconds < math.inf):
            raise ValueError(
                f"History.observe: rows={rows}, correct={correct}, dead={dead}, seconds={seconds}: none may be "
                "negative or infinite, and no more rows can be right than were predicted. Give the figures of a batch."
            )
        entry = self._entry()
        for place, amount in enumerate((rows, predicted, correct, round(seconds * 1e9), dead)):
            entry[place] += amount
        state = self._states[-1]
        if len(eigenvalues):
            state = state._replace(eigenvalues=_finite_start(eigenvalues), directions=len(eigenvalues))
        if epsilon is not None and math.isfinite(epsilon):
            state = state._replace(epsilon=float(epsilon))
        self._states[-1] = state
        class_rows = class_rows or {}
        if class_scored is None:
            class_scored = class_rows if predicted == rows else {}
        self._count_classes(predicted, correct, class_rows, class_scored, class_correct or {})

    def keep_points(
        self,
        projected: Any,
        labels: Any,
        predicted: Any = None,
        *,
        first_row: int | None = None,
        centres: tuple[Any, Float] | None = None,
    ) -> None:
        """Keep some rows of the batch just observed as points; they replace the oldest points.

        A large batch is first thinned evenly, then so that its classes have equal shares as far as they have rows.

        Parameters
        ----------
        projected : array of shape (rows, directions)
            The rows in the subspace; the first 8 coordinates are kept.
        labels : sequence of length rows
            Their classes.
        predicted : sequence of length rows, optional
            The predictions made before the rows were learnt.
        first_row : int, optional
            The number of the first row in the stream, counted from 1. By default the batch is the last one observed.
        centres : pair of a sequence of K labels and an array of shape (K, directions), optional
            The means of the classes over the whole stream, projected as the rows are: what the recent points of a
            class are compared with. The last ones given are kept.
        """
        projected = np.asarray(projected)
        predicted = None if predicted is None else np.asarray(predicted)
        labels, n = np.asarray(labels), len(projected)
        if projected.ndim != 2 or len(labels) != n or (predicted is not None and len(predicted) != n):
            raise ValueError(
                f"History.keep_points: {labels.shape} labels for rows of shape {projected.shape}, predictions "
                f"{None if predicted is None else predicted.shape}. Give one of each a row."
            )
        first = self.rows - n + 1 if first_row is None else int(first_row)
        width = min(projected.shape[1], DIRECTIONS)
        quota = POINTS // BATCH_SHARE
        chosen = np.linspace(0, n - 1, 2 * quota).astype(np.int64) if n > 2 * quota else np.arange(n)
        chosen = chosen[np.isfinite(projected[chosen, :width]).all(axis=1)]
        codes = np.array([self._code(label) for label in labels[chosen].tolist()], dtype=np.int64)
        if len(chosen) > quota:
            kept = _equal_shares(codes, quota)
            chosen, codes = chosen[kept], codes[kept]
        points = np.zeros((len(chosen), DIRECTIONS), dtype=np.float32)
        points[:, :width] = projected[chosen, :width]
        facts = np.full((len(chosen), 4), -1, dtype=np.int64)
        facts[:, 0], facts[:, 1], facts[:, 3] = first + chosen, codes, width
        if predicted is not None:
            facts[:, 2] = [-1 if label is None else self._code(label) for label in predicted[chosen].tolist()]
        self._points = np.concatenate([self._points, points])[-POINTS:]
        self._point_facts = np.concatenate([self._point_facts, facts])[-POINTS:]
        if centres is not None and centres is not self._centres_given:
            self._keep_centres(*centres)
            self._centres_given = centres  # every batch brings the same ones until the directions are computed anew

    # What a report reads.

    @property
    def rows(self) -> int:
        """The rows observed."""
        return sum(entry[0] for entry in self._counts)

    @property
    def scored(self) -> int:
        """The rows predicted."""
        return sum(entry[1] for entry in self._counts)

    @property
    def correct(self) -> int:
        """The right predictions."""
        return sum(entry[2] for entry in self._counts)

    @property
    def seconds(self) -> float:
        """The time taken."""
        return sum(entry[3] for entry in self._counts) / 1e9

    @property
    def dead(self) -> int:
        """The records that could not be used."""
        return sum(entry[4] for entry in self._counts)

    @property
    def n_batches(self) -> int:
        """The batches observed."""
        return (len(self._counts) - 1) * self._stride + self._filled if self._counts else 0

    def curves(self) -> Curves:
        """Return what is known over time, one number an entry."""
        counts = np.array(self._counts, dtype=np.int64).reshape(-1, 5)
        eigenvalues = np.full((len(counts), DIRECTIONS), np.nan)
        for place, state in enumerate(self._states):
            eigenvalues[place, : len(state.eigenvalues)] = state.eigenvalues
        epsilon = np.array([np.nan if state.epsilon is None else state.epsilon for state in self._states])
        directions = np.array([state.directions for state in self._states], dtype=np.int64)
        rows, scored, correct, nanoseconds, dead = counts.T
        return Curves(rows, scored, correct, nanoseconds / 1e9, dead, epsilon, eigenvalues, directions)

    def recent(self) -> tuple[int, int]:
        """Return the rows predicted in the recent window and the right predictions among them."""
        pairs = [slot[ALL] for slot in self._recent]
        return sum(pair[0] for pair in pairs), sum(pair[1] for pair in pairs)

    def class_table(self) -> ClassTable:
        """Return the counts of every class that has rows."""
        recent = np.zeros((len(self._names), 2), dtype=np.int64)
        for slot in self._recent:
            for code, pair in slot.items():
                if code != ALL:
                    recent[code] += pair
        counts = np.array(self._class_counts, dtype=np.int64)
        seen = np.flatnonzero(counts[:, 0])
        counts, recent = counts[seen], recent[seen]
        names = [self._names[code] for code in seen]
        return ClassTable(names, *counts.T, *recent.T)

    def points(self) -> Points:
        """Return the kept points."""
        coordinates = self._points.astype(np.float64)
        coordinates[np.arange(DIRECTIONS) >= self._point_facts[:, 3:]] = np.nan
        names = [*self._names, ""]  # code −1 reads the last one
        labels, predicted = ([names[code] for code in self._point_facts[:, place].tolist()] for place in (1, 2))
        return Points(coordinates, self._point_facts[:, 0].copy(), labels, predicted)

    def centres(self) -> dict[str, Float]:
        """Return the last means of the classes that came with points, by name."""
        facts = zip(self._centres, self._centre_facts.tolist(), strict=True)
        return {self._names[code]: centre[:width] for centre, (code, width) in facts}

    # To and from a checkpoint.

    def to_state(self) -> dict[str, Any]:
        """Return everything as named values for a model file, all finite.

        Returns
        -------
        dict of str to array or int
            What `from_state` takes.
        """
        states = np.zeros((len(self._states), 1 + DIRECTIONS))
        known = np.zeros((len(self._states), 3), dtype=np.int64)
        for place, (epsilon, leading, directions) in enumerate(self._states):
            known[place] = epsilon is not None, len(leading), directions
            states[place, 0] = 0.0 if epsilon is None else epsilon
            states[place, 1 : 1 + len(leading)] = leading
        recent = [
            (place, code, *pair) for place, slot in enumerate(self._recent) for code, pair in sorted(slot.items())
        ]
        return {
            "capacity": self.capacity,
            "stride": self._stride,
            "filled": self._filled,
            "class_names": to_lines(self._names[1:]),
            "counts": np.array(self._counts, dtype=np.int64).reshape(-1, 5),
            "states": states,
            "states_known": known,
            "class_counts": np.array(self._class_counts, dtype=np.int64).reshape(-1, 3),
            "recent": np.array(recent, dtype=np.int64).reshape(-1, 4),
            "points": self._points.copy(),
            "point_facts": self._point_facts.copy(),
            "centres": self._centres.copy(),
            "centre_facts": self._centre_facts.copy(),
        }

    @classmethod
    def from_state(cls, contents: Contents) -> Self:
        """Return the history that `to_state` wrote; it continues exactly as the original would have.

        Parameters
        ----------
        contents : Contents
            The values, which are used up.

        Returns
        -------
        History
            The same history.
        """
        state = checked(contents)
        history = cls(state.capacity)
        history._stride, history._filled = state.stride, state.filled
        history._counts = state.counts.tolist()
        for (epsilon, *leading), (has_epsilon, n, directions) in zip(
            state.states.tolist(), state.states_known.tolist(), strict=True
        ):
            history._states.append(State(epsilon if has_epsilon else None, tuple(leading[:n]), directions))
        history._names = [OTHER_NAME, *state.class_names]
        history._codes = {name: code for code, name in enumerate(history._names) if code != OTHER}
        history._class_counts = state.class_counts.tolist()
        for place, code, *pair in state.recent.tolist():
            if place == len(history._recent):
                history._recent.append({})
            history._recent[place][code] = pair
        history._points, history._point_facts = state.points.copy(), state.point_facts.copy()
        history._centres, history._centre_facts = state.centres.copy(), state.centre_facts.copy()
        return history

    # How.

    def _entry(self) -> list[int]:
        """Return the counts of the entry that takes the next batch, making room for it where needed."""
        if self._counts and self._filled < self._stride:
            self._filled += 1
            return self._counts[-1]
        if len(self._counts) == self.capacity:
            pairs = zip(self._counts[::2], self._counts[1::2], strict=True)
            self._counts = [[a + b for a, b in zip(first, second, strict=True)] for first, second in pairs]
            self._states = self._states[1::2]
            self._stride *= 2
        # What is not observed again keeps its last value.
        self._states.append(self._states[-1] if self._states else State())
        self._counts.append([0, 0, 0, 0, 0])
        self._filled = 1
        return self._counts[-1]

    def _code(self, label: Any) -> int:
        """Return the code of a class, a new one while there is room."""
        name = class_name(label)
        code = self._codes.get(name)
        if code is None:
            if len(self._names) == CLASSES:
                return OTHER
            code = self._codes[name] = len(self._names)
            self._names.append(name)
            self._class_counts.append([0, 0, 0])
        return code

    def _keep_centres(self, labels: Any, centres: Float) -> None:
        codes = np.array([self._code(label) for label in np.asarray(labels).tolist()], dtype=np.int64)
        kept = np.flatnonzero((codes != OTHER) & np.isfinite(centres).all(axis=1))
        width = min(centres.shape[1], DIRECTIONS)
        self._centres = np.zeros((len(kept), DIRECTIONS))
        self._centres[:, :width] = centres[kept, :width]
        self._centre_facts = np.c_[codes[kept], np.full(len(kept), width, dtype=np.int64)]

    def _count_classes(self, predicted: int, correct: int, *counted: Mapping[Any, int]) -> None:
        """Add rows, predictions and right ones of each class to its totals, and the last two to the recent window."""
        if not self._recent or self._recent[-1][ALL][0] >= SLOT_ROWS:
            self._recent.append({ALL: [0, 0]})
            del self._recent[:-RECENT_SLOTS]
        slot = self._recent[-1]
        slot[ALL][0] += predicted
        slot[ALL][1] += correct
        for place, amounts in enumerate(counted):
            for label, amount in amounts.items():
                code = self._code(label)
                self._class_counts[code][place] += int(amount)
                if place:
                    slot.setdefault(code, [0, 0])[place - 1] += int(amount)


def class_name(label: Any) -> str:
    """Return the label as text, cut if it is very long."""
    text = str(label)
    return text if len(text) <= LONGEST_NAME else text[: LONGEST_NAME - 1] + "…"


def _finite_start(values: Sequence[float]) -> tuple[float, ...]:
    """Return the leading values, up to the first that is not finite."""
    leading = [float(value) for value in values[:DIRECTIONS]]
    bad = next((place for place, value in enumerate(leading) if not math.isfinite(value)), len(leading))
    return tuple(leading[:bad])


def _equal_shares(codes: Integer, quota: int) -> Integer:
    """Return the places of `quota` rows, the latest of each class, in equal shares as far as the classes have rows.

    The n-th latest row of a class comes before the (n + 1)-th latest of any other.
    """
    latest_first = codes[::-1]
    order = np.argsort(latest_first, kind="stable")
    grouped = latest_first[order]
    starts = np.flatnonzero(np.r_[True, grouped[1:] != grouped[:-1]])
    turn = np.empty(len(codes), dtype=np.int64)
    turn[order] = np.arange(len(codes)) - np.repeat(starts, np.diff(np.r_[starts, len(codes)]))
    chosen = np.argsort(turn, kind="stable")[:quota]
    return np.sort(len(codes) - 1 - chosen)
