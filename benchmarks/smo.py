"""MinOver, MaxMinOver and SoftMaxMinOver beside SMO: the comparison that Martinetz 2004 leaves to future work."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from sklearn.datasets import load_iris, load_wine
from sklearn.exceptions import ConvergenceWarning
from sklearn.svm import SVC, NuSVC

from benchmarks.margin import compile_first, gamma_mean
from benchmarks.measure import data_folder, present
from kampong.kernels.functions import make_kernel
from kampong.margin import MaxMinOverClassifier, MinOverClassifier

PROBLEMS = (
    ("iris", "class 0 or not", "linear", None),
    ("wine", "class 0 or not", "linear", None),
    ("optdigits", "3 or 8", "linear", None),
    ("ionosphere", "2 classes", "rbf", None),
    ("usps", "4 or 9", "rbf", None),
    ("ionosphere", "2 classes", "linear", 0.2),
    ("waveform21", "class 0 or 1", "linear", 0.4),
    ("pima_diabetes", "2 classes", "rbf", 0.5),
    ("usps", "4 or 9", "rbf", 0.05),
)
"""Set, task, kernel, and ν; without ν the task has a hard margin."""
BUNDLED = {"iris": load_iris, "wine": load_wine}
TOL = 0.01
MOST_STEPS = 50_000


def main(shrink: int = 1) -> None:
    """Print the table; `shrink` divides the number of rows, to see that the script runs."""
    compile_first()
    print(f"\nSMO and the steps of Martinetz 2004: relative gap {TOL:g} or {MOST_STEPS} steps; rows standardised;")
    print("every second row to train, the others to test; gamma = 1 / mean squared distance")
    for name, task, kernel, nu in PROBLEMS:
        data = load(name, task, small=shrink > 1)
        if data is None:
            print(f"  {name} is not here; set KAMPONG_DATA to the folder that holds it")
            continue
        X, y = data[0][::shrink], data[1][::shrink]
        kind = "hard margin" if nu is None else f"nu = {nu:g}"
        print(f"\n  {name}, {task}, {kernel} kernel, {kind}, {len(X[::2])} rows of {X.shape[1]} features")
        print(f"    {'':<34} {'fit s':>8} {'steps':>8} {'stored':>6} {'margin':>8} {'right':>7} {'gap':>8}")
        for label, model in contenders(kernel, nu, gamma_mean(X[::2])).items():
            report(label, model, X, y)


def load(name: str, task: str, *, small: bool = False) -> tuple[np.ndarray, np.ndarray] | None:
    """Return standardised rows in random order and labels of two classes; None if a small run does not find the set."""
    path = data_folder() / f"{name}.npz"
    if path.exists() or present(path.name, small=small):
        with np.load(path, allow_pickle=False) as arrays:
            X, y = arrays["X"].astype(np.float64), arrays["y"]
    elif name in BUNDLED:
        X, y = BUNDLED[name](return_X_y=True)
    else:
        return None
    words = task.split()
    if words[-1] == "not":
        y = (y == int(words[1])).astype(int)
    elif words[-1] != "classes":
        chosen = np.isin(y, [int(words[-3]), int(words[-1])])
        X, y = X[chosen], y[chosen]
    order = np.random.default_rng(0).permutation(len(X))
    X, y = X[order], y[order]
    scale = X[::2].std(axis=0)
    return (X - X[::2].mean(axis=0)) / np.where(scale > 0, scale, 1), y


def contenders(kernel: str, nu: float | None, gamma: float) -> dict[str, Any]:
    """Return the models of one task; SMO's bias is the exact one."""
    common: dict[str, Any] = {"kernel": kernel, "gamma": gamma, "tol": TOL, "max_iter": MOST_STEPS}
    if nu is None:
        return {
            "MinOver, paper's steps": MinOverClassifier(walk="paper", **common),
            "MaxMinOver, paper's steps": MaxMinOverClassifier(walk="paper", **common),
            "MaxMinOver, paper's, exact bias": MaxMinOverClassifier(walk="paper", bias="exact", **common),
            "MaxMinOver, fast, exact bias": MaxMinOverClassifier(bias="exact", **common),
            "SMO (SVC, C = 1e6)": SVC(kernel=kernel, gamma=gamma, C=1e6),
        }
    return {
        "SoftMaxMinOver, paper's steps": MaxMinOverClassifier(nu, walk="paper", **common),
        "SoftMaxMinOver, paper's, exact": MaxMinOverClassifier(nu, walk="paper", bias="exact", **common),
        "SoftMaxMinOver, fast, exact bias": MaxMinOverClassifier(nu, bias="exact", **common),
        "SMO (NuSVC)": NuSVC(nu=nu, kernel=kernel, gamma=gamma),
    }


def report(label: str, model: Any, X: np.ndarray, y: np.ndarray) -> None:
    """Fit and print a line."""
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X[::2], y[::2])
    seconds = time.perf_counter() - start
    ours = hasattr(model, "margin_")
    margin = model.margin_[0] if ours else 1 / length(model, X[::2])
    gap = f"{model.dual_gap_[0]:8.4f}" if ours else f"{'':>8}"
    print(
        f"    {label:<34} {seconds:8.3f} {int(np.sum(model.n_iter_)):8d} {len(model.support_):6d} {margin:8.4f} "
        f"{model.score(X[1::2], y[1::2]):7.4f} {gap}",
        flush=True,
    )


def length(model: Any, X: np.ndarray) -> float:
    """Return ‖w‖ of scikit-learn's machine: its scores are 1 at the edge of the corridor."""
    kernel = make_kernel("SMO", model.kernel, X, gamma=model.gamma, degree=3, coef0=0.0)
    support = kernel.prepare(X[model.support_])
    weights = model.dual_coef_[0]
    return float(np.sqrt(weights @ kernel.between(support, support) @ weights))


if __name__ == "__main__":
    main()
