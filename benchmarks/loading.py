"""What a loaded model costs before it answers: its first prediction beside its second, and beside a solve."""

from __future__ import annotations

import tempfile
import time
from functools import partial
from pathlib import Path

import kampong
from kampong.datasets import sparse_text


def seconds(work):
    """Return how long some work takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def main(shrink: int = 1) -> None:
    """Print the first and the second prediction of a loaded stream model of 20,000 columns and 50,000 rows."""
    X, y = sparse_text(50_000 // shrink, 20_000, 40, n_classes=10, random_state=0)
    model = kampong.FisherDiscriminant()
    for start in range(0, X.shape[0], 5000):
        model.partial_fit(X[start : start + 5000], y[start : start + 5000])
    solving = seconds(lambda: model.predict(X[:1000]))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model"
        model.save(path)
        kampong.load(path).predict(X[:1000])  # imports and compilation
        ratios = []
        for _ in range(9):
            predict = kampong.load(path).predict
            first, second = seconds(partial(predict, X[:1000])), seconds(partial(predict, X[:1000]))
            ratios.append(first / second)
    ratios.sort()
    print(f"{X.shape[0]:,} rows, {X.shape[1]:,} columns: the first predict of a loaded model takes")
    middle = ratios[len(ratios) // 2]
    print(f"{middle:.2f} × the second (median of {len(ratios)}), {first / solving:.4f} × choosing and solving")


if __name__ == "__main__":
    main()
