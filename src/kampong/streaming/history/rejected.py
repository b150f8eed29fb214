"""Rows of a stream that looked like no class when they came: how many, the latest of them, and those that lie together.

Each row is compared with what tells known rows from others (`predict_known`), as it was found at a fixed row number
before; row numbers alone decide when it is found again. Rejected rows lie together if no more than the usual distance
of two rows of a class is between them and one of them. They are a candidate for a new class if that many rows of known
classes are improbable there: a Poisson test, by how many of the kept rows lie as near.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from scipy import special

from kampong.data.labels import labels_from, labels_state
from kampong.files.contents import to_lines
from kampong.selection.known_rows import KnownRows
from kampong.statistics.scatter import WIDEST
from kampong.streaming.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from kampong._core.compute import Float, Integer, Rows
    from kampong.contract import StreamModel
    from kampong.files import Contents
    from kampong.predictor import Predictor
    from kampong.streaming.columns.column_memory import Memory

FIRST, LONGEST = 2**8, 2**16
"""The row after which rows are first compared, and the longest pause until what they are compared with is found again.

In between the pause is as long as the stream before.
"""

ENTRIES, KEPT = 2**21, 2**11
"""Numbers and rows, at most, of the rows that rows are compared with."""

LISTED, CANDIDATES, COLUMNS, NAMED = 256, 16, 3, 3
"""Rejected rows, candidates, columns of each, and labels of each that are kept, at most."""

SURE = 0.01
"""How probable what is reported may be by chance: rows of known classes as a candidate, rows that came sorted."""


class Candidate(NamedTuple):
    """Rejected rows that lie together.

    Attributes
    ----------
    rows, first, last : int
        How many they are, and the numbers of the first and the last of them.
    expected : float
        How many rows of known classes, rejected or not, would be as near in as many rows.
    labels : str
        The labels that came with most of them.
    columns : tuple of int
        The columns in which they differ most from known rows.
    values, usual : tuple of float
        The means of these columns: of these rows, and of known ones.
    """

    rows: int
    first: int
    last: int
    expected: float
    labels: str
    columns: tuple[int, ...]
    values: tuple[float, ...]
    usual: tuple[float, ...]


class Rejected:
    """What a stream remembers of rows that look like no class.

    Parameters
    ----------
    rate : float
        The share of rows of known classes that may be rejected.

    Attributes
    ----------
    due : int
        The row number at which known rows are found again.
    asked, rejected : int
        Rows of classes that were known when they came, and how many of them were rejected.
    new_asked, new_rejected : int
        The same for rows of classes that were not known then.
    """

    def __init__(self, rate: float) -> None:
        self.rate, self.due = rate, FIRST
        self.asked = self.rejected = self.new_asked = self.new_rejected = 0
        self._known: KnownRows | None = None
        self._least = -np.inf
        self._classes: np.ndarray = np.empty(0)
        self._labels: list[str] = []
        self._facts: Integer = np.empty((0, 2 + COLUMNS), dtype=np.int64)
        self._numbers: Float = np.empty((0, COLUMNS))
        self._rows: Float = np.empty((0, 0))
        self._noted: list[Candidate] = []

    @staticmethod
    def most(width: int) -> int:
        """Return how many kept rows of this width rows are compared with at most."""
        return max(min(KEPT, ENTRIES // max(width, 1)), LISTED)

    def room(self, rows: int) -> int:
        """Return after how many more rows known rows are found again."""
        return max(self.due - rows, 1)

    def look(self, X: Rows, y: np.ndarray, rows: int) -> None:
        """Compare rows with those known, before they are learnt.

        Parameters
        ----------
        X : array or sparse matrix
            The rows.
        y : array
            Their labels.
        rows : int
            How many have been learnt.
        """
        if self._known is None:
            return
        dense = dense_rows(X, len(self._known.units))
        rejected = self._known.rejected(dense, self._least)
        new = ~np.isin(y, self._classes)
        before = self.asked + self.new_asked
        self.new_asked += int(new.sum())
        self.asked += len(y) - int(new.sum())
        self.new_rejected += int((rejected & new).sum())
        places = np.flatnonzero(rejected & ~new)
        self.rejected += len(places)
        if len(places):
            self.add(self._known, dense[places], y[places].tolist(), rows + 1 + places, before + 1 + places)

    def add(self, known: KnownRows, X: Float, labels: Sequence[Any], numbers: Integer, asked: Integer) -> None:
        """List rows that were rejected.

        Parameters
        ----------
        known : KnownRows
            What they were compared with.
        X : array of shape (n, d)
            The rows.
        labels : sequence
            Their labels.
        numbers : array of int
            Their numbers: among the good rows of a stream, among the records where a model is applied.
        asked : array of int
            How many rows had been compared then.
        """
        columns = _unusual(known, X)
        facts = np.column_stack([numbers, asked, columns])
        self._facts = np.concatenate([self._facts, facts])[-LISTED:]
        self._numbers = np.concatenate([self._numbers, _values(X, columns)])[-LISTED:]
        self._labels = [*self._labels, *map(str, labels)][-LISTED:]
        before = self._rows if len(self._rows) else X[:0]
        self._rows = np.concatenate([before, X])[-LISTED:]

    def renew(self, model: StreamModel, predictor: Predictor | None, rows: int) -> None:
        """Find known rows again if that is due.

        Parameters
        ----------
        model : StreamModel
            The model of the stream.
        predictor : Predictor or None
            The model that predicts.
        rows : int
            Rows learnt.
        """
        if rows < self.due:
            return
        self.due = rows + min(rows, LONGEST)
        if predictor is None:
            return
        self._noted = self.candidates()
        self._known = model.known_rows(predictor, self.most(model.width))
        if self._known is not None:
            self._least, self._rows = self._known.threshold(self.rate), np.empty((0, len(self._known.units)))
            estimator = model.estimator
            self._classes = estimator.classes_[estimator.class_counts_ > 0]

    def forget(self) -> None:
        """Forget all rows: after some were unlearnt."""
        fresh = type(self)(self.rate)
        for name in ("asked", "rejected", "new_asked", "new_rejected", "due"):
            setattr(fresh, name, getattr(self, name))
        vars(self).update(vars(fresh))

    def candidates(self, known: KnownRows | None = None) -> list[Candidate]:
        """Return candidates for a new class, those noted before included, the latest last.

        Parameters
        ----------
        known : KnownRows, optional
            What the rows were compared with, if the stream itself has not found that.
        """
        known = known or self._known
        found = [] if known is None else self._groups(known)
        return [*self._noted, *found][-CANDIDATES:]

    def _groups(self, known: KnownRows) -> list[Candidate]:
        n, space = len(self._rows), known.space
        if not n:
            return []
        facts, labels = self._facts[-n:], self._labels[-n:]
        white = (self._rows / known.units - space.mean) @ space.root
        span = int(facts[-1, 1] - facts[0, 1]) + 1
        near = _within(white, white, space.reach)
        usual = np.count_nonzero(_within(white, space.white, space.reach), axis=1)
        expected = span * (usual + 1.0) / (len(space.white) + 1.0)
        left, open_ones, found = np.ones(n, dtype=bool), np.ones(n, dtype=bool), []
        while open_ones.any():
            counts = np.where(open_ones, np.count_nonzero(near & left, axis=1), -1)
            best = int(np.argmax(counts))
            open_ones[best] = False
            if special.pdtrc(counts[best] - 1, expected[best]) * n >= SURE:
                continue
            mine = near[best] & left
            left, open_ones = left & ~mine, open_ones & ~mine
            rows, numbers = self._rows[mine], facts[mine, 0]
            mean = rows.mean(axis=0)
            columns = _unusual(known, mean[None])
            usual_values = _values((space.mean * known.units)[None], columns)[0]
            common = Counter(label for label, one in zip(labels, mine.tolist(), strict=True) if one)
            labelled = ", ".join(f"{label} {count:,}" for label, count in common.most_common(NAMED) if label)
            found.append(
                Candidate(
                    len(rows),
                    int(numbers[0]),
                    int(numbers[-1]),
                    float(expected[best]),
                    labelled,
                    tuple(columns[0].tolist()),
                    tuple(_values(mean[None], columns)[0].tolist()),
                    tuple(usual_values.tolist()),
                )
            )
        return sorted(found, key=lambda one: one.first)

    def summary(self, name: Callable[[int], str]) -> dict[str, Any]:
        """Return what is known as plain values.

        Parameters
        ----------
        name : callable
            The name of a column.

        Returns
        -------
        dict of str to JSON
            `rate`; `asked` and `rejected` of rows of known classes, `new_asked` and `new_rejected` of rows of classes
            not known before; `held_out`, the rows from which the threshold follows; `latest`, rejected rows with their
            number, label and most unusual values; and `candidates` for a new class.
        """
        listed = zip(self._facts.tolist(), self._labels, self._numbers.tolist(), strict=True)
        latest = [
            {
                "row": number,
                "label": label,
                "values": _named(columns, values, name),
            }
            for (number, _, *columns), label, values in listed
        ]
        counts = {key: getattr(self, key) for key in ("rate", "asked", "rejected", "new_asked", "new_rejected")}
        held_out = 0 if self._known is None else len(self._known.losses.losses)
        return {**counts, "held_out": held_out, "latest": latest, "candidates": told(self.candidates(), name)}

    def to_state(self) -> dict[str, Any]:
        """Return everything by name."""
        counts = {key: getattr(self, key) for key in ("rate", "due", "asked", "rejected", "new_asked", "new_rejected")}
        noted, found = self._noted, {}
        if self._known is not None:
            found = {"rows": self._rows.copy(), "known": self._known.to_state(), "classes": labels_state(self._classes)}
        return {
            **counts,
            "facts": self._facts.copy(),
            "values": self._numbers.copy(),
            "labels": to_lines(self._labels),
            "noted_facts": _table([(*one[:3], *one.columns) for one in noted], 3 + COLUMNS, np.int64),
            "noted_numbers": _table([(one.expected, *one.values, *one.usual) for one in noted], 1 + 2 * COLUMNS),
            "noted_labels": to_lines([one.labels for one in noted]),
            **found,
        }

    @classmethod
    def from_state(cls, contents: Contents, width: int, rows: int) -> Self:
        """Return what `to_state` wrote, if it can be of `rows` rows of this width; each value is checked."""
        found = cls(contents.number("rate", low=0.0, high=1.0))
        found.due = contents.whole("due", low=FIRST)
        for name in ("asked", "new_asked"):
            setattr(found, name, contents.whole(name, high=rows))
        found.rejected = contents.whole("rejected", high=found.asked)
        found.new_rejected = contents.whole("new_rejected", high=found.new_asked)
        total = found.asked + found.new_asked
        contents.require(total <= rows, f"{total} rows were compared, and {rows} have been learnt")
        found._facts = contents.array("facts", np.int64, (None, 2 + COLUMNS), low=-1)
        n = len(found._facts)
        contents.require(n <= LISTED, f"facts has {n} rows, more than {LISTED}")
        contents.require(bool((found._facts[:, 2:] < width).all()), "facts holds no such column")
        found._numbers = contents.array("values", np.float64, (n, COLUMNS))
        found._labels = list(contents.words("labels"))
        noted = contents.array("noted_facts", np.int64, (None, 3 + COLUMNS), low=-1)
        contents.require(len(noted) <= CANDIDATES, f"noted_facts has {len(noted)} rows, more than {CANDIDATES}")
        contents.require(bool((noted[:, 3:] < width).all()), "noted_facts holds no such column")
        numbers = contents.array("noted_numbers", np.float64, (len(noted), 1 + 2 * COLUMNS)).tolist()
        labels = contents.words("noted_labels")
        fits = len(found._labels) == n and len(labels) == len(noted)
        contents.require(fits, "labels and facts differ in length")
        for (count, first, last, *columns), (expected, *values), text in zip(
            noted.tolist(), numbers, labels, strict=True
        ):
            means = tuple(values[:COLUMNS]), tuple(values[COLUMNS:])
            found._noted.append(Candidate(count, first, last, expected, text, tuple(columns), *means))
        if "known" in contents:
            known = KnownRows.from_state(contents.part("known"))
            d = len(known.units)
            contents.require(d <= width, f"known has {d} columns, and the model {width}")
            found._known, found._least = known, known.threshold(found.rate)
            found._classes = labels_from(contents.part("classes"))
            found._rows = contents.array("rows", np.float64, (None, d))
            contents.require(len(found._rows) <= n, "rows has more rows than facts")
        contents.finish()
        return found


def started(model: StreamModel, rate: float) -> Rejected | None:
    """Return what remembers rejected rows of a stream that begins, None for a rate of 0."""
    if not isinstance(rate, int | float) or not 0.0 <= rate < 1.0:
        raise UsageError(
            f"--reject is the share of known rows that may be rejected, below 1, 0 for none; got {rate!r}."
        )
    if rate and not model.can.reject:
        raise UsageError(
            f"a {type(model.estimator).__name__} cannot tell that a row is of no class. Use FisherDiscriminant, the "
            "default method, for --reject."
        )
    if rate and not isinstance(model.read("ridge"), str):
        raise UsageError("--reject needs the rows that a model keeps to choose its ridge. Leave --ridge out.")
    return Rejected(rate) if rate else None


def check_width(width: int) -> None:
    """Refuse rows that are too wide to be compared."""
    if width > WIDEST:
        raise UsageError(
            f"--reject compares rows of up to {WIDEST:,} columns, and these have {width:,}. Leave --reject out, or "
            "hash words into fewer columns with --hash-width."
        )


def names_of(memory: Memory | None) -> Callable[[int], str]:
    """Return the function from a column to its name."""
    return str if memory is None else lambda column: memory.name_of(column)[0]


def told(candidates: Sequence[Candidate], name: Callable[[int], str]) -> list[dict[str, Any]]:
    """Return candidates as plain values; `name` is the name of a column."""
    return [
        {
            **{key: getattr(one, key) for key in ("rows", "first", "last", "expected", "labels")},
            "columns": [
                {"name": name(column), "mean": mean, "usual": usual}
                for column, mean, usual in zip(one.columns, one.values, one.usual, strict=True)
                if column >= 0
            ],
        }
        for one in candidates
    ]


def sentences(summary: Mapping[str, Any]) -> list[str]:
    """Return what `Rejected.summary` says in sentences."""
    if not summary["asked"]:
        return [f"No row was compared with known rows: that begins after {FIRST} rows of two classes."]
    share, rate, held_out = summary["rejected"] / summary["asked"], summary["rate"], summary["held_out"]
    said = [
        f"{summary['rejected']:,} of {summary['asked']:,} rows looked like no class when they came: {share:.2%}. "
        f"--reject allows {100 * rate:.3g}% of rows of known classes."
    ]
    if rate * (held_out + 1) < 1:
        said.append(f"{held_out:,} held-out rows tell no share below {1 / (held_out + 1):.2g}: give a larger --reject.")
    if summary["new_asked"]:
        said.append(
            f"Rows of classes that were not known then: {summary['new_asked']:,}, of which {summary['new_rejected']:,} "
            "looked like no class."
        )
    return [*said, *offered(summary["candidates"])]


def titled(rejected: Rejected | None, memory: Memory | None) -> dict[str, str]:
    """Return what is said of rejected rows for a report, each sentence with a title; nothing if none are compared."""
    said = [] if rejected is None else sentences(rejected.summary(names_of(memory)))
    return {f"rejected rows{f', {place}' if place else ''}": one for place, one in enumerate(said)}


def offered(candidates: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return candidates for a new class in sentences, as `told` gives them."""
    said = []
    for one in candidates:
        means = ", ".join(f"{column['name']} {column['mean']:.4g} ({column['usual']:.4g})" for column in one["columns"])
        labels = f", labelled {one['labels']}" if one["labels"] else ""
        said.append(
            f"Candidate for a new class: {one['rows']:,} rejected rows lie together, rows {one['first']:,} to "
            f"{one['last']:,}{labels}. Their means, and in brackets those of known rows: {means}."
        )
    return said


