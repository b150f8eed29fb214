"""Labelled reduction for a vector index: recall at 10 of rows reduced to 16, 64 and 128 columns.

Rows are reduced by what was learnt from labelled rows, and each test row looks for its 10 nearest labelled rows by
cosine. Printed is the share of the 10 that are of its class, and the share of test rows that find at least one, both in
percent. `InterClassScatter` completes its directions past the classes less one by the leading ones of all rows in the
remaining space; `MarginSubspace` and `FisherDiscriminant` have at most one direction less than there are classes here.
Compared are PCA (on sparse rows without centring), the first columns (truncation), and all columns. MNIST: 10,000 rows;
arXiv: word counts as tf-idf of unit length, the last 8,000 papers by their primary category, every fourth a test row.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.preprocessing import normalize

from benchmarks.measure import data_folder, present
from kampong import FisherDiscriminant, InterClassScatter, MarginSubspace

if TYPE_CHECKING:
    from collections.abc import Iterator

WIDTHS, NEAREST, ROWS, TEXTS, TESTS = (16, 64, 128), 10, 10_000, 8000, 3000
METHODS = ("InterClassScatter", "MarginSubspace", "FisherDiscriminant", "PCA", "first columns", "all columns")


def main(shrink: int = 1) -> None:
    """Print a table for each set; where the real data are not at hand, digits."""
    warnings.simplefilter("ignore")
    for name, X, y, T, t in problems(shrink):
        print(f"\n{name}: {X.shape[0]} rows to find, {X.shape[1]} columns, {len(np.unique(y))} classes")
        print(f"{'of its class / found any, %':<30}" + "".join(f"{width:>16}" for width in WIDTHS))
        for method in (
            "InterClassScatter",
            "MarginSubspace",
            "FisherDiscriminant",
            "PCA",
            "first columns",
            "all columns",
        ):
            cells, (rows, tests) = [], reduced(method, X, y, T, min(max(WIDTHS), X.shape[1]))
            for width in WIDTHS if method != "all columns" else [X.shape[1]]:
                share, any_one = recalls(rows[:, :width], tests[:, :width], y, t)
                cells.append(f"{f'{100 * share:.1f} / {100 * any_one:.1f}':>16}")
            print(f"{method:<30}{''.join(cells)}", flush=True)


def problems(shrink: int) -> Iterator[tuple[str, Any, np.ndarray, Any, np.ndarray]]:
    """Yield rows to find and rows that look for them."""
    names = ("banking77_minilm.npz", "mnist.npz", "arxiv_bow.npz")
    if not present(*names, small=shrink > 1):
        X, y = load_digits(return_X_y=True)
        yield "digits", X[::2], y[::2], X[1::2], y[1::2]
        return
    for name in names[:2]:
        with np.load(data_folder() / name, allow_pickle=False) as arrays:
            X, T = (arrays[key].astype(np.float64) for key in ("X", "X_test"))
            yield name, X[:ROWS], arrays["y"][:ROWS], T[:TESTS], arrays["y_test"][:TESTS]
    words = sparse.load_npz(data_folder() / names[2])[-TEXTS:]
    with np.load(data_folder() / "arxiv_labels.npz", allow_pickle=False) as arrays:
        y = arrays["y"][-TEXTS:]
    test = np.arange(TEXTS) % 4 == 0
    words = words.astype(np.float64)
    weigh = TfidfTransformer(sublinear_tf=True).fit(words[~test])
    yield names[2], weigh.transform(words[~test]), y[~test], weigh.transform(words[test])[:TESTS], y[test][:TESTS]


def reduced(method: str, X: Any, y: np.ndarray, T: Any, width: int) -> tuple[Any, Any]:
    """Return both sets of rows in this many columns, the first of which serve a smaller width."""
    if method in ("all columns", "first columns"):
        return X, T
    if method == "PCA":
        wide = sparse.issparse(X)
        model: Any = (TruncatedSVD if wide else PCA)(width, random_state=0)
    elif method == "InterClassScatter":
        model = InterClassScatter(width)
    else:
        kind: Any = FisherDiscriminant if method == "FisherDiscriminant" else MarginSubspace
        model = kind(min(width, len(np.unique(y)) - 1), head="gaussian")
    model.fit(X, y)
    return model.transform(X), model.transform(T)


def recalls(X: Any, T: Any, y: np.ndarray, t: np.ndarray) -> tuple[float, float]:
    """Return the share of the nearest rows that are of the class, and that of rows which find at least one."""
    rows, tests = normalize(X), normalize(T)
    right = []
    for start in range(0, len(t), 500):
        products = tests[start : start + 500] @ rows.T
        products = products.toarray() if sparse.issparse(products) else np.asarray(products)
        nearest = np.argpartition(-products, NEAREST, axis=1)[:, :NEAREST]
        right.append(y[nearest] == t[start : start + 500, None])
    found = np.concatenate(right)
    return float(found.mean()), float(found.any(axis=1).mean())


if __name__ == "__main__":
    main()
