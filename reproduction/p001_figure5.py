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
    findings, least = [], {}
    wins: dict[str, float] = {}
    figure, axes = draw(9, 6, columns=2, rows=2)
    for place, name in enumerate(SETS):
        X, y = whole(name)
        dimensions = list(range(1, X.shape[1] + 1))
        runs = {}
        for (label, make), colour in zip(methods.items(), COLOURS, strict=False):
            runs[label] = errors = neighbour_errors(make, X, y, dimensions, range(15 if quick else 40))
            middle = np.median(errors, axis=0)
            best = int(np.nanargmin(middle))
            least[name, label] = float(middle[best])
            findings.append(Finding.of(f"{name}: 1-NN error in one dimension, {label}", errors[:, 0]))
            findings.append(Finding.of(f"{name}: least 1-NN error, {label}", errors[:, best]))
            if figure is not None:
                axes[place].plot(dimensions, middle, "o-", ms=3, label=label, color=colour)
        below = slice(max(1, len(dimensions) - 1))
        apart = runs["PCA"][:, below] - runs["IMMC"][:, below]
        won = np.mean((apart > 0) + 0.5 * (apart == 0), axis=1)  # of each run; a tie is half
        wins[name] = float(won.mean())
        findings.append(Finding.of(f"{name}: share of dimensions where IMMC is better than PCA", won))
        if figure is not None:
            axes[place].set(title=name, xlabel="dimension", ylabel="1-NN error")
            axes[place].legend(fontsize=7)
    worse = [name for name in SETS if least[name, "IMMC"] > least[name, "LDA"] + 0.02]
    share = float(np.mean(list(wins.values())))
    verdict = HOLDS if share > 0.8 and not worse else CONDITION if share > 0.4 else FAILS
    sentence = (
        f"IMMC is better than PCA in {100 * share:.0f} % of the dimensions below the full one, over all halves ("
        + ", ".join(f"{name} {100 * won:.0f} %" for name, won in wins.items())
        + f"), and worse than LDA by more than two points at its best on {', '.join(worse) or 'none'}."
    )
    return Result(verdict, sentence, findings, [] if figure is None else [("1-NN error", picture(figure))])
