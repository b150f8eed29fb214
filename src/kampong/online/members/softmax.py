"""Softmax regression that takes a step with every row, at several learning rates."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kampong._core.compute import compiled
from kampong.online.members.member import Field, Member, Rows, dot, linear_scores, softmax_step

if TYPE_CHECKING:
    from kampong._core.compute import Float


class Softmax(Member):
    """A step moves the scores of the row by the learning rate times their gradient, so old rows fade by themselves."""

    name = "softmax"
    always = True

    @property
    def answers(self) -> int:
        """One per learning rate."""
        return len(self.settings.learning_rates)

    def fields(self) -> dict[str, Field]:
        """Return one line of weights per rate and class, the offset first."""
        return {"weights": Field((self.answers, "classes", "weights"))}

    def sizes(self, columns: int, classes: int) -> dict[str, int]:
        """Return the length of each named axis."""
        return {"classes": classes, "weights": 1 + columns}

    def cost(self, columns: int, classes: int) -> float:
        """Return nanoseconds per row."""
        return self.answers * classes * (20.0 + 0.4 * columns)

    def step(self, rows: Rows, scores: Float) -> None:
        """Predict and learn row after row."""
        _step(self.arrays["weights"], np.array(self.settings.learning_rates), rows, scores)


@compiled
def _step(weights: Float, rates: Float, rows: Rows, scores: Float) -> None:
    chances = np.zeros(weights.shape[1])
    for i in range(len(rows.points)):
        row, known, code = rows.points[i], rows.known[i], rows.codes[i]
        length = 1.0 + dot(row, row)
        for rate in range(len(rates)):
            linear_scores(weights[rate], row, known, scores[rate, i])
            if rows.learn[i]:
                pace = min(rates[rate] * rows.weights[i], max(rates[rate], length))
                softmax_step(weights[rate], row, length, scores[rate, i], code, max(known, code + 1), pace, chances)
