"""001, figure 1: two classes of 100 in three dimensions, projected by PCA, MMC and LDA."""

from __future__ import annotations

import warnings

from kampong import MaximumMarginCriterion, SupervisedKampongMeasure
from reproduction._linear import COLOURS, lda, midpoint_error, pca, two_classes
from reproduction._result import CONDITION, FAILS, HOLDS, Finding, Result, draw, picture

TITLE = "Projections of two classes in three dimensions"
CLAIM = "PCA mixes the two classes in one dimension and in two; MMC separates them in any; LDA has one dimension only."
MEANS = ((0, 0, 0), (5, 5, 5))
SPREADS = {"unit": (1, 1, 1), "one axis wide": (1, 1, 400)}
"""The covariance is not printed: unit, and one with a direction in which the rows vary more than the means differ."""
SEED = 0


def measure(margin: str, model: type, **parameters: float) -> Result:
    """Return the errors of the nearest mean in each projection."""
    findings, errors = [], {}
    figure, axes = draw(9, 3.4, columns=2)
    for place, (name, spread) in enumerate(SPREADS.items()):
        X, y = two_classes(MEANS, (spread, spread), 100, SEED)
        plain = {"head": "nearest_mean", **parameters}
        models = {
            "PCA 1": pca(1),
            "PCA 2": pca(2),
            f"{margin} 1": model(1, **plain),
            f"{margin} 2": model(2, **plain),
            "LDA 1": lda(1),
        }
        for label, fitted in models.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                points = fitted.fit(X, y).transform(X)
            errors[name, label] = midpoint_error(points, y)
            findings.append(
                Finding(f"{label}-d, {name} covariance: error of the nearest mean", errors[name, label], None, 0.02)
            )
            if figure is not None and label in ("PCA 2", f"{margin} 2"):
                offset = 0 if label == "PCA 2" else 3 * points[:, 0].std() + 3 * abs(points[:, 0]).max()
                for k in (0, 1):
                    axes[place].scatter(
                        points[y == k, 0] + offset, points[y == k, 1], s=8, marker="*^"[k], color=COLOURS[k]
                    )
        if figure is not None:
            axes[place].set(title=f"{name} covariance: PCA left, {margin} right", xticks=[])
    mixed = errors["one axis wide", "PCA 1"]
    separates = max(errors[name, f"{margin} {p}"] for name in SPREADS for p in (1, 2))
    unit = errors["unit", "PCA 1"]
    verdict = (
        HOLDS
        if unit > 0.2 and separates < 0.05
        else CONDITION
        if mixed > 0.2 and errors["unit", f"{margin} 1"] < 0.05
        else FAILS
    )
    sentence = (
        f"With unit covariance PCA does not mix them ({100 * unit:.1f} % errors): the means are the direction of "
        f"largest variance. "
        f"Where one axis varies more than the means differ, PCA in one dimension is wrong for {100 * mixed:.0f} % "
        f"(in two for {100 * errors['one axis wide', 'PCA 2']:.0f} %), "
        f"{margin} for {100 * errors['one axis wide', f'{margin} 1']:.0f} %, LDA for "
        f"{100 * errors['one axis wide', 'LDA 1']:.0f} %."
    )
    return Result(verdict, sentence, findings, [] if figure is None else [("Projections", picture(figure))], SEED)


def run(quick: bool) -> Result:
    """Measure MMC."""
    return measure("MMC", MaximumMarginCriterion)


def run_kampong() -> Result:
    """Measure the Supervised Kampong Measure in place of MMC."""
    return measure("SKM", SupervisedKampongMeasure, a=2.0)
