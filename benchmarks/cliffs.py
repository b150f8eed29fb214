"""Cliffs: what an id, a timestamp, money, mistyped cells and other columns cost the default models.

Each set is harmed in eight ways, as dense and as sparse rows, as it comes and tiled with noise to more than 1,024 and
8,192 columns. A line has the accuracy on the clean set in percent, and for each harm the points that it costs. Noise
columns are compared with the better of scale=True and scale=False; above 8,192 columns Fisher's model has only the
latter. `python -m benchmarks cliffs segment 1100` runs one set at one width. A harm of more than two points has a "!".
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_digits
from sklearn.model_selection import train_test_split

from benchmarks.measure import present
from benchmarks.tables import tables
from kampong import FisherDiscriminant, KernelFisherDiscriminant
from kampong.statistics.scatter import WIDEST

if TYPE_CHECKING:
    from collections.abc import Callable

SETS = (
    "anneal",
    "car",
    "credit_g",
    "hpc",
    "indian_liver_pat",
    "segment",
    "soybean",
    "spambase",
    "ts_ItalyPowerDemand",
    "winequality_white",
)
"""Five from each half of `benchmarks tables`."""

WIDTHS = (0, 1100, 8300)
"""Columns at least; 0 takes a set as it comes."""

MOST_ROWS = 2000
FAR, TOLERATED = 1e9, 2.0
"""What a mistyped cell holds; points that a harm may cost."""


def identifier(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Add numbers of rows in random order."""
    return np.column_stack([X, 1e5 + rng.permutation(len(X))])


def timestamp(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Add seconds since 1970, within a year."""
    return np.column_stack([X, 1.7e9 + rng.uniform(0, 3e7, len(X))])


def money(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Add four amounts with a heavy tail."""
    return np.column_stack([X, rng.lognormal(10, 2, (len(X), 4))])


def mistyped(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Put a billion into three cells."""
    X = X.copy()
    X[rng.choice(len(X), 3, replace=False), rng.choice(X.shape[1], 3, replace=False)] = FAR
    return X


def constant(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Add a large constant and zeros."""
    return np.column_stack([X, np.full(len(X), 7e5), np.zeros(len(X))])


def duplicated(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Add copies of two columns."""
    return np.column_stack([X, X[:, rng.choice(X.shape[1], 2, replace=False)]])


def collinear(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Add the sum of all columns, and a large multiple of a difference of two."""
    first, second = rng.choice(X.shape[1], 2, replace=False)
    return np.column_stack([X, X.sum(axis=1), 1e4 * (X[:, first] - X[:, second])])


def noise(X: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Add a thousand columns that say nothing, of a fifth of the usual deviation."""
    return np.column_stack([X, 0.2 * X.std(axis=0).mean() * rng.normal(size=(len(X), 1000))])


HARMS = (identifier, timestamp, money, mistyped, constant, duplicated, collinear, noise)
MODELS: dict[str, Callable[..., Any]] = {"Fisher": FisherDiscriminant, "kernel": KernelFisherDiscriminant}


def main(shrink: int = 1, sets: tuple[str, ...] = ()) -> None:
    """Print a line for each set, width and form; `sets` may name sets, widths, models and forms."""
    warnings.simplefilter("ignore")
    names, widths = [one for one in SETS if one in sets], [one for one in WIDTHS if str(one) in sets]
    models, forms = ([one for one in known if one in sets] for known in (MODELS, ("dense", "sparse")))
    heads = "".join(f"{harm.__name__:>12}" for harm in HARMS)
    print(f"{'set':<20}{'rows':>6}{'columns':>8}  {'model':<8}{'form':<8}{'clean':>7}{heads}")
    counts = {model: [0, 0] for model in MODELS}
    for name, X, y in some_sets(tuple(names) or SETS, shrink):
        for width in widths or (WIDTHS[: 1 if shrink > 1 else None]):
            wide = tiled(X, width)
            for model in models or MODELS:
                for form in forms or ("dense", "sparse"):
                    clean, costs = line(MODELS[model], wide, y, form)
                    counts[model][0] += sum(cost > TOLERATED for cost in costs)
                    counts[model][1] += len(costs)
                    shown = "".join(f"{cost:>11.1f}{'!' if cost > TOLERATED else ' '}" for cost in costs)
                    sizes = f"{name:<20}{len(y):>6}{wide.shape[1]:>8}"
                    print(f"{sizes}  {model:<8}{form:<8}{100 * clean:>7.1f}{shown}", flush=True)
    for model, (cliffs, tried) in counts.items():
        if tried:
            print(f"{model}: {cliffs} of {tried} harms cost more than {TOLERATED:g} points")


def line(make: Callable[..., Any], X: np.ndarray, y: np.ndarray, form: str) -> tuple[float, list[float]]:
    """Return the accuracy on the clean set, and the points that each harm costs."""
    clean, costs = accuracy(make(), X, y, form), []
    for place, harm in enumerate(HARMS):
        harmed = harm(X, np.random.default_rng(place))
        least = clean
        if harm is noise:
            scales = (False,) if make is FisherDiscriminant and harmed.shape[1] > WIDEST else (True, False)
            least = max(accuracy(make(scale=scale), harmed, y, form) for scale in scales)
        costs.append(100 * (least - accuracy(make(), harmed, y, form)))
    return clean, costs


def accuracy(model: Any, X: np.ndarray, y: np.ndarray, form: str) -> float:
    """Return the accuracy on the half of the rows that was not learnt."""
    train, test = train_test_split(np.arange(len(y)), test_size=0.5, random_state=0, stratify=y)
    rows = X if form == "dense" else sparse.csr_array(X)
    return float(model.fit(rows[train], y[train]).score(rows[test], y[test]))


def tiled(X: np.ndarray, width: int) -> np.ndarray:
    """Return the columns repeated up to a width, each copy with noise of its own."""
    if X.shape[1] >= width:
        return X
    many = np.tile(X, -(-width // X.shape[1]))[:, :width]
    result: np.ndarray = many + X.std(axis=0).mean() * np.random.default_rng(0).normal(size=many.shape)
    return result


def some_sets(names: tuple[str, ...], shrink: int) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """Return sets by name, at most 2,000 rows of each."""
    found = []
    if present("tables", small=shrink > 1):
        found = [(name, X, y) for name, X, y in tables() if name in names]
    else:
        found = [("breast_cancer", *load_breast_cancer(return_X_y=True)), ("digits", *load_digits(return_X_y=True))]
    chosen = []
    for name, X, y in found:
        order = np.random.default_rng(0).permutation(len(y))[: MOST_ROWS // shrink]
        rows, classes = np.asarray(X, dtype=np.float64)[order], y[order]
        kept = np.isin(classes, np.flatnonzero(np.bincount(classes) > 1))  # a class on either side
        chosen.append((name, rows[kept], classes[kept]))
    return chosen


if __name__ == "__main__":
    main()