def _table(entries: Sequence[tuple[float, ...]], columns: int, dtype: Any = np.float64) -> np.ndarray:
    """Return tuples as the rows of an array, also if there are none."""
    return np.array(entries, dtype=dtype).reshape(-1, columns)


def _named(columns: Sequence[int], values: Sequence[float], name: Callable[[int], str]) -> dict[str, float]:
    """Return values by the names of their columns."""
    return {name(column): value for column, value in zip(columns, values, strict=True) if column >= 0}


def dense_rows(X: Rows, width: int) -> Float:
    """Return the first columns of rows as numbers of 64 bits: later ones were not known."""
    dense = X if isinstance(X, np.ndarray) else X.toarray()
    return dense[:, :width].astype(np.float64, copy=False)


def _within(some: Float, others: Float, reach: float) -> np.ndarray:
    """Return which rows are no further from which others than this."""
    squares = np.square(some).sum(axis=1)[:, None] + np.square(others).sum(axis=1) - 2.0 * some @ others.T
    return np.asarray(squares <= reach * reach)


def _unusual(known: KnownRows, X: Float) -> Integer:
    """Return the columns in which rows differ most from the mean of known ones, by deviations; −1 past the last one."""
    spread = known.space.rows.std(axis=0)
    far = np.abs(X / known.units - known.space.mean) / np.where(spread > 0, spread, np.inf)
    found = np.argsort(-far, axis=1, kind="stable")[:, :COLUMNS].astype(np.int64)
    return np.pad(found, ((0, 0), (0, COLUMNS - found.shape[1])), constant_values=-1)


def _values(X: Float, columns: Integer) -> Float:
    """Return the entries of some columns of each row, 0 where there is no such column."""
    return np.where(columns >= 0, np.take_along_axis(X, np.maximum(columns, 0), axis=1), 0.0)
