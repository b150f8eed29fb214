"""How frequent each class was recently: the least that a member can know, at any width and number of classes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kampong._core.compute import compiled
from kampong.online.members.member import Field, Member, Rows

if TYPE_CHECKING:
    from kampong._core.compute import Float


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
        return 5.0 * classes

    def step(self, rows: Rows, scores: Float) -> None:
        """Predict and learn row after row."""
        _step(self.arrays["counts"], 2.0 ** (-1.0 / self.settings.half_life), rows, scores[0])


@compiled
def _step(counts: Float, keep: float, rows: Rows, scores: Float) -> None:
    for i in range(len(rows.codes)):
        known, code = rows.known[i], rows.codes[i]
        for k in range(known):
            scores[i, k] = np.log(counts[k] + 1.0 / known)
        if rows.learn[i]:
            for k in range(known):
                counts[k] *= keep
            counts[code] += rows.weights[i]
