"""What a stranger gets: `FisherDiscriminant()` with nothing set, beside what people use today with nothing set.

Accuracy, or micro and macro F1 for text, expected calibration error and log-loss on the test rows, of a fit and of one
pass in batches of 1,000 rows; and the time of a fit as a multiple of scikit-learn's LDA (dense) or LinearSVC (text),
and of a fit with that ridge and a Gaussian head given: medians of interleaved repeats in one run (large sets: one run).
`python -m benchmarks defaults` runs all sets in about eight minutes on two cores, `python -m benchmarks defaults letter
arxiv127` some of them. For arXiv's 127 classes LinearSVC takes a quarter of an hour, so it runs there only with
`--patient`. "margin" is `MarginSubspace(epsilon="auto")`. A peer that refuses a set has "nan".
"""

from __future__ import annotations

import gzip
import sys
import time
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from sklearn.datasets import load_digits, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis, QuadraticDiscriminantAnalysis
from sklearn.feature_extraction.text import TfidfTransformer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression, RidgeClassifierCV, SGDClassifier
from sklearn.metrics import f1_score
from sklearn.svm import LinearSVC

from benchmarks.measure import data_folder, medians, present
from kampong import FisherDiscriminant, KernelFisherDiscriminant, MarginSubspace
from kampong.datasets import sparse_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

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
TEXT = ("reuters65", "r52", "arxiv10", "arxiv127")
MOST_ROWS = 20_000
BATCH, LARGE = 1000, 10**6
"""Rows of a batch of the stream; entries of text past which a fit is timed once."""

PEERS: dict[str, Callable[[], Any]] = {
    "LDA": LinearDiscriminantAnalysis,
    "LDA lsqr": lambda: LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto"),
    "QDA": QuadraticDiscriminantAnalysis,
    "RidgeCV": RidgeClassifierCV,
    "SGD": lambda: SGDClassifier(random_state=0),
    "LR": lambda: LogisticRegression(max_iter=300),
    "SVC": lambda: LinearSVC(max_iter=300),
}


def main(shrink: int = 1, sets: tuple[str, ...] = (*DENSE, *TEXT)) -> None:
    """Print both tables; where the real data are not at hand, or with a large `shrink`, small stand-ins."""
    patient, begun = "--patient" in sets, time.perf_counter()
    sets = tuple(name for name in sets if name != "--patient") or (*DENSE, *TEXT)
    unknown = sorted(set(sets) - set(DENSE) - set(TEXT))
    if unknown:
        sys.exit(f"no set named {', '.join(unknown)}; there are: {', '.join((*DENSE, *TEXT))}")
    warnings.simplefilter("ignore")
    standing_in = not present(*files_of(sets), small=shrink > 1)
    if standing_in or set(sets) & set(DENSE):
        heading = [
            "ours",
            "stream",
            "margin",
            "kernel",
            *PEERS,
            "ECE",
            "loss",
            "LR loss",
            "s. ECE",
            "s. loss",
            "/LDA",
            "/given",
        ]
        print(f"{'dense: accuracy %':<18}" + "".join(f"{one:>9}" for one in heading) + "  head, of the stream")
        for name, split in _dense(sets, standing_in):
            _dense_line(name, split)
    if standing_in or set(sets) & set(TEXT):
        heading = ["ours", "stream", "LinearSVC", "SGD"]
        print(f"\n{'text: micro/macro':<18}" + "".join(f"{one:>15}" for one in heading), end="")
        print(f"{'ECE':>7}{'s. ECE':>8}{'/SVC':>7}{'/SGD':>7}  head, of the stream")
        for name, split in _texts(sets, standing_in):
            _text_line(name, split, patient or name != "arxiv127")
    print(f"\nall in {time.perf_counter() - begun:.0f} s")


def _dense_line(name: str, split: Split) -> None:
    X, y, T, t = split
    ours, streamed = FisherDiscriminant().fit(X, y), _streamed(X, y)
    fitted = {peer: _fitted(make(), X, y) for peer, make in PEERS.items()}
    given = {"ridge": ours.ridge_, "head": "gaussian"}
    repeats = 5 if X.size < 2 * 10**6 else 3 if X.size < 10**7 else 1
    seconds = medians(
        {
            "ours": lambda: FisherDiscriminant().fit(X, y),
            "lda": lambda: LinearDiscriminantAnalysis().fit(X, y),
            "given": lambda: FisherDiscriminant(**given).fit(X, y),
        },
        repeats,
    )
    others = MarginSubspace(epsilon="auto").fit(X, y), KernelFisherDiscriminant().fit(X, y)
    models = (ours, streamed, *others, *fitted.values())
    accuracies = [np.nan if model is None else 100 * model.score(T, t) for model in models]
    losses = (*_calibration(ours, T, t), _calibration(fitted["LR"], T, t)[1], *_calibration(streamed, T, t))
    line = "".join(f"{one:9.2f}" for one in accuracies) + "".join(f"{one:9.3f}" for one in losses)
    line += "".join(f"{seconds['ours'] / seconds[other]:9.2f}" for other in ("lda", "given"))
    print(f"{name:<18}{line}  {ours.head_}, {streamed.head_}", flush=True)


def _fitted(model: Any, X: Any, y: np.ndarray) -> Any:
    """Return a fitted peer, None where it refuses the rows."""
    try:
        return model.fit(X, y)
    except (ValueError, np.linalg.LinAlgError):
        return None


def _streamed(X: Any, y: np.ndarray) -> FisherDiscriminant:
    """Return a model of one pass over the rows, shuffled, in batches."""
    model, order = FisherDiscriminant(), np.random.default_rng(0).permutation(len(y))
    for start in range(0, len(y), BATCH):
        model.partial_fit(X[order[start : start + BATCH]], y[order[start : start + BATCH]])
    return model


