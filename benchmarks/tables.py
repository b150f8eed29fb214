"""Defaults on many tables: nothing set, raw columns in, compared with what people would use instead.

The sets of `data/tables` are cut into two halves by their alphabetical order, before anything was looked at: even
places are for setting rules, odd places for reporting. Both halves are printed. Five stratified folds, one split above
3,000 rows. Errors in percent; log-loss of `predict_proba` with probabilities of at least 1e-6; ECE in 15 equal bins;
CPU seconds of fit and predict together.

Peers have fixed seeds, so their results are kept in docs/benchmarks/results/tables_peers.json, set by set, with the
versions that they came from, and read again while the rows and the versions are the same. `--peers` runs only those
that are not kept; a run that was stopped goes on where it ended. Their CPU seconds are those of that run.
"""

from __future__ import annotations

import json
import time
import warnings
import zlib
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from scipy.stats import rankdata
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from benchmarks.measure import data_folder, present
from kampong import FisherDiscriminant, KernelFisherDiscriminant, WeighedDiscriminant

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LARGE = 3000
KEPT = Path(__file__).resolve().parents[1] / "docs" / "benchmarks" / "results" / "tables_peers.json"
LIBRARIES = ("numpy", "scipy", "scikit-learn")
KAMPONG: dict[str, Callable[[], Any]] = {
    "Fisher": FisherDiscriminant,
    "kernel": KernelFisherDiscriminant,
    "weighed": WeighedDiscriminant,
}
PEERS: dict[str, Callable[[], Any]] = {
    "LR scaled": lambda: LogisticRegression(max_iter=1000),
    "LDA shrunk": lambda: LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto"),
    "SVC scaled": SVC,
    "forest": lambda: RandomForestClassifier(random_state=0),
    "boosting": lambda: HistGradientBoostingClassifier(random_state=0),
}
SCALED = ("LR scaled", "SVC scaled")
DENSE_ONLY = ("LDA shrunk", "boosting")


def main(shrink: int = 1, sets: tuple[str, ...] = ()) -> None:
    """Print a line for each set, and the means of both halves; with `sets`, those alone; "--peers" runs peers only."""
    warnings.simplefilter("ignore")
    only_peers, sets = "--peers" in sets, tuple(name for name in sets if name != "--peers")
    methods = PEERS if only_peers else {**KAMPONG, **PEERS}
    found: list[tuple[int, np.ndarray]] = []
    print(f"{'error %':<22}{'rows':>7}{'columns':>8}" + "".join(f"{name:>12}" for name in methods))
    for place, (name, X, y) in enumerate(tables(shrink)):
        if sets and name not in sets:
            continue
        ours = [] if only_peers else [measured(method, make, X, y, shrink) for method, make in KAMPONG.items()]
        results = np.array([*ours, *peers_of(name, X, y, shrink)])
        half = "fitted" if place % 2 == 0 else "reported"
        errors = "".join(f"{100 * error:>12.2f}" for error in results[:, 0])
        print(f"{name:<22}{X.shape[0]:>7}{X.shape[1]:>8}{errors}  {half}", flush=True)
        found.append((place % 2, results))
    if only_peers:
        return
    for number, half in enumerate(("fitted", "reported")):
        summary(half, list(methods), [results for place, results in found if place == number])


def peers_of(name: str, X: Any, y: np.ndarray, shrink: int) -> list[list[float]]:
    """Return the results of the peers on a set, those that are kept where they are of these rows and versions."""
    numbers = X.data if sparse.issparse(X) else X
    check = zlib.crc32(np.ascontiguousarray(numbers).tobytes(), zlib.crc32("".join(map(str, y.tolist())).encode()))
    models = " ".join(" ".join(repr(make()).split()) for make in PEERS.values())
    origin = {"rows": check, "models": models, **{library: version(library) for library in LIBRARIES}}
    kept = json.loads(KEPT.read_text(encoding="utf-8")) if shrink == 1 and KEPT.exists() else {}
    known = kept.get(name, {})
    if known.get("origin") == origin and set(PEERS) <= set(known["results"]):
        return [[np.nan if one is None else one for one in known["results"][peer]] for peer in PEERS]
    results = {peer: measured(peer, make, X, y, shrink) for peer, make in PEERS.items()}
    if shrink == 1:
        plain = {peer: [None if np.isnan(one) else float(one) for one in found] for peer, found in results.items()}
        kept[name] = {"origin": origin, "results": plain}
        lines = [f"{json.dumps(one)}: {json.dumps(value)}" for one, value in sorted(kept.items())]
        KEPT.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    return list(results.values())


