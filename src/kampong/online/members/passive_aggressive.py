"""Passive-aggressive steps: as far as the row needs to be right by a margin of 1, at most a strength."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kampong._core.loops import Loop
from kampong.online.arithmetic import dot
from kampong.online.members.member import Field, Member, Rows, linear_scores

if TYPE_CHECKING:
    from kampong._core.compute import Float, Integer


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
        return self.answers * (12.0 + classes * (5.0 + 0.1 * columns))

    def step(self, rows: Rows, scores: Float) -> None:
        """Predict and learn row after row."""
        strengths = np.array(self.settings.strengths)
        _step(self.arrays["weights"], strengths, rows.points, rows.codes, rows.known, rows.weights, rows.learn, scores)


@Loop
def _step(
    lines: Float,
    strengths: Float,
    points: Float,
    codes: Integer,
    known: Integer,
    weights: Float,
    learn: np.ndarray,
    scores: Float,
) -> None:
    for i in range(len(points)):
        row, code = points[i], codes[i]
        length = 1.0 + dot(row, row)
        for place in range(len(strengths)):
            found = scores[place, i]
            linear_scores(lines[place], row, known[i], found)
            other = -1
            for k in range(known[i]):
                if k != code and (other < 0 or found[k] > found[other]):
                    other = k
            if not learn[i] or other < 0:
                continue
            loss = 1.0 + found[other] - (found[code] if code < known[i] else 0.0)
            if loss > 0.0:
                pace = min(strengths[place] * weights[i], loss / (2.0 * length))
                lines[place, code, 0] += pace
                lines[place, other, 0] -= pace
                up, down = lines[place, code, 1:], lines[place, other, 1:]
                for j in range(len(row)):
                    up[j] += pace * row[j]
                    down[j] -= pace * row[j]
