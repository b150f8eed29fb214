"""Maximum margin discriminant analysis against kernel PCA, SVC and Nyström features: fit, transform, memory, growth.

`python -m benchmarks mmda growth` runs one part of it; the others are `letter` and `mnist`.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from sklearn.decomposition import KernelPCA
from sklearn.kernel_approximation import Nystroem
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC, LinearSVC

from benchmarks.margin import load
from benchmarks.measure import exponent, peak_memory
from kampong.margin.mmda import MaximumMarginDiscriminant

C, TOL = 10.0, 0.1
WIDTH = 2.0
"""The kernel factor, in units of one over the mean squared distance: chosen with C on rows of the training part."""
PCA_ROWS = 29_000
"""Kernel PCA holds its kernel matrix: at this many rows its peak comes near 4 GiB."""
SIZES = (5000, 10_000, 20_000, 40_000)


def main(shrink: int = 1, sets: tuple[str, ...] = ("letter", "growth", "mnist")) -> None:
    """Print some tables; `shrink` divides the number of rows, to see that the script runs."""
    X, y = np.random.default_rng(0).normal(size=(60, 2)).astype(np.float32), np.arange(60) % 3
    MaximumMarginDiscriminant(2).fit(X, y)  # compile first
    goals = {
        "letter": "ours / its fit ≤ 2 for SVC",
        "mnist": "ours faster than SVC and kernel PCA, 1-NN ≥ 98.5 %, peak ≤ 4096 MiB, transform ≤ 1/5 of SVC",
    }
    unknown = sorted(set(sets) - {"growth", *goals})
    if unknown:
        raise SystemExit(f"no part named {', '.join(unknown)}; there are: letter, growth, mnist")
    for part in sets:
        if part == "growth":
            growth(shrink)
        else:
            against_peers(part, goals[part], shrink)


def against_peers(name: str, goal: str, shrink: int = 1) -> None:
    data = _load(name, shrink)
    if data is None:
        return
    X, y, X_test, y_test = data
    gamma = WIDTH / (2.0 * float(X.var(axis=0, dtype=np.float64).sum()))
    classes, some = len(np.unique(y)), slice(0, PCA_ROWS // shrink)
    print(
        f"\n{name}, {len(X)} rows, {X.shape[1]} columns: {classes} features, C = {C:g}, gap ≤ {TOL:.0%}; goal: {goal}"
    )
    print(f"  {'':<28} {'rows':>6} {'fit s':>8} {'ours/its':>8} {'test s':>8} {'ours/its':>8} {'%':>6} {'MiB':>6}")
    mmda = MaximumMarginDiscriminant(C=C, gamma=gamma, tol=TOL)
    pca = KernelPCA(classes, kernel="rbf", gamma=gamma, eigen_solver="randomized", random_state=0)
    svc = SVC(C=C, gamma=gamma, cache_size=1000)
    nystroem = make_pipeline(Nystroem(gamma=gamma, n_components=1000, random_state=0), LinearSVC(C=C, random_state=0))
    ours = _extractor(mmda, data)
    _line("MMDA + 1-NN", len(X), ours, ours)
    _line("KernelPCA randomized + 1-NN", len(X[some]), _extractor(pca, (X[some], y[some], X_test, y_test)), ours)
    _line("Nystroem 1000 + LinearSVC", len(X), _classifier(nystroem, data), ours)
    _line("SVC", len(X), _classifier(svc, data), ours)
    print(f"  stored {len(mmda.support_)} of {len(X)} rows, SVC {len(svc.support_)}; gap {mmda.dual_gap_.max():.3f}")
    print(f"  nearest class mean: {100 * mmda.score(X_test, y_test):.2f} %")


def growth(shrink: int = 1) -> None:
    data = _load("mnist", 1)
    if data is None:
        return
    X, y = data[0], data[1]
    order = np.random.default_rng(0).permutation(len(X))
    sizes = [size // shrink for size in SIZES]
    gamma = WIDTH / (2.0 * float(X.var(axis=0, dtype=np.float64).sum()))
    seconds, memory, least = [], [], []
    print(f"\ngrowth with the rows of mnist: K features, C = {C:g}; values of the kernel in millions,")
    print("computed, and needed at least: those between stored rows and all rows, without which no gap is known")
    print(f"  {'rows':>6} {'CPU s':>8} {'MiB':>6} {'matrix MiB':>10} {'stored':>7} {'computed':>9} {'needed':>7}")
    for size in sizes:
        part, labels = X[order[:size]], y[order[:size]]
        model = MaximumMarginDiscriminant(C=C, gamma=gamma, tol=TOL)
        start = time.process_time()
        memory.append(max(1.0, peak_memory(lambda model=model, part=part, labels=labels: model.fit(part, labels))))
        seconds.append(time.process_time() - start)
        least.append(size * len(model.support_))
        print(
            f"  {size:6d} {seconds[-1]:8.2f} {memory[-1]:6.0f} {size**2 * 4 / 2**20:10.0f} {len(model.support_):7d} "
            f"{model.n_kernel_evaluations_ / 1e6:9.0f} {least[-1] / 1e6:7.0f}",
            flush=True,
        )
    powers = exponent(sizes, seconds), exponent(sizes, memory), exponent(sizes, least)
    print(f"  seconds grow as n^{powers[0]:.2f}, memory as n^{powers[1]:.2f}, values needed as n^{powers[2]:.2f}")
    print("  goal: seconds n^1.5, memory less than n^2", flush=True)


def _load(name: str, shrink: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray] | None:
    data = load(name, small=shrink > 1)
    if data is None:
        print(f"\n{name} is not here; set KAMPONG_DATA to the folder that holds it")
        return None
    X, y, X_test, y_test = data
    return X[::shrink], y[::shrink], X_test[::shrink], y_test[::shrink]


def _extractor(model: Any, data: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]) -> dict[str, float]:
    """Return seconds of the fit and of the test rows, the peak of the fit, and the accuracy of 1-NN on the features."""
    X, y, X_test, y_test = data
    kept: list[np.ndarray] = []
    start = time.perf_counter()
    peak = peak_memory(lambda: kept.append(model.fit_transform(X, y)))
    fitted = time.perf_counter()
    test = model.transform(X_test)
    spent = time.perf_counter() - fitted
    accuracy = KNeighborsClassifier(1).fit(kept[0], y).score(test, y_test)
    return {"fit": fitted - start, "test": spent, "accuracy": 100 * float(accuracy), "peak": peak}


def _classifier(model: Any, data: tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]) -> dict[str, float]:
    X, y, X_test, y_test = data
    start = time.perf_counter()
    peak = peak_memory(lambda: model.fit(X, y))
    fitted = time.perf_counter()
    accuracy = np.mean(model.predict(X_test) == y_test)
    spent = time.perf_counter() - fitted
    return {"fit": fitted - start, "test": spent, "accuracy": 100 * float(accuracy), "peak": peak}


def _line(title: str, rows: int, its: dict[str, float], ours: dict[str, float]) -> None:
    print(
        f"  {title:<28} {rows:6d} {its['fit']:8.2f} {ours['fit'] / its['fit']:8.2f} {its['test']:8.2f} "
        f"{ours['test'] / its['test']:8.2f} {its['accuracy']:6.2f} {its['peak']:6.0f}",
        flush=True,
    )


if __name__ == "__main__":
    main()
