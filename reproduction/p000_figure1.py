"""000, figure 1: two classes of 50 in the plane, and the directions of IMMC, LDA and PCA."""

from __future__ import annotations

import numpy as np
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from reproduction._linear import COLOURS, leading, scatters, two_classes
from reproduction._result import FAILS, HOLDS, Finding, Result, draw, picture

TITLE = "The subspaces of IMMC and PCA on two classes of 50"
CLAIM = "The MMC direction is that of LDA; 2S_b − C has the eigenvalues 0.25 and −84.42."
MEANS, PRINTED, IMPLIED = ((0, 1), (0, -2)), ((1, 25), (2, 25)), ((84.42, 2), (84.42, 2))
SEED = 0


def run(quick: bool) -> Result:
    """Measure both on the printed covariances and on those that the printed eigenvalues imply."""
    findings, places = [], []
    figure, axes = draw(9, 3.8, columns=2)
    for place, (name, spreads) in enumerate({"as printed": PRINTED, "as the eigenvalues imply": IMPLIED}.items()):
        X, y = two_classes(MEANS, spreads, 50, SEED)
        between, within = scatters(X, y)
        values, margin = leading(between - within)
        lda = LinearDiscriminantAnalysis().fit(X, y).coef_[0]
        cosine = abs(margin @ lda) / np.linalg.norm(lda)
        first, second = (0.25, -84.42) if place == 0 else (None, None)
        findings += [
            Finding(f"largest eigenvalue, {name}", values[0], first, 0.01),
            Finding(f"smallest eigenvalue, {name}", values[-1], second, 0.05, "{:.2f}"),
            Finding(f"|cos| of MMC to LDA, {name}", cosine, None, 0.01),
        ]
        places.append(cosine)
        if figure is not None:
            lines = {"IMMC, MMC": margin, "LDA": lda / np.linalg.norm(lda), "PCA": PCA(1).fit(X).components_[0]}
            for k in (0, 1):
                axes[place].scatter(*X[y == k].T, s=10, marker="*^"[k], color=COLOURS[k])
            for (label, direction), colour in zip(lines.items(), COLOURS[2:], strict=False):
                axes[place].axline((0, 0), direction, label=label, color=colour)
            axes[place].set(title=f"covariances {name}")
            axes[place].legend(fontsize=7)
    pictures = [] if figure is None else [("Two classes and three directions", picture(figure))]
    verdict = HOLDS if places[0] > 0.99 and findings[0].ours > 0 else FAILS
    sentence = (
        f"With the printed covariances the eigenvalues are {findings[0].ours:.2f} and {findings[1].ours:.2f} (in "
        f"expectation "
        f"−1.5 and −22.75), and MMC has a |cos| of {places[0]:.2f} to LDA (in expectation 0): it takes the axis in "
        f"which the "
        f"classes do not differ. Covariances of diag(84.42, 2) give about the printed eigenvalues, and there it is "
        f"{places[1]:.3f}."
    )
    return Result(verdict, sentence, findings, pictures, SEED)
