"""What the experiments on MinOver and MaxMinOver share: sets with two classes, and the best augmented hyperplane."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from kampong import MaxMinOverClassifier
from reproduction._linear import two_classes
from reproduction._sets import whole


def separable() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return sets that a hyperplane separates: generated, iris and wine, each one class against the rest."""
    sets = {"two Gaussians": two_classes(((0, 0), (6, 6)), ((1, 1), (1, 1)), 100, 0)}
    for name in ("iris", "wine"):
        X, y = whole(name)
        sets[f"{name}, class 0"] = (X - X.mean(axis=0)) / X.std(axis=0), (y == 0).astype(int)
    return sets


def patterns(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return z = y (x, −1)."""
    return np.where(y == 1, 1.0, -1.0)[:, None] * np.column_stack([X, -np.ones(len(X))])


def best(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, float, Any]:
    """Return the unit v of the largest augmented margin, that margin, and the model, to a tiny gap."""
    model = MaxMinOverClassifier(kernel="linear", tol=1e-10, max_iter=2_000_000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    v = np.array([*model.coef_[0], -model.intercept_[0]])
    length = float(np.linalg.norm(v))
    return v / length, float((patterns(X, y) @ v).min() / length), model


def walked(kind: Any, X: np.ndarray, y: np.ndarray, steps: int, **parameters: Any) -> Any:
    """Return a walk of the paper after this many steps."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return kind(walk="paper", tol=0.0, max_iter=steps, **parameters).fit(X, y)
