"""Softmax regression that takes a step with every row, at several learning rates."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kampong._core.loops import Loop
from kampong.online.arithmetic import dot
from kampong.online.members.member import Field, Member, Rows, linear_scores, softmax_step

if TYPE_CHECKING:
    from kampong._core.compute import Float, Integer


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
        return self.answers * (35.0 + classes * (12.0 + 0.2 * columns))

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
    chances = np.zeros(lines.shape[1])
    for i in range(len(points)):
        row, count = points[i], max(known[i], codes[i] + 1)
        length = 1.0 + dot(row, row)
        for rate in range(len(rates)):
            linear_scores(lines[rate], row, known[i], scores[rate, i])
            if learn[i]:
                pace = min(rates[rate] * weights[i], max(rates[rate], length))
                softmax_step(lines[rate], row, length, scores[rate, i], codes[i], count, pace, chances)
