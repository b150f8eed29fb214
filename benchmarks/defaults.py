"""What a stranger gets: `FisherDiscriminant()` with nothing set, beside what people use today with nothing set.

Accuracy, or micro and macro F1 for text, expected calibration error and log-loss on the test rows; and the time of a
fit as a multiple of scikit-learn's LDA (dense) or LinearSVC (text), medians of interleaved repeats in one run.
"""

from __future__ import annotations

import gzip
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from sklearn.datasets import load_digits, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.feature_extraction.text import TfidfTransformer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.metrics import f1_score
from sklearn.svm import LinearSVC

from benchmarks.measure import data_folder, medians
from kampong import FisherDiscriminant
from kampong.datasets import sparse_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    Split = tuple[Any, np.ndarray, Any, np.ndarray]

DENSE = (
    "letter",
    "pendigits",
    "optdigits",
    "satimage",
    "waveform21",
    "covertype",
    "usps",
    "isolet",
    "banking77_minilm",
    "mnist",
)
MOST_ROWS = 20_000
BATCH = 1000


def main(shrink: int = 1) -> None:
    """Print both tables; where the real data are not at hand, or with a large `shrink`, small stand-ins."""
    warnings.simplefilter("ignore")
    heading = ["dense", "ours", "stream", "LDA", "LR", "SVC", "ECE", "loss", "LR loss", "time"]
    print(f"{heading[0]:<18}" + "".join(f"{one:>9}" for one in heading[1:]) + "  head")
    for name, split in _dense(shrink):
        _dense_line(name, split)
    print(f"\n{'text: micro/macro':<18}{'ours':>14}{'LinearSVC':>14}{'SGD':>14}  {'ECE':>6}  time  head")
    for name, split in _texts(shrink):
        _text_line(name, split)


def _dense_line(name: str, split: Split) -> None:
    X, y, T, t = split
    ours, streamed = FisherDiscriminant().fit(X, y), FisherDiscriminant()
    order = np.random.default_rng(0).permutation(len(y))
    for start in range(0, len(y), BATCH):
        streamed.partial_fit(X[order[start : start + BATCH]], y[order[start : start + BATCH]])
    peers = [LinearDiscriminantAnalysis(), LogisticRegression(max_iter=300), LinearSVC(max_iter=300)]
    fitted = [peer.fit(X, y) for peer in peers]
    repeats = 5 if X.shape[0] * X.shape[1] < 10**7 else 1
    seconds = medians(
        {"ours": lambda: FisherDiscriminant().fit(X, y), "lda": lambda: LinearDiscriminantAnalysis().fit(X, y)}, repeats
    )
    error, loss = _calibration(ours, T, t)
    accuracies = [100 * model.score(T, t) for model in (ours, streamed, *fitted)]
    others = (error, loss, _calibration(fitted[1], T, t)[1])
    line = "".join(f"{one:9.2f}" for one in accuracies) + "".join(f"{one:9.3f}" for one in others)
    print(f"{name:<18}{line}{seconds['ours'] / seconds['lda']:9.2f}  {ours.head_}", flush=True)


def _text_line(name: str, split: Split) -> None:
    X, y, T, t = split
    models = [FisherDiscriminant().fit(X, y), LinearSVC().fit(X, y), SGDClassifier(random_state=0).fit(X, y)]
    repeats = 3 if X.nnz < 10**6 else 1
    seconds = medians({"ours": lambda: FisherDiscriminant().fit(X, y), "svc": lambda: LinearSVC().fit(X, y)}, repeats)
    scores = [model.predict(T) for model in models]
    figures = [f"{f1_score(t, p, average='micro'):.4f}/{f1_score(t, p, average='macro'):.4f}" for p in scores]
    print(
        f"{name:<18}" + "".join(f"{one:>14}" for one in figures) + f"  {_calibration(models[0], T, t)[0]:6.3f}  "
        f"{seconds['ours'] / seconds['svc']:.2f}  {models[0].head_}",
        flush=True,
    )


