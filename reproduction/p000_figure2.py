"""000, figure 2: how fast IMMC with θ = 85 comes to the batch direction on the two classes of figure 1."""

from __future__ import annotations

import numpy as np

from kampong.recursions import MarginRecursion
from reproduction._linear import COLOURS, curve, leading, scatters, two_classes
from reproduction._result import CONDITION, FAILS, HOLDS, Finding, Result, draw, picture
from reproduction.p000_figure1 import IMPLIED, MEANS, PRINTED

TITLE = "Correlation between IMMC and batch MMC on the two classes, θ = 85"
CLAIM = "IMMC converges to the batch direction within the 100 rows."


def run(quick: bool) -> Result:
    """Return the median cosine over draws."""
    draws = 10 if quick else 100
    findings, ends = [], {}
    figure, axis = draw()
    styles = iter(COLOURS)
    for name, spreads in {"printed": PRINTED, "implied": IMPLIED}.items():
        for theta in (85.0, "auto"):
            found = []
            for seed in range(draws):
                X, y = two_classes(MEANS, spreads, 50, seed)
                between, within = scatters(X, y)
                moments, cosines = curve(MarginRecursion(1, theta=theta), leading(between - within)[1], X, y)
                found.append(cosines)
            median = np.median(found, axis=0)
            ends[name, theta] = float(median[-1])
            findings.append(
                Finding(f"|cos| after 100 rows, covariances {name}, θ = {theta}", float(median[-1]), None, 0.03)
            )
            if axis is not None:
                axis.plot(moments, median, label=f"covariances {name}, θ = {theta}", color=next(styles))
    if axis is not None:
        axis.set(xlabel="rows", ylabel="|cos|, median of draws", ylim=(0, 1.02))
        axis.legend(fontsize=7)
    least = min(ends["printed", 85.0], ends["implied", 85.0])
    verdict = HOLDS if least > 0.95 else CONDITION if max(ends.values()) > 0.95 else FAILS
    sentence = (
        f"With θ = 85 the median |cos| after 100 rows is {ends['printed', 85.0]:.3f} on the printed covariances and "
        f"{ends['implied', 85.0]:.3f} on the implied ones; with θ chosen by the rows {ends['printed', 'auto']:.3f} and "
        f"{ends['implied', 'auto']:.3f}."
    )
    return Result(verdict, sentence, findings, [] if figure is None else [("Convergence", picture(figure))])
