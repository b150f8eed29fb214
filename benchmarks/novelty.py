"""Rows of classes that were left out of training: how well `score_samples` tells them from the others.

Banking77 (77 intents as sentence embeddings): 20 classes, drawn at random several times, are left out, and test rows of
theirs are to score lower than those of the others. Printed is the mean area under the curve, beside the largest
probability and the plain Mahalanobis distance to the nearest class.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score

from benchmarks.measure import data_folder, present
from kampong import FisherDiscriminant, KernelFisherDiscriminant

LEFT_OUT, DRAWS = 20, 5


def main(shrink: int = 1) -> None:
    """Print a line for each estimator; where the real data are not at hand, digits with three classes left out."""
    warnings.simplefilter("ignore")
    path = data_folder() / "banking77_minilm.npz"
    if not present(path.name, instead="digits", small=shrink > 1):
        X, y = load_digits(return_X_y=True)
        X, y, T, t, left_out, draws = X[::2], y[::2], X[1::2], y[1::2], 3, 2
    else:
        with np.load(path, allow_pickle=False) as arrays:
            X, y = arrays["X"].astype(np.float64), arrays["y"]
            T, t = arrays["X_test"].astype(np.float64), arrays["y_test"]
        left_out, draws = LEFT_OUT, DRAWS
    print(f"area under the curve, {left_out} classes left out, mean and deviation of {draws} draws")
    print(f"{'':<28}{'score_samples':>18}{'Mahalanobis':>18}{'max probability':>18}")
    for model in (FisherDiscriminant(), KernelFisherDiscriminant()):
        areas = []
        for seed in range(draws):
            out = np.random.default_rng(seed).choice(np.unique(y), left_out, replace=False)
            known, new = ~np.isin(y, out), np.isin(t, out)
            areas.append([roc_auc_score(~new, scores) for scores in _scores(model.fit(X[known], y[known]), T)])
        mean, spread = np.mean(areas, axis=0), np.std(areas, axis=0)
        line = "".join(f"{f'{one:.3f} ± {other:.3f}':>18}" for one, other in zip(mean, spread, strict=True))
        print(f"{type(model).__name__:<28}{line}", flush=True)


def _scores(model: Any, T: Any) -> list[np.ndarray]:
    points, centres = model.transform(T), model.freeze().centres
    nearest = ((points[:, None, :] - centres) ** 2).sum(axis=2).min(axis=1)
    return [model.score_samples(T), -nearest, model.predict_proba(T).max(axis=1)]


if __name__ == "__main__":
    main()
