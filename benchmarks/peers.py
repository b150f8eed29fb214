"""Accuracy of other stream learners before each row is learnt: each is run once and kept, because it never changes.

`streams` and `contest` read what docs/benchmarks/results/peers.json holds. `python -m benchmarks peers` runs those that
it lacks, forests last, and keeps each at once; `peers NAME …` takes some of the streams. An accuracy
holds for the bytes of one stream and for the versions of the libraries that stand beside it.

Every row counts: a learner that cannot answer yet is wrong. Linear learners of river and `SGDClassifier` are given
columns standardised as they come; above 10,000 rows `SGDClassifier` is given ten rows at a time. The two forests are
run on streams of up to 30,000 rows, trees on dense rows only.
"""

from __future__ import annotations

import json
import time
import warnings
import zlib
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from sklearn.linear_model import SGDClassifier
from sklearn.preprocessing import StandardScaler

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

FILE = Path(__file__).resolve().parents[1] / "docs" / "benchmarks" / "results" / "peers.json"
LIBRARY = {"last": "numpy", "majority": "numpy", "SGD": "scikit-learn", "VW": "vowpalwabbit"}
"""The libraries of peers; all others are of river."""

BASELINES = ("last", "majority")
QUICK = ("SGD", "VW", "LR", "softmax", "PA", "ALMA", "NB", "tree", "adaptive")
FORESTS = ("forest", "patches")
PEERS = (*BASELINES, *QUICK, *FORESTS)
"""All of them, the slowest last."""

SHOWN = ("last", "SGD", "VW", "LR", "tree", "forest")
SPARSE = ("last", "majority", "SGD", "LR", "VW")
"""Those that are run on sparse rows."""

MOST = 30_000
"""The most rows that forests are given: they take up to ten milliseconds per row."""


