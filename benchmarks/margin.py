"""The core vector machine against support vector machines of other libraries: same rows, kernel width, C and cache.

`python -m benchmarks margin` prints seconds, duality gaps, accuracy and memory beside SVC of scikit-learn, of sklearnex
and of ThunderSVM, as far as they are installed, and how time and memory grow; about a quarter of an hour on two quiet
cores. Then come one pass, and the rule of the papers. Other parts are named: `python -m benchmarks margin large svc`,
or one large set alone: `python -m benchmarks margin "covertype 100000"`.
"""

from __future__ import annotations

import os
import time
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import SVC

from benchmarks.measure import data_folder, exponent, peak_memory, present, resident
from kampong.kernels.functions import kernel_scores, make_kernel
from kampong.margin import CoreVectorClassifier, MaxMinOverClassifier
from kampong.margin.hinge_loss import Box

if TYPE_CHECKING:
    from collections.abc import Callable

try:
    from sklearnex.svm import SVC as IntelSVC
except ImportError:
    IntelSVC = None
try:
    from thundersvm import SVC as ThunderSVC
except ImportError:
    ThunderSVC = None

PEERS = (
    *(f"{name} {size}" for size in (2500, 5000, 10_000) for name in ("covertype", "covertype7")),
    *("letter", "spirals 10000", "covertype 20000", "covertype7 20000"),
)
LARGE = ("mnist 10000", "covertype 50000", "covertype7 50000", "covertype 100000", "covertype7 100000", "mnist")
OPTIMUM = ("covertype 5000", "covertype7 5000", "satimage", "letter", "pendigits", "optdigits", "usps", "isolet")
SETS = ("optdigits", "pendigits", "satimage", "usps", "letter", "mnist 10000", "mnist")
GOALS = {"letter": "fit ≤ 2 × SVC", "mnist": "fit ≤ 0.25 × SVC, accuracy no lower, peak ≤ 4096 MiB, faster predict"}
ONE_PASS = ("letter", "covertype 10000")
LONG_PASS = ("covertype 30000", "mnist", "covertype 200000")
PATIENCE = 120.0
"""Processor seconds that one fit may be expected to take."""
CACHE = 1000
"""Megabytes of kernel cache that each contender is asked for."""


def main(shrink: int = 1, sets: tuple[str, ...] = ("peers", "optimum", "one_pass", "ball")) -> None:
    """Print some parts; `shrink` divides the number of rows, to see that the script runs."""
    parts: dict[str, Callable[[int], None]] = {
        "peers": against_peers,
        "large": lambda shrink: against_peers(shrink, LARGE),
        **{name: lambda shrink, name=name: against_peers(shrink, (name,)) for name in LARGE},
        "optimum": same_optimum,
        "one_pass": one_pass,
        "long_pass": lambda shrink: one_pass(shrink, LONG_PASS),
        "svc": against_svc,
        "ball": ball,
    }
    unknown = sorted(set(sets) - set(parts))
    if unknown:
        raise SystemExit(f"no part named {', '.join(unknown)}; there are: {', '.join(parts)}")
    compile_first()
    for library, peer in (("scikit-learn-intelex", IntelSVC), ("thundersvm-cpu", ThunderSVC)):
        if peer is None:
            print(f"{library} is not installed, so it is left out: pip install {library}")
    for part in sets:
        parts[part](shrink)
    load_average = " ".join(f"{value:.0f}" for value in os.getloadavg())
    cores = f"{len(os.sched_getaffinity(0))} of {os.cpu_count()} cores"
    print(f"\non {cores}, where the processes that ran or waited at the end were {load_average}")
    print("(mean of 1, 5 and 15 minutes): wall seconds tell little if these are more than the cores")


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
    seven, name = name == "covertype7", name.removesuffix("7")
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
        return _covertype(X, y, X_test, y_test, int(size or len(X)), seven=seven)
    rows = np.random.default_rng(0).permutation(len(X))[: int(size)] if size else slice(None)
    return X[rows], y[rows], X_test, y_test


