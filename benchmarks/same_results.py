"""Whether two source trees give the same results for given parameters, on every estimator, solver and head.

`python -m benchmarks same_results OTHER/src` compares this tree with another checkout; each runs in its own process.
Without a tree it compares two processes of this one.
"""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.datasets import load_digits, load_wine

import kampong

TOLERANCE = 1e-12
HEADS = ("gaussian", "nearest_mean", "cosine", "regression", "quadratic", "logistic", "hinge", "mixture")
LINEAR = {
    "FisherDiscriminant": {"ridge": 0.1, "scale": False},
    "MarginSubspace": {"epsilon": 0.5},
    "InterClassScatter": {},
    "MaximumMarginCriterion": {},
    "SupervisedKampongMeasure": {"a": 2.0},
    "CriterionSubspace": {"criterion": "fisher", "parameter": 0.1},
}
KERNEL = {
    "KernelFisherDiscriminant": {"ridge": 1e-3},
    "KernelMarginSubspace": {"epsilon": 0.5},
}
MARGIN = {
    "MinOverClassifier": {"gamma": 0.05, "max_iter": 300},
    "MaxMinOverClassifier": {"gamma": 0.05, "max_iter": 300},
    "MaxMinOverClassifier, soft": {"gamma": 0.05, "nu": 0.2, "max_iter": 300},
    "CoreVectorClassifier": {"gamma": 0.05, "C": 10.0},
    "CoreVectorClassifier, linear": {"kernel": "linear", "C": 1.0},
    "MaximumMarginDiscriminant": {"gamma": 0.05, "n_components_per_class": 2},
}
OTHERS = {
    "MarginRecursion": {"n_components": 2, "epsilon": 1.0, "theta": 10.0},
    "MarginRecursion, distance": {"n_components": 2, "update": "distance", "a": 2.0},
    "CandidCovarianceFreePCA": {"n_components": 3},
    "InformationGain": {"n_features": 5},
}
READ = ("components_", "eigenvalues_", "scores_", "coef_", "intercept_", "means_", "dual_coef_")
CALLED = ("transform", "decision_function", "predict_proba", "predict", "score_samples")


def made(name: str, **given):
    """Return an estimator with the parameters that its class has in this tree."""
    kind = getattr(kampong, name.split(",")[0])
    known = inspect.signature(kind.__init__).parameters
    return kind(**{key: value for key, value in given.items() if key in known})


def results(model, X) -> dict[str, np.ndarray]:
    """Return what a fitted model says, by name."""
    found = {}
    for name in READ:
        try:
            value = getattr(model, name, None)
        except (AttributeError, TypeError, ValueError):
            continue
        if value is not None:
            found[name] = np.asarray(value, dtype=float)
    for name in CALLED:
        if hasattr(model, name):
            value = getattr(model, name)(X)
            found[name] = np.asarray(value.toarray() if sparse.issparse(value) else value, dtype=float)
    return found


