"""Softmax regression on the columns and the products of all pairs of columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kampong._core.compute import compiled
from kampong.online.members.member import Field, Member, Rows, dot, linear_scores, softmax_step

if TYPE_CHECKING:
    from kampong._core.compute import Float


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
        return 0.4 * self.answers * classes * (columns * (columns + 3) // 2)

    def step(self, rows: Rows, scores: Float) -> None:
        """Predict and learn row after row."""
        _step(self.arrays["weights"], np.array(self.settings.learning_rates), rows, scores)


@compiled
def _step(weights: Float, rates: Float, rows: Rows, scores: Float) -> None:
    chances, row = np.zeros(weights.shape[1]), np.zeros(weights.shape[2] - 1)
    for i in range(len(rows.points)):
        point, known, code = rows.points[i], rows.known[i], rows.codes[i]
        place = 0
        for j in range(len(point)):
            row[place] = point[j]
            for m in range(j + 1):
                row[place + 1 + m] = point[j] * point[m]
            place += j + 2
        length = 1.0 + dot(row, row)
        for rate in range(len(rates)):
            linear_scores(weights[rate], row, known, scores[rate, i])
            if rows.learn[i]:
                pace = min(rates[rate] * rows.weights[i], max(rates[rate], length))
                softmax_step(weights[rate], row, length, scores[rate, i], code, max(known, code + 1), pace, chances)
