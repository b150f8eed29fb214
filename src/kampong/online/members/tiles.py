"""Softmax regression on tiles: each column cut into intervals, each pair of columns into rectangles, as trees do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kampong._core.compute import compiled
from kampong.online.members.member import Field, Member, Rows, to_probabilities

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
        return tables * (2.0 + 4.0 * classes + 0.02 * tables)

    def step(self, rows: Rows, scores: Float) -> None:
        """Predict and learn row after row."""
        _step(self.arrays["weights"], self.settings.cuts, self.settings.curved_rate, rows, scores[0])


@compiled
def _step(weights: Float, cuts: int, rate: float, rows: Rows, scores: Float) -> None:
    d = rows.points.shape[1]
    tables, places = np.zeros(len(weights), dtype=np.int64), np.zeros(len(weights), dtype=np.int64)
    parts, chances = np.zeros(d), np.zeros(weights.shape[2])
    for i in range(len(rows.points)):
        known, code, found = rows.known[i], rows.codes[i], scores[i]
        count = _tiles(rows.points[i], cuts, parts, tables, places)
        for k in range(known):
            found[k] = 0.0
        for t in range(count):
            for k in range(known):
                found[k] += weights[tables[t], places[t], k]
        if rows.learn[i] and count:
            classes = max(known, code + 1)
            to_probabilities(found, classes, chances)
            chances[code] -= 1.0
            pace = min(rate * rows.weights[i], max(rate, 1.0 * count)) / count
            for t in range(count):
                for k in range(classes):
                    weights[tables[t], places[t], k] -= pace * chances[k]


@compiled
def _tiles(point: Float, cuts: int, parts: Float, tables: Integer, places: Integer) -> int:
    """Write the tiles of a row, and return how many it has: none for a constant column."""
    count, table = 0, 0
    for j in range(len(point)):
        # the normal distribution function, nearly: about as many rows in each interval
        parts[j] = min(1.0 / (1.0 + np.exp(-1.702 * point[j])), 1.0 - 1e-9)
        for m in range(j + 1):
            if point[j] != 0.0 and point[m] != 0.0:
                tables[count] = table + m
                if m == j:
                    places[count] = int(parts[j] * cuts * cuts)
                else:
                    places[count] = int(parts[j] * cuts) * cuts + int(parts[m] * cuts)
                count += 1
        table += j + 1
    return count