def cases(shrink: int):
    """Yield a name, and a function that fits a model and returns it with rows to ask it about."""
    X, y = load_digits(return_X_y=True)
    n = max(150, 600 // shrink)
    X, y = X[:n] + np.random.default_rng(0).normal(0, 0.01, (n, X.shape[1])), y[:n]
    W, z = load_wine(return_X_y=True)
    W = (W - W.mean(axis=0)) / W.std(axis=0)
    S, half = sparse.csr_matrix(np.where(X > 4, X, 0)), n // 2
    two = z < 2
    for name, given in LINEAR.items():
        for solver in ("auto", "gram", "scatter", "resolvent", "reservoir"):
            yield f"{name} {solver} fit", lambda g=given, k=name, s=solver: (made(k, solver=s, **g).fit(X, y), X)
        yield f"{name} sparse fit", lambda g=given, k=name: (made(k, **g).fit(S, y), S)
        yield (
            f"{name} weights, decay, partial_fit",
            lambda g=given, k=name: (_stream(made(k, decay=0.999, **g), X, y, half), X),
        )
        yield (
            f"{name} merge, unlearn",
            lambda g=given, k=name: (_unlearnt(made(k, **g), made(k, **g), X, y, half), X),
        )
        for head in HEADS:
            yield f"{name} head {head}", lambda g=given, k=name, h=head: (made(k, head=h, **g).fit(X, y), X)
        yield f"{name} saved", lambda g=given, k=name: (kampong.from_bytes(made(k, **g).fit(W, z).to_bytes()), W)
    for name, given in KERNEL.items():
        for kernel in ("rbf", "linear", "polynomial", "sigmoid"):
            full = {
                "kernel": kernel,
                "gamma": 0.02,
                "coef0": 0.5,
                "landmarks": W[::4],
                "head": "gaussian",
                "scale": False,
            }
            yield f"{name} {kernel}", lambda g={**given, **full}, k=name: (made(k, **g).fit(W, z), W)
    for name, given in MARGIN.items():
        yield f"{name} fit", lambda g=given, k=name: (made(k, tol=1e-6, **g).fit(W[two], z[two]), W)
        yield f"{name} three classes", lambda g=given, k=name: (made(k, tol=1e-3, **g).fit(W, z), W)
    for name, given in OTHERS.items():
        yield f"{name} fit", lambda g=given, k=name: (made(k, **g).fit(W, z), W)
        yield f"{name} sparse fit", lambda g=given, k=name: (made(k, **g).fit(S, y), S)


def _stream(model, X, y, half):
    weights = np.linspace(0.5, 2.0, len(y))
    return model.partial_fit(X[:half], y[:half], sample_weight=weights[:half]).partial_fit(X[half:], y[half:])


def _unlearnt(one, other, X, y, half):
    merged = one.partial_fit(X[:half], y[:half]).merge(other.partial_fit(X[half:], y[half:]))
    merged.unlearn(X[:20], y[:20])
    return merged


def dump(path: str, shrink: int) -> None:
    """Write the results of this tree to a file."""
    found = {}
    warnings.simplefilter("ignore")
    for name, fit in cases(shrink):
        try:
            values = results(*fit())
        except ValueError as error:  # a criterion that a solver does not serve
            values = {"refused": np.array(type(error).__name__)}
        found.update({f"{name}|{key}": value for key, value in values.items()})
    np.savez(path, **found)


def difference(mine: np.ndarray, other: np.ndarray) -> float:
    """Return the largest difference over the largest entry."""
    if mine.dtype.kind == "U" or other.dtype.kind == "U" or mine.shape != other.shape:
        return 0.0 if np.array_equal(mine, other) else np.inf
    size = max(float(np.abs(other).max(initial=0.0)), np.finfo(float).tiny)
    return float(np.abs(mine - other).max(initial=0.0)) / size


def main(shrink: int = 1, sets: tuple[str, ...] = ()) -> None:
    """Print the largest relative difference of each estimator, and every result that differs by more than 1e-12."""
    mine = str(Path(kampong.__file__).parents[1])
    trees = mine, str(Path(sets[0]).resolve()) if sets else mine
    with tempfile.TemporaryDirectory() as folder:
        found = []
        for number, tree in enumerate(trees):
            path = str(Path(folder) / f"{number}.npz")
            command = [sys.executable, str(Path(__file__).resolve()), path, str(shrink)]
            environment = {**os.environ, "PYTHONPATH": tree, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
            subprocess.run(command, check=True, env=environment)
            with np.load(path) as file:
                found.append(dict(file))
    here, there = found
    print(
        f"{len(here)} results of this tree, {len(there)} of the other; {len(here.keys() ^ there.keys())} in one alone"
    )
    worst: dict[str, float] = {}
    for name in sorted(here.keys() & there.keys()):
        gap = difference(here[name], there[name])
        kind = name.split()[0].rstrip(",")
        worst[kind] = max(worst.get(kind, 0.0), gap)
        if gap > TOLERANCE:
            print(f"differs: {name} {gap:.1e}")
    for place, alone in (("here", here.keys() - there.keys()), ("there", there.keys() - here.keys())):
        members = Counter(name.rpartition("|")[2] for name in alone)
        if members:
            print(f"only {place}: " + ", ".join(f"{name} ×{count}" for name, count in members.items()))
    refused = sorted(name.rpartition("|")[0] for name in here.keys() & there.keys() if name.endswith("|refused"))
    print(f"refused by both: {', '.join(refused) or 'nothing'}")
    print(f"{'':28} largest relative difference")
    for kind, gap in worst.items():
        print(f"{kind:28} {gap:.1e}")


if __name__ == "__main__":
    dump(sys.argv[1], int(sys.argv[2]))
