"""Linear learners on the entries of wide rows: softmax regression by adaptive steps, and passive-aggressive steps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kampong._core.compute import vectorised
from kampong.online.arithmetic import to_probabilities
from kampong.online.members.member import Field, Member, Rows

if TYPE_CHECKING:
    from kampong._core.compute import Float


class WideSoftmax(Member):
    """Rows of length 1; a column's step is the learning rate over the root of its squared gradients so far.

    References
    ----------
    Duchi, Hazan and Singer, Adaptive subgradient methods, JMLR 12, 2011.
    """

    name = "wide_softmax"
    always = True
    wide = True

    @property
    def answers(self) -> int:
        """One per learning rate."""
        return len(self.settings.wide_rates)

    def fields(self) -> dict[str, Field]:
        """Return weights and squared gradients, column by column, the offset first."""
        return {
            "weights": Field((self.answers, "weights", "classes")),
            "squares": Field((self.answers, "weights"), low=0.0),
        }

    def sizes(self, columns: int, classes: int) -> dict[str, int]:
        """Return the length of each named axis."""
        return {"classes": classes, "weights": 1 + columns}

    def cost(self, columns: int, classes: int) -> float:
        """Return nanoseconds per row, of a hundred entries."""
        return 100.0 * self.answers * (20.0 + 2.0 * classes)

    def step(self, rows: Rows, scores: Float) -> None:
        """Predict and learn row after row."""
        _adaptive(self.arrays["weights"], self.arrays["squares"], np.array(self.settings.wide_rates), rows, scores)


class WidePassiveAggressive(Member):
    """Passive-aggressive steps on rows of length 1, with an offset."""

    name = "wide_passive_aggressive"
    wide = True

    @property
    def answers(self) -> int:
        """One per strength."""
        return len(self.settings.strengths)

    def fields(self) -> dict[str, Field]:
        """Return weights, column by column, the offset first."""
        return {"weights": Field((self.answers, "weights", "classes"))}

    def sizes(self, columns: int, classes: int) -> dict[str, int]:
        """Return the length of each named axis."""
        return {"classes": classes, "weights": 1 + columns}

    def cost(self, columns: int, classes: int) -> float:
        """Return nanoseconds per row, of a hundred entries."""
        return 100.0 * self.answers * (10.0 + classes)

    def step(self, rows: Rows, scores: Float) -> None:
        """Predict and learn row after row."""
        _aggressive(self.arrays["weights"], np.array(self.settings.strengths), rows, scores)


@vectorised
def _length(data: Float, start: int, stop: int) -> float:
    """Return the length of a row, 1 for an empty one."""
    total = 0.0
    for p in range(start, stop):
        total += data[p] * data[p]
    return np.sqrt(total) if total > 0.0 else 1.0


@vectorised
def _scores(weights: Float, rows: Rows, i: int, length: float, known: int, out: Float) -> None:
    for k in range(known):
        out[k] = weights[0, k]
    for p in range(rows.indptr[i], rows.indptr[i + 1]):
        line, value = weights[1 + rows.indices[p]], rows.data[p] / length
        for k in range(known):
            out[k] += value * line[k]


@vectorised
def _adaptive(weights: Float, squares: Float, rates: Float, rows: Rows, scores: Float) -> None:
    gradient = np.zeros(weights.shape[2])
    for i in range(len(rows.codes)):
        known, code = rows.known[i], rows.codes[i]
        length = _length(rows.data, rows.indptr[i], rows.indptr[i + 1])
        for rate in range(len(rates)):
            _scores(weights[rate], rows, i, length, known, scores[rate, i])
            if not rows.learn[i]:
                continue
            classes = max(known, code + 1)
            to_probabilities(scores[rate, i], classes, gradient)
            gradient[code] -= 1.0
            size = 0.0
            for k in range(classes):
                gradient[k] *= rows.weights[i]
                size += gradient[k] * gradient[k]
            _adapt(weights[rate, 0], squares[rate], 0, 1.0, size, rates[rate], gradient, classes)
            for p in range(rows.indptr[i], rows.indptr[i + 1]):
                place, value = 1 + rows.indices[p], rows.data[p] / length
                _adapt(weights[rate, place], squares[rate], place, value, size, rates[rate], gradient, classes)


@vectorised
def _adapt(
    line: Float, squares: Float, place: int, value: float, size: float, rate: float, gradient: Float, classes: int
) -> None:
    squares[place] += value * value * size
    if squares[place] > 0.0:
        pace = rate * value / np.sqrt(squares[place])
        for k in range(classes):
            line[k] -= pace * gradient[k]


@vectorised
def _aggressive(weights: Float, strengths: Float, rows: Rows, scores: Float) -> None:
    for i in range(len(rows.codes)):
        known, code = rows.known[i], rows.codes[i]
        start, stop = rows.indptr[i], rows.indptr[i + 1]
        length = _length(rows.data, start, stop)
        for place in range(len(strengths)):
            found, mine = scores[place, i], weights[place]
            _scores(mine, rows, i, length, known, found)
            other = -1
            for k in range(known):
                if k != code and (other < 0 or found[k] > found[other]):
                    other = k
            if not rows.learn[i] or other < 0:
                continue
            loss = 1.0 + found[other] - (found[code] if code < known else 0.0)
            if loss > 0.0:
                pace = min(strengths[place] * rows.weights[i], loss / 4.0)  # an offset and a row, both of length 1
                mine[0, code] += pace
                mine[0, other] -= pace
                for p in range(start, stop):
                    mine[1 + rows.indices[p], code] += pace * rows.data[p] / length
                    mine[1 + rows.indices[p], other] -= pace * rows.data[p] / length
