"""Rows of classes that were left out of training: how well they are told from rows of known classes.

Printed are the area under the curve, and the share of rows of new classes that is found if one known row in a hundred
is rejected: for `score_known` and `score_samples`, compared with the largest probability, the Mahalanobis distance from
the nearest class, the distance from the fifth nearest row, and an isolation forest (the last two on rows as they come).
The last columns are what `predict_known(X, rate=0.01)` rejects of known rows and of new ones.

Banking77 (77 intents as sentence embeddings): 20 classes, drawn at random several times, are left out. Tables
(those of `data/tables` with three classes or more): half of the rows are learnt, and each of at most six classes is
left out in turn. The rule of `score_known` was fitted on the sets at even places of the alphabetical order, and on
Banking77; those at odd places are for reporting.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.datasets import load_digits, load_wine
from sklearn.ensemble import IsolationForest
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import NearestNeighbors

from benchmarks.measure import data_folder, present
from kampong import FisherDiscriminant, KernelFisherDiscriminant

if TYPE_CHECKING:
    from collections.abc import Iterator

LEFT_OUT, DRAWS, RATE, NEIGHBOURS = 20, 5, 0.01, 5
ROWS, COLUMNS, FEWEST, TURNS = 4000, 700, 10, 6
METHODS = ("score_known", "score_samples", "Mahalanobis", "max probability", "fifth nearest", "isolation forest")


def main(shrink: int = 1) -> None:
    """Print a line for each estimator and for each table; where the real data are not at hand, digits and wine."""
    warnings.simplefilter("ignore")
    path = data_folder() / "banking77_minilm.npz"
    if not present(path.name, small=shrink > 1):
        X, y = load_digits(return_X_y=True)
        X, y, T, t, left_out, draws = X[::2], y[::2], X[1::2], y[1::2], 3, 2
    else:
        with np.load(path, allow_pickle=False) as arrays:
            X, y = arrays["X"].astype(np.float64), arrays["y"]
            T, t = arrays["X_test"].astype(np.float64), arrays["y_test"]
        left_out, draws = LEFT_OUT, DRAWS
    print(f"{left_out} classes left out, mean of {draws} draws")
    heading()
    for model in (FisherDiscriminant(), KernelFisherDiscriminant()):
        found = []
        for seed in range(draws):
            out = np.random.default_rng(seed).choice(np.unique(y), left_out, replace=False)
            known = ~np.isin(y, out)
            found.append(measured(model.fit(X[known], y[known]), X[known], T, np.isin(t, out)))
        line(type(model).__name__, np.nanmean(found, axis=0))
    print("\neach class of a table left out in turn")
    heading()
    halves: list[list[np.ndarray]] = [[], []]
    for place, name, X, y in tables(shrink):
        half, found = np.arange(len(y)) % 2 == 0, []
        for out in np.unique(y)[:TURNS]:
            known = half & (y != out)
            model = FisherDiscriminant().fit(X[known], y[known])
            found.append(measured(model, X[known], X[~half], y[~half] == out))
        halves[place % 2].append(np.nanmean(found, axis=0))
        line(name, halves[place % 2][-1])
    for place, title in enumerate(("mean, fitted half", "mean, reported half")):
        if halves[place]:
            line(title, np.nanmean(halves[place], axis=0))


def tables(shrink: int) -> Iterator[tuple[int, str, np.ndarray, np.ndarray]]:
    """Yield the place of a table among all, its name, rows in random order and classes of ten rows or more."""
    paths = sorted((data_folder() / "tables").glob("*.npz")) if present("tables", small=shrink > 1) else []
    if not paths:
        X, y = load_wine(return_X_y=True)
        yield 1, "wine", X, y
    for place, path in enumerate(paths):
        with np.load(path, allow_pickle=False) as arrays:
            if "X" not in arrays or arrays["X"].ndim != 2 or arrays["X"].shape[1] > COLUMNS:
                continue
            X, y = arrays["X"].astype(np.float64), np.unique(arrays["y"], return_inverse=True)[1]
        large = np.flatnonzero(np.bincount(y) >= FEWEST)
        if len(large) < 3 or not np.isfinite(X).all():
            continue
        rows = np.flatnonzero(np.isin(y, large))
        rows = rows[np.random.default_rng(0).permutation(len(rows))[:ROWS]]
        yield place, path.stem, X[rows], y[rows]


def measured(model: Any, X: np.ndarray, T: np.ndarray, new: np.ndarray) -> np.ndarray:
    """Return area and share found of each method, and the shares of known and of new rows that are rejected."""
    points, centres = model.transform(T), model.freeze().centres
    distances = NearestNeighbors(n_neighbors=NEIGHBOURS).fit(X).kneighbors(T)[0][:, -1]
    linear = isinstance(model, FisherDiscriminant)
    scores = [
        model.score_known(T) if linear else np.full(len(T), np.nan),
        model.score_samples(T),
        -((points[:, None, :] - centres) ** 2).sum(axis=2).min(axis=1),
        model.predict_proba(T).max(axis=1),
        -distances,
        IsolationForest(random_state=0).fit(X).score_samples(T),
    ]
    found = [(np.nan, np.nan) if np.isnan(one).any() else _told(one, new) for one in scores]
    try:
        rejected = model.predict_known(T, RATE, unknown=-1) == -1 if linear else np.full(len(T), np.nan)
    except ValueError:  # too few rows to tell a hundredth
        rejected = np.full(len(T), np.nan)
    return np.array([*(one for pair in found for one in pair), rejected[~new].mean(), rejected[new].mean()])


def _told(scores: np.ndarray, new: np.ndarray) -> tuple[float, float]:
    share = (scores[new] < np.quantile(scores[~new], RATE)).mean()
    return float(roc_auc_score(~new, scores)), float(share)


def heading() -> None:
    """Print the names of the columns."""
    names = "".join(f"{name:>17}" for name in METHODS)
    print(f"{'area / found %':<26}{names}   rejected %: known, new")


def line(name: str, values: np.ndarray) -> None:
    """Print what was measured of one set."""
    pairs = "".join(f"{_pair(*one):>17}" for one in values[:-2].reshape(-1, 2))
    print(f"{name:<26}{pairs}   {_percent(values[-2])}, {_percent(values[-1])}", flush=True)


def _pair(area: float, share: float) -> str:
    return "–" if np.isnan(area) else f"{area:.3f} / {100 * share:4.1f}"


def _percent(share: float) -> str:
    return "–" if np.isnan(share) else f"{100 * share:.1f}"


if __name__ == "__main__":
    main()
