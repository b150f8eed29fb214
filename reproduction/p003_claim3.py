"""003, section IV.B: ν bounds the margin errors from above and the stored patterns from below."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from kampong import MaxMinOverClassifier
from reproduction._linear import COLOURS, two_classes
from reproduction._result import CONDITION, FAILS, HOLDS, Finding, Result, draw, picture

TITLE = "ν as a bound on margin errors and on stored patterns, up to ν = 1"
CLAIM = "At most νM patterns are margin errors, at least νM are stored; SoftMaxMinOver converges for every ν up to 1."
SEED = 0


def run(quick: bool) -> Result:
    """Walk on overlapping classes of 70 and 30 %: ν_max is 0.6."""
    X, y = two_classes(((0, 0), (2, 2)), ((1, 1), (1, 1)), 200, SEED)
    keep = np.concatenate([np.flatnonzero(y == 0)[:140], np.flatnonzero(y == 1)[:60]])
    X, y = X[keep], y[keep]
    X_test, y_test = two_classes(((0, 0), (2, 2)), ((1, 1), (1, 1)), 2000, SEED + 1)
    values = (0.3, 0.5, 0.6, 0.8, 1.0) if quick else (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
    findings, lines = [], []
    for nu in values:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = MaxMinOverClassifier(
                nu=nu, kernel="linear", walk="paper", tol=1e-3, max_iter=3000 if quick else 30_000
            ).fit(X, y)
        scores = np.where(y == 1, 1.0, -1.0) * model.decision_function(X)
        K = round(model.nu_[0] * len(X))
        errors = float(np.mean(scores < np.sort(scores)[K - 1] * (1 - 1e-9)))
        positive = float(np.mean(model.predict(X_test) == 1))
        lines.append(
            (
                nu,
                errors,
                len(model.support_) / len(X),
                float(model.score(X_test, y_test)),
                model.dual_gap_[0],
                positive,
                model.trace_[0]["margin"][-1],
            )
        )
        findings += [
            Finding(f"ν = {nu:g}: share of margin errors", errors, None, 0.03),
            Finding(f"ν = {nu:g}: share stored", lines[-1][2], None, 0.05),
            Finding(f"ν = {nu:g}: accuracy on new rows, classes of one size", lines[-1][3], None, 0.03),
            Finding(f"ν = {nu:g}: mean margin of the K nearest", lines[-1][6], None, 0.03),
        ]
    table = np.array(lines)
    bounded = bool((table[:, 1] <= table[:, 0] + 1e-9).all() and (table[:, 2] >= table[:, 0] - 1e-9).all())
    reached = float(table[-1, 4]) < 0.01
    figure, axis = draw()
    if axis is not None:
        for column, label in (
            (1, "margin errors"),
            (2, "stored"),
            (3, "accuracy on new rows"),
            (5, "new rows given to the smaller class"),
        ):
            axis.plot(table[:, 0], table[:, column], "o-", ms=3, label=label, color=COLOURS[column % len(COLOURS)])
        axis.axline((0, 0), slope=1, color="0.6", lw=1, ls="--")
        axis.set(xlabel="ν (ν_max is 0.6)", ylim=(0, 1.02))
        axis.legend(fontsize=7)
    verdict = HOLDS if bounded and reached else CONDITION if bounded or reached else FAILS
    sentence = (
        f"The bounds hold for every ν from {values[0]:g} to 1; at ν = 1 the walk ends with a gap of "
        f"{table[-1, 4]:.1g}. "
        f"Past ν_max = 0.6 the hyperplane moves off: accuracy on new rows, half of each class, is "
        f"{table[:, 3].max():.3f} "
        f"at best and {table[-1, 3]:.3f} at ν = 1, where {100 * table[-1, 5]:.0f} % of them go to the smaller class."
    )
    return Result(verdict, sentence, findings, [] if figure is None else [("ν", picture(figure))], SEED)
