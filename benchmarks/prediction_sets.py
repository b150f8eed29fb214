"""Prediction sets that should hold the true class of 90 % of the rows: how often they do, and how large they are.

Tables: half of the rows are learnt, the sets of the other half are counted; means over several halves. `predict_set` of
a default fit, all classes together and per class, compared with split conformal sets of logistic regression on scaled
columns, which learn from three quarters of the same rows and set their threshold by the last quarter. These are taken
by the definition, and of the same fitted model by MAPIE (`SplitConformalClassifier`) and crepes (`WrapClassifier`), if
they are installed. river has no prediction sets for classes: `river.conf` is for regression. Streams:
half_life="auto", each row predicted with the labels of all rows before it, and then learnt. The threshold of the last
1,000 rows is compared with one that stays as it was after the first thousand. Coverage is a share of rows, size a
number of classes.
"""

from __future__ import annotations

import warnings
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedShuffleSplit, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.measure import data_folder, present
from benchmarks.tables import tables
from kampong import FisherDiscriminant
from kampong.online.follower import Follower
from kampong.online.settings import Settings
from kampong.selection.losses import HeldOutLosses

if TYPE_CHECKING:
    from collections.abc import Iterator

ALPHA = 0.1
MOST_ROWS, MOST_COLUMNS, LARGE, REPEATS = 20_000, 300, 3000, (10, 5)
SURE = 2000
"""Rows of a table from which on sampling alone should leave the coverage within 0.01 of what was asked for, mostly."""

NAMES = ("predict_set", "per class", "split, logistic", "MAPIE", "crepes")
STREAM_ROWS = 20_000
STREAMS = ("electricity", "covertype", "powersupply", "usenet1")


def main(shrink: int = 1) -> None:
    """Print a line for each table and stream, and the means over tables."""
    warnings.simplefilter("ignore")
    versions = [f"{name} {one}" for name in ("mapie", "crepes", "river") if (one := installed(name))]
    print(f"peers: {', '.join(versions) or 'none installed'}")
    print(f"{'coverage / size':<22}{'rows':>7}" + "".join(f"{name:>18}" for name in NAMES))
    every, sizes = [], []
    for name, X, y in tables(shrink):
        if sparse.issparse(X) or X.shape[0] > MOST_ROWS or X.shape[1] > MOST_COLUMNS:
            continue
        found = on_table(X, y, 2 if shrink > 1 else REPEATS[X.shape[0] > LARGE])
        every.append(found)
        sizes.append(len(y))
        print(f"{name:<22}{X.shape[0]:>7}" + "".join(map(pair, found)), flush=True)
    mean, off = np.mean(every, axis=0), np.abs(np.array(every)[:, :, 0] - (1.0 - ALPHA))
    print(f"{f'mean of {len(every)} tables':<29}" + "".join(map(pair, mean)))
    print(f"{'median distance to 0.9':<29}" + "".join(f"{one:>11.3f}{'':>7}" for one in np.median(off, axis=0)))
    large = np.array(sizes) >= SURE
    if large.any():
        title = f"within 0.01, of {large.sum()} with {SURE:,} rows"
        print(f"{title:<37}" + "".join(f"{one:>3}{'':>15}" for one in (off[large] <= 0.01).sum(axis=0)))
    print(f"\n{'coverage in a stream':<22}{'rows':>7}{'predict_set':>14}{'fixed':>9}  and of the worst thousand rows")
    for name, X, y in streams(shrink):
        found = on_stream(X, y)
        follows, fixed = ((np.mean(one), worst_part(one)) for one in found)
        print(
            f"{name:<22}{len(y):>7}{follows[0]:>14.3f}{fixed[0]:>9.3f}{follows[1]:>14.3f}{fixed[1]:>9.3f}", flush=True
        )


def on_table(X: np.ndarray, y: np.ndarray, repeats: int) -> np.ndarray:
    """Return coverage and size of each method, means over halves of the rows."""
    found = []
    for train, test in StratifiedShuffleSplit(repeats, test_size=0.5, random_state=0).split(X, y):
        model = FisherDiscriminant().fit(X[train], y[train])
        sets = [model.predict_set(X[test], ALPHA, per_class=one) for one in (False, True)]
        split = split_sets(X[train], y[train], X[test], model.classes_)
        found.append([measured(one, y[test], model.classes_) for one in (*sets, *split)])
    return np.mean(found, axis=0)