def main(shrink: int = 1, sets: Sequence[str] = ()) -> None:
    """Run what is not kept; a large `shrink` runs the quick learners on one short stream and keeps nothing."""
    from benchmarks.contest import every
    from benchmarks.streams import stored

    if shrink > 1:
        name, _, (X, y) = next(every((1,), 20_000 // shrink))
        for peer in (*BASELINES, *QUICK):
            found = accuracy(peer, X, y)
            print(f"{name:<18}{peer:<10}" + ("not installed" if found is None else f"{found:.4f}"))
        return
    streams = [(name, 1, rows) for name, *rows in stored(1)]
    streams += [(name, seed, rows) for name, seed, rows in every((1, 2, 3))]
    tasks = [(seed, peer, name, X, y) for peer in PEERS for name, seed, (X, y) in streams if runs(peer, X, y)]
    for seed, peer, name, X, y in sorted(tasks, key=lambda one: (one[1] in FORESTS, one[0])):
        if (not sets or name in sets) and peer not in kept(name, seed, X, y):
            start = time.process_time()
            found = accuracy(peer, X, y)
            if found is not None:
                keep(name, seed, X, y, peer, found)
                seconds = time.process_time() - start
                print(f"{name:<18}{seed:>3}{len(y):>8}  {peer:<10}{found:.4f}{seconds:>8.0f} s", flush=True)


def runs(peer: str, X: Any, y: np.ndarray) -> bool:
    """Tell whether a peer can be run on such rows in a bearable time."""
    return (peer in SPARSE or not sparse.issparse(X)) and (peer not in FORESTS or len(y) <= MOST)


def kept(name: str, seed: int, X: Any, y: np.ndarray) -> dict[str, float]:
    """Return the accuracies of peers that are kept for a stream, baselines included."""
    found = _read().get(f"{name}, seed {seed}, {len(y)} rows", {})
    mine = found["accuracy"] if found.get("digest") == _digest(X, y) else {}
    return {peer: mine[peer] for peer in PEERS if peer in mine and _holds(peer, found["libraries"])}


def _holds(peer: str, libraries: dict[str, str]) -> bool:
    """Tell whether the library of a peer is the one that its accuracy is of, or is not installed."""
    library = LIBRARY.get(peer, "river")
    try:
        return libraries.get(library) == version(library)
    except PackageNotFoundError:
        return library in libraries


def complete(found: dict[str, float], X: Any) -> bool:
    """Tell whether all quick learners have run that can; Vowpal Wabbit may not be installed."""
    wanted = SPARSE if sparse.issparse(X) else (*BASELINES, *QUICK)
    return set(wanted) - {"VW"} <= set(found)


def titles() -> str:
    """Return the titles of `cells`."""
    return "".join(f"{peer:>9}" for peer in SHOWN) + f"{'best':>9} {'of peers':<9}{'apart':>8}"


def cells(ours: float, found: dict[str, float]) -> str:
    """Return accuracies of peers, the best of all with its name, and how far ours is from it."""
    shown = "".join(f"{found[peer]:>9.4f}" if peer in found else f"{'':>9}" for peer in SHOWN)
    if not found:
        return f"{shown}{'':>27}"
    best = max(found, key=lambda peer: found[peer])
    return f"{shown}{found[best]:>9.4f} {best:<9}{ours - found[best]:>+8.4f}"


def keep(name: str, seed: int, X: Any, y: np.ndarray, peer: str, value: float) -> None:
    """Keep the accuracy of a peer."""
    everything, digest = _read(), _digest(X, y)
    mine = everything.get(f"{name}, seed {seed}, {len(y)} rows", {})
    if mine.get("digest") != digest:
        mine = {"digest": digest, "accuracy": {}, "libraries": {}}
    library = LIBRARY.get(peer, "river")
    mine["accuracy"] = {one: known for one, known in mine["accuracy"].items() if _holds(one, mine["libraries"])}
    mine["accuracy"][peer] = round(value, 6)
    mine["libraries"][library] = version(library)
    everything[f"{name}, seed {seed}, {len(y)} rows"] = mine
    beside = FILE.with_suffix(".part")
    beside.write_text(json.dumps(everything, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    beside.replace(FILE)


def _read() -> dict[str, Any]:
    return json.loads(FILE.read_text(encoding="utf-8")) if FILE.is_file() else {}


def _digest(X: Any, y: np.ndarray) -> int:
    """Return a number that says whether a stream is the same, up to the rounding of generators."""
    values = np.round(X.data if sparse.issparse(X) else X, 6) + 0.0
    return zlib.crc32(np.ascontiguousarray(y, dtype=np.int64), zlib.crc32(np.ascontiguousarray(values)))


def accuracy(peer: str, X: Any, y: np.ndarray) -> float | None:
    """Return the accuracy of a peer, None if it is not installed."""
    if peer == "last":
        return float((y[1:] == y[:-1]).sum() / len(y))
    if peer == "majority":
        counts, hits = np.zeros(int(y.max()) + 1), 0
        for label in y.tolist():
            hits += int(counts[label] > 0 and np.argmax(counts) == label)
            counts[label] += 1
        return hits / len(y)
    if peer == "SGD":
        return _sgd(X, y)
    return _vowpal_wabbit(X, y) if peer == "VW" else _river(peer, X, y)


def _sgd(X: Any, y: np.ndarray) -> float:
    """Return the accuracy of SGD on columns standardised so far (dense rows), or on the rows (sparse ones)."""
    model, scaler, classes, hits = SGDClassifier(random_state=0), StandardScaler(), np.unique(y), 0
    dense = not sparse.issparse(X)
    step = 1 if len(y) <= 10_000 else 10
    for start in range(0, len(y), step):
        rows, truth = X[start : start + step], y[start : start + step]
        if start:
            hits += int((model.predict(scaler.transform(rows) if dense else rows) == truth).sum())
        if dense:
            scaler.partial_fit(rows)
        model.partial_fit(scaler.transform(rows) if dense else rows, truth, classes=classes)
    return hits / len(y)


def _river(kind: str, X: Any, y: np.ndarray) -> float:
    """Return the accuracy of a model of river; linear ones are given standardised columns."""
    from river import ensemble, forest, linear_model, multiclass, naive_bayes, preprocessing, tree

    two = len(np.unique(y)) == 2
    made: dict[str, Callable[[], Any]] = {
        "LR": linear_model.LogisticRegression,
        "softmax": linear_model.SoftmaxRegression,
        "PA": linear_model.PAClassifier,
        "ALMA": linear_model.ALMAClassifier,
        "NB": naive_bayes.GaussianNB,
        "tree": tree.HoeffdingTreeClassifier,
        "adaptive": lambda: tree.HoeffdingAdaptiveTreeClassifier(seed=0),
        "forest": lambda: forest.ARFClassifier(seed=0),
        "patches": lambda: ensemble.SRPClassifier(seed=0),
    }
    model = made[kind]()
    if kind in ("LR", "PA", "ALMA") and not two:
        model = multiclass.OneVsRestClassifier(model)
    if kind in ("LR", "softmax", "PA", "ALMA") and not sparse.issparse(X):
        model = preprocessing.StandardScaler() | model
    truths, hits = (y == y.max()).tolist() if two else y.tolist(), 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for x, truth in zip(_dictionaries(X), truths, strict=True):
            hits += model.predict_one(x) == truth
            model.learn_one(x, truth)
    return hits / len(y)


def _vowpal_wabbit(X: Any, y: np.ndarray) -> float | None:
    """Return the accuracy of Vowpal Wabbit (one against all), None where it is not installed."""
    try:
        from vowpalwabbit import Workspace

        version("vowpalwabbit")
    except (ImportError, PackageNotFoundError):
        return None
    classes, codes = np.unique(y, return_inverse=True)
    learner, hits = Workspace(f"--oaa {len(classes)} -b 18 --quiet"), 0
    for i, (row, code) in enumerate(zip(_dictionaries(X), (codes + 1).tolist(), strict=True)):
        example = learner.example(f"{code} | " + " ".join(f"{key}:{value:g}" for key, value in row.items() if value))
        hits += int(i > 0 and learner.predict(example) == code)
        learner.learn(example)
        learner.finish_example(example)
    learner.finish()
    return hits / len(y)


def _dictionaries(X: Any) -> Iterator[dict[int, float]]:
    if not sparse.issparse(X):
        yield from (dict(enumerate(row)) for row in X.tolist())
        return
    for start, stop in zip(X.indptr[:-1], X.indptr[1:], strict=True):
        yield dict(zip(X.indices[start:stop].tolist(), X.data[start:stop].tolist(), strict=True))
