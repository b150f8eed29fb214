"""The linear engine: one pass over the data is the limit; scikit-learn and river are the peers."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from sklearn.decomposition import IncrementalPCA, TruncatedSVD
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.feature_extraction.text import TfidfTransformer

from benchmarks.measure import data_folder, exponent, medians, peak_memory, present, race
from kampong import FisherDiscriminant, InterClassScatter, MaximumMarginCriterion
from kampong.datasets import sparse_text


def main(shrink: int = 1) -> None:
    """Print every table; `shrink` divides the number of rows, to see that the script runs."""
    sparse_rows(shrink)
    wide_rows(shrink)
    dense_rows(shrink)
    growth(shrink)
    flat_memory(shrink)
    single_rows(shrink)


def sparse_rows(shrink: int = 1) -> None:
    folder = data_folder()
    if present("arxiv_bow.npz", "arxiv_labels.npz", small=shrink > 1):
        X = sparse.load_npz(folder / "arxiv_bow.npz").tocsr().astype(np.float64)
        with np.load(folder / "arxiv_labels.npz", allow_pickle=False) as labels:
            y = labels["y_group"]
        X, name = TfidfTransformer().fit_transform(X), "the arXiv text, tf-idf"
    else:
        X, y = sparse_text(400_000 // shrink, 41_000, 55, n_classes=10, random_state=0)
        name = "generated text"
    race(
        f"sparse: {name}, {X.shape[0]} × {X.shape[1]}, {X.nnz} non-zeros, {len(np.unique(y))} classes",
        {
            "InterClassScatter().fit": lambda: InterClassScatter().fit(X, y),
            "  with head='nearest_mean'": lambda: InterClassScatter(head="nearest_mean").fit(X, y),
            "one touch of the non-zeros": lambda: X.data.sum() + X.indices.sum(),
            "TruncatedSVD(9).fit": lambda: TruncatedSVD(9, random_state=0).fit(X),
        },
        ours="InterClassScatter().fit",
        goals={"one touch of the non-zeros": "ours / its ≤ 3", "TruncatedSVD(9).fit": "its / ours ≥ 20"},
        repeats=9,
    )


def wide_rows(shrink: int = 1) -> None:
    X, y = sparse_text(800_000 // shrink, 300_000, 76, n_classes=4, random_state=0)
    race(
        f"wide: generated text, {X.shape[0]} × {X.shape[1]}, {X.nnz} non-zeros, 4 classes; goal: peak ≤ 1024 MiB",
        {
            "InterClassScatter().fit": lambda: InterClassScatter().fit(X, y),
            "one touch of the non-zeros": lambda: X.data.sum() + X.indices.sum(),
        },
        ours="InterClassScatter().fit",
        goals={},
        repeats=3,
    )


def dense_rows(shrink: int = 1) -> None:
    rng = np.random.default_rng(0)
    n = 200_000 // shrink
    y = rng.integers(0, 10, n)
    X = rng.standard_normal((n, 256)) + rng.standard_normal((10, 256))[y]
    _dense(f"dense: Gaussian classes, {n} × 256, 10 classes", X, y)
    path = data_folder() / "mnist.npz"
    if present(path.name, small=shrink > 1):
        with np.load(path, allow_pickle=False) as arrays:
            _dense("dense: MNIST, 60000 × 784, 10 classes", arrays["X"].astype(np.float64), arrays["y"])


def _dense(title: str, X: np.ndarray, y: np.ndarray) -> None:
    race(
        title,
        {
            "MaximumMarginCriterion().fit": lambda: MaximumMarginCriterion().fit(X, y),
            "FisherDiscriminant().fit": lambda: FisherDiscriminant().fit(X, y),
            "X.T @ X": lambda: X.T @ X,
            "IncrementalPCA(9).fit": lambda: IncrementalPCA(9).fit(X),
            "LDA(solver='svd').fit": lambda: LinearDiscriminantAnalysis(solver="svd").fit(X, y),
            "LDA(solver='eigen', shrinkage=1e-3).fit": lambda: LinearDiscriminantAnalysis(
                solver="eigen", shrinkage=1e-3
            ).fit(X, y),
        },
        ours="MaximumMarginCriterion().fit",
        goals={
            "X.T @ X": "ours / its ≤ 1.5",
            "IncrementalPCA(9).fit": "its / ours ≥ 5",
            "LDA(solver='svd').fit": "its / ours ≥ 3",
        },
        repeats=3,
    )


def growth(shrink: int = 1) -> None:
    print("\ngrowth: exponent of seconds on log–log (MaximumMarginCriterion dense, InterClassScatter sparse)")
    rng = np.random.default_rng(0)

    def dense(n: int, d: int, classes: int) -> float:
        n //= shrink
        y = rng.integers(0, classes, n)
        X = rng.standard_normal((n, d)) + 3.0 * rng.standard_normal((classes, d))[y]
        return medians({"": lambda: MaximumMarginCriterion().fit(X, y)}, 5)[""]

    def text(n: int, d: int, classes: int) -> float:
        X, y = sparse_text(n // shrink, d, 76, n_classes=classes, random_state=0)
        return medians({"": lambda: InterClassScatter().fit(X, y)}, 5)[""]

    for name, measure, sizes in [
        ("dense, n", lambda n: dense(n, 128, 10), [50_000, 100_000, 200_000, 400_000]),
        ("dense, d", lambda d: dense(100_000, d, 10), [32, 64, 128, 256, 512]),
        ("dense, K", lambda k: dense(100_000, 128, k), [4, 16, 64]),
        ("sparse, n", lambda n: text(n, 50_000, 4), [50_000, 100_000, 200_000, 400_000]),
        ("sparse, d", lambda d: text(100_000, d, 4), [25_000, 100_000, 400_000]),
        ("sparse, K", lambda k: text(100_000, 50_000, k), [4, 16, 64]),
    ]:
        seconds = [measure(size) for size in sizes]
        values = ", ".join(f"{size}: {value:.3f} s" for size, value in zip(sizes, seconds, strict=True))
        print(f"  {name:<10} exponent {exponent(sizes, seconds):5.2f}   ({values})")


def flat_memory(shrink: int = 1) -> None:
    print("\nmemory of partial_fit against n (d = 256, batches of 1000): must be flat")
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((1000, 256)), rng.integers(0, 10, 1000)
    MaximumMarginCriterion().partial_fit(X, y)
    for n in (10_000, 100_000, 1_000_000):

        def stream(batches: int = n // 1000 // shrink) -> MaximumMarginCriterion:
            model = MaximumMarginCriterion()
            for _ in range(batches):
                model.partial_fit(X, y)
            return model

        print(f"  {n // shrink:>9} rows: peak {peak_memory(stream):6.1f} MiB above the data")


def single_rows(shrink: int = 1) -> None:
    from river.preprocessing import StandardScaler

    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((2000 // shrink, 64)), rng.integers(0, 5, 2000 // shrink)
    rows = [(X[i : i + 1], y[i : i + 1]) for i in range(len(X))]
    dicts = [dict(enumerate(row.tolist())) for row in X]

    def learn(model: InterClassScatter | MaximumMarginCriterion) -> None:
        for row, label in rows:
            model.partial_fit(row, label)

    def river() -> None:
        scaler = StandardScaler()
        for row in dicts:
            scaler.learn_one(row)

    print("\nsmall batches: one row a call, d = 64, dense")
    contenders = {
        "MaximumMarginCriterion.partial_fit (with a 64 × 64 scatter)": lambda: learn(MaximumMarginCriterion()),
        "InterClassScatter.partial_fit": lambda: learn(InterClassScatter()),
        "river StandardScaler.learn_one": river,
    }
    seconds = medians(contenders, 7)
    for name, value in seconds.items():
        ratio = seconds["river StandardScaler.learn_one"] / value
        print(f"  {name:<60} {len(X) / value:10.0f} rows/s   {ratio:5.2f} × river")
