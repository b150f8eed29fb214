"""The chance of a class after the last label: for streams whose labels come in order, right after their rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kampong._core.loops import Loop
from kampong.online.arithmetic import logarithm
from kampong.online.members.member import Field, Member, Rows

if TYPE_CHECKING:
    from kampong._core.compute import Float, Integer


class LabelChain(Member):
    """Counts of each class after each class, halved with the half-life; one count is shared by all classes."""

    name = "label_chain"
    always = True
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
        return 4.0 + 6.0 * classes

    def step(self, rows: Rows, scores: Float) -> None:
        """Predict and learn row after row."""
        counts, last, keep = self.arrays["counts"], self.arrays["last"], 2.0 ** (-1.0 / self.settings.half_life)
        _step(counts, last, keep, rows.codes, rows.known, rows.weights, rows.learn, scores)


@Loop
def _step(
    counts: Float,
    last: Integer,
    keep: float,
    codes: Integer,
    known: Integer,
    weights: Float,
    learn: np.ndarray,
    scores: Float,
) -> None:
    for i in range(len(codes)):
        if last[0] >= 0:
            for k in range(known[i]):
                scores[0, i, k] = logarithm(counts[last[0], k] + 1.0 / known[i])
        if learn[i]:
            if last[0] >= 0:
                for k in range(known[i]):
                    counts[last[0], k] *= keep
                counts[last[0], codes[i]] += weights[i]
            last[0] = codes[i]