def summary(half: str, names: list[str], results: list[np.ndarray]) -> None:
    """Print the means of one half of the sets, and how often each method is far behind."""
    if not results:
        return
    every = np.array(results)
    whole = every[~np.isnan(every[:, :, 0]).any(axis=1)]
    ranks = np.array([rankdata(one[:, 0]) for one in whole])
    print(f"\nhalf {half}: {len(every)} sets, means over the {len(whole)} where every method ran")
    print(f"{'':<12}{'error %':>9}{'rank':>7}{'log-loss':>10}{'ECE':>8}{'CPU s':>9}{'CPU, median':>13}")
    for place, name in enumerate(names):
        error, loss, ece, cpu = np.nanmean(whole[:, place, :4], axis=0)
        median = np.median(whole[:, place, 3])
        print(
            f"{name:<12}{100 * error:>9.2f}{ranks[:, place].mean():>7.2f}{loss:>10.3f}{ece:>8.3f}{cpu:>9.2f}"
            f"{median:>13.3f}"
        )
    errors = every[:, :, 0]
    for mine in KAMPONG:
        behind = {
            name: int((errors[:, names.index(mine)] > errors[:, place] + 0.01).sum())
            for place, name in enumerate(names)
            if name != mine
        }
        print(f"{mine} is more than a point behind " + ", ".join(f"{name} on {n}" for name, n in behind.items()))


def tables(shrink: int = 1) -> Iterator[tuple[str, Any, np.ndarray]]:
    """Yield name, rows and classes of each set."""
    if not present("tables", small=shrink > 1):
        print("scikit-learn's own sets")
        for load in (load_iris, load_wine, load_breast_cancer, load_digits):
            yield load.__name__.removeprefix("load_"), *load(return_X_y=True)
        return
    for path in sorted((data_folder() / "tables").glob("*.npz")):
        with np.load(path, allow_pickle=False) as arrays:
            if "X" in arrays:
                X: Any = arrays["X"].astype(np.float64)
            else:
                shape = tuple(int(size) for size in arrays["shape"])
                X = sparse.csr_array((arrays["data"].astype(np.float64), arrays["indices"], arrays["indptr"]), shape)
            yield path.stem, X, arrays["y"]


def measured(name: str, make: Callable[[], Any], X: Any, y: np.ndarray, shrink: int = 1) -> list[float]:
    """Return error, log-loss, ECE and CPU seconds, means over the folds; NaN where a method cannot take the rows."""
    if sparse.issparse(X) and name in DENSE_ONLY:
        return [np.nan] * 4
    if X.shape[0] > LARGE or shrink > 1:
        parts: Any = StratifiedShuffleSplit(1, test_size=0.2, random_state=0).split(np.zeros(len(y)), y)
    else:
        parts = StratifiedKFold(5, shuffle=True, random_state=0).split(np.zeros(len(y)), y)
    results = []
    for train, test in parts:
        start = time.process_time()
        model = make()
        if name in SCALED:
            model = make_pipeline(StandardScaler(with_mean=not sparse.issparse(X)), model)
        model.fit(X[train], y[train])
        predicted = model.predict(X[test])
        cpu = time.process_time() - start
        loss = ece = np.nan
        if hasattr(model, "predict_proba"):
            loss, ece = judged(model, X[test], y[test])
        results.append([float(np.mean(predicted != y[test])), loss, ece, cpu])
    return list(np.mean(results, axis=0))


def judged(model: Any, X: Any, y: np.ndarray) -> tuple[float, float]:
    """Return the log-loss and the expected calibration error of probabilities."""
    chances = np.clip(model.predict_proba(X), 1e-6, None)
    chances /= chances.sum(axis=1, keepdims=True)
    known = np.isin(y, model.classes_)
    places = np.searchsorted(model.classes_, y[known])
    loss = -np.log(chances[known][np.arange(len(places)), places])
    top, right = chances.max(axis=1), model.classes_[chances.argmax(axis=1)] == y
    bins = np.minimum((top * 15).astype(int), 14)
    gaps = [abs((right[bins == one] - top[bins == one]).sum()) for one in range(15)]
    return float(loss.mean()), float(np.sum(gaps) / len(y))


if __name__ == "__main__":
    main()