def _covertype(
    X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray, size: int, *, seven: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return lodgepole pine against the rest, or seven trees: shuffled (the file has the map's order), standardised."""
    X, y = np.concatenate([X, X_test]), np.concatenate([y, y_test])
    y = y if seven else y == 1
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


def against_peers(shrink: int = 1, sets: tuple[str, ...] = PEERS, C: float = 10.0) -> None:
    """Print seconds, the gap of each (computed here), accuracy and memory, and how time and memory grow.

    An interrupt ends the sets, and the growth as far as it is known is printed.
    """
    print(f"\nsupport vector machines: rbf kernel, gamma = 1 / mean squared distance, float32 rows, C = {C:g},")
    print(f"cache of {CACHE} MB, one fit each. The gap is (P - D)/P of the hinge loss: for two classes, the worst one")
    print("against the rest (kampong), or the worst pair (peers); for squared slack (objective - bound)/objective.")
    print("Squared slack is another problem than hinge, with more support vectors by its nature.")
    print(
        f"  {'set':<18} {'':<15} {'CPU s':>8} {'ours/its':>8} {'wall s':>7} {'gap':>7} {'accuracy':>8} {'stored':>7} "
        f"{'peak MiB':>8}"
    )
    seconds: dict[tuple[str, str], dict[int, float]] = {}
    memory: dict[tuple[str, str], dict[int, float]] = {}
    try:
        for name in sets:
            _one_set(name, shrink, C, seconds, memory)
    except KeyboardInterrupt:
        print("  interrupted: the other sets are left out")
    print("\ngrowth: exponents in the number of rows, of processor seconds and of peak memory")
    for (family, label), found in seconds.items():
        if len(found) > 2:
            sizes, peaks = list(found), [max(1.0, value) for value in memory[family, label].values()]
            powers = exponent(sizes, list(found.values())), exponent(sizes, peaks)
            print(
                f"  {family:<12} {label:<15} {powers[0]:5.2f} {powers[1]:5.2f}   {min(sizes):,} to {max(sizes):,} rows"
            )


def _one_set(
    name: str,
    shrink: int,
    C: float,
    seconds: dict[tuple[str, str], dict[int, float]],
    memory: dict[tuple[str, str], dict[int, float]],
) -> None:
    """Fit every contender to one set, print its line, and note seconds and memory."""
    data = load(name, small=shrink > 1)
    if data is None:
        return
    X, y, X_test, y_test = (part[::shrink] for part in data)
    family, n, gamma, taken = name.partition(" ")[0], len(X), gamma_mean(X), {}
    y, y_test = (np.searchsorted(np.unique(y), labels) for labels in (y, y_test))
    for label, model in _machines(C, gamma).items():
        found = seconds.setdefault((family, label), {})
        expected = _expected(found, n)
        if expected > PATIENCE:
            print(f"  {name:<18} {label:<15} not run: {expected:.0f} processor seconds or more are expected")
            continue

        def fit(model: Any = model, X: np.ndarray = X, y: np.ndarray = y) -> None:
            model.fit(X, y)

        clock, start = time.perf_counter(), time.process_time()
        peak = peak_memory(fit)
        if "interrupted" in getattr(model, "status_", ()):  # ours keep what they have reached
            raise KeyboardInterrupt
        found[n], wall = time.process_time() - start, time.perf_counter() - clock
        memory.setdefault((family, label), {})[n], taken[label] = peak, found[n]
        # the same loss and the nearest gap: the third of ours
        ratio = f"{taken['hinge, 0.01'] / found[n]:8.2f}" if "hinge, 0.01" in taken else f"{'':>8}"
        print(
            f"  {name:<18} {label:<15} {found[n]:8.2f} {ratio} {wall:7.2f} {worst_gap(model, X, y, gamma, C):7.4f} "
            f"{_score(model, X_test, y_test)[0]:8.4f} {len(model.support_):7d} {peak:8.0f}",
            flush=True,
        )
        del model


def same_optimum(shrink: int = 1, sets: tuple[str, ...] = OPTIMUM, C: float = 10.0) -> None:
    """Print what a smaller gap of the hinge loss is worth, beside SVC one class against one, and against the rest."""
    print(f"\nthe hinge loss at smaller gaps, and SVC: one class against one, and against the rest as ours; C = {C:g}.")
    print("The last column is the share of test rows for which SVC against the rest predicts the same.")
    print(f"  {'set':<18} {'':<16} {'CPU s':>8} {'accuracy':>8} {'the same':>8}")
    for name in sets:
        data = load(name, small=shrink > 1)
        if data is None:
            continue
        X, y, X_test, y_test = (part[::shrink] for part in data)
        settings: dict[str, Any] = {"gamma": gamma_mean(X), "cache_size": CACHE}
        models: dict[str, Any] = {
            f"hinge, {tol:g}": CoreVectorClassifier(C, loss="hinge", tol=tol, **settings) for tol in (0.05, 0.01, 0.001)
        }
        models["SVC"] = SVC(C=C, **settings)
        models["SVC, the rest"] = OneVsRestClassifier(SVC(C=C, **settings))
        found: dict[str, tuple[float, np.ndarray]] = {}
        for label, model in models.items():
            start = time.process_time()
            model.fit(X, y)
            found[label] = time.process_time() - start, model.predict(X_test)
        for label, (seconds, predicted) in found.items():
            accuracy, same = np.mean(predicted == y_test), np.mean(predicted == found["SVC, the rest"][1])
            print(f"  {name:<18} {label:<16} {seconds:8.2f} {accuracy:8.4f} {same:8.4f}", flush=True)


def _machines(C: float, gamma: float) -> dict[str, Any]:
    """Return the contenders, not fitted; the gap that ours stop at is part of the name."""
    settings: dict[str, Any] = {"gamma": gamma, "cache_size": CACHE}
    models: dict[str, Any] = {
        "squared, 0.05": CoreVectorClassifier(C, **settings),
        "hinge, 0.05": CoreVectorClassifier(C, loss="hinge", tol=0.05, **settings),
        "hinge, 0.01": CoreVectorClassifier(C, loss="hinge", **settings),
        "SVC": SVC(C=C, **settings),
    }
    if IntelSVC is not None:
        models["sklearnex"] = IntelSVC(C=C, **settings)
    if ThunderSVC is not None:
        models["ThunderSVM"] = ThunderSVC(C=C, **settings)
    return models


def _expected(found: dict[int, float], n: int) -> float:
    """Return seconds to expect for n rows: growth as between the last two sizes, and at least with exponent 1.7."""
    if not found:
        return 0.0
    sizes = list(found)
    power = 1.7 if len(sizes) < 2 else max(1.7, exponent(sizes[-2:], [found[size] for size in sizes[-2:]]))
    return float(found[sizes[-1]] * (n / sizes[-1]) ** power)


def worst_gap(model: Any, X: np.ndarray, y: np.ndarray, gamma: float, C: float) -> float:
    """Return the largest relative duality gap of the problems of a model, computed from its coefficients and all rows.

    Parameters
    ----------
    model : CoreVectorClassifier or a support vector machine of a peer
        Ours has one problem per class, a peer one per pair of classes.
    X : array of shape (n_samples, n_features)
        The rows it was fitted to.
    y : array of shape (n_samples,)
        Their labels, from 0.
    gamma : float
        The width of the kernel.
    C : float
        The weight of the slack.

    Returns
    -------
    float
        The gap.
    """
    kernel = make_kernel("benchmark", "rbf", X, gamma=gamma, degree=3, coef0=0.0)
    classes, weights, support = np.unique(y), np.atleast_2d(np.asarray(model.dual_coef_)), model.support_
    gaps = []
    if isinstance(model, CoreVectorClassifier):
        values = kernel_scores(kernel, X, kernel.prepare(X[support]), weights.T.astype(X.dtype)).astype(np.float64)
        for k, own in enumerate(weights):
            signs, beta = np.where(y == classes[-1 if len(weights) == 1 else k], 1.0, -1.0), np.zeros(len(y))
            beta[support] = own
            if model.loss == "hinge":
                gaps.append(_hinge_gap(signs, beta, values[:, k], C))
                continue
            total = np.abs(beta).sum()
            margins = signs * (values[:, k] + beta.sum()) / total + np.abs(beta) / (C * total)
            objective = float(np.abs(beta) @ margins / total)
            gaps.append((objective - float(margins.min())) / objective)
        return max(gaps)
    if ThunderSVC is not None and isinstance(model, ThunderSVC):
        # it counts classes in the order in which they come
        classes = classes[np.argsort([np.flatnonzero(y == label)[0] for label in classes])]
    for i in range(len(classes)):
        for j in range(i + 1, len(classes)):
            part, beta = np.flatnonzero((y == classes[i]) | (y == classes[j])), np.zeros(len(y))
            for one, row in ((i, j - 1), (j, i)):
                own = y[support] == classes[one]
                beta[support[own]] = weights[row, own]
            beta, signs, rows = beta[part], np.where(y[part] == classes[i], 1.0, -1.0), X[part]
            beta *= np.sign(beta @ signs)
            used = np.flatnonzero(beta)
            scores = kernel_scores(kernel, rows, kernel.prepare(rows[used]), beta[used, None].astype(X.dtype))
            gaps.append(_hinge_gap(signs, beta, scores[:, 0].astype(np.float64), C))
    return max(gaps)


def _hinge_gap(signs: np.ndarray, beta: np.ndarray, scores: np.ndarray, C: float) -> float:
    """Return (P − D)/P of the hinge loss with its best constant."""
    box = Box(np.ones(len(signs)), cap=np.full(len(signs), C), labels=signs)
    return box.gap(beta - box.low, scores - signs).relative


def one_pass(shrink: int = 1, sets: tuple[str, ...] = ONE_PASS, C: float = 10.0) -> None:
    """Print accuracy, processor seconds and memory of one pass, whole and in two merged halves, beside those of a fit.

    A batch has 1,000 rows, or 5,000 of a set of more than 20,000. With squared slack a fit of more than 100,000 rows
    is left out.
    """
    print(f"\none pass, rbf kernel, float32 rows, C = {C:g}, processor seconds of one run; MiB held by the process")
    print(
        f"  {'set':<16} {'loss':<8} {'':<22} {'CPU s':>8} {'accuracy':>8} {'stored':>7} {'peak MiB':>8} "
        f"{'half way':>8} {'at the end':>10}"
    )
    for name in sets:
        data = load(name, small=shrink > 1)
        if data is None:
            continue
        X, y, X_test, y_test = (part[::shrink] for part in data)
        for loss in ("squared", "hinge"):
            for limit, halves in ((0, False), (10_000, False), (10_000, True), (5000, False)):
                if not limit and loss == "squared" and len(y) > 100_000:
                    continue
                model = CoreVectorClassifier(C, loss=loss, max_stored_rows=max(limit, 2))
                held: list[float] = []
                ends = [model]

                def learn(
                    model: Any = model,
                    held: list[float] = held,
                    ends: list[Any] = ends,
                    X: np.ndarray = X,
                    y: np.ndarray = y,
                    whole: bool = not limit,
                    halves: bool = halves,
                ) -> None:
                    middle = len(y) // 2 if halves else len(y)
                    if whole:
                        model.fit(X, y)
                        return
                    _stream(model, X[:middle], y[:middle], np.unique(y), held)
                    if halves:
                        ends.append(model.merge(_stream(clone(model), X[middle:], y[middle:], np.unique(y), [])))

                start = time.process_time()
                peak = peak_memory(learn)
                seconds = time.process_time() - start
                label = f"at most {limit:,}{', halves' if halves else ''}" if limit else "fit"
                flat = f"{held[len(held) // 2]:8.0f} {held[-1]:10.0f}" if held else ""
                print(
                    f"  {name:<16} {loss:<8} {label:<22} {seconds:8.1f} {_score(ends[-1], X_test, y_test)[0]:8.4f} "
                    f"{len(ends[-1].support_):7d} {peak:8.0f} {flat}",
                    flush=True,
                )


def _stream(model: Any, X: np.ndarray, y: np.ndarray, classes: np.ndarray, held: list[float]) -> Any:
    """Learn rows in batches, and note the memory that the process holds after each."""
    step = 1000 if len(y) <= 20_000 else 5000
    for start in range(0, len(y), step):
        model.partial_fit(X[start : start + step], y[start : start + step], classes=classes)
        held.append(resident())
    return model


def contenders(C: float, gamma: float) -> dict[str, Any]:
    """Return a model of each library, not fitted."""
    models: dict[str, Any] = {"kampong": CoreVectorClassifier(C=C), "SVC": SVC(C=C, gamma=gamma, cache_size=1000)}
    if IntelSVC is not None:
        models["sklearnex"] = IntelSVC(C=C, gamma=gamma, cache_size=1000)
    return models


def gamma_mean(X: np.ndarray) -> float:
    """Return one over the mean squared distance of two rows."""
    return float(1 / (2 * X.astype(np.float64).var(axis=0).sum()))


def against_svc(shrink: int = 1, sets: tuple[str, ...] = SETS, penalties: tuple[float, ...] = (1.0, 10.0)) -> None:
    """Print seconds, accuracy, stored rows and memory of each contender."""
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
