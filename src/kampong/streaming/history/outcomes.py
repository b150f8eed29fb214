"""Which class was predicted as which, in bounded memory: totals of each class, confusions, and the recent rows."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from kampong.files.contents import LARGEST, to_lines

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kampong._core.compute import Integer
    from kampong.files import Contents

CLASSES = 1024
"""The most classes with their own counts; later classes are counted together."""

LONGEST_NAME = 256
"""Longer class names are cut."""

PAIRS = 2**14
"""The most pairs of a class and its prediction. Above that the rarer half is dropped, and counted as such."""

RECENT = 1000
"""Recent rows are the latest this many predicted ones, or the latest half while there are fewer than twice as many."""

OTHER = 0
"""The code of the classes that are counted together."""

OTHER_NAME = "(other classes)"

TOTALS = ("rows", "scored", "correct", "predicted")


class ClassTable(NamedTuple):
    """One number for each class that came or was predicted, in order of appearance.

    Rows, those predicted before they were learnt, those predicted rightly, and rows of any class predicted as this
    one. The last three again for the recent rows.
    """

    names: list[str]
    rows: Integer
    scored: Integer
    correct: Integer
    predicted: Integer
    recent_scored: Integer
    recent_correct: Integer
    recent_predicted: Integer

    def measures(self, *, recent: bool = False) -> dict[str, float]:
        """Return accuracy, balanced accuracy and macro F1 by name, of all rows or of the recent ones.

        Parameters
        ----------
        recent : bool
            Whether only the recent rows count.

        Returns
        -------
        dict of str to float
            Balanced accuracy is the mean recall of the classes that came; macro F1 is the mean over all classes that
            came or were predicted. NaN where nothing was predicted.
        """
        true, right, predicted = (
            (self.recent_scored, self.recent_correct, self.recent_predicted)
            if recent
            else (self.scored, self.correct, self.predicted)
        )
        came, named = true > 0, true + predicted > 0
        if not came.any():
            return dict.fromkeys(("accuracy", "balanced_accuracy", "macro_f1"), float("nan"))
        return {
            "accuracy": float(right.sum() / true.sum()),
            "balanced_accuracy": float(np.mean(right[came] / true[came])),
            "macro_f1": float(np.mean(2.0 * right[named] / (true + predicted)[named])),
        }


class Outcomes:
    """What was predicted of the rows of each class, counted row by row."""

    def __init__(self) -> None:
        self.names = [OTHER_NAME]
        self._codes: dict[str, int] = {}
        self._totals = [[0, 0, 0, 0]]
        self._pairs: dict[tuple[int, int], int] = {}
        self._forgotten = 0
        # The latest predicted rows: their class, what was predicted, whether it was right.
        self._latest: Integer = np.zeros((0, 3), dtype=np.int64)

    def code(self, label: Any) -> int:
        """Return the code of a class, a new one while there is room."""
        name = class_name(label)
        code = self._codes.get(name)
        if code is None:
            if len(self.names) == CLASSES:
                return OTHER
            code = self._codes[name] = len(self.names)
            self.names.append(name)
            self._totals.append([0, 0, 0, 0])
        return code

    def codes(self, labels: np.ndarray) -> Integer:
        """Return the codes of labels."""
        if labels.dtype == object:
            return np.array([self.code(label) for label in labels.tolist()], dtype=np.int64)
        kinds, first, places = np.unique(labels, return_index=True, return_inverse=True)
        found = np.empty(len(kinds), dtype=np.int64)
        for place in np.argsort(first).tolist():  # in order of appearance, whatever the batches
            found[place] = self.code(kinds[place].item())
        return found[places.reshape(-1)]

    def number(
        self, labels: np.ndarray, predicted: np.ndarray, scored: np.ndarray, edges: Sequence[int]
    ) -> tuple[Integer, Integer]:
        """Return the codes of labels, and of what was predicted of those that are scored.

        New classes are numbered as they appear in the parts between the edges: first as labels, then as predictions.
        """
        given = predicted[scored]
        if len(given) and labels.dtype != object:
            # Text without a width: a class that is longer than those of this batch must not be cut.
            given = given.astype(labels.dtype.type if labels.dtype.kind in "US" else labels.dtype, copy=False)
        known = [self._known(some) for some in (labels, given)]
        if known[0] is not None and known[1] is not None:
            return known[0], known[1]
        codes, said = [], []
        ends = np.concatenate([[0], np.cumsum(scored)])
        for start, stop in itertools.pairwise(edges):
            codes.append(self.codes(labels[start:stop]))
            said.append(self.codes(given[ends[start] : ends[stop]]))
        return np.concatenate(codes), np.concatenate(said)

    def _known(self, labels: np.ndarray) -> Integer | None:
        """Return the codes of labels that all have one; None where one has not, or where to ask would take long."""
        if labels.dtype.kind == "U":
            listed = labels.tolist()
            found = {label: self._codes.get(class_name(label), -1) for label in set(listed)}
            return None if -1 in found.values() else np.array([found[label] for label in listed], dtype=np.int64)
        if labels.dtype.kind not in "iu" or not len(labels):
            return None if len(labels) else np.empty(0, dtype=np.int64)
        low, high = int(labels.min()), int(labels.max())
        if high - low > CLASSES:
            return None
        shifted = (labels - low).astype(np.int64)
        table = np.zeros(high - low + 1, dtype=np.int64)
        for value in np.flatnonzero(np.bincount(shifted)).tolist():
            code = self._codes.get(str(low + value))
            if code is None:
                return None
            table[value] = code
        return table[shifted]

    def add(self, codes: Integer, said: Integer, scored: np.ndarray, right: np.ndarray) -> Integer:
        """Count rows by their codes.

        Parameters
        ----------
        codes : array of int of shape (n,)
            The classes of the rows.
        said : array of int of shape (m,)
            What was predicted of those that are scored.
        scored : array of bool of shape (n,)
            Which rows those are.
        right : array of bool of shape (m,)
            Which of these predictions were right.

        Returns
        -------
        array of int of shape (m,)
            How many of the recent rows were right after each of them.
        """
        true, before = codes[scored], self.scored
        n = len(self.names)
        for place, some in enumerate((codes, true, true[right], said)):
            counts = np.bincount(some, minlength=n)
            for code in np.flatnonzero(counts).tolist():
                self._totals[code][place] += int(counts[code])
        self._confuse(true[~right], said[~right])
        fresh = np.stack([true, said, right.astype(np.int64)], axis=1)
        latest = np.concatenate([self._latest, fresh])
        self._latest = latest[-RECENT:]
        sums = np.concatenate([[0], np.cumsum(latest[:, 2])])
        ends = len(latest) - len(right) + 1 + np.arange(len(right))
        return np.asarray(sums[ends] - sums[ends - recent_rows(before + 1 + np.arange(len(right)))])

    @property
    def rows(self) -> Integer:
        """The rows of each code."""
        return np.array([totals[0] for totals in self._totals], dtype=np.int64)

    @property
    def scored(self) -> int:
        """The rows predicted."""
        return sum(totals[1] for totals in self._totals)

    def recent(self) -> Integer:
        """Return the recent rows: class, prediction, and 1 where it was right."""
        return self._latest[len(self._latest) - recent_rows(self.scored) :]

    def table(self) -> ClassTable:
        """Return the counts of every class that came or was predicted."""
        totals = np.array(self._totals, dtype=np.int64)
        seen = np.flatnonzero(totals[:, [0, 3]].any(axis=1))
        true, said, right = self.recent().T
        n = len(self.names)
        window = [np.bincount(codes, minlength=n)[seen] for codes in (true, true[right > 0], said)]
        return ClassTable([self.names[code] for code in seen], *totals[seen].T, *window)

    def confusions(self) -> tuple[list[tuple[str, str, int]], int]:
        """Return which class was taken for which and how often, the most frequent first, and the rows forgotten."""
        order = sorted(self._pairs.items(), key=lambda item: (-item[1], item[0]))
        return [(self.names[true], self.names[said], count) for (true, said), count in order], self._forgotten

    def _confuse(self, true: Integer, said: Integer) -> None:
        pairs, counts = np.unique(true * CLASSES + said, return_counts=True)
        for pair, count in zip(pairs.tolist(), counts.tolist(), strict=True):
            key = divmod(pair, CLASSES)
            self._pairs[key] = self._pairs.get(key, 0) + count
        if len(self._pairs) > PAIRS:
            order = sorted(self._pairs.items(), key=lambda item: (-item[1], item[0]))
            self._forgotten += sum(count for _, count in order[PAIRS // 2 :])
            self._pairs = dict(order[: PAIRS // 2])

    # To and from a checkpoint.

    def to_state(self) -> dict[str, Any]:
        """Return everything by name."""
        pairs = [(true, said, count) for (true, said), count in sorted(self._pairs.items())]
        return {
            "class_names": to_lines(self.names[1:]),
            "class_counts": np.array(self._totals, dtype=np.int64),
            "pairs": np.array(pairs, dtype=np.int64).reshape(-1, 3),
            "forgotten": self._forgotten,
            "latest": self._latest.copy(),
        }

    @classmethod
    def from_state(cls, contents: Contents) -> Self:
        """Return what `to_state` wrote, after a check of all values."""
        outcomes, require = cls(), contents.require
        names = contents.words("class_names")
        totals = contents.array("class_counts", np.int64, (None, len(TOTALS)), low=0)
        pairs = contents.array("pairs", np.int64, (None, 3), low=0)
        latest = contents.array("latest", np.int64, (None, 3), low=0)
        forgotten = contents.whole("forgotten")
        contents.finish()
        require(len(set(names)) == len(names) < CLASSES, "class_names are too many, or hold a name twice")
        require(all(len(name) <= LONGEST_NAME for name in names), "class_names holds a name that is too long")
        n = len(names) + 1
        require(len(totals) == n, f"class_names are {len(names)}, class_counts {len(totals)}")
        rows, scored, correct, predicted = totals.T
        in_order = bool((correct <= scored).all() and (scored <= rows).all() and (correct <= predicted).all())
        require(in_order, "class_counts holds more than there are")
        largest = totals.astype(np.float64).sum(axis=0).max(initial=0.0)
        require(bool(largest < LARGEST), f"class_counts adds up to {largest:g}")
        require(int(scored.sum()) == int(predicted.sum()), "class_counts has more predictions than predicted rows")
        _check_pairs(contents, totals, pairs, forgotten)
        _check_latest(contents, totals, latest)
        outcomes.names = [OTHER_NAME, *names]
        outcomes._codes = {name: code for code, name in enumerate(outcomes.names) if code != OTHER}
        outcomes._totals = totals.tolist()
        outcomes._pairs = {(true, said): count for true, said, count in pairs.tolist()}
        outcomes._forgotten, outcomes._latest = forgotten, latest.copy()
        return outcomes


def _check_pairs(contents: Contents, totals: Integer, pairs: Integer, forgotten: int) -> None:
    """Compare the confusions with the counts of the classes."""
    n, require = len(totals), contents.require
    require(len(pairs) <= PAIRS, f"pairs are {len(pairs)}, more than {PAIRS}")
    require(bool((pairs[:, :2] < n).all() and (pairs[:, 2] > 0).all()), "pairs holds no such class, or counts nothing")
    require(bool((np.diff(pairs[:, 0] * CLASSES + pairs[:, 1]) > 0).all()), "pairs are not in order")
    wrong = totals[:, [1, 3]] - totals[:, 2:3]
    held = np.stack([_sums(pairs[:, place], pairs[:, 2], n) for place in (0, 1)], axis=1)
    require(bool((held <= wrong).all()), "pairs holds more confusions than class_counts has")
    left = int(wrong[:, 0].sum()) - int(held[:, 0].sum())
    require(left == forgotten, f"forgotten is {forgotten}, and pairs leave {left}")


def _sums(codes: Integer, counts: Integer, n: int) -> Integer:
    """Return the sum of the counts of each code, exactly."""
    found = np.zeros(n, dtype=np.int64)
    np.add.at(found, codes, counts)
    return found


def _check_latest(contents: Contents, totals: Integer, latest: Integer) -> None:
    """Compare the latest rows with the counts of the classes."""
    n, require = len(totals), contents.require
    expected = min(RECENT, int(totals[:, 1].sum()))
    require(len(latest) == expected, f"latest has {len(latest)} rows, expected {expected}")
    true, said, right = latest.T
    fits = bool((latest[:, :2] < n).all() and (right <= 1).all() and (true == said)[right > 0].all())
    require(fits, "latest holds no such class, or a right prediction of another class")
    counts = [np.bincount(codes, minlength=n) for codes in (true, true[right > 0], said)]
    inside = all((mine <= theirs).all() for mine, theirs in zip(counts, totals.T[1:], strict=True))
    require(inside, "latest holds more rows of a class than class_counts")


def recent_rows(scored: Any) -> Any:
    """Return how many of this many predicted rows are recent."""
    return np.minimum(RECENT, (scored + 1) // 2)


def class_name(label: Any) -> str:
    """Return the label as text, cut if it is very long."""
    text = str(label)
    return text if len(text) <= LONGEST_NAME else text[: LONGEST_NAME - 1] + "…"
