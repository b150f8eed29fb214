"""004, figure 1: digits 0, 6 and 9 of optdigits in two features of KFD and of MMDA."""

from __future__ import annotations

import numpy as np
from sklearn.neighbors import KNeighborsClassifier

from reproduction._linear import COLOURS
from reproduction._result import FAILS, HOLDS, Finding, MissingDataError, Result, draw, picture
from reproduction._sets import Split, load
from reproduction.mmda_figure1 import between_over_within, models

TITLE = "Digits 0, 6 and 9 in two features"
CLAIM = "The classes lie apart in two features of MMDA, as in those of KFD."


def run(quick: bool) -> Result:
    """Return the accuracy of the nearest neighbour in the plane, and how far apart the classes are."""
    data = load("optdigits", 4 if quick else 1)
    if data is None:
        raise MissingDataError("optdigits.npz is not here; set KAMPONG_DATA to the folder that holds it")
    train, test = np.isin(data.y, (0, 6, 9)), np.isin(data.y_test, (0, 6, 9))
    data = Split(data.X[train], data.y[train], data.X_test[test], data.y_test[test])
    findings, accuracies = [], {}
    figure, axes = draw(9, 3.8, columns=2)
    for place, (name, model) in enumerate(models().items()):
        Z = model.fit_transform(data.X, data.y)[:, :2]
        Z_test = model.transform(data.X_test)[:, :2]
        accuracies[name] = float(KNeighborsClassifier(1).fit(Z, data.y).score(Z_test, data.y_test))
        findings.append(Finding(f"{name}: 1-NN accuracy in two features", accuracies[name], None, 0.01))
        findings.append(
            Finding(f"{name}: between over within", between_over_within(Z_test, data.y_test), None, 2.0, "{:.1f}")
        )
        if figure is not None:
            for digit, colour in zip((0, 6, 9), COLOURS, strict=False):
                axes[place].scatter(*Z_test[data.y_test == digit].T, s=8, color=colour, label=f"digit {digit}")
            axes[place].set(title=name)
            axes[place].legend(fontsize=7)
    verdict = HOLDS if accuracies["MMDA"] > 0.97 else FAILS
    sentence = f"1-NN in two features: MMDA {100 * accuracies['MMDA']:.2f} %, KFD {100 * accuracies['KFD']:.2f} %."
    return Result(verdict, sentence, findings, [] if figure is None else [("Three digits", picture(figure))])
