"""Linear discriminant analysis of all rows, exact after every row: class means and one covariance for all classes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kampong._core.compute import compiled
from kampong.online.members.member import Field, Member, Rows, dot, update_inverse

if TYPE_CHECKING:
    from kampong._core.compute import Float


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
        return 0.3 * columns**2 + 0.5 * classes * columns

    def step(self, rows: Rows, scores: Float) -> None:
        """Predict and learn row after row."""
        arrays = self.arrays
        _step(arrays["counts"], arrays["means"], arrays["products"], arrays["inverse"], rows, scores[0])


@compiled
def _step(counts: Float, means: Float, products: Float, inverse: Float, rows: Rows, scores: Float) -> None:
    d = len(inverse)
    apart, gain = np.zeros(d), np.zeros(d)
    total = 1.0 + counts.sum()
    for i in range(len(rows.points)):
        row, known, code, weight = rows.points[i], rows.known[i], rows.codes[i], rows.weights[i]
        for k in range(known):
            scores[i, k] = np.log(counts[k]) + total * (dot(products[k], row) - 0.5 * dot(products[k], means[k]))
        if not rows.learn[i]:
            continue
        share = weight / (counts[code] + weight)
        for j in range(d):
            apart[j] = row[j] - means[code, j]
        within = share * counts[code]
        if within > 0.0:
            update_inverse(inverse, apart, within, gain)
            for k in range(known):
                pace = dot(apart, products[k])
                for j in range(d):
                    products[k, j] -= pace * gain[j]
            for j in range(d):
                products[code, j] += share / within * gain[j]
        else:
            for j in range(d):
                products[code, j] = dot(inverse[j], apart)
        for j in range(d):
            means[code, j] += share * apart[j]
        counts[code] += weight
        total += weight
