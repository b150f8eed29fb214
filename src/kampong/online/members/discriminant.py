"""Linear discriminant analysis of all rows, exact after every row: class means and one covariance for all classes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kampong._core.loops import Loop
from kampong.online.arithmetic import add_to_inverse, dot, logarithm
from kampong.online.members.member import Field, Member, Rows

if TYPE_CHECKING:
    from kampong._core.compute import Float, Integer


class Discriminant(Member):
    """Scores log p_k + m_kᵀ S⁻¹ x − ½ m_kᵀ S⁻¹ m_k, where S is the within-class covariance of all rows so far.

    The inverse of the scatter follows each row by a rank-one update, and so do the products S⁻¹ m_k, so nothing is ever
    solved again. One row of variance 1 in every direction is put in at the start.
    """

    name = "discriminant"

    def fields(self) -> dict[str, Field]:
        """Return counts, means, the inverse of the scatter, and its products with the means."""
        return {
            "counts": Field(("classes",), low=0.0),
            "means": Field(("classes", "columns")),
            "products": Field(("classes", "columns")),
            "inverse": Field(("columns", "columns"), diagonal=1.0),
        }

    def cost(self, columns: int, classes: int) -> float:
        """Return nanoseconds per row."""
        return 50.0 + 5.0 * columns + 0.25 * columns**2 + classes * (10.0 + 0.2 * columns)

    def step(self, rows: Rows, scores: Float) -> None:
        """Predict and learn row after row."""
        counts, means, products, inverse = (self.arrays[name] for name in ("counts", "means", "products", "inverse"))
        _step(counts, means, products, inverse, rows.points, rows.codes, rows.known, rows.weights, rows.learn, scores)


@Loop
def _step(
    counts: Float,
    means: Float,
    products: Float,
    inverse: Float,
    points: Float,
    codes: Integer,
    known: Integer,
    weights: Float,
    learn: np.ndarray,
    scores: Float,
) -> None:
    d, total = len(inverse), 1.0
    apart, gain, logs = np.zeros(d), np.zeros(d), np.zeros(len(counts))
    for k in range(len(counts)):
        total += counts[k]
        logs[k] = logarithm(counts[k]) if counts[k] > 0.0 else 0.0
    for i in range(len(points)):
        row, code = points[i], codes[i]
        for k in range(known[i]):
            scores[0, i, k] = logs[k] + total * (dot(products[k], row) - 0.5 * dot(products[k], means[k]))
        if not learn[i]:
            continue
        share = weights[i] / (counts[code] + weights[i])
        for j in range(d):
            apart[j] = row[j] - means[code, j]
        within = share * counts[code]
        if within > 0.0:
            add_to_inverse(inverse, apart, within, 1.0, gain)
            for k in range(known[i]):
                pace, line = dot(apart, products[k]), products[k]
                for j in range(d):
                    line[j] -= pace * gain[j]
            for j in range(d):
                products[code, j] += share / within * gain[j]
        else:
            for j in range(d):
                products[code, j] = dot(inverse[j], apart)
        for j in range(d):
            means[code, j] += share * apart[j]
        counts[code] += weights[i]
        logs[code] = logarithm(counts[code])
        total += weights[i]
