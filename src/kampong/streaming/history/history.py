"""The history of a stream, in bounded memory: accuracy, speed, eigenvalues, classes, drift, choices, a few points."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from kampong.streaming.history.baselines import Baselines, chance_of, kappa
from kampong.streaming.history.delays import Delays
from kampong.streaming.history.drift import DriftDetector
from kampong.streaming.history.limits import BATCH_SHARE, CAPACITY, DIRECTIONS, PIECE, POINTS, checked
from kampong.streaming.history.notes import Choices, DeadKinds
from kampong.streaming.history.outcomes import Outcomes, recent_rows

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kampong._core.compute import Float, Integer
    from kampong.files import Contents
    from kampong.streaming.columns.records import Dead
    from kampong.streaming.history.delays import Late
    from kampong.streaming.history.outcomes import ClassTable


PARTS = ("outcomes", "baselines", "delays", "drift", "choices", "dead_kinds")
"""What a history keeps in objects of their own."""


class Curves(NamedTuple):
    """One number for each entry: its own rows, predictions, seconds and dead letters, and the state at its end.

    The state is how many of the predicted rows were recent then and how many of those were right, the leading
    eigenvalues, and the number of directions.
    """

    rows: Integer
    scored: Integer
    correct: Integer
    seconds: Float
    dead: Integer
    recent_scored: Integer
    recent_correct: Integer
    eigenvalues: Float
    directions: Integer


class Points(NamedTuple):
    """The kept points, oldest first; missing coordinates are NaN, an unknown prediction is the empty text.

    `probability` is that of the prediction, NaN where it is unknown.
    """

    coordinates: Float
    row_numbers: Integer
    labels: list[str]
    predicted: list[str]
    probability: Float


class State(NamedTuple):
    """What the model was like at the end of an entry."""

    eigenvalues: tuple[float, ...] = ()
    directions: int = 0
    recent: tuple[int, int] = (0, 0)


class History:
    """The course of a stream in bounded memory, whatever its length.

    Each batch adds to the last of at most `capacity` entries; a large one counts as several, of 16 rows at first and of
    512 later. When all are full, neighbours are joined in pairs, so that each entry holds twice as many batches. The
    number of batches in an entry is the smallest power of two for which all batches fit. Rows, right predictions, time
    (in whole nanoseconds) and dead letters are sums, so that totals stay exact; eigenvalues and recent accuracy are
    those at the end of an entry.

    Recent rows are the same everywhere: the latest 1,000 that were predicted, or the latest half of them while there
    are fewer than 2,000.

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
        Batches observed; a large one counts as several.
    outcomes : Outcomes
        What was predicted of the rows of each class.
    baselines : Baselines
        What the commonest class and the last label had right.
    delays : Delays
        The accuracy when labels come late.
    drift : DriftDetector
        When the accuracy changed.
    choices : Choices
        What was chosen, and since when.
    dead_kinds : DeadKinds
        The dead letters by what is wrong with them.

    Examples
    --------
    >>> history = History(capacity=2)
    >>> for _ in range(5):
    ...     history.observe(["a", "b", "b"], ["a", "b", "a"], seconds=0.5)
    >>> history.rows, history.correct, history.curves().rows.tolist()
    (15, 10, [12, 3])
    >>> history.measures()["balanced_accuracy"]
    0.75
    """

    def __init__(self, capacity: int = CAPACITY) -> None:
        if capacity < 2 or capacity % 2:
            raise ValueError(f"History: capacity must be an even number ≥ 2, got {capacity!r}. Use {CAPACITY}.")
        self.capacity = int(capacity)
        self._stride = 1
        self._filled = 1  # batches in the last entry; an empty history has no entry to fill
        self._counts: list[list[int]] = []
        self._states: list[State] = []
        self._totals = [0, 0, 0, 0, 0]
        self._points: Float = np.zeros((0, DIRECTIONS + 1), dtype=np.float32)
        self._offsets: Float = np.zeros((0, DIRECTIONS), dtype=np.float32)
        self._point_facts: Integer = np.zeros((0, 5), dtype=np.int64)
        self.outcomes, self.drift = Outcomes(), DriftDetector()
        self.baselines, self.delays = Baselines(), Delays()
        self.choices, self.dead_kinds = Choices(), DeadKinds()

    def observe(
        self,
        labels: Any,
        predicted: Any = None,
        *,
        seconds: float,
        dead: Sequence[Dead] = (),
        eigenvalues: Sequence[float] = (),
    ) -> None:
        """Remember one batch.

        Parameters
        ----------
        labels : sequence
            The classes of its rows.
        predicted : sequence, optional
            What was predicted of each row before it was learnt, None for a row of which nothing could be said; no
            predictions at all by default.
        seconds : float
            The time it took.
        dead : sequence of Dead
            Records that could not be used.
        eigenvalues : sequence of float
            Those of the model after the batch, best first; the first 8 are kept, up to one that is not finite.
        """
        labels = np.asarray(labels)
        given = np.full(len(labels), None, dtype=object) if predicted is None else np.asarray(predicted)
        if labels.ndim != 1 or given.shape != labels.shape or not 0 <= seconds < math.inf:
            raise ValueError(
                f"History.observe: {labels.shape} labels, {given.shape} predictions, {seconds} seconds. Give one label "
                "and one prediction a row, and a time that is neither negative nor infinite."
            )
        scored = np.ones(len(given), dtype=bool)
        if given.dtype == object:
            scored = np.array([label is not None for label in given.tolist()], dtype=bool)
        n, edges = max(len(labels), 1), [0]
        while edges[-1] < n:  # a large batch is several entries, so that curves are fine
            edges.append(min(edges[-1] + piece(self.rows + edges[-1]), n))
        right = np.asarray(given[scored] == labels[scored], dtype=bool)
        codes, said = self.outcomes.number(labels, given, scored, [*edges[:-1], len(labels)])
        recent = self.outcomes.add(codes, said, scored, right)
        self.baselines.add(codes, scored, len(self.outcomes.names))
        if len(right):
            self.drift.update(right, self.rows + 1 + np.flatnonzero(scored))
        self._add_entries(np.array(edges), scored, right, recent, round(seconds * 1e9), len(dead))
        if len(eigenvalues):
            last = self._states[-1]
            self._states[-1] = last._replace(eigenvalues=_finite_start(eigenvalues), directions=len(eigenvalues))
        self.dead_kinds.add(dead)

    def _add_entries(
        self, edges: Integer, scored: np.ndarray, right: np.ndarray, recent: Integer, nanoseconds: int, dead: int
    ) -> None:
        """Add the parts of a batch to the entries: their sums, and the recent rows at the end of each."""
        n, rows = int(edges[-1]), np.minimum(edges, len(scored))
        counted, before = np.concatenate([[0], np.cumsum(scored)])[rows], self.outcomes.scored - len(right)
        correct = np.concatenate([[0], np.cumsum(right)])[counted]
        times = [nanoseconds * edge // n for edge in edges.tolist()]
        letters = np.where(edges == n, dead, 0)
        sums = np.diff(np.stack([rows, counted, correct, np.array(times, dtype=object), letters], axis=1), axis=0)
        for place, amounts in enumerate(sums.tolist()):
            entry, end = self._entry(), int(counted[place + 1])
            for kind, amount in enumerate(amounts):
                entry[kind] += amount
                self._totals[kind] += amount
            if end:
                held = int(recent_rows(before + end))
                self._states[-1] = self._states[-1]._replace(recent=(held, int(recent[end - 1])))

    def keep_points(
        self,
        projected: Any,
        labels: Any,
        predicted: Any = None,
        probability: Any = None,
        *,
        row_numbers: Any = None,
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
        probability : sequence of length rows, optional
            How probable those were; NaN where that is unknown.
        row_numbers : sequence of length rows, optional
            Their numbers in the stream, counted from 1. By default they are the rows of the batch last observed.
        centres : pair of a sequence of K labels and an array of shape (K, directions), optional
            The means of the classes over the whole stream, projected as the rows are; how far each point lies from the
            mean of its class is kept.
        """
        projected = np.asarray(projected)
        predicted = None if predicted is None else np.asarray(predicted)
        labels, n = np.asarray(labels), len(projected)
        chances = np.full(n, np.nan) if probability is None else np.asarray(probability, dtype=np.float64)
        one_each = len(labels) == len(chances) == n and (predicted is None or len(predicted) == n)
        if projected.ndim != 2 or not one_each:
            raise ValueError(
                f"History.keep_points: {labels.shape} labels for rows of shape {projected.shape}, predictions "
                f"{None if predicted is None else predicted.shape}, {chances.shape} probabilities. Give one of each a "
                "row."
            )
        numbers = self.rows - n + 1 + np.arange(n) if row_numbers is None else np.asarray(row_numbers)
        width = min(projected.shape[1], DIRECTIONS)
        quota = POINTS // BATCH_SHARE
        chosen = candidates(n)
        chosen = chosen[np.isfinite(projected[chosen, :width]).all(axis=1)]
        codes = self._codes_of(labels[chosen])
        if len(chosen) > quota:
            kept = _equal_shares(codes, quota)
            chosen, codes = chosen[kept], codes[kept]
        points = np.zeros((len(chosen), DIRECTIONS + 1), dtype=np.float32)
        points[:, :width] = projected[chosen, :width]
        points[:, DIRECTIONS] = np.where(np.isfinite(chances[chosen]), chances[chosen], -1.0)
        offsets = np.zeros((len(chosen), DIRECTIONS), dtype=np.float32)
        facts = np.full((len(chosen), 5), -1, dtype=np.int64)
        facts[:, 0], facts[:, 1], facts[:, 3], facts[:, 4] = numbers[chosen], codes, width, 0
        if predicted is not None:
            facts[:, 2] = self._codes_of(predicted[chosen])
        if centres is not None and centres[1].shape[1] >= width:
            places = {label: place for place, label in enumerate(np.asarray(centres[0]).tolist())}
            mine = np.array([places.get(label, -1) for label in labels[chosen].tolist()], dtype=np.int64)
            away = projected[chosen, :width] - centres[1][mine, :width]
            known = (mine >= 0) & np.isfinite(away).all(axis=1)
            offsets[known, :width], facts[known, 4] = away[known], width
        self._points = np.concatenate([self._points, points])[-POINTS:]
        self._offsets = np.concatenate([self._offsets, offsets])[-POINTS:]
        self._point_facts = np.concatenate([self._point_facts, facts])[-POINTS:]

    # What a report reads.

    @property
    def rows(self) -> int:
        """The rows observed."""
        return self._totals[0]

    @property
    def scored(self) -> int:
        """The rows predicted."""
        return self._totals[1]

    @property
    def correct(self) -> int:
        """The right predictions."""
        return self._totals[2]

    @property
    def seconds(self) -> float:
        """The time taken."""
        return self._totals[3] / 1e9

    @property
    def dead(self) -> int:
        """The records that could not be used."""
        return self._totals[4]

    @property
    def n_batches(self) -> int:
        """The batches observed, large ones in pieces."""
        return (len(self._counts) - 1) * self._stride + self._filled if self._counts else 0

    def curves(self) -> Curves:
        """Return what is known over time, one number an entry."""
        counts = np.array(self._counts, dtype=np.int64).reshape(-1, 5)
        eigenvalues = np.full((len(counts), DIRECTIONS), np.nan)
        for place, state in enumerate(self._states):
            eigenvalues[place, : len(state.eigenvalues)] = state.eigenvalues
        directions = np.array([state.directions for state in self._states], dtype=np.int64)
        window, right = np.array([state.recent for state in self._states], dtype=np.int64).reshape(-1, 2).T
        rows, scored, correct, nanoseconds, dead = counts.T
        return Curves(rows, scored, correct, nanoseconds / 1e9, dead, window, right, eigenvalues, directions)

    def class_table(self) -> ClassTable:
        """Return the counts of every class that came or was predicted."""
        return self.outcomes.table()

    def measures(self, *, recent: bool = False) -> dict[str, float]:
        """Return accuracy, balanced accuracy and macro F1 of all rows or of the recent ones, NaN without any."""
        return self.class_table().measures(recent=recent)

    def baseline_figures(self) -> dict[str, float]:
        """Return what the accuracy is to be compared with, by name; NaN without predicted rows.

        Returns
        -------
        dict of str to float
            `majority` and `last_label` are accuracies on the rows that were predicted; `kappa` is Cohen's, and
            `kappa_last_label` what the accuracy gains over the last label, as a part of what could be gained.
        """
        if not self.scored:
            return dict.fromkeys(("majority", "last_label", "kappa", "kappa_last_label"), float("nan"))
        table, accuracy = self.class_table(), self.correct / self.scored
        last = self.baselines.last / self.scored
        return {
            "majority": self.baselines.majority / self.scored,
            "last_label": last,
            "kappa": kappa(accuracy, chance_of(table.scored, table.predicted)),
            "kappa_last_label": kappa(accuracy, last),
        }

    def summary(self) -> dict[str, Any]:
        """Return the key figures as plain values; what is not known is None.

        Returns
        -------
        dict of str to JSON
            `accuracy`, `balanced_accuracy` and `macro_f1` of all predicted rows; `unscored`, how many rows could not be
            predicted; `baselines` to compare with; `label_delay`; `late` with the accuracy at each delay of the labels;
            `saved_model` with the delay and the accuracy to expect of the saved model, and whether the model of all
            rows alone answers in it; `too_large`, the delays that are not measured because a copy of the model takes
            too many bytes; `recent` with the measures of the recent rows and their number `rows`; `rows_per_second`,
            `alarms` of drift, and what is `chosen` since which row.
        """

        def plain(found: dict[str, float]) -> dict[str, Any]:
            return {name: None if math.isnan(value) else value for name, value in found.items()}

        def late(one: Late) -> dict[str, Any]:
            return {"delay": one.delay, "rows": one.rows, "accuracy": one.accuracy, "standard_error": one.error}

        def saved(one: Late) -> dict[str, Any]:
            accuracy = one.all_rows if one.all_rows_answer else one.accuracy
            return {**late(one), "accuracy": accuracy, "all_rows_answer": one.all_rows_answer}

        log, since = self.choices.log(), self.choices.since
        chosen: dict[str, Any] = {}
        if log:
            last = log[-1]
            forever = last.half_life is not None and math.isinf(last.half_life)
            chosen = {"head": {"value": last.head, "since": since["head"]}}
            chosen[self.choices.parameter] = {"value": last.value, "since": since["value"]}
            chosen["half_life"] = {"value": None if forever else last.half_life, "since": since["half_life"]}
        longest = self.delays.longest()
        return {
            **plain(self.measures()),
            "unscored": self.rows - self.scored,
            "baselines": plain(self.baseline_figures()),
            "label_delay": self.baselines.delay,
            "late": [late(one) for one in self.delays.found()],
            "saved_model": None if longest is None else saved(longest),
            "too_large": [{"delay": one.delay, "bytes": one.large} for one in self.delays.too_large()],
            "recent": {"rows": len(self.outcomes.recent()), **plain(self.measures(recent=True))},
            "rows_per_second": self.rows / self.seconds if self.seconds else None,
            "alarms": self.drift.n_alarms,
            "chosen": chosen,
        }

    def points(self) -> Points:
        """Return the kept points."""
        coordinates = self._points[:, :DIRECTIONS].astype(np.float64)
        coordinates[np.arange(DIRECTIONS) >= self._point_facts[:, 3:4]] = np.nan
        chances = self._points[:, DIRECTIONS].astype(np.float64)
        chances[chances < 0] = np.nan
        names = [*self.outcomes.names, ""]  # code −1 reads the last one
        labels, predicted = ([names[code] for code in self._point_facts[:, place].tolist()] for place in (1, 2))
        return Points(coordinates, self._point_facts[:, 0].copy(), labels, predicted, chances)

    def offsets(self) -> Float:
        """Return how far each point lies from the mean of its class, by the directions of its time; NaN if unknown."""
        offsets = self._offsets.astype(np.float64)
        offsets[np.arange(DIRECTIONS) >= self._point_facts[:, 4:]] = np.nan
        return offsets

    # To and from a checkpoint.

    def to_state(self) -> dict[str, Any]:
        """Return everything as named values for a model file, all finite.

        Returns
        -------
        dict of str to array, int or dict
            What `from_state` takes.
        """
        eigenvalues = np.zeros((len(self._states), DIRECTIONS))
        directions = np.zeros((len(self._states), 2), dtype=np.int64)
        for place, state in enumerate(self._states):
            directions[place] = len(state.eigenvalues), state.directions
            eigenvalues[place, : len(state.eigenvalues)] = state.eigenvalues
        return {
            "capacity": self.capacity,
            "stride": self._stride,
            "filled": self._filled,
            "counts": np.array(self._counts, dtype=np.int64).reshape(-1, 5),
            "eigenvalues": eigenvalues,
            "directions": directions,
            "recent": np.array([state.recent for state in self._states], dtype=np.int64).reshape(-1, 2),
            "points": self._points.copy(),
            "point_facts": self._point_facts.copy(),
            "offsets": self._offsets.copy(),
            "outcomes": self.outcomes.to_state(),
            "baselines": self.baselines.to_state(),
            "delays": self.delays.to_state(),
            "drift": self.drift.to_state(),
            "choices": self.choices.to_state(),
            "dead_kinds": self.dead_kinds.to_state(),
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
        parts = {name: contents.part(name) for name in PARTS}
        outcomes = Outcomes.from_state(parts["outcomes"])
        state = checked(contents, len(outcomes.names))
        history = cls(state.capacity)
        history._stride, history._filled = state.stride, state.filled
        history._counts = state.counts.tolist()
        history._totals = state.counts.sum(axis=0).tolist() if len(state.counts) else [0] * 5
        known = zip(state.eigenvalues.tolist(), state.directions.tolist(), state.recent.tolist(), strict=True)
        history._states = [
            State(tuple(values[:n]), total, (window, right)) for values, (n, total), (window, right) in known
        ]
        history._points, history._point_facts = state.points.copy(), state.point_facts.copy()
        history._offsets = state.offsets.copy()
        history.outcomes = outcomes
        history.drift = DriftDetector.from_state(parts["drift"], history.scored, history.rows)
        history.choices = Choices.from_state(parts["choices"], history.rows)
        history.dead_kinds = DeadKinds.from_state(parts["dead_kinds"])
        history._check(contents)
        history.baselines = Baselines.from_state(parts["baselines"], outcomes.rows, history.scored)
        history.delays = Delays.from_state(parts["delays"], history.rows)
        return history

    # How.

    def _check(self, contents: Contents) -> None:
        """Compare the parts with each other."""
        table, require = self.outcomes.table(), contents.require
        for name in ("rows", "scored", "correct"):
            mine, theirs = getattr(self, name), int(getattr(table, name).sum())
            require(mine == theirs, f"counts has {mine} {name}, and outcomes, class_counts has {theirs} in all")
        require(self.dead == self.dead_kinds.count, f"counts has {self.dead} dead, and dead_kinds, counts differs")
        window = self.outcomes.recent()
        last = (len(window), int(window[:, 2].sum()))
        require(not self._states or self._states[-1].recent == last, "recent does not end as outcomes, latest does")
        wrong = self.scored - self.correct
        inside = self.drift.errors == wrong if self.drift.width == self.scored else self.drift.errors <= wrong
        require(inside, "drift, errors is not what outcomes, class_counts says")

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

    def _codes_of(self, labels: np.ndarray) -> Integer:
        """Return the codes of classes, −1 for None."""
        listed = labels.tolist()
        codes = {label: -1 if label is None else self.outcomes.code(label) for label in dict.fromkeys(listed)}
        return np.array([codes[label] for label in listed], dtype=np.int64)


def piece(rows: int) -> int:
    """Return the most rows of the next entry after this many rows: an eighth of them, from 16 to 512."""
    return min(PIECE, max(16, 1 << max(rows // 8, 1).bit_length() - 1))


def candidates(n: int) -> Integer:
    """Return the places of the rows of a batch that may be kept as points, evenly spread."""
    most = 2 * POINTS // BATCH_SHARE
    return np.linspace(0, n - 1, most).astype(np.int64) if n > most else np.arange(n)


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
