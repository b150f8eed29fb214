"""Few rows, columns in units of their own: what a first try on a small table gives, with nothing set.

Each set is cut at random several times into this many rows to learn and the others (3,000 at most) to test. Printed are
mean error and mean log-loss, beside scikit-learn's linear discriminant analysis and its logistic regression behind a
StandardScaler, which `FisherDiscriminant()` is not given.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.measure import data_folder, present
from kampong import FisherDiscriminant

if TYPE_CHECKING:
    from collections.abc import Iterator

BUNDLED = {load_iris: (75,), load_wine: (90,), load_breast_cancer: (100, 284), load_digits: (200, 600)}
STORED = {
    "balance_scale": (100, 300),
    "bupa_liver": (170,),
    "ionosphere": (175,),
    "pima_diabetes": (150, 400),
    "letter": (500, 1500),
    "pendigits": (200, 800),
    "satimage": (200, 800),
    "waveform21": (150, 600),
    "usps": (300, 1000),
    "optdigits": (300, 1000),
    "isolet": (520,),
    "covertype": (500, 2000),
}
CUTS, TESTED = 4, 3000


def main(shrink: int = 1) -> None:
    """Print a line for each set and size, and the means of all."""
    warnings.simplefilter("ignore")
    models: dict[str, Any] = {
        "kampong": FisherDiscriminant,
        "LDA": LinearDiscriminantAnalysis,
        "LR": lambda: make_pipeline(StandardScaler(), LogisticRegression(max_iter=500)),
    }
    print(f"{'error, log-loss':<22}{'rows':>6}" + "".join(f"{name:>18}" for name in models))
    found = []
    for name, X, y, sizes in _sets(shrink):
        for size in sizes:
            results = np.array([_measure(make, X, y, size, CUTS if shrink == 1 else 1) for make in models.values()])
            found.append(results)
            print(f"{name:<22}{size:>6}{_line(results)}", flush=True)
    print(f"{'mean':<28}{_line(np.mean(found, axis=0))}")
    errors = np.array(found)[:, :, 0]
    best = int((errors[:, 0] <= errors[:, 1:].min(axis=1) + 0.003).sum())
    print(f"within 0.003 of the better peer or ahead of it: {best} of {len(errors)}")


def _line(results: np.ndarray) -> str:
    return "".join(f"{error:>11.3f}{loss:>7.3f}" for error, loss in results)


def _sets(shrink: int) -> Iterator[tuple[str, np.ndarray, np.ndarray, tuple[int, ...]]]:
    for load, sizes in BUNDLED.items():
        yield load.__name__.removeprefix("load_"), *load(return_X_y=True), sizes[:1] if shrink > 1 else sizes
    for name, sizes in STORED.items():
        path = data_folder() / f"{name}.npz"
        if not present(path.name, small=shrink > 1):
            continue
        with np.load(path, allow_pickle=False) as arrays:
            yield name, arrays["X"].astype(np.float64), np.unique(arrays["y"], return_inverse=True)[1], sizes


def _measure(make: Any, X: np.ndarray, y: np.ndarray, size: int, cuts: int) -> list[float]:
    found = []
    for seed in range(cuts):
        order = np.random.default_rng(seed).permutation(len(y))
        train, test = order[:size], order[size : size + TESTED]
        test = test[np.isin(y[test], y[train])]
        model = make().fit(X[train], y[train])
        chances = model.predict_proba(X[test])[np.arange(len(test)), np.searchsorted(model.classes_, y[test])]
        found.append((1.0 - model.score(X[test], y[test]), -np.log(np.maximum(chances, 1e-12)).mean()))
    means: list[float] = np.mean(found, axis=0).tolist()
    return means


if __name__ == "__main__":
    main()
