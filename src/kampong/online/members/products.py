"""Softmax regression on the columns and the products of all pairs of columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kampong._core.loops import Loop
from kampong.online.arithmetic import dot
from kampong.online.members.member import Field, Member, Rows, linear_scores, softmax_step

if TYPE_CHECKING:
    from kampong._core.compute import Float, Integer


class Products(Member):
    """A quadratic function of the columns; a product of two standardised columns is about as large as a column."""

    name = "products"

    @property
    def answers(self) -> int:
        """One per learning rate."""
        return len(self.settings.learning_rates)

    def fields(self) -> dict[str, Field]:
        """Return one line of weights per rate and class, the offset first."""
        return {"weights": Field((self.answers, "classes", "weights"))}

    def sizes(self, columns: int, classes: int) -> dict[str, int]:
        """Return the length of each named axis: column j comes with its products with columns 0 to j."""
        return {"classes": classes, "weights": 1 + columns * (columns + 3) // 2}

    def cost(self, columns: int, classes: int) -> float:
        """Return nanoseconds per row."""
        return self.answers * (60.0 + classes * (10.0 + 0.125 * columns * (columns + 3)))

    def step(self, rows: Rows, scores: Float) -> None:
        """Predict and learn row after row."""
        rates = np.array(self.settings.learning_rates)
        _step(self.arrays["weights"], rates, rows.points, rows.codes, rows.known, rows.weights, rows.learn, scores)


@Loop
def _step(
    lines: Float,
    rates: Float,
    points: Float,
    codes: Integer,
    known: Integer,
    weights: Float,
    learn: np.ndarray,
    scores: Float,
) -> None:
    chances, row = np.zeros(lines.shape[1]), np.zeros(lines.shape[2] - 1)
    for i in range(len(points)):
        place, count = 0, max(known[i], codes[i] + 1)
        for j in range(points.shape[1]):
            row[place] = points[i, j]
            pairs = row[place + 1 : place + 2 + j]
            for m in range(j + 1):
                pairs[m] = points[i, j] * points[i, m]
            place += j + 2
        length = 1.0 + dot(row, row)
        for rate in range(len(rates)):
            linear_scores(lines[rate], row, known[i], scores[rate, i])
            if learn[i]:
                pace = min(rates[rate] * weights[i], max(rates[rate], length))
                softmax_step(lines[rate], row, length, scores[rate, i], codes[i], count, pace, chances)