def _text_line(name: str, split: Split, with_svc: bool) -> None:
    X, y, T, t = split
    makers: dict[str, Callable[[], Any]] = {"ours": FisherDiscriminant, "SVC": LinearSVC, "SGD": _descent}
    if not with_svc:
        del makers["SVC"]
    few = np.arange(0, X.shape[0], max(1, X.shape[0] // 2000))
    FisherDiscriminant().fit(X[few], y[few])  # compiles
    fitted, seconds = {}, {}
    for one, make in makers.items():
        fitted[one], seconds[one] = _timed(make(), X, y)
    streamed = _streamed(X, y)
    if X.nnz <= LARGE:
        seconds = medians({one: lambda make=make: make().fit(X, y) for one, make in makers.items()}, 5)
    line = ""
    for model in (fitted["ours"], streamed, fitted.get("SVC"), fitted["SGD"]):
        if model is None:
            line += f"{'-':>15}"
            continue
        found = model.predict(T)
        micro, macro = (f1_score(t, found, average=average) for average in ("micro", "macro"))
        line += f"{f'{micro:.4f}/{macro:.4f}':>15}"
    errors = [_calibration(model, T, t)[0] for model in (fitted["ours"], streamed)]
    line += f"{errors[0]:7.3f}{errors[1]:8.3f}"
    line += "".join(f"{seconds['ours'] / seconds.get(other, np.nan):7.2f}" for other in ("SVC", "SGD"))
    print(f"{name:<18}{line}  {fitted['ours'].head_}, {streamed.head_}; ours {seconds['ours']:.2f} s", flush=True)


def _descent() -> SGDClassifier:
    return SGDClassifier(random_state=0, n_jobs=2)


def _timed(model: Any, X: Any, y: np.ndarray) -> tuple[Any, float]:
    start = time.perf_counter()
    return model.fit(X, y), time.perf_counter() - start


def _calibration(model: Any, T: Any, t: np.ndarray) -> tuple[float, float]:
    """Return the expected calibration error in 15 bins, and the log-loss."""
    chances = model.predict_proba(T)
    sure, right = chances.max(axis=1), model.classes_[chances.argmax(axis=1)] == t
    bins = np.minimum((15 * sure).astype(int), 14)
    gaps = [abs(right[bins == k].mean() - sure[bins == k].mean()) * (bins == k).mean() for k in set(bins.tolist())]
    places = np.minimum(np.searchsorted(model.classes_, t), len(model.classes_) - 1)
    own = np.where(model.classes_[places] == t, chances[np.arange(len(t)), places], 0.0)  # a class may be new
    return float(sum(gaps)), float(-np.log(np.maximum(own, 1e-12)).mean())


def files_of(sets: tuple[str, ...]) -> list[str]:
    """Return the files of the data folder that sets need."""
    text = {"reuters65": "reuters21578_65_X.npz", "r52": "reuters_r52.tsv.gz"}
    return sorted({text.get(name, "arxiv_bow.npz") if name in TEXT else f"{name}.npz" for name in sets})


def _dense(sets: tuple[str, ...], standing_in: bool) -> Iterator[tuple[str, Split]]:
    if standing_in:
        for load in (load_wine, load_digits):
            yield load.__name__.removeprefix("load_"), _cut(*load(return_X_y=True))
        return
    for name in DENSE:
        if name not in sets:
            continue
        with np.load(data_folder() / f"{name}.npz", allow_pickle=False) as arrays:
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


def _texts(sets: tuple[str, ...], standing_in: bool) -> Iterator[tuple[str, Split]]:
    if standing_in:
        yield "generated", _cut(*sparse_text(2000, 9000, 30, n_classes=5, random_state=0))
        return
    folder = data_folder()
    if "reuters65" in sets:
        X = sparse.load_npz(folder / "reuters21578_65_X.npz").tocsr().astype(np.float64)
        with np.load(folder / "reuters21578_65_labels.npz", allow_pickle=False) as known:
            yield "reuters65", _weighed(X, known["y"], known["train_idx"], known["test_idx"])
    if "r52" in sets:
        with gzip.open(folder / "reuters_r52.tsv.gz", "rt") as file:
            header, *lines = (line.rstrip("\n").split("\t") for line in file)
        table = {name: np.array(column) for name, column in zip(header, zip(*lines, strict=True), strict=True)}
        words, part = table.pop("text"), table.pop("split")
        (labels,) = (column for name, column in table.items() if len(set(column.tolist())) == 52)
        train = part == "train"
        vectors = TfidfVectorizer(sublinear_tf=True).fit(words[train])
        yield "r52", (vectors.transform(words[train]), labels[train], vectors.transform(words[~train]), labels[~train])
    columns = {"arxiv10": "y_group", "arxiv127": "y"}
    if set(columns) & set(sets):
        X = sparse.load_npz(folder / "arxiv_bow.npz").tocsr().astype(np.float64)
        order = np.random.default_rng(0).permutation(X.shape[0])
        train, test = np.sort(order[: int(0.8 * len(order))]), np.sort(order[int(0.8 * len(order)) :])
        rows, _, new, _ = _weighed(X, order, train, test)
        del X
        with np.load(folder / "arxiv_labels.npz", allow_pickle=False) as known:
            labels = {name: known[column] for name, column in columns.items()}
        for name in columns:
            if name in sets:
                yield name, (rows, labels[name][train], new, labels[name][test])


def _weighed(X: Any, y: np.ndarray, train: np.ndarray, test: np.ndarray) -> Split:
    idf = TfidfTransformer(sublinear_tf=True).fit(X[train])
    return idf.transform(X[train]), y[train], idf.transform(X[test]), y[test]


if __name__ == "__main__":
    main()
