"""Recursive least squares: ridge regression on the indicators of the classes, with older rows forgotten."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kampong._core.compute import compiled
from kampong.online.members.member import Field, Member, Rows, dot, linear_scores, restore_ridge, update_inverse

if TYPE_CHECKING:
    from kampong._core.compute import Float, Integer


class LeastSquares(Member):
    """Minimise Σ λ^age (w·x − [class])² + ‖w‖², exactly, after every row.

    The ridge would fade with the rows. It is given back one column per row in turn, so that nothing grows without bound
    in a direction that no row has.
    """

    name = "least_squares"

    def fields(self) -> dict[str, Field]:
        """Return the weights, the inverse of the moments, and how many rows were learnt."""
        return {
            "weights": Field(("classes", "weights")),
            "inverse": Field(("weights", "weights"), diagonal=1.0),
            "clock": Field((1,), low=0, dtype=np.int64),
        }

    def sizes(self, columns: int, classes: int) -> dict[str, int]:
        """Return the length of each named axis."""
        return {"classes": classes, "weights": 1 + columns}

    def cost(self, columns: int, classes: int) -> float:
        """Return nanoseconds per row."""
        return 1.1 * (1 + columns) ** 2 + classes * columns

    def step(self, rows: Rows, scores: Float) -> None:
        """Predict and learn row after row."""
        keep = 2.0 ** (-1.0 / self.settings.half_life)
        _step(self.arrays["weights"], self.arrays["inverse"], self.arrays["clock"], keep, rows, scores[0])


@compiled
def _step(weights: Float, inverse: Float, clock: Integer, keep: float, rows: Rows, scores: Float) -> None:
    width = len(inverse)
    row, gain = np.ones(width), np.zeros(width)
    for i in range(len(rows.points)):
        known, code = rows.known[i], rows.codes[i]
        linear_scores(weights, rows.points[i], known, scores[i])
        if not rows.learn[i]:
            continue
        row[1:] = rows.points[i]
        inverse /= keep
        update_inverse(inverse, row, rows.weights[i], gain)
        for k in range(max(known, code + 1)):
            error = (1.0 if k == code else 0.0) - dot(weights[k], row)
            for j in range(width):
                weights[k, j] += error * gain[j]
        place = clock[0] % width
        clock[0] += 1
        restore_ridge(inverse, place, 1.0 - keep**width, gain)  # what has faded since the last turn of the column
        for k in range(max(known, code + 1)):
            error = -weights[k, place]
            for j in range(width):
                weights[k, j] += error * gain[j]
