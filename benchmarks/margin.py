"""The core vector machine against scikit-learn's SVC: same rows, kernel width and C, as ratios in one run."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

from benchmarks.measure import data_folder, peak_memory
from kampong.margin import CoreVectorClassifier, MaxMinOverClassifier, MinOverClassifier

SETS = ("optdigits", "pendigits", "satimage", "usps", "letter", "mnist 10000", "mnist")
GOALS = {"letter": "ours / its fit ≤ 2", "mnist": "ours / its fit ≤ 0.25, accuracy no lower, peak ≤ 4096 MiB"}


def main(shrink: int = 1) -> None:
    """Print every table; `shrink` divides the number of rows, to see that the script runs."""
    compile_first()
    against_svc(shrink)
    walks(shrink)


def compile_first() -> None:
    X, y = np.random.default_rng(0).normal(size=(60, 2)), np.arange(60) % 3
    for dtype in (np.float32, np.float64):
        CoreVectorClassifier().fit(X.astype(dtype), y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        MaxMinOverClassifier(walk="paper", max_iter=10).fit(X, y)


def load(name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray] | None:
    """Return rows and labels to train and to test with, float32; None where the set is not at hand."""
    name, _, size = name.partition(" ")
    path = data_folder() / f"{name}.npz"
    if not path.exists():
        return None
    with np.load(path, allow_pickle=False) as arrays:
        X, y = arrays["X"].reshape(len(arrays["X"]), -1).astype(np.float32), arrays["y"]
        if "X_test" in arrays:
            X_test, y_test = arrays["X_test"].reshape(len(arrays["X_test"]), -1).astype(np.float32), arrays["y_test"]
        else:
            cut = len(X) * 4 // 5
            X, X_test, y, y_test = X[:cut], X[cut:], y[:cut], y[cut:]
    rows = np.random.default_rng(0).permutation(len(X))[: int(size)] if size else slice(None)
    return X[rows], y[rows], X_test, y_test


def against_svc(shrink: int = 1, sets: tuple[str, ...] = SETS, penalties: tuple[float, ...] = (1.0, 10.0)) -> None:
    print("\nCoreVectorClassifier and SVC: rbf kernel, gamma = 1 / mean squared distance, float32 rows")
    print(f"  {'set':<12} {'C':>4} {'fit s':>8} {'SVC s':>8} {'ours/its':>8} {'predict':>8} {'accuracy':>9} ", end="")
    print(f"{'SVC':>7} {'stored':>7} {'SVC':>6} {'gap':>6} {'MiB':>6}")
    for name in sets:
        data = load(name)
        if data is None:
            print(f"  {name:<12} is not here; set KAMPONG_DATA to the folder that holds it")
            continue
        X, y, X_test, y_test = data
        X, y, X_test, y_test = X[::shrink], y[::shrink], X_test[::shrink], y_test[::shrink]
        for C in penalties if len(X) < 50_000 else penalties[-1:]:
            repeats = 3 if len(X) < 12_000 else 1
            model = CoreVectorClassifier(C=C)
            peak = peak_memory(lambda model=model, X=X, y=y: model.fit(X, y))
            peer = SVC(C=C, gamma=model.gamma_, cache_size=1000)
            seconds = _turns({"ours": (model, X, y), "its": (peer, X, y)}, repeats)
            ours, its = (_score(m, X_test, y_test) for m in (model, peer))
            print(
                f"  {name:<12} {C:>4g} {seconds['ours']:8.2f} {seconds['its']:8.2f} "
                f"{seconds['ours'] / seconds['its']:8.2f} {ours[1] / its[1]:8.2f} {ours[0]:9.4f} {its[0]:7.4f} "
                f"{len(model.support_):7d} {len(peer.support_):6d} {model.dual_gap_.max():6.3f} {peak:6.0f}",
                flush=True,
            )
        if name in GOALS:
            print(f"  {'':<12} goal: {GOALS[name]}")


def walks(shrink: int = 1) -> None:
    """Compare the steps of Martinetz 2004 with pairwise steps and with SMO, which it asks for as future work."""
    rng = np.random.default_rng(0)
    n = 2000 // shrink
    y = np.where(np.arange(n) % 2 == 0, 1, -1)
    X = rng.normal(size=(n, 10))
    X[:, 0] = y * (1 + np.abs(X[:, 0]))
    print(f"\nhard margin of {n} separable rows of 10 features, linear kernel, relative gap 0.01")
    print(f"  {'':<28} {'fit s':>8} {'steps':>8} {'stored':>7} {'margin':>8}")
    settings = [("MinOver, paper", False, "paper"), ("MaxMinOver, paper", True, "paper"), ("pairwise", True, "fast")]
    for label, forget, walk in settings:
        Classifier: Any = MaxMinOverClassifier if forget else MinOverClassifier
        model = Classifier(kernel="linear", bias="exact", walk=walk, tol=0.01, max_iter=200_000)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            seconds = _turns({label: (model, X, y)}, 1)[label]
        print(f"  {label:<28} {seconds:8.3f} {model.n_iter_[0]:8d} {len(model.support_):7d} {model.margin_[0]:8.5f}")
    peer = SVC(kernel="linear", C=1e6)
    seconds = _turns({"SVC": (peer, X, y)}, 1)["SVC"]
    margin = 1 / np.linalg.norm(peer.coef_)
    print(f"  {'SMO (SVC, C=1e6)':<28} {seconds:8.3f} {peer.n_iter_[0]:8d} {len(peer.support_):7d} {margin:8.5f}")


def _turns(contenders: dict[str, tuple[Any, np.ndarray, np.ndarray]], repeats: int) -> dict[str, float]:
    """Return the median seconds of each fit; the contenders take turns."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(repeats):
        for name, (model, X, y) in contenders.items():
            start = time.perf_counter()
            model.fit(X, y)
            seconds[name].append(time.perf_counter() - start)
    return {name: float(np.median(values)) for name, values in seconds.items()}


def _score(model: Any, X: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    start = time.perf_counter()
    accuracy = float(np.mean(model.predict(X) == y))
    return accuracy, time.perf_counter() - start


if __name__ == "__main__":
    main()
