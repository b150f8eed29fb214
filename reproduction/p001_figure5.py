"""001, figure 5: error of the nearest neighbour against the dimension, IMMC, PCA and LDA."""

from __future__ import annotations

import numpy as np

from kampong.recursions import MarginRecursion
from reproduction._linear import COLOURS, lda, neighbour_errors, pca
from reproduction._result import CONDITION, FAILS, HOLDS, Finding, Result, draw, picture
from reproduction._sets import whole

TITLE = "1-NN error against the dimension: IMMC, PCA and LDA"
CLAIM = "IMMC outperforms PCA and is comparable to LDA."
SETS = ("iris", "balance_scale", "monks1", "wine")
"""The four sets on which the paper's IMMC converges."""


def run(quick: bool) -> Result:
    """Return the error at each dimension."""
    methods = {"IMMC": lambda p: MarginRecursion(p), "PCA": pca, "LDA": lda}
    findings, better, least = [], [], {}
    figure, axes = draw(9, 6, columns=2, rows=2)
    for place, name in enumerate(SETS):
        X, y = whole(name)
        dimensions = list(range(1, X.shape[1] + 1))
        for (label, make), colour in zip(methods.items(), COLOURS, strict=False):
            errors = neighbour_errors(make, X, y, dimensions, range(3 if quick else 20))
            least[name, label] = float(np.nanmin(errors))
            findings.append(Finding(f"{name}: 1-NN error in one dimension, {label}", float(errors[0]), None, 0.04))
            findings.append(Finding(f"{name}: least 1-NN error, {label}", least[name, label], None, 0.03))
            if label in ("IMMC", "PCA"):
                better.append(errors[: max(1, len(dimensions) - 1)])
            if figure is not None:
                axes[place].plot(dimensions, errors, "o-", ms=3, label=label, color=colour)
        if figure is not None:
            axes[place].set(title=name, xlabel="dimension", ylabel="1-NN error")
            axes[place].legend(fontsize=7)
    wins = [int((mine < other - 1e-9).sum()) for mine, other in zip(better[::2], better[1::2], strict=True)]
    places = [len(mine) for mine in better[::2]]
    worse = [name for name in SETS if least[name, "IMMC"] > least[name, "LDA"] + 0.02]
    share = sum(wins) / sum(places)
    verdict = HOLDS if share > 0.8 and not worse else CONDITION if share > 0.4 else FAILS
    findings.append(Finding("share of dimensions where IMMC is better than PCA", share, None, 0.15))
    sentence = (
        f"IMMC is better than PCA in {sum(wins)} of {sum(places)} dimensions below the full one ("
        + ", ".join(f"{name} {win}/{place}" for name, win, place in zip(SETS, wins, places, strict=True))
        + f"), and worse than LDA by more than two points at its best on {', '.join(worse) or 'none'}."
    )
    return Result(verdict, sentence, findings, [] if figure is None else [("1-NN error", picture(figure))])
