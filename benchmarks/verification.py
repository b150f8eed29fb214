"""Whether two rows are of one class, for classes that were never learnt: the equal error rate of `same_class`.

Some classes are left out of training, and all pairs of test rows of theirs are scored. Printed is the rate at which as
many pairs of one class are missed as pairs of two classes are taken for one, in percent, mean of several draws of
the classes: `same_class`, plain and calibrated, compared with the cosine and the Euclidean distance of raw rows, of raw
rows about the mean, and of rows reduced by Fisher's directions. The last columns are the log-loss of `same_class` in
bits, both kinds of pairs weighing the same: to say nothing costs 1.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import numpy as np
from scipy import special
from sklearn.datasets import load_digits
from sklearn.metrics import roc_curve
from sklearn.metrics.pairwise import cosine_similarity, euclidean_distances

from benchmarks.measure import data_folder, present
from kampong import FisherDiscriminant

if TYPE_CHECKING:
    from collections.abc import Iterator

SETS = {"banking77_minilm": 20, "mnist": 4, "isolet": 8}
ROWS, PAIRED, DRAWS = 10_000, 1000, 5


def main(shrink: int = 1) -> None:
    """Print a line for each set; where the real data are not at hand, digits with three classes left out."""
    warnings.simplefilter("ignore")
    for name, X, y, T, t, left_out in problems(shrink):
        draws = DRAWS if shrink == 1 else 2
        found = [measured(X, y, T, t, left_out, seed) for seed in range(draws)]
        print(f"\n{name}: {left_out} classes left out, {draws} draws")
        for method in found[0]:
            rate = np.mean([one[method][0] for one in found])
            bits = np.mean([one[method][1] for one in found])
            loss = "" if np.isnan(bits) else f"   log-loss {bits:.2f} bits"
            print(f"  {method:<26}{100 * rate:6.1f} %{loss}", flush=True)


def problems(shrink: int) -> Iterator[tuple[str, np.ndarray, np.ndarray, np.ndarray, np.ndarray, int]]:
    """Yield training and test rows of each set, and how many classes are left out."""
    if not present(*(f"{name}.npz" for name in SETS), small=shrink > 1):
        X, y = load_digits(return_X_y=True)
        yield "digits", X[::2], y[::2], X[1::2], y[1::2], 3
        return
    for name, left_out in SETS.items():
        with np.load(data_folder() / f"{name}.npz", allow_pickle=False) as arrays:
            X, T = (arrays[key].astype(np.float64) for key in ("X", "X_test"))
            yield name, X[:ROWS], arrays["y"][:ROWS], T, arrays["y_test"], left_out


def measured(
    X: np.ndarray, y: np.ndarray, T: np.ndarray, t: np.ndarray, left_out: int, seed: int
) -> dict[str, tuple[float, float]]:
    """Return equal error rate and log-loss of each method for one draw of the classes."""
    rng = np.random.default_rng(seed)
    out = rng.choice(np.unique(y), left_out, replace=False)
    known, new = ~np.isin(y, out), np.flatnonzero(np.isin(t, out))
    rows = rng.permutation(new)[:PAIRED]
    model = FisherDiscriminant().fit(X[known], y[known])
    Q, reduced = T[rows], model.transform(T[rows])
    scores = {
        "same_class": model.same_class(Q, Q, all_pairs=True),
        "same_class, plain": model.same_class(Q, Q, all_pairs=True, calibrate=False),
        "cosine, raw": cosine_similarity(Q),
        "cosine, about the mean": cosine_similarity(Q - model.mean_),
        "Euclid, raw": -euclidean_distances(Q),
        "cosine, reduced": cosine_similarity(reduced),
        "Euclid, reduced": -euclidean_distances(reduced),
    }
    pairs = np.triu_indices(len(rows), 1)
    same = t[rows][pairs[0]] == t[rows][pairs[1]]
    return {
        name: (equal_error_rate(one[pairs], same), bits(one[pairs], same) if name.startswith("same") else np.nan)
        for name, one in scores.items()
    }


def equal_error_rate(scores: np.ndarray, same: np.ndarray) -> float:
    """Return the rate of both kinds of error where they are equal."""
    false, true, _ = roc_curve(same, scores)
    place = int(np.argmin(np.abs(false - (1.0 - true))))
    return float(false[place] + 1.0 - true[place]) / 2.0


def bits(scores: np.ndarray, same: np.ndarray) -> float:
    """Return the log-loss of log-likelihood ratios, both kinds of pairs weighing the same."""
    return float(-special.log_expit(scores[same]).mean() - special.log_expit(-scores[~same]).mean()) / np.log(4.0)


if __name__ == "__main__":
    main()
