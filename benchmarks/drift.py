"""Drifting streams: accuracy on each batch before it is learnt, with nothing forgotten and with half-lives.

`python -m benchmarks.drift FILE.png` draws the accuracy over time as well.
"""

from __future__ import annotations

import sys
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from sklearn.preprocessing import normalize

from benchmarks.measure import data_folder, present
from kampong import FisherDiscriminant
from kampong.datasets import sparse_text

if TYPE_CHECKING:
    from pathlib import Path

HALF_LIVES = (None, 10_000, 1_000, 100)
DENSE = ("electricity", "usenet1", "usenet2", "powersupply", "covertype")

Curves = dict[str, dict[int | None, tuple[np.ndarray, np.ndarray]]]


def main(shrink: int = 1, picture: str | None = None) -> None:
    """Print the table; a large `shrink` takes a generated stream."""
    print("accuracy on each batch before it is learnt, FisherDiscriminant(ridge='rule')")
    titles = " ".join(f"{'keep all' if h is None else f'h = {h}':>9}" for h in HALF_LIVES)
    print(f"{'stream':<12} {'rows':>7} {'columns':>8} {'classes':>8} {'majority':>9} {titles}")
    curves: Curves = {}
    for name, X, y, batch in _streams(shrink):
        curves[name] = {h: _prequential(X, y, batch, h) for h in HALF_LIVES}
        scores = " ".join(f"{hits.sum() / sizes.sum():>9.4f}" for hits, sizes in curves[name].values())
        share = np.unique(y, return_counts=True)[1].max() / len(y)
        print(f"{name:<12} {X.shape[0]:>7} {X.shape[1]:>8} {len(np.unique(y)):>8} {share:>9.4f} {scores}", flush=True)
    if picture:
        _draw(curves, picture)


def _prequential(X: Any, y: np.ndarray, batch: int, half_life: int | None) -> tuple[np.ndarray, np.ndarray]:
    model = FisherDiscriminant(ridge="rule", half_life=half_life)
    hits, sizes = [], []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for start in range(0, X.shape[0], batch):
            rows, truth = X[start : start + batch], y[start : start + batch]
            if start and np.count_nonzero(model.class_counts_) > 1:
                hits.append(int((model.predict(rows) == truth).sum()))
                sizes.append(len(truth))
            model.partial_fit(rows, truth)
    return np.array(hits), np.array(sizes)


def _streams(shrink: int) -> Any:
    folder = data_folder()
    needed = (*(f"{name}.npz" for name in DENSE), "spam_stream_X.npz", "arxiv_bow.npz")
    if not present(*needed, small=shrink > 1):
        yield "generated", *sparse_text(200_000 // shrink, 500, n_classes=4, random_state=0), 200
        return
    for name in DENSE:
        with np.load(folder / f"{name}.npz", allow_pickle=False) as arrays:
            X, y = arrays["X"].astype(np.float64), arrays["y"]
        yield name, X, y, 20 if len(X) < 5000 else 1000 if len(X) > 100_000 else 100
    with np.load(folder / "spam_stream_labels.npz", allow_pickle=False) as labels:
        yield "spam", _text(folder / "spam_stream_X.npz"), labels["y"], 200
    with np.load(folder / "arxiv_labels.npz", allow_pickle=False) as labels:
        yield "arXiv, 10", _text(folder / "arxiv_bow.npz"), labels["y_group"], 20_000


def _text(path: Path) -> Any:
    """Return logarithms of word counts, each row of length one: nothing in them is learnt from later rows."""
    X = sparse.load_npz(path).tocsr().astype(np.float64)
    X.data = 1.0 + np.log(X.data)
    return normalize(X)


def _draw(curves: Curves, picture: str) -> None:
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(-(-len(curves) // 2), 2, figsize=(11, 2.6 * -(-len(curves) // 2)), squeeze=False)
    for axis in axes.ravel()[len(curves) :]:
        axis.axis("off")
    for axis, (name, lines) in zip(axes.ravel(), curves.items(), strict=False):
        for half_life, (hits, sizes) in lines.items():
            groups = np.array_split(np.arange(len(hits)), min(40, len(hits)))
            accuracy = [hits[group].sum() / sizes[group].sum() for group in groups]
            middle = np.cumsum(sizes)[[group[len(group) // 2] for group in groups]]
            axis.plot(middle, accuracy, label="keep all" if half_life is None else f"half-life {half_life}", lw=1.4)
        axis.set_title(name, loc="left")
        axis.set_xlabel("rows seen")
        axis.set_ylabel("accuracy")
        axis.spines[["top", "right"]].set_visible(False)
    axes[0, 0].legend(frameon=False, fontsize=8)
    figure.tight_layout()
    figure.savefig(picture, dpi=110)


if __name__ == "__main__":
    main(picture=sys.argv[1] if len(sys.argv) > 1 else None)
