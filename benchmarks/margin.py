"""The core vector machine against SVC of scikit-learn and of sklearnex: same rows, kernel width and C, in one run.

All of it takes half an hour or so on two cores; a contender is left out where its last times say that the next would
take more than `PATIENCE` seconds.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC

from benchmarks.measure import data_folder, exponent, peak_memory, present
from kampong.kernels.functions import kernel_scores, make_kernel
from kampong.margin import CoreVectorClassifier, MaxMinOverClassifier
from kampong.margin.hinge_loss import Box

try:
    from sklearnex.svm import SVC as IntelSVC
except ImportError:
    IntelSVC = None

OVERLAPPING = ("spirals 10000", "letter", "covertype 10000", "covertype 30000")
SETS = ("optdigits", "pendigits", "satimage", "usps", "letter", "mnist 10000", "mnist")
GOALS = {"letter": "fit ≤ 2 × SVC", "mnist": "fit ≤ 0.25 × SVC, accuracy no lower, peak ≤ 4096 MiB, faster predict"}
GROWTH = {
    "mnist": (5_000, 10_000, 20_000, 40_000),
    "covertype": (6_250, 12_500, 25_000, 50_000, 100_000, 200_000, 500_000),
}
ONE_PASS = ("letter", "mnist 20000", "covertype 30000")
PATIENCE = 200.0
"""Seconds that one fit may take."""
Known = dict[str, tuple[int, dict[str, float]]]


def main(shrink: int = 1) -> None:
    """Print every table; `shrink` divides the number of rows, to see that the script runs."""
    compile_first()
    if IntelSVC is None:
        print("sklearnex is not installed: pip install scikit-learn-intelex")
    overlap(shrink)
    one_pass(shrink)
    known = against_svc(shrink)
    ball(shrink)
    for name in GROWTH:
        growth(name, shrink, known.get(name))


def compile_first() -> None:
    X, y = np.random.default_rng(0).normal(size=(60, 2)), np.arange(60) % 3
    for dtype in (np.float32, np.float64):
        CoreVectorClassifier().fit(X.astype(dtype), y)
        CoreVectorClassifier(loss="hinge").fit(X.astype(dtype), y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        MaxMinOverClassifier(walk="paper", max_iter=10).fit(X, y)


def load(name: str, *, small: bool = False) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray] | None:
    """Return rows and labels to train and to test with, float32; None if a small run does not find the set."""
    name, _, size = name.partition(" ")
    if name == "spirals":
        return spirals(int(size))
    path = data_folder() / f"{name}.npz"
    if not path.exists() and not present(path.name, small=small):
        return None
    with np.load(path, allow_pickle=False) as arrays:
        X, y = arrays["X"].reshape(len(arrays["X"]), -1).astype(np.float32), arrays["y"]
        if "X_test" in arrays:
            X_test, y_test = arrays["X_test"].reshape(len(arrays["X_test"]), -1).astype(np.float32), arrays["y_test"]
        else:
            cut = len(X) * 4 // 5
            X, X_test, y, y_test = X[:cut], X[cut:], y[:cut], y[cut:]
    if name == "covertype":
        return _covertype(X, y, X_test, y_test, int(size or len(X)))
    rows = np.random.default_rng(0).permutation(len(X))[: int(size)] if size else slice(None)
    return X[rows], y[rows], X_test, y_test


def _covertype(
    X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray, size: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return lodgepole pine against the rest, shuffled (the file is in the order of the map) and standardised."""
    X, y = np.concatenate([X, X_test]), np.concatenate([y, y_test]) == 1
    order = np.random.default_rng(0).permutation(len(X))
    train, test = order[:-10_000][:size], order[-10_000:]
    mean, scale = X[train].mean(axis=0), X[train].std(axis=0)
    X = (X - mean) / np.where(scale > 0, scale, 1)
    return X[train], y[train], X[test], y[test]


