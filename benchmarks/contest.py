"""Accuracy of `OnlineClassifier`, before each row is learnt, compared with river, scikit-learn and baselines.

The streams, sorted by name, are dealt in turns to two halves: the numbers of `online/settings.py` were chosen on the
fitting half alone, and both halves are reported. Every row counts: a learner that cannot answer yet is wrong.
`python -m benchmarks contest NAME …` takes some of the streams; `seeds` takes two more seeds of every generated stream;
`effort` prints the accuracy at several efforts alone. Peers are read from the file that `python -m benchmarks peers`
keeps; a cell is empty where it has not run.
"""

from __future__ import annotations

import itertools
import sys
import time
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.measure import data_folder, present
from benchmarks.peers import accuracy, cells, complete, kept, titles
from kampong.online import OnlineClassifier

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

ROWS = 20_000
REAL = {"electricity": 45_312, "covertype": 30_000, "powersupply": 29_928, "usenet1": 1_500, "usenet2": 1_500}
GOALS = {"electricity": 0.92, "swap 10000": 0.87, "sine curved": 0.96, "RBF drift": 0.90, "Agrawal change": 0.87}
EFFORTS = (0.0, 2.0, 3.0, 4.0, 6.0, 12.0)

Stream = tuple[np.ndarray, np.ndarray]