def _calibration(model: Any, T: Any, t: np.ndarray) -> tuple[float, float]:
    """Return the expected calibration error in 15 bins, and the log-loss."""
    chances = model.predict_proba(T)
    sure, right = chances.max(axis=1), model.classes_[chances.argmax(axis=1)] == t
    bins = np.minimum((15 * sure).astype(int), 14)
    gaps = [abs(right[bins == k].mean() - sure[bins == k].mean()) * (bins == k).mean() for k in set(bins.tolist())]
    places = np.minimum(np.searchsorted(model.classes_, t), len(model.classes_) - 1)
    own = np.where(model.classes_[places] == t, chances[np.arange(len(t)), places], 0.0)  # a class may be new
    return float(sum(gaps)), float(-np.log(np.maximum(own, 1e-12)).mean())


def _dense(shrink: int) -> Iterator[tuple[str, Split]]:
    folder = data_folder()
    if shrink > 1 or not folder.exists():
        for load in (load_wine, load_digits):
            yield load.__name__.removeprefix("load_"), _cut(*load(return_X_y=True))
        return
    for name in DENSE:
        with np.load(folder / f"{name}.npz", allow_pickle=False) as arrays:
            scale = float(arrays["scale"]) if "scale" in arrays else 1.0
            X, y = arrays["X"].astype(np.float64) * scale, arrays["y"]
            if "X_test" not in arrays:
                yield name, (X[:16000], y[:16000], X[16000:], y[16000:]) if name == "letter" else _cut(X, y)
                continue
            T, t = arrays["X_test"].astype(np.float64) * scale, arrays["y_test"]
        chosen = np.random.default_rng(0).permutation(len(y))[:MOST_ROWS]
        yield name, (X[chosen], y[chosen], T, t)


def _cut(X: Any, y: np.ndarray) -> Split:
    order = np.random.default_rng(0).permutation(len(y))[: 2 * MOST_ROWS]
    cut = len(order) // 2 if len(order) == 2 * MOST_ROWS else int(0.8 * len(order))
    return X[order[:cut]], y[order[:cut]], X[order[cut:]], y[order[cut:]]


def _texts(shrink: int) -> Iterator[tuple[str, Split]]:
    folder = data_folder()
    if shrink > 1 or not folder.exists():
        yield "generated", _cut(*sparse_text(2000, 9000, 30, n_classes=5, random_state=0))
        return
    X = sparse.load_npz(folder / "reuters21578_65_X.npz").tocsr().astype(np.float64)
    with np.load(folder / "reuters21578_65_labels.npz", allow_pickle=False) as known:
        y, train, test = known["y"], known["train_idx"], known["test_idx"]
    idf = TfidfTransformer(sublinear_tf=True).fit(X[train])
    yield "Reuters, 65", (idf.transform(X[train]), y[train], idf.transform(X[test]), y[test])
    with gzip.open(folder / "reuters_r52.tsv.gz", "rt") as file:
        header, *lines = (line.rstrip("\n").split("\t") for line in file)
    table = {name: np.array(column) for name, column in zip(header, zip(*lines, strict=True), strict=True)}
    words, part = table.pop("text"), table.pop("split")
    (labels,) = (column for name, column in table.items() if len(set(column.tolist())) == 52)
    train = part == "train"
    vectors = TfidfVectorizer(sublinear_tf=True).fit(words[train])
    yield "R52", (vectors.transform(words[train]), labels[train], vectors.transform(words[~train]), labels[~train])
    X = sparse.load_npz(folder / "arxiv_bow.npz").tocsr().astype(np.float64)
    with np.load(folder / "arxiv_labels.npz", allow_pickle=False) as known:
        y = known["y_group"]
    order = np.random.default_rng(0).permutation(X.shape[0])
    train, test = np.sort(order[: int(0.8 * len(order))]), np.sort(order[int(0.8 * len(order)) :])
    idf = TfidfTransformer(sublinear_tf=True).fit(X[train])
    yield "arXiv, 10", (idf.transform(X[train]), y[train], idf.transform(X[test]), y[test])


if __name__ == "__main__":
    main()