def spirals(n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return two spirals, to train with one label in five flipped, and to test without."""
    rng = np.random.default_rng(0)
    y, angle = rng.integers(0, 2, 2 * n), rng.uniform(0.5, 3.0, 2 * n) * np.pi
    turned = angle + np.pi * y
    X = (angle[:, None] * np.column_stack([np.cos(turned), np.sin(turned)]) / np.pi).astype(np.float32)
    X += 0.05 * rng.normal(size=X.shape).astype(np.float32)
    flipped = np.where(rng.random(2 * n) < 0.2, 1 - y, y)
    return X[:n], flipped[:n], X[n:], y[n:]


def overlap(shrink: int = 1, sets: tuple[str, ...] = OVERLAPPING, C: float = 10.0) -> None:
    """Print processor seconds, the gap of the hinge loss (computed by us for all), accuracy and memory."""
    print(f"\nclasses that overlap: processor seconds of one run, rbf kernel, gamma as below, float32 rows, C = {C:g}")
    print(
        f"  {'set':<16} {'':<15} {'CPU s':>8} {'its/SVC':>8} {'gap':>8} {'accuracy':>8} {'stored':>7} {'peak MiB':>8}"
    )
    for name in sets:
        data = load(name, small=shrink > 1)
        if data is None:
            print(f"  {name:<16} is not here; set KAMPONG_DATA to the folder that holds it")
            continue
        X, y, X_test, y_test = (part[::shrink] for part in data)
        gamma = gamma_mean(X)
        models = contenders(C, gamma)
        models = {"kampong": models.pop("kampong"), "kampong, hinge": CoreVectorClassifier(C, loss="hinge"), **models}
        seconds: dict[str, float] = {}
        peaks: dict[str, float] = {}
        for label, model in models.items():

            def fit(model: Any = model, X: np.ndarray = X, y: np.ndarray = y) -> None:
                model.fit(X, y)

            start = time.process_time()
            peaks[label] = peak_memory(fit)
            seconds[label] = time.process_time() - start
        for label, model in models.items():
            hinge = label != "kampong" and len(np.unique(y)) == 2
            gap = f"{hinge_gap(model, X, y, gamma, C):8.4f}" if hinge else f"{'':>8}"
            print(
                f"  {name:<16} {label:<15} {seconds[label]:8.2f} {seconds[label] / seconds['SVC']:8.2f} {gap} "
                f"{_score(model, X_test, y_test)[0]:8.4f} {len(model.support_):7d} {peaks[label]:8.0f}",
                flush=True,
            )


def one_pass(
    shrink: int = 1, sets: tuple[str, ...] = ONE_PASS, limits: tuple[int, ...] = (10_000, 5_000), C: float = 10.0
) -> None:
    """Print accuracy, processor seconds and memory of one pass in batches of 1,000 rows beside those of a fit."""
    print(f"\none pass in batches of 1,000 rows, rbf kernel, float32 rows, C = {C:g}, processor seconds of one run")
    print(f"  {'set':<16} {'loss':<8} {'':<16} {'CPU s':>8} {'accuracy':>8} {'stored':>7} {'peak MiB':>8}")
    for name in sets:
        data = load(name, small=shrink > 1)
        if data is None:
            print(f"  {name:<16} is not here; set KAMPONG_DATA to the folder that holds it")
            continue
        X, y, X_test, y_test = (part[::shrink] for part in data)
        for loss in ("squared", "hinge"):
            for limit in (0, *limits):
                model = CoreVectorClassifier(C, loss=loss, max_stored_rows=max(limit, 2))

                def learn(model: Any = model, limit: int = limit, X: np.ndarray = X, y: np.ndarray = y) -> None:
                    for start in range(0, len(y), 1000) if limit else ():
                        model.partial_fit(X[start : start + 1000], y[start : start + 1000], classes=np.unique(y))
                    if not limit:
                        model.fit(X, y)

                start = time.process_time()
                peak = peak_memory(learn)
                seconds = time.process_time() - start
                print(
                    f"  {name:<16} {loss:<8} {f'at most {limit:,}' if limit else 'fit':<16} {seconds:8.1f} "
                    f"{_score(model, X_test, y_test)[0]:8.4f} {len(model.support_):7d} {peak:8.0f}",
                    flush=True,
                )


def hinge_gap(model: Any, X: np.ndarray, y: np.ndarray, gamma: float, C: float) -> float:
    """Return (P − D)/P of the hinge loss at the coefficients of a model of two classes, from all rows."""
    signs, beta = np.where(y == model.classes_[1], 1.0, -1.0), np.zeros(len(X))
    beta[model.support_] = np.asarray(model.dual_coef_).ravel()
    kernel = make_kernel("benchmark", "rbf", X, gamma=gamma, degree=3, coef0=0.0)
    points = kernel.prepare(X[model.support_])
    scores = kernel_scores(kernel, X, points, beta[model.support_][:, None].astype(X.dtype))[:, 0].astype(np.float64)
    box = Box(np.ones(len(X)), cap=np.full(len(X), C), labels=signs)
    return box.gap(beta - box.low, scores - signs).relative


def contenders(C: float, gamma: float) -> dict[str, Any]:
    """Return a model of each library, not fitted."""
    models: dict[str, Any] = {"kampong": CoreVectorClassifier(C=C), "SVC": SVC(C=C, gamma=gamma, cache_size=1000)}
    if IntelSVC is not None:
        models["sklearnex"] = IntelSVC(C=C, gamma=gamma, cache_size=1000)
    return models


def gamma_mean(X: np.ndarray) -> float:
    """Return one over the mean squared distance of two rows."""
    return float(1 / (2 * X.astype(np.float64).var(axis=0).sum()))


def against_svc(shrink: int = 1, sets: tuple[str, ...] = SETS, penalties: tuple[float, ...] = (1.0, 10.0)) -> Known:
    """Print seconds, accuracy, stored rows and memory of each contender; return rows and seconds at the last C."""
    known: Known = {}
    print("\nCoreVectorClassifier and SVC: rbf kernel, gamma = 1 / mean squared distance, float32 rows")
    print(f"  {'set':<12} {'C':>3} {'':<10} {'fit s':>8} {'ours/its':>8} {'predict s':>9} {'ours/its':>8} ", end="")
    print(f"{'accuracy':>8} {'stored':>7} {'peak MiB':>8}")
    for name in sets:
        data = load(name, small=shrink > 1)
        if data is None:
            print(f"  {name:<12} is not here; set KAMPONG_DATA to the folder that holds it")
            continue
        X, y, X_test, y_test = (part[::shrink] for part in data)
        for C in penalties if len(X) < 50_000 else penalties[-1:]:
            models = contenders(C, gamma_mean(X))
            fit, peak = _turns(models, X, y, 3 if len(X) < 12_000 else 1)
            known[name] = (len(X), fit)
            scores = {label: _score(model, X_test, y_test) for label, model in models.items()}
            for label, model in models.items():
                print(
                    f"  {name:<12} {C:>3g} {label:<10} {fit[label]:8.2f} {fit['kampong'] / fit[label]:8.2f} "
                    f"{scores[label][1]:9.3f} {scores['kampong'][1] / scores[label][1]:8.2f} {scores[label][0]:8.4f} "
                    f"{len(model.support_):7d} {peak[label]:8.0f}",
                    flush=True,
                )
        if name in GOALS:
            print(f"  {'':<12} goal: {GOALS[name]}")
    return known


def ball(shrink: int = 1, sets: tuple[str, ...] = ("letter", "mnist 5000", "mnist 10000")) -> None:
    """Compare the rules of the papers, balls of (1 + 1e-3) times a least or fixed radius, with the duality gap."""
    print("\nwhen to stop: the ball of the papers against the duality gap, C = 10")
    print(f"  {'set':<12} {'rule':<12} {'fit s':>8} {'worst gap':>9} {'accuracy':>8} {'core sets':>9}")
    for name in sets:
        data = load(name, small=shrink > 1)
        if data is None:
            print(f"  {name:<12} is not here; set KAMPONG_DATA to the folder that holds it")
            continue
        X, y, X_test, y_test = (part[::shrink] for part in data)
        rules = (("ball 1e-3", 1e-3, "meb"), ("fixed 1e-3", 1e-3, "ball"), ("gap 0.05", 0.05, "gap"))
        for label, tol, criterion in rules:
            model = CoreVectorClassifier(C=10.0, tol=tol, criterion=criterion)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                seconds = _turns({label: model}, X, y, 1)[0][label]
            print(
                f"  {name:<12} {label:<12} {seconds:8.2f} {model.dual_gap_.max():9.3f} "
                f"{_score(model, X_test, y_test)[0]:8.4f} {int(model.n_core_.sum()):9d}",
                flush=True,
            )


def growth(name: str, shrink: int = 1, known: tuple[int, dict[str, float]] | None = None, C: float = 10.0) -> None:
    """Print how the seconds of a fit grow with the rows, at a fixed gap of 0.05; `known` are those of all rows."""
    data = load(name, small=shrink > 1)
    print(f"\nseconds of a fit against the number of rows, {name}, C = {C:g}, relative gap 0.05")
    if data is None:
        print(f"  {name} is not here; set KAMPONG_DATA to the folder that holds it")
        return
    X, y, X_test, y_test = data
    order = np.random.default_rng(1).permutation(len(X))
    seconds: dict[str, dict[int, float]] = {label: {} for label in contenders(C, 1.0)}
    for n in (size // shrink for size in GROWTH[name] if size // shrink <= len(X)):
        part = order[:n]
        models = contenders(C, gamma_mean(X[part]))
        affordable = {label: m for label, m in models.items() if _expected(seconds[label], n) <= PATIENCE}
        fit, peak = _turns(affordable, X[part], y[part], 1)
        for label, model in affordable.items():
            seconds[label][n] = fit[label]
            # the dearest prediction takes a minute for ten thousand rows: some of them do here
            accuracy = _score(model, X_test[:2000], y_test[:2000])[0]
            print(
                f"  {n:>7} rows {label:<10} {fit[label]:8.2f} s {accuracy:8.4f} right {len(model.support_):7d} stored "
                f"{peak[label]:6.0f} MiB",
                flush=True,
            )
        for label in models.keys() - affordable.keys():
            print(f"  {n:>7} rows {label:<10} not run: {_expected(seconds[label], n):.0f} s expected")
        if not affordable:
            break
    for label, found in seconds.items():
        if known is not None:
            found[known[0]] = known[1][label]
        if len(found) > 1:
            slope = exponent(list(found), list(found.values()))
            print(f"  exponent of {label:<10} {slope:5.2f} from {min(found)} to {max(found)} rows")


def _expected(found: dict[int, float], n: int) -> float:
    """Return the seconds to expect for n rows: quadratic growth from the last fit, or as fast as it has grown."""
    if not found:
        return 0.0
    sizes = list(found)
    power = 2.0 if len(sizes) < 2 else max(2.0, exponent(sizes[-2:], [found[size] for size in sizes[-2:]]))
    return float(found[sizes[-1]] * (n / sizes[-1]) ** power)


def _turns(
    models: dict[str, Any], X: np.ndarray, y: np.ndarray, repeats: int
) -> tuple[dict[str, float], dict[str, float]]:
    """Return the median seconds of each fit, the contenders taking turns, and by how many MiB the first one rose."""
    seconds: dict[str, list[float]] = {label: [] for label in models}
    peak: dict[str, float] = {}
    for _ in range(repeats):
        for label, model in models.items():

            def fit(model: Any = model, label: str = label) -> None:
                start = time.perf_counter()
                model.fit(X, y)
                seconds[label].append(time.perf_counter() - start)

            if label in peak:
                fit()
            else:
                peak[label] = peak_memory(fit)
    return {label: float(np.median(values)) for label, values in seconds.items()}, peak


def _score(model: Any, X: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    start = time.perf_counter()
    accuracy = float(np.mean(model.predict(X) == y))
    return accuracy, time.perf_counter() - start


if __name__ == "__main__":
    main()
