"""Nearest neighbours among the last rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kampong._core.compute import compiled
from kampong.online.members.member import Field, Member, Rows

if TYPE_CHECKING:
    from kampong._core.compute import Float, Integer


class Neighbours(Member):
    """Votes of the nearest of the last rows; a vote fades to 0 at the distance of the first that has none.

    So a row that becomes the nearer of two neighbours changes the answer smoothly.
    """

    name = "neighbours"

    def fields(self) -> dict[str, Field]:
        """Return the last rows, their classes, and how many rows were learnt."""
        window = self.settings.window
        return {
            "points": Field(("columns", window)),
            "codes": Field((window,), low=0, dtype=np.int64, below="classes"),
            "clock": Field((1,), low=0, dtype=np.int64),
        }

    def cost(self, columns: int, classes: int) -> float:
        """Return nanoseconds per row."""
        return self.settings.window * (2.2 + 0.1 * columns)

    def step(self, rows: Rows, scores: Float) -> None:
        """Predict and learn row after row."""
        arrays = self.arrays
        _step(arrays["points"], arrays["codes"], arrays["clock"], self.settings.neighbours, rows, scores[0])


@compiled
def _step(points: Float, codes: Integer, clock: Integer, count: int, rows: Rows, scores: Float) -> None:
    d, window = points.shape
    distances = np.zeros(window)
    nearest, who = np.zeros(count + 1), np.zeros(count + 1, dtype=np.int64)
    for i in range(len(rows.points)):
        row, known, found = rows.points[i], rows.known[i], scores[i]
        held, filled = 0, min(clock[0], window)
        distances[:] = 0.0
        for j in range(d):
            for p in range(window):
                step = row[j] - points[j, p]
                distances[p] += step * step
        for p in range(filled):
            distance = distances[p]
            if held <= count or distance < nearest[held - 1]:
                place = held if held <= count else count
                held = place + 1
                while place > 0 and nearest[place - 1] > distance:
                    nearest[place], who[place] = nearest[place - 1], who[place - 1]
                    place -= 1
                nearest[place], who[place] = distance, codes[p]
        for k in range(known):
            found[k] = 1.0 / known
        reach = nearest[held - 1] if held else 0.0
        for p in range(held - 1):
            found[who[p]] += 1.0 - nearest[p] / reach if reach > 0.0 else 1.0
        for k in range(known):
            found[k] = np.log(found[k])
        if rows.learn[i]:
            place = clock[0] % window
            for j in range(d):
                points[j, place] = row[j]
            codes[place] = rows.codes[i]
            clock[0] += 1