def main(shrink: int = 1, sets: Sequence[str] = ()) -> None:
    """Print a line per stream, the fitting half first, and how often no peer is better; `shrink` takes few of them."""
    names = [name for name in sets if name not in ("seeds", "effort")]
    if "effort" in sets:
        _efforts(names or list(GOALS), ROWS // shrink)
        return
    report(_ours, (1, 2, 3) if "seeds" in sets else (1,), ROWS // shrink, names)


def report(
    ours: Callable[[np.ndarray, np.ndarray], tuple[float, float]],
    seeds: Sequence[int],
    rows: int = ROWS,
    names: Sequence[str] = (),
) -> None:
    """Print both halves: accuracy of `ours`, which also returns microseconds per row, beside all peers."""
    for title, half in zip(("fitting half", "reporting half"), halves(), strict=True):
        print(f"{title:<18}{'rows':>7}{'d':>4}{'K':>4}{'ours':>8}" + titles(), end="")
        print(f"{'kappa':>8}{'us/row':>8}")
        apart: dict[str, float] = {}
        half = half if rows == ROWS else half[:2]
        for name, seed, (X, y) in every(seeds, rows, [one for one in half if not names or one in names]):
            mine, cost = ours(X, y)
            found = kept(name, seed, X, y)
            print(f"{name:<18}{len(y):>7}{X.shape[1]:>4}{len(np.unique(y)):>4}{mine:>8.4f}{cells(mine, found)}", end="")
            last = accuracy("last", X, y)
            assert last is not None
            if complete(found, X):
                apart[f"{name} {seed}"] = mine - max(found.values())
            print(f"{(mine - last) / max(1.0 - last, 1e-12):>8.3f}{cost:>8.1f}", flush=True)
        if not apart:
            print("no stream of this half has all its peers: python -m benchmarks peers")
        else:
            ahead = sum(value >= 0 for value in apart.values())
            worst = min(apart, key=lambda name: apart[name])
            print(
                f"at least the best peer: {ahead} of {len(apart)} with all; the worst: {worst} {apart[worst]:+.4f}",
                end="",
            )
            print(f" (goals for the reporting half: {-(-2 * len(apart) // 3)}, and at least -0.03)")
        print()
    print("goals:", ", ".join(f"{name} {goal}" for name, goal in GOALS.items()))


def _efforts(names: Sequence[str], rows: int) -> None:
    """Print the accuracy of some streams at several efforts."""
    print(f"{'stream':<18}{'d':>4}{'K':>4}" + "".join(f"{effort:>9g}" for effort in EFFORTS))
    for name in names:
        if name not in REAL or _has(name, small=rows < ROWS):
            X, y = stream(name, rows=rows)
            found = "".join(f"{_ours(X, y, effort)[0]:>9.4f}" for effort in EFFORTS)
            print(f"{name:<18}{X.shape[1]:>4}{len(np.unique(y)):>4}{found}", flush=True)


def halves() -> tuple[list[str], list[str]]:
    """Return the names of the streams of the fitting half and of the reporting half."""
    names = sorted([*REAL, *GENERATED], key=str.lower)
    return names[0::2], names[1::2]


def stream(name: str, *, seed: int = 1, rows: int = ROWS) -> Stream:
    """Return the rows and the labels of a stream."""
    if name in REAL:
        with np.load(data_folder() / f"{name}.npz", allow_pickle=False) as arrays:
            most = max(300, REAL[name] * rows // ROWS)
            return arrays["X"][:most].astype(np.float64), arrays["y"][:most].astype(np.int64)
    return GENERATED[name](seed, rows)


def every(
    seeds: Sequence[int], rows: int = ROWS, names: Sequence[str] | None = None
) -> Iterator[tuple[str, int, Stream]]:
    """Yield name, seed, rows and labels of streams, of all if none are named; stored ones have one seed."""
    for name, seed in itertools.product(sorted(itertools.chain(*halves())) if names is None else names, seeds):
        if name not in REAL or (seed == 1 and _has(name, small=rows < ROWS)):
            yield name, seed, stream(name, seed=seed, rows=rows)


def _has(name: str, *, small: bool) -> bool:
    """Tell whether to learn a stored stream, which a small run leaves out."""
    return present(f"{name}.npz", small=small)


def _ours(X: np.ndarray, y: np.ndarray, effort: float = 100.0) -> tuple[float, float]:
    """Return accuracy, and microseconds of a processor per row, in batches of 1,000."""
    OnlineClassifier(effort).predict_then_learn(X[:100], y[:100])  # compiles
    model, hits, start = OnlineClassifier(effort), 0, time.process_time()
    for first in range(0, len(y), 1000):
        part = slice(first, first + 1000)
        right = model.predict_then_learn(X[part], y[part]) == y[part]
        hits += int(right[0 if first else 1 :].sum())  # the first row cannot be predicted
    return hits / len(y), (time.process_time() - start) / len(y) * 1e6


def _take(source: Any, rows: int) -> Stream:
    """Return rows of a generator of river, columns in their own order."""
    pairs = list(itertools.islice(iter(source), rows))
    names = list(pairs[0][0])
    X = np.array([[float(x[name]) for name in names] for x, _ in pairs])
    return X, np.unique([int(label) for _, label in pairs], return_inverse=True)[1]


def _drift(make: Callable[[int, int], Any], concepts: Sequence[int]) -> Callable[[int, int], Stream]:
    """Return a stream whose concept changes at equal distances; `make` takes a concept and a seed."""

    def made(seed: int, rows: int) -> Stream:
        each = -(-rows // len(concepts))
        parts = [_take(make(concept, seed + place), each) for place, concept in enumerate(concepts)]
        return np.concatenate([X for X, _ in parts])[:rows], np.concatenate([y for _, y in parts])[:rows]

    return made


def _gaussian(seed: int, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return two Gaussian classes in ten columns, 2.5 deviations apart: at best 0.894."""
    rng = np.random.default_rng(seed)
    direction = rng.normal(size=10)
    y = rng.integers(2, size=rows)
    return rng.normal(size=(rows, 10)) + np.outer(y, 2.5 * direction / np.linalg.norm(direction)), y


def _swap(at: int) -> Callable[[int, int], Stream]:
    """Return a stream whose classes are swapped at a row, and which goes on for half as many again or 10,000 rows."""

    def made(seed: int, rows: int) -> Stream:
        place = at * rows // ROWS
        X, y = _gaussian(seed, place + max(place // 2, rows // 2))
        return X, np.where(np.arange(len(y)) < place, y, 1 - y)

    return made


def _recurring(seed: int, rows: int) -> Stream:
    """Return three linear concepts that come back in turns of 2,000 rows."""
    rng = np.random.default_rng(seed)
    X, directions = rng.normal(size=(rows, 8)), rng.normal(size=(3, 8))
    turn = np.arange(rows) // max(rows // 10, 1) % 3
    score = np.einsum("ij,ij->i", X, directions[turn]) + 0.3 * rng.normal(size=rows)
    return X, (score > 0).astype(np.int64)


def _scale(seed: int, rows: int) -> Stream:
    """Return four Gaussian classes whose columns change their scale by a factor of 30, one up and one down."""
    rng = np.random.default_rng(seed)
    means, y = 1.2 * rng.normal(size=(4, 6)), rng.integers(4, size=rows)
    powers = np.where(np.arange(6) % 2, 1.0, -1.0) * np.linspace(0.0, 1.0, rows)[:, None]
    return (means[y] + rng.normal(size=(rows, 6))) * 30.0**powers, y


def _synth(name: str, **options: Any) -> Any:
    from river.datasets import synth

    return getattr(synth, name)(**options)


GENERATED: dict[str, Callable[[int, int], Stream]] = {
    "SEA": _drift(lambda concept, seed: _synth("SEA", variant=concept, noise=0.1, seed=seed), (0, 1, 2, 3)),
    "hyperplane": lambda seed, rows: _take(
        _synth("Hyperplane", seed=seed, n_features=10, n_drift_features=5, mag_change=0.001), rows
    ),
    "RBF drift": lambda seed, rows: _take(
        _synth(
            "RandomRBFDrift",
            seed_model=seed,
            seed_sample=seed,
            n_centroids=20,
            change_speed=0.001,
            n_drift_centroids=10,
        ),
        rows,
    ),
    "LED drift": lambda seed, rows: _take(
        _synth("LEDDrift", seed=seed, noise_percentage=0.1, irrelevant_features=True, n_drift_features=4), rows
    ),
    "Agrawal": _drift(lambda concept, seed: _synth("Agrawal", classification_function=concept, seed=seed), (2,)),
    "Agrawal change": _drift(
        lambda concept, seed: _synth("Agrawal", classification_function=concept, seed=seed), (2, 6)
    ),
    "mixed": _drift(lambda concept, seed: _synth("Mixed", classification_function=concept, seed=seed), (0, 1)),
    "STAGGER": _drift(lambda concept, seed: _synth("STAGGER", classification_function=concept, seed=seed), (0, 1, 2)),
    "sine": _drift(lambda concept, seed: _synth("Sine", classification_function=concept, seed=seed), (0, 1)),
    "sine curved": _drift(lambda concept, seed: _synth("Sine", classification_function=concept, seed=seed), (2,)),
    "random tree": lambda seed, rows: _take(_synth("RandomTree", seed_tree=seed, seed_sample=seed), rows),
    "waveform": lambda seed, rows: _take(_synth("Waveform", seed=seed), rows),
    "swap 5000": _swap(5_000),
    "swap 10000": _swap(10_000),
    "swap 20000": _swap(20_000),
    "recurring": _recurring,
    "scale": _scale,
}


if __name__ == "__main__":
    main(sets=sys.argv[1:])
