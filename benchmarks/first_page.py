"""The picture and the table of README: classes that arrive late, and one pass over ten sets, compared with peers.

The table is printed as README shows it; `python -m benchmarks first_page --out docs/benchmarks/results` keeps it, and
`python docs/draw.py` draws the picture from `late_classes`. Peers are set up with care: `SGDClassifier` and
`LogisticRegression` get a `StandardScaler`, `GaussianNB` the smoothing that suits pixels that are constant in a class.
kampong gets the raw columns and nothing is set: it keeps sums and, to choose its parameters, a sample of the rows of at
most 64 MB, which holds all of digits. "Sums only" is `FisherDiscriminant(ridge="rule")`, which keeps no rows.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.defaults import BATCH, DENSE, _dense
from kampong import FisherDiscriminant

if TYPE_CHECKING:
    from collections.abc import Callable

    Split = tuple[Any, np.ndarray, Any, np.ndarray]

STEPS = 5
"""Batches of the picture, each with two digits that no earlier batch had."""

NAMES = {"waveform21": "waveform", "banking77_minilm": "Banking77, embedded", "mnist": "MNIST, 20,000 rows"}
NAMES["covertype"] = "covertype, 20,000 rows"


class InBatches:
    """A peer with `partial_fit`: it is told all classes at the start; its scaler, if any, learns the same batches."""

    def __init__(self, model: Any, classes: np.ndarray, scaler: StandardScaler | None = None) -> None:
        self.model, self.classes, self.scaler = model, classes, scaler

    def partial_fit(self, X: np.ndarray, y: np.ndarray) -> None:
        """Learn a batch."""
        rows = X if self.scaler is None else self.scaler.partial_fit(X).transform(X)
        self.model.partial_fit(rows, y, classes=self.classes)

    def score(self, X: np.ndarray, y: np.ndarray) -> float:
        """Return the accuracy."""
        return float(self.model.score(X if self.scaler is None else self.scaler.transform(X), y))


class Refitted:
    """A peer without `partial_fit`: every row is kept, and each batch fits it again on all of them."""

    def __init__(self, model: Any) -> None:
        self.model, self.rows, self.labels = model, [], []

    def partial_fit(self, X: np.ndarray, y: np.ndarray) -> None:
        """Keep a batch and fit all."""
        self.rows.append(X)
        self.labels.append(y)
        self.model.fit(np.vstack(self.rows), np.concatenate(self.labels))

    def score(self, X: np.ndarray, y: np.ndarray) -> float:
        """Return the accuracy."""
        return float(self.model.score(X, y))


def descent(classes: np.ndarray) -> InBatches:
    """Return `SGDClassifier` behind a scaler."""
    return InBatches(SGDClassifier(random_state=0), classes, StandardScaler())


def logistic() -> Any:
    """Return `LogisticRegression` behind a scaler."""
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=300))


LEARNERS: dict[str, Callable[[], Any]] = {
    "kampong": FisherDiscriminant,
    "logistic, refitted": lambda: Refitted(logistic()),
    "kampong, sums only": lambda: FisherDiscriminant(ridge="rule"),
    "LDA, refitted": lambda: Refitted(LinearDiscriminantAnalysis()),
    "GaussianNB": lambda: InBatches(GaussianNB(var_smoothing=1e-2), np.arange(10)),
    "SGDClassifier": lambda: descent(np.arange(10)),
}


def late_classes(draws: int = 10) -> dict[str, np.ndarray]:
    """Return accuracies, draws × steps, on test rows of the digits so far; each draw has its split and class order."""
    X, y = load_digits(return_X_y=True)
    found: dict[str, list[list[float]]] = {name: [] for name in LEARNERS}
    for seed in range(draws):
        rows, T, labels, t = train_test_split(X, y, test_size=0.3, stratify=y, random_state=seed)
        order = np.random.default_rng(seed).permutation(10).reshape(STEPS, -1)
        for name, make in LEARNERS.items():
            model, curve = make(), []
            for step in range(STEPS):
                new, known = np.isin(labels, order[step]), np.isin(t, order[: step + 1])
                model.partial_fit(rows[new], labels[new])
                curve.append(model.score(T[known], t[known]))
            found[name].append(curve)
    return {name: np.array(curves) for name, curves in found.items()}


def one_pass(split: Split) -> tuple[float, ...]:
    """Return accuracies in %: kampong and scaled SGD in one pass, LDA and scaled logistic regression on all rows."""
    X, y, T, t = split
    order = np.random.default_rng(0).permutation(len(y))
    streamed = FisherDiscriminant(), descent(np.unique(y))
    for model in streamed:
        for start in range(0, len(y), BATCH):
            model.partial_fit(X[order[start : start + BATCH]], y[order[start : start + BATCH]])
    kept = LinearDiscriminantAnalysis(), logistic()
    return tuple(100 * float(model.score(T, t)) for model in (*streamed, *(model.fit(X, y) for model in kept)))


def main(shrink: int = 1) -> None:
    """Print both; with a large `shrink`, one draw of the picture and small sets in place of the ten."""
    warnings.simplefilter("ignore")
    draws = max(1, 10 // shrink)
    print(f"digits, two new classes per batch: accuracy on the classes so far, mean of {draws} draws (least, most)")
    print(f"  {'classes so far':<28}" + "".join(f"{2 * step + 2:>23}" for step in range(STEPS)))
    for name, curves in late_classes(draws).items():
        means, least, most = curves.mean(axis=0), curves.min(axis=0), curves.max(axis=0)
        parts = (f"{one:.3f} ({low:.3f}, {high:.3f})" for one, low, high in zip(means, least, most, strict=True))
        print(f"  {name:<28}" + "".join(f"{part:>23}" for part in parts))
    print("\n| accuracy % | kampong, one pass | SGD, one pass | LDA, all rows | logistic, all rows |")
    print("|---|---|---|---|---|")
    for name, split in _dense(DENSE, shrink > 1):
        print(f"| {NAMES.get(name, name)} | " + " | ".join(f"{one:.1f}" for one in one_pass(split)) + " |", flush=True)


if __name__ == "__main__":
    main()
