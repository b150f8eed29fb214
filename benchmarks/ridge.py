"""The automatic ridge: cross-validated accuracy of the rule in use, of tr(S_w)/n, and of the best ridge of a grid."""

from __future__ import annotations

import warnings

import numpy as np
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.model_selection import StratifiedKFold

from benchmarks.measure import data_folder, present
from kampong import FisherDiscriminant
from kampong.statistics import ClassScatter

GRID = (0.0, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)
"""Ridges to compare with, in units of the mean within-class variance of a feature."""


def main(shrink: int = 1) -> None:
    """Print the table; a large `shrink` leaves the small sets only."""
    print(f"{'set':<12} {'rows':>5} {'columns':>8} {'auto':>7} {'tr(S_w)/n':>10} {'no ridge':>9} {'best of grid':>13}")
    for name, (X, y) in _sets(small=shrink > 1).items():
        accuracies: dict[str, list[float]] = {}
        for train, test in StratifiedKFold(3, shuffle=True, random_state=0).split(X, y):
            variances = ClassScatter(X.shape[1]).update(X[train], y[train]).within_scatter().diagonal()
            ridges = {"auto": "auto", "trace": variances.sum() / len(train)}
            ridges |= {str(part): part * variances.mean() for part in GRID}
            for rule, ridge in ridges.items():
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    model = FisherDiscriminant(ridge=ridge).fit(X[train], y[train])
                accuracies.setdefault(rule, []).append(model.score(X[test], y[test]))
        mean = {rule: float(np.mean(values)) for rule, values in accuracies.items()}
        best = max(mean[str(part)] for part in GRID)
        print(
            f"{name:<12} {X.shape[0]:>5} {X.shape[1]:>8} {mean['auto']:>7.3f} {mean['trace']:>10.3f} "
            f"{mean['0.0']:>9.3f} {best:>13.3f}"
        )


def _sets(*, small: bool) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    loaders = {"iris": load_iris, "wine": load_wine, "cancer": load_breast_cancer, "digits": load_digits}
    sets = {name: load(return_X_y=True) for name, load in loaders.items()}
    folder = data_folder()
    stored = ("ionosphere", "bupa_liver", "pima_diabetes", "satimage", "optdigits", "usps", "isolet")
    needed = (*(f"{name}.npz" for name in stored), "reuters21578_65_X.npz")
    if not present(*needed, small=small):
        return sets
    rng = np.random.default_rng(0)
    for name in stored:
        with np.load(folder / f"{name}.npz", allow_pickle=False) as arrays:
            chosen = rng.permutation(len(arrays["X"]))[:2500]
            sets[name] = arrays["X"][chosen].astype(np.float64), arrays["y"][chosen]
    counts = sparse.load_npz(folder / "reuters21578_65_X.npz").tocsr()
    with np.load(folder / "reuters21578_65_labels.npz", allow_pickle=False) as labels:
        y = labels["y"]
    rows = rng.permutation(np.flatnonzero(np.bincount(y)[y] >= 10))[:4000]
    rows = rows[np.bincount(y[rows])[y[rows]] >= 3]
    terms = np.argsort(-np.asarray((counts > 0).sum(axis=0)).ravel())[:3000]
    text = TfidfTransformer().fit_transform(counts.astype(np.float64))
    sets["reuters"] = text[rows][:, terms].toarray(), y[rows]
    return sets
