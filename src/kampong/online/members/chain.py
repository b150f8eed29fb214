"""The chance of a class after the last label: for streams whose labels come in order, right after their rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kampong._core.compute import compiled
from kampong.online.members.member import Field, Member, Rows

if TYPE_CHECKING:
    from kampong._core.compute import Float, Integer


class LabelChain(Member):
    """Counts of each class after each class, halved with the half-life; one count is shared by all classes."""

    name = "label_chain"
    uses_last_label = True
    wide = None

    def fields(self) -> dict[str, Field]:
        """Return the counts and the last class, −1 before the first."""
        return {
            "counts": Field(("classes", "classes"), low=0.0),
            "last": Field((1,), low=-1, start=-1, dtype=np.int64, below="classes"),
        }

    def cost(self, columns: int, classes: int) -> float:
        """Return nanoseconds per row."""
        return 5.0 * classes

    def step(self, rows: Rows, scores: Float) -> None:
        """Predict and learn row after row."""
        keep = 2.0 ** (-1.0 / self.settings.half_life)
        _step(self.arrays["counts"], self.arrays["last"], keep, rows, scores[0])


@compiled
def _step(counts: Float, last: Integer, keep: float, rows: Rows, scores: Float) -> None:
    for i in range(len(rows.codes)):
        known, code = rows.known[i], rows.codes[i]
        for k in range(known):
            scores[i, k] = 0.0
        if last[0] >= 0:
            line = counts[last[0]]
            for k in range(known):
                scores[i, k] = np.log(line[k] + 1.0 / known)
            if rows.learn[i]:
                for k in range(known):
                    line[k] *= keep
                line[code] += rows.weights[i]
        if rows.learn[i]:
            last[0] = code
