"""003, equations 1 and 2: the bounds on ‖v_t‖ and on the angle to the best hyperplane."""

from __future__ import annotations

import numpy as np

from kampong import MaxMinOverClassifier, MinOverClassifier
from reproduction._linear import COLOURS
from reproduction._result import FAILS, HOLDS, Finding, Result, draw, picture
from reproduction._walks import best, patterns, separable, walked

TITLE = "Bounds on the norm and the angle (equations 1 and 2)"
CLAIM = "d*t ≤ ‖v_t‖ ≤ d*t + R√t, cos γ_t ≥ 1 − (R/d*)/√t; forgetting improves them."


def run(quick: bool) -> Result:
    """Return by how much the bounds hold, at their tightest."""
    findings, holds, closer = [], [], []
    figure, axis = draw()
    steps = [10, 100, 1000, 10_000] if quick else [10, 30, 100, 300, 1000, 3000, 10_000, 100_000]
    for number, (name, (X, y)) in enumerate(separable().items()):
        star, d, _ = best(X, y)
        z = patterns(X, y)
        R, angles = float(np.linalg.norm(z, axis=1).max()), {}
        for label, kind in {"MinOver": MinOverClassifier, "MaxMinOver": MaxMinOverClassifier}.items():
            trace = walked(kind, X, y, steps[-1], kernel="linear").trace_[0]
            t = trace["step"]
            low, high = (
                float((trace["length"] / (d * t)).min()),
                float((trace["length"] / (d * t + R * np.sqrt(t))).max()),
            )
            cosines = []
            for count in steps:
                model = walked(kind, X, y, count, kernel="linear")
                v = model.counts_[0] @ z[model.support_]
                cosines.append(float(v @ star / np.linalg.norm(v)))
            slack = min(c - (1 - R / d / np.sqrt(count)) for c, count in zip(cosines, steps, strict=True))
            angles[label] = 1 - cosines[-1]
            holds.append(low > 1 - 1e-6 and high < 1 + 1e-9 and slack > -1e-9)
            findings += [
                Finding(f"{name}, {label}: least ‖v_t‖ / d*t", low, None, 0.01),
                Finding(f"{name}, {label}: largest ‖v_t‖ / (d*t + R√t)", high, None, 0.02),
                Finding(f"{name}, {label}: 1 − cos γ after {steps[-1]} steps", angles[label], None, 1e-4, "{:.2e}"),
            ]
            if axis is not None:
                style = "-" if label == "MaxMinOver" else "--"
                axis.loglog(
                    steps,
                    np.maximum(1 - np.array(cosines), 1e-16),
                    style,
                    color=COLOURS[number],
                    label=f"{name}, {label}",
                )
        closer.append(angles["MaxMinOver"] <= angles["MinOver"])
    if axis is not None:
        axis.set(xlabel="steps t", ylabel="1 − cos γ")
        axis.legend(fontsize=6)
    sentence = (
        f"Both bounds hold at every step looked at, on {len(closer)} sets and both walks. The forgetting walk ends "
        f"nearer to the best hyperplane on "
        f"{sum(closer)} of {len(closer)}. The bound is loose: it promises 1 − cos γ ~ 1/√t, measured is about 1/t or "
        f"faster."
    )
    return Result(
        HOLDS if all(holds) else FAILS, sentence, findings, [] if figure is None else [("Angles", picture(figure))]
    )
