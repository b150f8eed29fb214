"""003, section III.C: after finitely many steps MaxMinOver stores support vectors only."""

from __future__ import annotations

import numpy as np

from kampong import MaxMinOverClassifier, MinOverClassifier
from reproduction._linear import COLOURS
from reproduction._result import CONDITION, FAILS, HOLDS, Finding, Result, draw, picture
from reproduction._walks import best, patterns, separable, walked

TITLE = "Patterns stored over the steps"
CLAIM = "After a finite number of steps the stored patterns are support vectors only; MinOver keeps others."


def run(quick: bool) -> Result:
    """Return how many are stored, and how many support vectors there are: patterns on the best margin."""
    findings, right = [], []
    figure, axis = draw()
    steps = 5000 if quick else 200_000
    for number, (name, (X, y)) in enumerate(separable().items()):
        star, d, _ = best(X, y)
        on_margin = np.flatnonzero(patterns(X, y) @ star <= d * (1 + 1e-5) + 1e-9)
        findings.append(Finding(f"{name}: support vectors", len(on_margin), None, 0.5, "{:.0f}"))
        for label, kind in {"MinOver": MinOverClassifier, "MaxMinOver": MaxMinOverClassifier}.items():
            model = walked(kind, X, y, steps, kernel="linear")
            others = len(np.setdiff1d(model.support_, on_margin))
            findings.append(
                Finding(f"{name}, {label}: stored after {steps} steps", len(model.support_), None, 1.5, "{:.0f}")
            )
            findings.append(Finding(f"{name}, {label}: of them no support vectors", others, None, 1.5, "{:.0f}"))
            if label == "MaxMinOver":
                right.append(others == 0)
            if axis is not None:
                trace = model.trace_[0]
                axis.semilogx(
                    trace["step"],
                    trace["stored"],
                    "-" if label == "MaxMinOver" else "--",
                    color=COLOURS[number],
                    label=f"{name}, {label}",
                )
    if axis is not None:
        axis.set(xlabel="steps t", ylabel="patterns stored")
        axis.legend(fontsize=6)
    verdict = HOLDS if all(right) else CONDITION if any(right) else FAILS
    sentence = (
        f"After {steps} steps MaxMinOver stores only support vectors on {sum(right)} of {len(right)} sets; MinOver "
        f"keeps "
        + ", ".join(f"{f.ours:.0f}" for f in findings if "MinOver: of them" in f.name and "Max" not in f.name)
        + " others."
    )
    return Result(verdict, sentence, findings, [] if figure is None else [("Patterns stored", picture(figure))])
