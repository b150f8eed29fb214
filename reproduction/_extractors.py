"""The feature extractors and classifiers of Tsang, Kocsor and Kwok 2006, on one split of one set.

Gaussian kernel with the mean squared distance of two rows as its width, C = 1, as in the paper. Kernel PCA sees 3,500
random rows of the larger sets, as there.
"""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.decomposition import KernelPCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.neighbors import KNeighborsClassifier, NearestCentroid
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from kampong.margin.mmda import MaximumMarginDiscriminant

if TYPE_CHECKING:
    from reproduction._sets import Split

SAMPLED, SAMPLED_PAST = 3500, 7500
"""Rows that kernel PCA sees, where there are more than the second figure."""
EXACT_ROWS = 16_000
"""The whole quadratic program is solved up to this many rows, letter's: its kernel matrix takes 1 GiB."""


@dataclass
class Extracted:
    """Features of the training and test rows, and what they took."""

    train: np.ndarray
    test: np.ndarray
    seconds: float
    values: float | None
    """Kernel values a feature."""
    test_seconds: float


def compile_first() -> None:
    """Have the compiled loops ready before anything is timed."""
    X, y = np.random.default_rng(0).normal(size=(60, 2)).astype(np.float32), np.arange(60) % 3
    MaximumMarginDiscriminant(2).fit(X, y)


def extract(name: str, data: Split, **parameters: Any) -> Extracted | None:
    """Return the features of one extractor, or None where it cannot take this many rows."""
    if name == "none":
        return Extracted(data.X, data.X_test, 0.0, None, 0.0)
    if name.startswith("exact") and len(data.X) > EXACT_ROWS:
        return None
    kind, _, factor = name.partition(" ")
    model = {"KPCA": _kpca, "KFD": _kfd}.get(kind, _mmda)(data, kind, factor, parameters)
    if model is None:
        return None
    start = time.perf_counter()
    with warnings.catch_warnings():
        # the ball leaves large gaps, and says so
        warnings.simplefilter("ignore", ConvergenceWarning)
        train = model.fit_transform(data.X, data.y)
    seconds = time.perf_counter() - start
    start = time.perf_counter()
    test = model.transform(data.X_test)
    spent = time.perf_counter() - start
    return Extracted(train, test, seconds, _values(model), spent)


def _kpca(data: Split, kind: str, factor: str, parameters: dict[str, Any]) -> Any:
    features = min(5 * data.n_classes, len(data.X) - 1, SAMPLED - 1)
    gamma = 1.0 / (2.0 * float(data.X.var(axis=0, dtype=np.float64).sum()))
    return _Sampled(KernelPCA(features, kernel="rbf", gamma=gamma, eigen_solver="randomized", random_state=0))


def _kfd(data: Split, kind: str, factor: str, parameters: dict[str, Any]) -> Any:
    try:
        from kampong.estimators.kernel_fisher import KernelFisherDiscriminant
    except ImportError:
        return None
    return KernelFisherDiscriminant()


def _mmda(data: Split, kind: str, factor: str, parameters: dict[str, Any]) -> Any:
    count = int(factor.removesuffix("K") or 1)
    if kind == "ball":
        return MaximumMarginDiscriminant(count, criterion="meb", tol=1e-3, selection="sample", **parameters)
    return MaximumMarginDiscriminant(count, method=kind, **parameters)


class _Sampled:
    """A transformer fitted on a random part of many rows."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def fit_transform(self, X: np.ndarray, y: np.ndarray) -> np.ndarray:
        if len(X) > SAMPLED_PAST:
            self.model.fit(X[np.random.default_rng(0).permutation(len(X))[:SAMPLED]])
        else:
            self.model.fit(X)
        return self.transform(X)

    def transform(self, X: np.ndarray) -> np.ndarray:
        parts = [self.model.transform(X[start : start + 2000]) for start in range(0, len(X), 2000)]
        return np.concatenate(parts).astype(np.float32)


def _values(model: Any) -> float | None:
    if isinstance(model, _Sampled):
        return float(model.model.X_fit_.shape[0])
    if isinstance(model, MaximumMarginDiscriminant):
        return float(np.mean(model.n_kernel_evaluations_per_feature_))
    landmarks = getattr(model, "landmarks_", None)
    return None if landmarks is None else float(landmarks.shape[0])


def tree(found: Extracted, data: Split) -> tuple[int, float]:
    """Return the size and the accuracy in % of a decision tree.

    Entropy and two rows a leaf as in C4.5; cost-complexity pruning in place of its pruning by estimated errors, at a
    strength that comes near the paper's sizes without extraction.
    """
    model = DecisionTreeClassifier(criterion="entropy", min_samples_leaf=2, ccp_alpha=2e-3, random_state=0)
    model.fit(found.train, data.y)
    return int(model.tree_.node_count), 100 * float(model.score(found.test, data.y_test))


def neighbour(found: Extracted, data: Split) -> float:
    """Return the accuracy in % of the nearest neighbour."""
    model = KNeighborsClassifier(1).fit(found.train, data.y)
    return 100 * float(model.score(found.test, data.y_test))


def nearest_mean(found: Extracted, data: Split) -> float:
    """Return the accuracy in % of the nearest class mean."""
    return 100 * float(NearestCentroid().fit(found.train, data.y).score(found.test, data.y_test))


def network(found: Extracted, data: Split) -> float:
    """Return the accuracy in % of a network with one layer of 10 hidden units, on standardised features."""
    layers = MLPClassifier((10,), max_iter=200 if len(data.X) < 10_000 else 60, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = make_pipeline(StandardScaler(), layers).fit(found.train, data.y)
    return 100 * float(model.score(found.test, data.y_test))
