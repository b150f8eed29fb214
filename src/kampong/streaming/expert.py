"""What predicts between two solves of a wide stream: logistic regression that takes a step with every row.

A subspace of many columns and classes costs far more to solve than a row costs to learn, so what it says is old news
most of the time. The expert says what is probable of each row before it steps, and so knows every row before it. Both
are asked about some rows of each batch, and the one that errs less of late predicts. The subspace is what is kept:
where it was fresh it beat the expert on new rows of Reuters stories, after 2,000 rows and after 40,000.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from kampong._core.compute import compiled
from kampong.files.contents import to_lines
from kampong.statistics.scatter import WIDEST

if TYPE_CHECKING:
    from kampong._core.compute import Float, Integer, Rows
    from kampong.contract import StreamModel
    from kampong.files import Contents

MOST = 2**24
"""The most weights, columns times classes: past that a stream has no expert."""

RATE = 3.0
"""The first step along a column is about so long, in units of the logarithm of a ratio of probabilities."""

OFFSET_RATE = 0.1
"""The same for what is said without any column."""

START = 1e-3
"""What every sum of squared gradients begins with."""

LANES = 8
"""Classes are given room in steps of so many, which a processor adds at once."""

ASKED = 64
"""Rows of a batch about which the subspace is asked too, where the expert predicts."""

FORGET = 1.0 - 1.0 / 256.0
"""What one such row leaves of the weight of those before it."""

SURE = 2.0
"""The subspace predicts where it is right more often by so many standard deviations, until it is no longer ahead."""


class Says(NamedTuple):
    """What the expert said of rows before it learnt them; `known` is how many classes it knew at first."""

    labels: np.ndarray
    chances: Float
    known: int


class Expert:
    """Logistic regression of several classes, one step a row, with a rate of its own for each column.

    Rows are scaled to length 1. Before a step the gradient of the loss is p − e, with p the probabilities and e the
    indicator of the class; column j moves all its weights by −r (p − e) x_j / √(Σ |p − e|² x_j²), the sum over all rows
    so far (AdaGrad, Duchi, Hazan and Singer 2011, with one rate for the weights of a column together). r grows from
    0.75 for two classes to 3 for many.

    Parameters
    ----------
    n_features : int
        The width of the rows.

    Notes
    -----
    Rows are taken one by one, so it does not matter how they are cut into batches. Weights are kept in float32.
    """

    def __init__(self, n_features: int) -> None:
        self.labels: list[Any] = []
        self._codes: dict[Any, int] = {}
        self._weights: Float = np.zeros((n_features, LANES), dtype=np.float32)
        self._squares: Float = np.zeros(n_features, dtype=np.float32)
        self._offsets: Float = np.zeros(LANES, dtype=np.float32)
        self._contest: Float = np.zeros(4)  # squares of the offsets, rows only one of both had right, who leads

    @property
    def n_features(self) -> int:
        """The width of the rows."""
        return len(self._weights)

    @property
    def leads(self) -> bool:
        """Whether the expert predicts, and not the subspace."""
        return bool(self._contest[3] == 0.0)

    def has_room(self, n_features: int, classes: int) -> bool:
        """Tell whether rows so wide, of so many classes, can be learnt."""
        return n_features * _lanes(classes) <= MOST

    def take(self, X: Any, y: np.ndarray) -> Says:
        """Say of each row what it is, then learn it, one after the other.

        Parameters
        ----------
        X : CSR matrix
            The rows.
        y : array
            Their classes.

        Returns
        -------
        Says
            The class of each row that was the most probable before it was learnt, and how probable it was. A row that
            comes before any class is known says its own.
        """
        known, codes = len(self.labels), self._codes_of(y)
        said, chances = np.empty(len(codes), dtype=np.int64), np.empty(len(codes))
        _take(
            X.indptr,
            X.indices,
            X.data,
            codes,
            known,
            self._weights,
            self._squares,
            self._offsets,
            self._contest,
            said,
            chances,
        )
        return Says(np.array(self.labels, dtype=y.dtype if y.dtype.kind != "U" else None)[said], chances, known)

    def judge(self, mine: np.ndarray, theirs: np.ndarray) -> None:
        """Compare what the expert said of some rows with what the subspace said of them.

        Parameters
        ----------
        mine, theirs : array of bool
            Which rows the expert had right, and which the subspace, in the order in which they came.
        """
        _, won, lost, other = self._contest
        for one, two in zip(mine.tolist(), theirs.tolist(), strict=True):
            won, lost = FORGET * won + (one > two), FORGET * lost + (two > one)
        ahead = lost - won
        other = ahead > 0 if other else ahead > SURE * np.sqrt(won + lost)
        self._contest[1:] = won, lost, float(other)

    def widen(self, n_features: int) -> None:
        """Make room for more columns, which were zero in all rows so far."""
        more = n_features - self.n_features
        if more > 0:
            self._weights = np.pad(self._weights, ((0, more), (0, 0)))
            self._squares = np.pad(self._squares, (0, more))

    # To and from a model file.

    def to_state(self) -> dict[str, Any]:
        """Return everything by name."""
        return {
            "labels": to_lines(self.labels),
            "weights": self._weights,
            "squares": self._squares,
            "offsets": self._offsets,
            "contest": self._contest,
        }

    @classmethod
    def from_state(cls, contents: Contents, n_features: int) -> Self:
        """Return the expert that `to_state` wrote, each value checked.

        Parameters
        ----------
        contents : Contents
            The values, which are used up.
        n_features : int
            The width of the rows.

        Returns
        -------
        Expert
            It goes on with the same bits.
        """
        labels = contents.lines("labels")
        contents.require(len(set(labels)) == len(labels), "labels holds a class twice")
        lanes = _lanes(len(labels))
        contents.expect("weights", (n_features, lanes))
        expert = cls(n_features)
        contents.require(expert.has_room(n_features, len(labels)), f"{n_features} columns of {len(labels)} classes")
        expert.labels = labels
        expert._codes = {label: code for code, label in enumerate(labels)}
        expert._weights = contents.array("weights", np.float32, (n_features, lanes), low=-1e30, high=1e30).copy()
        expert._squares = contents.array("squares", np.float32, (n_features,), low=0.0, high=1e30).copy()
        expert._offsets = contents.array("offsets", np.float32, (lanes,), low=-1e30, high=1e30).copy()
        expert._contest = contents.array("contest", np.float64, (4,), low=0.0, high=1e30).copy()
        contents.require(expert._contest[3] in (0.0, 1.0), f"contest is led by {expert._contest[3]}")
        contents.finish()
        return expert

    # How.

    def _codes_of(self, y: np.ndarray) -> Integer:
        """Return the number of each class, in the order in which they came; new ones are given room."""
        kinds, first, places = np.unique(y, return_index=True, return_inverse=True)
        listed = kinds.tolist()
        for place in np.argsort(first).tolist():
            if listed[place] not in self._codes:
                self._codes[listed[place]] = len(self.labels)
                self.labels.append(listed[place])
        lanes = _lanes(len(self.labels))
        more = lanes - self._weights.shape[1]
        if more > 0:
            self._weights = np.pad(self._weights, ((0, 0), (0, more)))
            self._offsets = np.pad(self._offsets, (0, more))
        codes = np.array([self._codes[label] for label in listed], dtype=np.int64)
        found: Integer = codes[places.reshape(-1)]
        return found


def wants_expert(model: StreamModel, X: Rows | None) -> bool:
    """Tell whether a stream has an expert: a wide one of sparse rows, whose model leaves open what predicts."""
    width = max(model.width, 0 if X is None else X.shape[1])
    left_open = model.read("half_life") == "auto" and model.read("head") in ("auto", "best")
    return left_open and width > WIDEST and not isinstance(X, np.ndarray) and model.can.freeze


def asked(shown: Integer) -> Integer:
    """Return the rows about which the subspace is asked too, evenly spread over those whose points may be kept."""
    return shown[:: max(1, -(-len(shown) // ASKED))]


def _lanes(classes: int) -> int:
    """Return the classes that there is room for."""
    return max(-(-classes // LANES), 1) * LANES


@compiled
def _take(
    indptr: Integer,
    indices: Integer,
    data: Float,
    codes: Integer,
    known: int,
    weights: Float,
    squares: Float,
    offsets: Float,
    contest: Float,
    said: Integer,
    chances: Float,
) -> None:
    """Predict and learn row after row."""
    scores = np.zeros(weights.shape[1], dtype=np.float32)
    for i in range(len(codes)):
        first, last = indptr[i], indptr[i + 1]
        length = 0.0
        for p in range(first, last):
            length += data[p] * data[p]
        scale = 1.0 / np.sqrt(length) if length > 0.0 else 0.0
        scores[:] = offsets
        for p in range(first, last):
            j, value = indices[p], np.float32(scale * data[p])
            for k in range(len(scores)):
                scores[k] += value * weights[j, k]
        code = codes[i]
        best = code if known == 0 else np.argmax(scores[:known])
        classes = max(known, code + 1)
        top = max(scores[best], scores[code])
        total = np.float32(0.0)
        for k in range(classes):
            scores[k] = np.exp(scores[k] - top)
            total += scores[k]
        before = total if code < known else total - scores[code]
        said[i], chances[i] = best, scores[best] / before if known else 1.0
        known = classes
        square = np.float32(0.0)
        for k in range(classes):
            scores[k] /= total
        scores[code] -= np.float32(1.0)
        for k in range(classes):
            square += scores[k] * scores[k]
        contest[0] += square
        step = np.float32(OFFSET_RATE / np.sqrt(contest[0] + START))
        for k in range(classes):
            offsets[k] -= step * scores[k]
        rate = RATE * (1.0 - 1.0 / classes) ** 2
        for p in range(first, last):
            j, value = indices[p], scale * data[p]
            squares[j] += np.float32(square * value * value)
            step = np.float32(rate * value / np.sqrt(squares[j] + START))
            for k in range(classes):
                weights[j, k] -= step * scores[k]