def split_sets(X: np.ndarray, y: np.ndarray, T: np.ndarray, classes: np.ndarray) -> list[np.ndarray | None]:
    """Return the sets of one logistic regression: by the definition, by MAPIE and by crepes, None without the package.

    A class of which no row is in the three quarters is in no set.
    """
    X_train, X_held, y_train, y_held = train_test_split(X, y, test_size=0.25, random_state=0)
    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(X_train, y_train)
    places = np.searchsorted(classes, model.classes_)
    chances = np.zeros((len(X_held) + len(T), len(classes)))
    chances[:, places] = model.predict_proba(np.concatenate([X_held, T]))
    held, new = chances[: len(X_held)], chances[len(X_held) :]
    losses = np.sort(1.0 - held[np.arange(len(held)), np.searchsorted(classes, y_held)])
    place = int(np.ceil((1.0 - ALPHA) * (len(losses) + 1)))
    bound = losses[place - 1] if place <= len(losses) else 1.0
    found: list[np.ndarray | None] = [1.0 - new <= bound]
    known = np.isin(y_held, model.classes_)
    for answer in (mapie_sets, crepes_sets):
        theirs = answer(model, X_held[known], y_held[known], T)
        sets = None if theirs is None else np.zeros(new.shape, dtype=bool)
        if sets is not None:
            sets[:, places] = theirs
        found.append(sets)
    return found


def mapie_sets(model: Any, X: np.ndarray, y: np.ndarray, T: np.ndarray) -> np.ndarray | None:
    """Return the sets of MAPIE for a fitted model and held-out rows, None without the package."""
    try:
        from mapie.classification import SplitConformalClassifier
    except ImportError:
        return None
    wrapped = SplitConformalClassifier(model, confidence_level=1.0 - ALPHA, prefit=True).conformalize(X, y)
    return np.asarray(wrapped.predict_set(T)[1][:, :, 0], dtype=bool)


def crepes_sets(model: Any, X: np.ndarray, y: np.ndarray, T: np.ndarray) -> np.ndarray | None:
    """Return the sets of crepes for a fitted model and held-out rows, None without the package."""
    try:
        from crepes import WrapClassifier
    except ImportError:
        return None
    wrapped = WrapClassifier(model)
    wrapped.calibrate(X, y, seed=0)
    return np.asarray(wrapped.predict_set(T, labels=False, confidence=1.0 - ALPHA, smoothing=False), dtype=bool)


def installed(name: str) -> str:
    """Return the version of a package, "" without it."""
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def pair(found: np.ndarray) -> str:
    """Return a coverage and a size as text."""
    return f"{'not installed':>18}" if np.isnan(found[0]) else f"{found[0]:>11.3f}{found[1]:>7.2f}"


def measured(sets: np.ndarray | None, y: np.ndarray, classes: np.ndarray) -> tuple[float, float]:
    """Return coverage and mean size, NaN without sets; a class that was not learnt is in no set."""
    if sets is None:
        return np.nan, np.nan
    places = np.minimum(np.searchsorted(classes, y), len(classes) - 1)
    hits = sets[np.arange(len(y)), places] & (classes[places] == y)
    return float(hits.mean()), float(sets.sum(axis=1).mean())


def on_stream(X: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return whether the set of each later row holds its class, with the threshold in use and with a fixed one."""
    codes = np.unique(y, return_inverse=True)[1]
    follower = Follower(Settings.effort, 0, X.shape[1])
    losses = np.zeros(0)
    for start in range(0, len(y), 500):
        rows = codes[start : start + 500]
        follower.learn(X[start : start + 500], rows, np.ones(len(rows)), int(codes.max()) + 1)
        losses = np.append(losses, follower.recent_losses[-len(rows) :])
    recent = Settings().recent
    first = min(recent, len(y) // 2)
    bounds = [threshold(losses[max(0, place - recent) : place]) for place in range(first, len(y))]
    return losses[first:] <= bounds, losses[first:] <= bounds[0]


def threshold(losses: np.ndarray) -> float:
    """Return the threshold that `predict_set` uses."""
    n = len(losses)
    return HeldOutLosses(losses, np.zeros(n, dtype=int), np.ones(n), np.zeros(n, dtype=int)).threshold(ALPHA)


def worst_part(hits: np.ndarray) -> float:
    """Return the least coverage of a thousand rows in a row."""
    return float(min(part.mean() for part in np.array_split(hits, max(1, len(hits) // 1000))))


def streams(shrink: int) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Yield streams that drift; where the real data are not at hand, classes that move."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 6000 // shrink + 600)
    X = rng.standard_normal((len(y), 4))
    angle = np.linspace(0.0, 6.0, len(y)) + 2.0 * np.pi / 3.0 * y
    X[:, 0] += 1.5 * np.cos(angle)
    X[:, 1] += 1.5 * np.sin(angle)
    yield "classes that move", X, y
    if not present(*(f"{name}.npz" for name in STREAMS), small=shrink > 1):
        return
    for name in STREAMS:
        with np.load(data_folder() / f"{name}.npz", allow_pickle=False) as arrays:
            yield name, arrays["X"][:STREAM_ROWS].astype(np.float64), arrays["y"][:STREAM_ROWS]


if __name__ == "__main__":
    main()
