"""002, theorem 1: the weights a − p_l and p_j, over one constant M, meet the constraints (a) to (d); and others."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np

from reproduction._linear import neighbour_errors
from reproduction._result import CONDITION, HOLDS, Finding, Result
from reproduction._sets import whole
from reproduction._weights import WeightedKampongMeasure, paper_weights, violations

if TYPE_CHECKING:
    from collections.abc import Callable

TITLE = "Theorem 1, and other weights e(l, j)"
CLAIM = "The weights a − p_l and p_j over one constant M meet all four constraints when a ≥ 1; many others would."
SETS = ("iris", "balance_scale", "wine")


def lines_of_one(priors: np.ndarray) -> np.ndarray:
    """Return the paper's weights with a = 2, each line divided by its own sum: what constraint (c) asks for."""
    matrix = paper_weights(2.0)(priors)
    return matrix / matrix.sum(axis=1, keepdims=True)


def run(quick: bool) -> Result:
    """Return how far the lines' sums are apart, and the 1-NN error of both kinds of weights."""
    findings, missed = [], []
    kinds: dict[str, Callable[[np.ndarray], np.ndarray]] = {
        "paper's": paper_weights(2.0),
        "lines of sum 1": lines_of_one,
    }
    for name in SETS:
        X, y = whole(name)
        X = (X - X.mean(axis=0)) / X.std(axis=0)
        priors = np.bincount(y) / len(y)
        sums = paper_weights(2.0)(priors).sum(axis=1)
        missed += [name] if violations(paper_weights(2.0)(priors), priors) else []
        findings.append(
            Finding(f"{name}: largest over smallest sum of a line, a = 2", float(sums.max() / sums.min()), 1.0, 0.001)
        )
        for label, weights in kinds.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                error = neighbour_errors(
                    lambda p, w=weights: WeightedKampongMeasure(p, weights=w), X, y, (2,), range(15 if quick else 40)
                )
            findings.append(Finding.of(f"{name}: 1-NN error in two directions, {label} weights", error[:, 0]))
    verdict = CONDITION if missed else HOLDS
    sentence = (
        f"With one M the lines add up to a + 1 − 2p_l, so (c) holds only for classes of one size; it fails on "
        f"{', '.join(missed)}. "
        "Lines divided by their own sums meet (a), (c) and (d), and give another criterion with a weight of its own "
        "for the "
        "covariance of every class; the errors beside show what that changes."
    )
    return Result(verdict, sentence, findings)
