"""001, figure 2: two long classes in the plane, and the directions of IIS, IMMC, LDA and PCA."""

from __future__ import annotations

import numpy as np

from reproduction._linear import COLOURS, leading, midpoint_error, scatters, two_classes
from reproduction._result import CONDITION, FAILS, HOLDS, Finding, Result, draw, picture

TITLE = "One-dimensional spaces of IIS, LDA and PCA in the plane"
CLAIM = "PCA mixes the classes; IIS is close to LDA and IMMC, which are the same."
MEANS, SPREADS, SEED = ((-1, 3), (1, -3)), ((100, 1), (100, 1)), 0
"""The figure prints no parameters; these look like it: two flat classes above each other, a little to the side."""


def run(quick: bool) -> Result:
    """Return angles and errors."""
    X, y = two_classes(MEANS, SPREADS, 200, SEED)
    between, within = scatters(X, y)
    directions = {
        "IIS": leading(between)[1],
        "IMMC": leading(between - within)[1],
        "LDA": np.linalg.solve(within, leading(between)[1]),
        "PCA": leading(between + within)[1],
    }
    directions = {name: vector / np.linalg.norm(vector) for name, vector in directions.items()}
    errors = {name: midpoint_error(X @ vector[:, None], y) for name, vector in directions.items()}
    cosines = {name: abs(directions[name] @ directions["LDA"]) for name in directions}
    findings = [Finding(f"|cos| of {name} to LDA", cosines[name], None, 0.01) for name in ("IIS", "IMMC", "PCA")]
    findings += [Finding(f"error of the nearest mean, {name}", error, None, 0.01) for name, error in errors.items()]
    figure, axis = draw()
    if axis is not None:
        for k in (0, 1):
            axis.scatter(*X[y == k].T, s=8, marker="*^"[k], color=COLOURS[k])
        for (name, vector), colour in zip(directions.items(), COLOURS[2:], strict=False):
            axis.axline((0, 0), vector, label=name, color=colour)
        axis.set(aspect="equal", ylim=(-8, 8))
        axis.legend(fontsize=7)
    fine = cosines["IMMC"] > 0.99 and errors["PCA"] > 0.2
    verdict = HOLDS if fine and errors["IIS"] < errors["LDA"] + 0.05 else CONDITION if fine else FAILS
    sentence = (
        f"|cos| to LDA: IMMC {cosines['IMMC']:.3f}, IIS {cosines['IIS']:.3f}, PCA {cosines['PCA']:.3f}; errors "
        f"{100 * errors['LDA']:.1f} % (LDA), {100 * errors['IMMC']:.1f} % (IMMC), {100 * errors['IIS']:.1f} % (IIS), "
        f"{100 * errors['PCA']:.0f} % (PCA). IIS follows the means, so it loses where they differ along the long axis."
    )
    return Result(verdict, sentence, findings, [] if figure is None else [("Directions", picture(figure))], SEED)
