"""How frequent each class was recently: the least that a member can know, at any width and number of classes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kampong._core.loops import Loop
from kampong.online.arithmetic import logarithm
from kampong.online.members.member import Field, Member, Rows

if TYPE_CHECKING:
    import numpy as np

    from kampong._core.compute import Float, Integer


class Frequencies(Member):
    """Counts of each class, halved with the half-life; one count is shared by all classes."""

    name = "frequencies"
    always = True
    wide = None

    def fields(self) -> dict[str, Field]:
        """Return the counts."""
        return {"counts": Field(("classes",), low=0.0)}

    def cost(self, columns: int, classes: int) -> float:
        """Return nanoseconds per row."""
        return 4.0 + 6.0 * classes

    def step(self, rows: Rows, scores: Float) -> None:
        """Predict and learn row after row."""
        keep = 2.0 ** (-1.0 / self.settings.half_life)
        _step(self.arrays["counts"], keep, rows.codes, rows.known, rows.weights, rows.learn, scores)


@Loop
def _step(
    counts: Float, keep: float, codes: Integer, known: Integer, weights: Float, learn: np.ndarray, scores: Float
) -> None:
    for i in range(len(codes)):
        for k in range(known[i]):
            scores[0, i, k] = logarithm(counts[k] + 1.0 / known[i])
        if learn[i]:
            for k in range(known[i]):
                counts[k] *= keep
            counts[codes[i]] += weights[i]
