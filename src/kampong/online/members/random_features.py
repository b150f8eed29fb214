"""Softmax regression on random Fourier features: smooth curved boundaries, at several widths of the kernel."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kampong._core.loops import Loop
from kampong.online.arithmetic import cosines_and_sines
from kampong.online.members.member import Field, Member, Rows, linear_scores, softmax_step

if TYPE_CHECKING:
    from kampong._core.compute import Float, Integer


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
        return self.settings.frequencies * (3.5 + 0.35 * columns + 0.63 * self.answers * classes)

    def resize(self, columns: int, classes: int) -> None:
        """Make room; each new column draws its directions from the seed and its place."""
        known = len(self.arrays["directions"]) if self.arrays else 0
        super().resize(columns, classes)
        for j in range(known, columns):
            rng = np.random.default_rng([self.seed, j])
            self.arrays["directions"][j] = rng.standard_normal(self.settings.frequencies)

    def step(self, rows: Rows, scores: Float) -> None:
        """Predict and learn row after row."""
        directions, lines, rate = self.arrays["directions"], self.arrays["weights"], self.settings.curved_rate
        _step(
            directions, lines, rate, rows.active, rows.points, rows.codes, rows.known, rows.weights, rows.learn, scores
        )


@Loop
def _step(
    directions: Float,
    lines: Float,
    rate: float,
    active: Integer,
    points: Float,
    codes: Integer,
    known: Integer,
    weights: Float,
    learn: np.ndarray,
    scores: Float,
) -> None:
    half = directions.shape[1]
    chances, angles, row = np.zeros(lines.shape[1]), np.zeros(half), np.zeros(2 * half)
    size = np.sqrt(1.0 / half)  # makes the squared length of the features 1
    twice, cosines, sines = 2.0 / size, row[:half], row[half:]
    for i in range(len(points)):
        for f in range(half):
            angles[f] = 0.0
        for j in range(points.shape[1]):
            if points[i, j] != 0.0:
                pace = points[i, j] / np.sqrt(active[i])
                for f in range(half):
                    angles[f] += pace * directions[j, f]
        cosines_and_sines(angles, size, cosines, sines)
        for width in range(len(lines)):
            if width:
                for f in range(half):
                    cosine, sine = cosines[f], sines[f]
                    cosines[f], sines[f] = twice * cosine * cosine - size, twice * sine * cosine
            linear_scores(lines[width], row, known[i], scores[width, i])
            if learn[i]:
                pace = min(rate * weights[i], max(rate, 2.0))
                count = max(known[i], codes[i] + 1)
                softmax_step(lines[width], row, 2.0, scores[width, i], codes[i], count, pace, chances)
