"""What a member of the contest is: declared fields, a cost, and one step that predicts rows and then learns them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from kampong._core.loops import small
from kampong.online.arithmetic import dot, to_probabilities

if TYPE_CHECKING:
    from kampong._core.compute import Float, Integer
    from kampong.files.contents import Contents
    from kampong.online.settings import Settings


class Rows(NamedTuple):
    """Some rows of the stream, ready for the members.

    Attributes
    ----------
    points : array of shape (rows, columns)
        Standardised columns; a constant column is 0.
    active : array of int of shape (rows,)
        How many columns were not constant so far.
    indptr, indices, data : arrays
        The entries of wide rows, in CSR form; empty for narrow ones.
    codes : array of int of shape (rows,)
        The classes, numbered in the order in which they first came.
    known : array of int of shape (rows,)
        How many classes had come before each row.
    weights : array of shape (rows,)
        The weights, positive for rows that are learnt.
    learn : array of bool of shape (rows,)
        Whether to learn each row after it was predicted.
    given : array of shape (rows, classes)
        The log-probabilities that somebody outside the contest gives; without rows where nobody does.
    """

    points: Float
    active: Integer
    indptr: Integer
    indices: Integer
    data: Float
    codes: Integer
    known: Integer
    weights: Float
    learn: np.ndarray
    given: Float


class Field(NamedTuple):
    """An array that a member remembers.

    Attributes
    ----------
    axes : tuple of str or int
        The length of each axis, or the name of one that grows: "classes", "columns", or one of `Member.sizes`.
    low : float
        The least value that a file may hold.
    start : float
        What new places start with.
    diagonal : float
        What new places on the diagonal of the last two axes start with, if not 0.
    dtype : type
        Float64 or int64.
    below : str
        The named axis whose places the values are, if they are places: a file may hold no others.
    """

    axes: tuple[str | int, ...]
    low: float = -np.inf
    start: float = 0.0
    diagonal: float = 0.0
    dtype: type = np.float64
    below: str = ""


class Member:
    """A learner that takes part in the contest.

    A subclass says what it remembers (`fields`), what a row costs (`cost`) and how it predicts and learns (`step`).
    Rows come one after another, so the answers do not depend on batches.

    Parameters
    ----------
    settings : Settings
        The numbers of the contest.
    seed : int
        For a member that draws something.
    """

    name: ClassVar[str]
    uses_last_label: ClassVar[bool] = False
    uses_given: ClassVar[bool] = False
    always: ClassVar[bool] = False
    """Whether it takes part whatever it costs."""

    wide: ClassVar[bool | None] = False
    """Whether it reads the entries of wide rows, rather than standardised columns; None if it reads neither."""

    def __init__(self, settings: Settings, seed: int) -> None:
        self.settings, self.seed = settings, seed
        self.arrays: dict[str, Any] = {}

    @property
    def answers(self) -> int:
        """How many predictors it enters into the contest: one per learning rate, for example."""
        return 1

    def fields(self) -> dict[str, Field]:
        """Return the arrays that are remembered."""
        raise NotImplementedError

    def sizes(self, columns: int, classes: int) -> dict[str, int]:
        """Return the length of each named axis."""
        return {"columns": columns, "classes": classes}

    def cost(self, columns: int, classes: int) -> float:
        """Return about how many nanoseconds a row costs on one core, by width and number of classes alone."""
        raise NotImplementedError

    def numbers(self, columns: int, classes: int) -> int:
        """Return how many numbers are remembered."""
        return sum(int(np.prod(self._shape(field, columns, classes))) for field in self.fields().values())

    def step(self, rows: Rows, scores: Float) -> None:
        """Write the scores of each row, (answers, rows, classes), which are 0, and learn the row if `rows.learn`."""
        raise NotImplementedError

    def resize(self, columns: int, classes: int) -> None:
        """Make room for columns and classes; what is known keeps its place."""
        for name, field in self.fields().items():
            shape, old = self._shape(field, columns, classes), self.arrays.get(name)
            if old is not None and old.shape == shape:
                continue
            new: Any = np.zeros(shape, dtype=field.dtype)  # takes no memory before it is written to
            if field.start:
                new[...] = field.start
            if field.diagonal:
                new[..., range(shape[-1]), range(shape[-1])] = field.diagonal
            if old is not None:
                new[tuple(slice(n) for n in old.shape)] = old
            self.arrays[name] = new

    def to_state(self) -> dict[str, Any]:
        """Return everything as named arrays."""
        return {name: array.copy() for name, array in self.arrays.items()}

    def from_state(self, contents: Contents, columns: int, classes: int) -> None:
        """Take back what `to_state` wrote, each value checked."""
        for name, field in self.fields().items():
            shape = self._shape(field, columns, classes)
            high = self.sizes(columns, classes)[field.below] - 1 if field.below else None
            self.arrays[name] = contents.array(name, field.dtype, shape, low=field.low, high=high).copy()
        contents.finish()

    def _shape(self, field: Field, columns: int, classes: int) -> tuple[int, ...]:
        sizes = self.sizes(columns, classes)
        return tuple(sizes[axis] if isinstance(axis, str) else axis for axis in field.axes)


@small
def linear_scores(weights: Float, row: Float, known: int, out: Float) -> None:
    """Write the scores of a row by one line of weights per class, the offset first."""
    for k in range(known):
        out[k] = weights[k, 0] + dot(weights[k, 1:], row)


@small
def softmax_step(
    weights: Float, row: Float, length: float, scores: Float, code: int, known: int, rate: float, chances: Float
) -> None:
    """Let softmax regression take a step that changes the scores of the row by `rate` times their gradient.

    `length` is 1 and the squared length of the row; `known` counts the class of the row.
    """
    to_probabilities(scores, known, chances)
    chances[code] -= 1.0
    for k in range(known):
        pace, line = chances[k] * (rate / length), weights[k, 1:]
        weights[k, 0] -= pace
        for j in range(len(row)):
            line[j] -= pace * row[j]
