"""Nearest neighbours among the last rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kampong._core.loops import Loop, part
from kampong.online.arithmetic import logarithm
from kampong.online.members.member import Field, Member, Rows

if TYPE_CHECKING:
    from kampong._core.compute import Float, Integer


BLOCK = 16
"""This many distances are compared with the farthest neighbour at once."""


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
        last, classes, clock = self.arrays["points"], self.arrays["codes"], self.arrays["clock"]
        _step(last, classes, clock, self.settings.neighbours, rows.points, rows.codes, rows.known, rows.learn, scores)


@Loop
def _step(
    last: Float,
    classes: Integer,
    clock: Integer,
    count: int,
    points: Float,
    codes: Integer,
    known: Integer,
    learn: np.ndarray,
    scores: Float,
) -> None:
    window = last.shape[1]
    distances, nearest, who = np.zeros(window), np.zeros(count + 1), np.zeros(count + 1, dtype=np.int64)
    for i in range(len(points)):
        held, filled, found = 0, min(clock[0], window), scores[0, i]
        _distances(points[i], last, distances)
        for first in range(0, filled, BLOCK):
            size = min(BLOCK, filled - first)
            if held > count and not _any_below(distances[first : first + size], nearest[count]):
                continue
            for p in range(first, first + size):
                if held <= count or distances[p] < nearest[count]:
                    held = min(held, count) + 1
                    _insert(nearest, who, held - 1, distances[p], classes[p])
        for k in range(known[i]):
            found[k] = 1.0 / known[i]
        reach = nearest[held - 1] if held else 0.0
        for p in range(held - 1):
            found[who[p]] += 1.0 - nearest[p] / reach if reach > 0.0 else 1.0
        for k in range(known[i]):
            found[k] = logarithm(found[k])
        if learn[i]:
            place = clock[0] % window
            for j in range(len(last)):
                last[j, place] = points[i, j]
            classes[place] = codes[i]
            clock[0] += 1


@part
def _distances(point: Float, last: Float, out: Float) -> None:
    """Write the squared distances of all rows of the window."""
    for p in range(len(out)):
        out[p] = 0.0
    for j in range(len(point)):
        value, line = point[j], last[j]
        for p in range(len(out)):
            out[p] += (value - line[p]) * (value - line[p])


@part
def _any_below(distances: Float, reach: float) -> bool:
    """Tell whether any distance is below `reach`; counted, because vector units count quicker than one looks."""
    near = 0
    for p in range(len(distances)):
        near += 1 if distances[p] < reach else 0
    return near > 0


@part
def _insert(nearest: Float, who: Integer, place: int, distance: float, code: int) -> None:
    """Put a row among the nearest, which are sorted; that at `place` leaves."""
    while place > 0 and nearest[place - 1] > distance:
        nearest[place], who[place] = nearest[place - 1], who[place - 1]
        place -= 1
    nearest[place], who[place] = distance, code
