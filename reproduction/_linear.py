"""What the experiments on small dense sets share: scatters, convergence curves, and errors of the nearest neighbour."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00")


def scatters(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return S_b and S_w."""
    mean = X.mean(axis=0)
    total = (X - mean).T @ (X - mean) / len(X)
    shifts = np.array([np.sqrt(np.mean(y == k)) * (X[y == k].mean(axis=0) - mean) for k in np.unique(y)])
    between = shifts.T @ shifts
    return between, total - between


def leading(matrix: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return all eigenvalues, largest first, and the leading eigenvector."""
    values, vectors = np.linalg.eigh(matrix)
    return values[::-1], vectors[:, -1]


def two_classes(means: Any, spreads: Any, size: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows of two Gaussian classes with diagonal covariances, in random order."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.repeat([0, 1], size))
    means, spreads = np.asarray(means, dtype=float), np.sqrt(np.asarray(spreads, dtype=float))
    return rng.normal(size=(len(y), means.shape[1])) * spreads[y] + means[y], y


def curve(model: Any, target: np.ndarray, X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return numbers of rows and |cos| between the first direction then and a target."""
    moments = np.unique(np.geomspace(2, len(X), 60).astype(int))
    model, cosines, start = clone(model), [], 0
    for stop in moments:
        model.partial_fit(X[start:stop], y[start:stop])
        vector = model.vectors_[0]
        length = np.linalg.norm(vector)
        cosines.append(abs(vector @ target) / length if length > 0 else 0.0)
        start = stop
    return moments, np.array(cosines)


def curves(
    model: Any, target: np.ndarray, X: np.ndarray, y: np.ndarray, n_orders: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the curve of the median over random orders of the rows."""
    found = []
    for seed in range(n_orders):
        order = np.random.default_rng(seed).permutation(len(X))
        moments, cosines = curve(model, target, X[order], y[order])
        found.append(cosines)
    return moments, np.median(found, axis=0)


def neighbour_errors(
    make: Callable[[int], Any],
    X: np.ndarray,
    y: np.ndarray,
    dimensions: Iterable[int],
    seeds: Iterable[int],
    k: int = 1,
) -> np.ndarray:
    """Return the error of k-NN by random half and dimension; NaN where there are not this many directions."""
    dimensions = list(dimensions)
    errors: list[list[float]] = []
    for seed in seeds:
        X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=seed, stratify=y)
        line = []
        for p in dimensions:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    model = make(p).fit(X_train, y_train)
                Z, Z_test = model.transform(X_train), model.transform(X_test)
                line.append(1 - KNeighborsClassifier(k).fit(Z, y_train).score(Z_test, y_test))
            except ValueError:
                line.append(np.nan)
        errors.append(line)
    return np.array(errors)


def pca(p: int) -> Any:
    return PCA(p)


def lda(p: int) -> Any:
    return LinearDiscriminantAnalysis(n_components=p)


def quiet(model: Any, X: Any, y: Any) -> Any:
    """Fit without the warning that a shift is too small: the paper's own setting is what is measured."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return model.fit(X, y)


def midpoint_error(points: np.ndarray, y: np.ndarray) -> float:
    """Return the error of the nearest class mean in a projection, as a share."""
    means = np.array([points[y == k].mean(axis=0) for k in np.unique(y)])
    nearest = np.argmin(((points[:, None] - means) ** 2).sum(axis=2), axis=1)
    return float(np.mean(np.unique(y)[nearest] != y))
