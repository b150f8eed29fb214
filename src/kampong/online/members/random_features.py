"""Softmax regression on random Fourier features: smooth curved boundaries, at several widths of the kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kampong._core.compute import compiled
from kampong.online.members.member import Field, Member, Rows, linear_scores, softmax_step

if TYPE_CHECKING:
    from kampong._core.compute import Float


class Fourier(Member):
    """Cosines and sines of random directions; each width is half the one before.

    The mean squared distance of two standardised rows is twice the number of columns that are not constant. The widest
    kernel is exp(−‖x − z‖² / 2c) with c that number. Doubled angles give the narrower ones for a few multiplications.
    """

    name = "fourier"

    @property
    def answers(self) -> int:
        """One per width."""
        return self.settings.widths

    def fields(self) -> dict[str, Field]:
        """Return the directions, column by column, and one line of weights per width and class."""
        half = self.settings.frequencies
        return {
            "directions": Field(("columns", half)),
            "weights": Field((self.answers, "classes", 1 + 2 * half)),
        }

    def cost(self, columns: int, classes: int) -> float:
        """Return nanoseconds per row."""
        return self.settings.frequencies * (14.0 + 0.45 * columns + self.answers * classes)

    def resize(self, columns: int, classes: int) -> None:
        """Make room; each new column draws its directions from the seed and its place."""
        known = len(self.arrays["directions"]) if self.arrays else 0
        super().resize(columns, classes)
        for j in range(known, columns):
            rng = np.random.default_rng([self.seed, j])
            self.arrays["directions"][j] = rng.standard_normal(self.settings.frequencies)

    def step(self, rows: Rows, scores: Float) -> None:
        """Predict and learn row after row."""
        _step(self.arrays["directions"], self.arrays["weights"], self.settings.curved_rate, rows, scores)


@compiled
def _step(directions: Float, weights: Float, rate: float, rows: Rows, scores: Float) -> None:
    half = directions.shape[1]
    chances, angles, row = np.zeros(weights.shape[1]), np.zeros(half), np.zeros(2 * half)
    size = np.sqrt(1.0 / half)  # makes the squared length of the features 1
    for i in range(len(rows.points)):
        point, known, code = rows.points[i], rows.known[i], rows.codes[i]
        angles[:] = 0.0
        for j in range(len(point)):
            if point[j] != 0.0:
                pace = point[j] / np.sqrt(rows.active[i])
                for f in range(half):
                    angles[f] += pace * directions[j, f]
        for f in range(half):
            row[f], row[half + f] = size * np.cos(angles[f]), size * np.sin(angles[f])
        for width in range(len(weights)):
            if width:
                for f in range(half):
                    cosine, sine = row[f], row[half + f]
                    row[f], row[half + f] = 2.0 * cosine * cosine / size - size, 2.0 * sine * cosine / size
            found = scores[width, i]
            linear_scores(weights[width], row, known, found)
            if rows.learn[i]:
                pace = min(rate * rows.weights[i], max(rate, 2.0))
                softmax_step(weights[width], row, 2.0, found, code, max(known, code + 1), pace, chances)
