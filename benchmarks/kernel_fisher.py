"""The kernel Fisher discriminant against scikit-learn's SVC, and what placing its landmarks well is worth."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from sklearn.neighbors import KNeighborsClassifier
from sklearn.svm import SVC

from benchmarks.margin import gamma_mean, load
from benchmarks.measure import exponent, medians, peak_memory
from kampong.criteria import landmark_ridge
from kampong.estimators.kernel_fisher import KernelFisherDiscriminant, KernelMarginSubspace

SETS = ("optdigits", "pendigits", "satimage", "usps", "letter", "mnist")
RIDGES = (1e-3, 1e-4, 1e-5, 1e-6, 1e-7)


def main(shrink: int = 1) -> None:
    """Print every table; `shrink` divides the number of rows, to see that the script runs."""
    compile_first()
    against_svc(shrink)
    narrower(shrink)
    placements(shrink)
    ridges(shrink)
    growth(shrink)


def compile_first() -> None:
    X, y = np.random.default_rng(0).normal(size=(99, 2)), np.arange(99) % 3
    for dtype in (np.float32, np.float64):
        KernelFisherDiscriminant(landmarks=20).fit(X.astype(dtype), y).predict(X.astype(dtype))


def against_svc(shrink: int = 1, sets: tuple[str, ...] = SETS) -> None:
    print("\nKernelFisherDiscriminant() and SVC: rbf kernel of the gamma that ours chooses, float32 rows")
    print(f"  {'set':<10} {'m':>5} {'fit s':>7} {'MiB':>5} {'predict':>8} {'5-NN':>7} ", end="")
    print(f"{'':>4} {'SVC s':>7} {'SVC':>7} {'ours/its s':>11}")
    for name in sets:
        data = _load(name, shrink)
        if data is None:
            continue
        X, y, X_test, y_test = data
        peers = {}
        for C in (1.0, 10.0):
            peer = SVC(
                C=C, gamma=KernelFisherDiscriminant(landmarks=len(np.unique(y))).fit(X, y).gamma_, cache_size=1000
            )
            peers[C] = (_seconds(peer, X, y), peer.score(X_test, y_test))
        numbers = (500, 1000, 2000, 3000, 4000) if name == "mnist" else (500, 2000)
        for m in sorted({min(m, len(X)) for m in numbers}):
            model = KernelFisherDiscriminant(landmarks=m)
            peak = peak_memory(lambda model=model, X=X, y=y: model.fit(X, y))
            seconds, accuracy = _seconds(model, X, y), model.score(X_test, y_test)
            near = KNeighborsClassifier(5).fit(model.transform(X), y).score(model.transform(X_test), y_test)
            for C, (its, score) in peers.items():
                print(
                    f"  {name:<10} {model.landmarks:>5} {seconds:7.2f} {peak:5.0f} {accuracy:8.4f} {near:7.4f} "
                    f"C={C:<2g} {its:7.2f} {score:7.4f} {seconds / its:11.3f}",
                    flush=True,
                )
    print("  goal on mnist: ours/its ≤ 0.1 with predict no less accurate than SVC")


def narrower(shrink: int = 1, numbers: tuple[int, ...] = (2000, 5000)) -> None:
    """Print what a narrower kernel is worth if there are thousands of landmarks."""
    data = _load("mnist", shrink)
    if data is None:
        return
    X, y, X_test, y_test = data
    print("\nmnist, more landmarks and narrower kernels, float32 rows, processor seconds of one fit")
    print(f"  {'m':>5} {'gamma':<12} {'CPU s':>7} {'MiB':>5} {'predict':>8}")
    for m in sorted({min(m, len(X)) for m in numbers}):
        for factor in (None, 2.6):
            gamma = "auto" if factor is None else factor * gamma_mean(X)
            model = KernelFisherDiscriminant(landmarks=m, gamma=gamma)
            start = time.process_time()
            peak = peak_memory(lambda model=model, X=X, y=y: model.fit(X, y))
            seconds = time.process_time() - start
            label = "auto" if factor is None else f"{factor:g} × mean"
            print(f"  {m:>5} {label:<12} {seconds:7.1f} {peak:5.0f} {model.score(X_test, y_test):8.4f}", flush=True)
    print("  goal with 5,000: accuracy ≥ 0.985, ≤ 60 s, ≤ 2048 MiB")


def placements(shrink: int = 1, sets: tuple[str, ...] = SETS, m: int = 500) -> None:
    print(f"\nwhere {m} landmarks are placed: accuracy of predict, mean of three seeds; kernel MMC on the centres")
    print(f"  {'set':<10} {'rows':>8} {'centres':>8} {'margin':>8} {'rows s':>8} {'centres s':>10}")
    for name in sets:
        data = _load(name, shrink)
        if data is None:
            continue
        X, y, X_test, y_test = data
        found: dict[str, list[float]] = {}
        for seed in range(3):
            settings: dict[str, Any] = {"landmarks": min(m, len(X)), "random_state": seed}
            models = {
                "rows": KernelFisherDiscriminant(placement="rows", **settings),
                "centres": KernelFisherDiscriminant(placement="centres", **settings),
                "margin": KernelMarginSubspace(epsilon=0.1, **settings),
            }
            for kind, model in models.items():
                found.setdefault(f"{kind} s", []).append(_seconds(model, X, y))
                found.setdefault(kind, []).append(model.score(X_test, y_test))
        values = {kind: float(np.mean(runs)) for kind, runs in found.items()}
        print(
            f"  {name:<10} {values['rows']:8.4f} {values['centres']:8.4f} {values['margin']:8.4f} "
            f"{values['rows s']:8.2f} {values['centres s']:10.2f}",
            flush=True,
        )


def ridges(shrink: int = 1, sets: tuple[str, ...] = SETS[:-1]) -> None:
    print("\nthe ridge as a part of tr S_w: accuracy of predict (the automatic rule was chosen on these sets)")
    print(f"  {'set':<10} {'m':>5} {'auto is':>8} {'auto':>7} " + " ".join(f"{ridge:7.0e}" for ridge in RIDGES))
    for name in sets:
        data = _load(name, shrink)
        if data is None:
            continue
        X, y, X_test, y_test = data
        for m in sorted({min(m, len(X)) for m in (300, 1500)}):
            landmarks = KernelFisherDiscriminant(landmarks=m).fit(X, y)
            given = {"landmarks": landmarks.landmarks_, "gamma": landmarks.gamma_}
            scores = [
                KernelFisherDiscriminant(ridge=ridge, **given).fit(X, y).score(X_test, y_test)
                for ridge in ("auto", *RIDGES)
            ]
            part = landmark_ridge(landmarks._statistics)
            print(f"  {name:<10} {m:>5} {part:8.1e} " + " ".join(f"{score:7.4f}" for score in scores), flush=True)


def growth(shrink: int = 1) -> None:
    """Time and memory against the number of rows, at 1,000 landmarks."""
    data = _load("mnist", shrink)
    if data is None:
        return
    X, y, _, _ = data
    print("\n1,000 landmarks, partial_fit of mnist rows in batches of 5,000")
    sizes, seconds = [], []
    landmarks = X[np.random.default_rng(0).permutation(len(X))[:1000]]
    for n in (len(X) // 4, len(X) // 2, len(X)):

        def stream(n: int = n) -> None:
            model = KernelFisherDiscriminant(landmarks=landmarks)
            for start in range(0, n, 5000):
                model.partial_fit(X[start : start + 5000], y[start : start + 5000])
            assert len(model.components_)  # reading it solves

        sizes.append(n)
        seconds.append(medians({"stream": stream}, 1)["stream"])
        print(f"  {n:>6} rows {seconds[-1]:7.2f} s, peak {peak_memory(stream):5.0f} MiB", flush=True)
    print(f"  time grows with exponent {exponent(sizes, seconds):.2f}")


def _load(name: str, shrink: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray] | None:
    data = load(name, small=shrink > 1)
    if data is None:
        print(f"  {name:<10} is not here; set KAMPONG_DATA to the folder that holds it")
        return None
    X, y, X_test, y_test = data
    return X[::shrink], y[::shrink], X_test[::shrink], y_test[::shrink]


def _seconds(model: Any, X: np.ndarray, y: np.ndarray) -> float:
    start = time.perf_counter()
    model.fit(X, y)
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
