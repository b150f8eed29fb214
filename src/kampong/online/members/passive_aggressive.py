"""Passive-aggressive steps: as far as the row needs to be right by a margin of 1, at most a strength."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kampong._core.compute import compiled
from kampong.online.members.member import Field, Member, Rows, dot, linear_scores

if TYPE_CHECKING:
    from kampong._core.compute import Float


class PassiveAggressive(Member):
    """The class of the row is raised, and the highest other class lowered, by min(strength, loss / 2‖x‖²) times x.

    References
    ----------
    Crammer et al., Online passive-aggressive algorithms, JMLR 7, 2006 (PA-I, several classes).
    """

    name = "passive_aggressive"

    @property
    def answers(self) -> int:
        """One per strength."""
        return len(self.settings.strengths)

    def fields(self) -> dict[str, Field]:
        """Return one line of weights per strength and class, the offset first."""
        return {"weights": Field((self.answers, "classes", "weights"))}

    def sizes(self, columns: int, classes: int) -> dict[str, int]:
        """Return the length of each named axis."""
        return {"classes": classes, "weights": 1 + columns}

    def cost(self, columns: int, classes: int) -> float:
        """Return nanoseconds per row."""
        return self.answers * classes * (10.0 + 0.2 * columns)

    def step(self, rows: Rows, scores: Float) -> None:
        """Predict and learn row after row."""
        _step(self.arrays["weights"], np.array(self.settings.strengths), rows, scores)


@compiled
def _step(weights: Float, strengths: Float, rows: Rows, scores: Float) -> None:
    for i in range(len(rows.points)):
        row, known, code = rows.points[i], rows.known[i], rows.codes[i]
        length = 1.0 + dot(row, row)
        for place in range(len(strengths)):
            found = scores[place, i]
            linear_scores(weights[place], row, known, found)
            if not rows.learn[i] or known == 0:
                continue
            other = -1
            for k in range(known):
                if k != code and (other < 0 or found[k] > found[other]):
                    other = k
            if other < 0:
                continue
            own = found[code] if code < known else 0.0
            loss = 1.0 - own + found[other]
            if loss > 0.0:
                pace = min(strengths[place] * rows.weights[i], loss / (2.0 * length))
                weights[place, code, 0] += pace
                weights[place, other, 0] -= pace
                for j in range(len(row)):
                    weights[place, code, 1 + j] += pace * row[j]
                    weights[place, other, 1 + j] -= pace * row[j]
