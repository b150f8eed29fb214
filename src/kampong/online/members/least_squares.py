"""Recursive least squares: ridge regression on the indicators of the classes, with older rows forgotten."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kampong._core.loops import Loop
from kampong.online.arithmetic import dot, update_inverse
from kampong.online.members.member import Field, Member, Rows, linear_scores

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
        return 50.0 + 5.0 * columns + 0.25 * columns**2 + classes * (10.0 + 0.2 * columns)

    def step(self, rows: Rows, scores: Float) -> None:
        """Predict and learn row after row."""
        lines, inverse, clock = self.arrays["weights"], self.arrays["inverse"], self.arrays["clock"]
        keep = 2.0 ** (-1.0 / self.settings.half_life)
        faded = 1.0 - keep ** len(inverse)  # of the ridge, since the last turn of a column
        _step(lines, inverse, clock, keep, faded, rows.points, rows.codes, rows.known, rows.weights, rows.learn, scores)


@Loop
def _step(
    lines: Float,
    inverse: Float,
    clock: Integer,
    keep: float,
    faded: float,
    points: Float,
    codes: Integer,
    known: Integer,
    weights: Float,
    learn: np.ndarray,
    scores: Float,
) -> None:
    width = len(inverse)
    row, gain, back = np.ones(width), np.zeros(width), np.zeros(width)
    for i in range(len(points)):
        linear_scores(lines, points[i], known[i], scores[0, i])
        if not learn[i]:
            continue
        for j in range(width - 1):
            row[1 + j] = points[i, j]
        place = clock[0] % width
        clock[0] += 1
        update_inverse(inverse, row, weights[i], keep, place, faded, gain, back)
        for k in range(max(known[i], codes[i] + 1)):
            error = (1.0 if k == codes[i] else 0.0) - dot(lines[k], row)
            rest = -(lines[k, place] + error * gain[place])
            for j in range(width):
                lines[k, j] += error * gain[j] + rest * back[j]
