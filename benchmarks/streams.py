"""Accuracy of `kampong learn` with nothing set, before each row is learnt, beside what people use for streams.

Every set is written as a file and learnt by the stream tool with the options of the command line. Beside it, row by
row, are the learners of `benchmarks/peers.py`, read from the file that `python -m benchmarks peers` keeps; a cell is
empty where one has not run. Bananas is learnt with `--kernel rbf` too, and every dense set if `kernel` is named.
Every row counts: one that cannot be scored is wrong, for all alike. Sets without an order of their own are shuffled,
once, by a fixed seed.

The streams of `contest` follow, in two halves: the numbers of the contest were chosen on the first one alone. `seeds`
takes three seeds of each that is generated. `python -m benchmarks streams NAME …` takes some of the sets.

Two sets are made, to see drift in many columns: electricity with all products of two and three columns, and usps with
classes that are renamed half-way. They do not count in the sum at the end.
"""

from __future__ import annotations

import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
from scipy import sparse
from sklearn.datasets import dump_svmlight_file, load_digits
from sklearn.preprocessing import PolynomialFeatures, StandardScaler

from benchmarks.contest import ROWS, report
from benchmarks.measure import data_folder, present
from benchmarks.peers import cells, complete, kept, titles
from kampong.datasets import waveform
from kampong.streaming import Layout, Source, learn
from kampong.streaming.options import estimator

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ORDERED = ("electricity", "covertype", "usenet1", "usenet2", "powersupply")
SHUFFLED = ("letter", "pendigits", "satimage", "waveform21")
BUNDLED = ("Phishing", "ImageSegments", "Bananas", "Shuttle")
MOST = 50_000
"""The most rows of a set."""

GOALS = {"digits": 0.93, "covertype": 0.84, "electricity": 0.83, "spam": 0.95}
MADE = ("electricity164", "usps renamed")


def main(shrink: int = 1, sets: Sequence[str] = ()) -> None:
    """Print a line per set, of those named if any are; a large `shrink` takes generated ones."""
    names = [name for name in sets if name not in ("kernel", "seeds")]
    print(f"{'set':<15}{'rows':>7}{'columns':>8}{'classes':>8}{'ours':>8}{titles()}{'us/row':>8}")
    apart: dict[str, float] = {}
    found: dict[str, float] = {}
    for name, X, y in stored(shrink):
        if names and name not in names:
            continue
        found[name], cost = _ours(X, y)
        curved = name == "Bananas" or ("kernel" in sets and not sparse.issparse(X))
        kernel = _ours(X, y, kernel=True)[0] if curved else None
        peers = kept(name, 1, X, y)
        print(f"{name:<15}{len(y):>7}{X.shape[1]:>8}{len(np.unique(y)):>8}{found[name]:>8.4f}", end="")
        if complete(peers, X):
            apart[name] = found[name] - max(peers.values())
        print(cells(found[name], peers), end="")
        print(f"{cost:>8.1f}" + (f"  with --kernel rbf {kernel:.4f}" if kernel else ""), flush=True)
    _sum_up({name: value for name, value in apart.items() if name not in MADE}, found)
    report(_ours, (1, 2, 3) if "seeds" in sets else (1,), ROWS // shrink, names)


def _sum_up(apart: dict[str, float], accuracy: dict[str, float]) -> None:
    """Print on how many sets we are ahead, the worst shortfall, and the goals of single sets."""
    if apart:
        ahead, worst = sum(value >= 0 for value in apart.values()), min(apart, key=lambda name: apart[name])
        print(f"\nat least the best peer: {ahead} of {len(apart)} with all; the worst: {worst} {apart[worst]:+.4f}")
    for name, goal in GOALS.items():
        if name in accuracy:
            print(f"{name}: {accuracy[name]:.4f} (goal: at least {goal})")
    print()


def _ours(X: Any, y: np.ndarray, *, kernel: bool = False) -> tuple[float, float]:
    """Return accuracy before learning and microseconds of a processor per row of a whole run with defaults."""
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = Path(folder) / ("rows.svm" if sparse.issparse(X) else "rows.csv")
        layout = Layout(label="label")
        if sparse.issparse(X):
            dump_svmlight_file(X, y, str(path), zero_based=False)
            layout = Layout(max_features=X.shape[1])
        else:
            columns = {f"x{j}": X[:, j] for j in range(X.shape[1])}
            pyarrow.csv.write_csv(pa.table({**columns, "label": y}), path)
        start = time.process_time()
        model = estimator(kernel="rbf" if kernel else "")
        run = learn(Source(str(path), layout), model)
        return run.counters.correct / len(y), (time.process_time() - start) / len(y) * 1e6


def stored(shrink: int) -> Iterator[tuple[str, Any, np.ndarray]]:
    folder = data_folder()
    if shrink > 1:
        yield "waveform", *waveform(max(300, 5000 // shrink), random_state=0)
        return
    X, y = load_digits(return_X_y=True)
    yield "digits", X, y
    named = (*SHUFFLED, *ORDERED, "usps", "spam_stream_X", "reuters21578_65_X")
    needed = [f"{name}.npz" for name in named]
    present(*needed)
    for name in (*SHUFFLED, *ORDERED):
        with np.load(folder / f"{name}.npz", allow_pickle=False) as arrays:
            X, y = arrays["X"].astype(np.float64), arrays["y"].astype(np.int64)
        yield name, *(_shuffled(X, y) if name in SHUFFLED else (X[:MOST], y[:MOST]))
    with np.load(folder / "spam_stream_labels.npz", allow_pickle=False) as labels:
        yield "spam", sparse.load_npz(folder / "spam_stream_X.npz").tocsr().astype(np.float64), labels["y"]
    with np.load(folder / "reuters21578_65_labels.npz", allow_pickle=False) as labels:
        words = sparse.load_npz(folder / "reuters21578_65_X.npz").tocsr().astype(np.float64)
        yield "Reuters", *_shuffled(words, labels["y"])
    yield from _made(folder)
    from river import datasets

    for name in BUNDLED:
        rows = list(getattr(datasets, name)())
        names = sorted(rows[0][0])
        X = np.array([[float(row[key]) for key in names] for row, _ in rows])
        yield name, X[:MOST], np.unique([str(label) for _, label in rows], return_inverse=True)[1][:MOST]


def _made(folder: Path) -> Iterator[tuple[str, Any, np.ndarray]]:
    """Return two wide streams that drift."""
    with np.load(folder / "electricity.npz", allow_pickle=False) as arrays:
        X, y = arrays["X"].astype(np.float64), arrays["y"].astype(np.int64)
    scaled = StandardScaler().fit_transform(X)
    yield MADE[0], PolynomialFeatures(3, include_bias=False).fit_transform(scaled), y
    with np.load(folder / "usps.npz", allow_pickle=False) as arrays:
        X, y = _shuffled(arrays["X"].astype(np.float64), arrays["y"].astype(np.int64))
    yield MADE[1], X, np.where(np.arange(len(y)) < len(y) // 2, y, (y + 1) % 10)


def _shuffled(X: Any, y: np.ndarray) -> tuple[Any, np.ndarray]:
    order = np.random.default_rng(0).permutation(len(y))
    return X[order], y[order]


if __name__ == "__main__":
    main(sets=sys.argv[1:])
