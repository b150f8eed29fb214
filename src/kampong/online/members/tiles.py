"""Softmax regression on tiles: each column cut into intervals, each pair of columns into rectangles, as trees do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kampong._core.loops import Loop, part
from kampong.online.arithmetic import exponential, to_probabilities
from kampong.online.members.member import Field, Member, Rows

if TYPE_CHECKING:
    from kampong._core.compute import Float, Integer


class Tiles(Member):
    """A row lies in one interval of each column and in one rectangle of each pair; each has a weight per class."""

    name = "tiles"

    def fields(self) -> dict[str, Field]:
        """Return one weight per tile and class."""
        return {"weights": Field(("tables", self.settings.cuts**2, "classes"))}

    def sizes(self, columns: int, classes: int) -> dict[str, int]:
        """Return the length of each named axis: column j comes with its pairs with columns 0 to j."""
        return {"classes": classes, "tables": columns * (columns + 1) // 2}

    def cost(self, columns: int, classes: int) -> float:
        """Return nanoseconds per row; the more tables there are, the more of them the cache has lost."""
        tables = columns * (columns + 1) // 2
        return 40.0 + tables * (3.0 + 3.0 * classes + 0.005 * tables)

    def step(self, rows: Rows, scores: Float) -> None:
        """Predict and learn row after row."""
        lines, cuts, rate = self.arrays["weights"], self.settings.cuts, self.settings.curved_rate
        _step(lines, cuts, rate, rows.points, rows.codes, rows.known, rows.weights, rows.learn, scores)


@Loop
def _step(
    lines: Float,
    cuts: int,
    rate: float,
    points: Float,
    codes: Integer,
    known: Integer,
    weights: Float,
    learn: np.ndarray,
    scores: Float,
) -> None:
    d = points.shape[1]
    tables, places = np.zeros(len(lines), dtype=np.int64), np.zeros(len(lines), dtype=np.int64)
    parts, intervals, chances = np.zeros(d), np.zeros(d, dtype=np.int64), np.zeros(lines.shape[2])
    for i in range(len(points)):
        found = scores[0, i]
        count = _tiles(points[i], cuts, parts, intervals, tables, places)
        for t in range(count):
            for k in range(known[i]):
                found[k] += lines[tables[t], places[t], k]
        if learn[i] and count:
            classes = max(known[i], codes[i] + 1)
            to_probabilities(found, classes, chances)
            chances[codes[i]] -= 1.0
            pace = min(rate * weights[i], max(rate, 1.0 * count)) / count
            for k in range(classes):
                chances[k] *= pace
            for t in range(count):
                for k in range(classes):
                    lines[tables[t], places[t], k] -= chances[k]


@part
def _tiles(point: Float, cuts: int, parts: Float, intervals: Integer, tables: Integer, places: Integer) -> int:
    """Write the tiles of a row, and return how many it has: none for a constant column."""
    for j in range(len(point)):
        # the normal distribution function, nearly: about as many rows in each interval
        parts[j] = cuts * min(1.0 / (1.0 + exponential(-1.702 * point[j])), 1.0 - 1e-9)
    count, table = 0, 0
    for j in range(len(point)):
        if point[j] != 0.0:
            intervals[j] = int(parts[j])
            for m in range(j):
                if point[m] != 0.0:
                    tables[count], places[count] = table + m, intervals[j] * cuts + intervals[m]
                    count += 1
            tables[count], places[count] = table + j, int(cuts * parts[j])
            count += 1
        table += j + 1
    return count
