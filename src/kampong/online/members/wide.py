"""A linear learner on the entries of wide rows: softmax regression by adaptive steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kampong._core.loops import Loop, small
from kampong.online.arithmetic import exponentials, padded
from kampong.online.members.member import Field, Member, Rows

if TYPE_CHECKING:
    from kampong._core.compute import Float, Integer


class WideSoftmax(Member):
    """Rows of length 1; a column's step is the learning rate over the root of its mean squared gradient per class.

    The squared gradients are summed over the rows so far and divided by the number of classes, so that one learning
    rate serves 2 classes and 50.

    References
    ----------
    Duchi, Hazan and Singer, Adaptive subgradient methods, JMLR 12, 2011.
    """

    name = "wide_softmax"
    always = True
    wide = True

    def fields(self) -> dict[str, Field]:
        """Return weights and squared gradients, column by column, the offset first."""
        return {"weights": Field(("weights", "classes")), "squares": Field(("weights",), low=0.0)}

    def sizes(self, columns: int, classes: int) -> dict[str, int]:
        """Return the length of each named axis."""
        return {"classes": classes, "weights": 1 + columns}

    def cost(self, columns: int, classes: int) -> float:
        """Return nanoseconds per row, of a hundred entries."""
        return 100.0 * (10.0 + 0.7 * classes)

    def step(self, rows: Rows, scores: Float) -> None:
        """Predict and learn row after row."""
        _step(
            self.arrays["weights"],
            self.arrays["squares"],
            self.settings.wide_rate,
            rows.indptr,
            rows.indices,
            rows.data,
            rows.codes,
            rows.known,
            rows.weights,
            rows.learn,
            scores[0],
        )


@Loop
def _step(
    weights: Float,
    squares: Float,
    rate: float,
    indptr: Integer,
    indices: Integer,
    data: Float,
    codes: Integer,
    known: Integer,
    row_weights: Float,
    learn: np.ndarray,
    scores: Float,
) -> None:
    gradient = np.zeros(padded(weights.shape[1]))
    for i in range(len(codes)):
        start, stop, length = indptr[i], indptr[i + 1], 0.0
        for p in range(start, stop):
            length += data[p] * data[p]
        length = np.sqrt(length) if length > 0.0 else 1.0
        for k in range(known[i]):
            scores[i, k] = weights[0, k]
        for p in range(start, stop):
            _add(weights[1 + indices[p]], data[p] / length, scores[i], known[i])
        if not learn[i]:
            continue
        classes = max(known[i], codes[i] + 1)
        size = _gradient(scores[i], codes[i], classes, row_weights[i], gradient)
        pace = rate * np.sqrt(1.0 * classes)
        _adapt(weights[0], squares, 0, 1.0, size, pace, gradient, classes)
        for p in range(start, stop):
            place = 1 + indices[p]
            _adapt(weights[place], squares, place, data[p] / length, size, pace, gradient, classes)


@small
def _add(line: Float, value: float, scores: Float, classes: int) -> None:
    for k in range(classes):
        scores[k] += value * line[k]


@small
def _gradient(scores: Float, code: int, classes: int, weight: float, out: Float) -> float:
    """Write the gradient of the log-loss by the scores, times the weight of the row; return its squared length."""
    most, total, size = scores[0], 0.0, 0.0
    for k in range(1, classes):
        most = max(most, scores[k])
    for k in range(classes):
        out[k] = scores[k] - most
    exponentials(out, classes)
    for k in range(classes):
        total += out[k]
    for k in range(classes):
        out[k] *= weight / total
    out[code] -= weight
    for k in range(classes):
        size += out[k] * out[k]
    return size


@small
def _adapt(
    line: Float, squares: Float, place: int, value: float, size: float, rate: float, gradient: Float, classes: int
) -> None:
    squares[place] += value * value * size
    if squares[place] > 0.0:
        pace = rate * value / np.sqrt(squares[place])
        for k in range(classes):
            line[k] -= pace * gradient[k]
