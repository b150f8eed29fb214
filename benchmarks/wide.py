"""Text at its full width: what a few directions keep of 41,006 columns, in what time, beside models on all columns."""

from __future__ import annotations

import time
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from sklearn.decomposition import TruncatedSVD
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.metrics import f1_score
from sklearn.svm import LinearSVC

from benchmarks.measure import data_folder
from kampong import FisherDiscriminant, InterClassScatter, MaximumMarginCriterion
from kampong.datasets import sparse_text

if TYPE_CHECKING:
    from collections.abc import Callable

BATCH = 10_000


def main(shrink: int = 1) -> None:
    """Print the table; a large `shrink` takes generated text in place of the real one, and no slow peer."""
    X, y, name = _text(shrink)
    order = np.random.default_rng(0).permutation(X.shape[0])
    cut = int(0.8 * len(order))
    train, test = np.sort(order[:cut]), np.sort(order[cut:])
    idf = TfidfTransformer().fit(X[train])
    rows, held = idf.transform(X[train]), idf.transform(X[test])
    print(
        f"{name}: {len(train)} rows to learn, {len(test)} to judge, {X.shape[1]} columns, {len(np.unique(y))} classes"
    )
    print(f"{'micro / macro F1':<44} {'own head':>15} {'logistic head':>15} {'seconds':>8}  what solved it")
    repeats = 3 if shrink == 1 else 1
    for title, make, streaming in [
        ("FisherDiscriminant().fit", lambda: FisherDiscriminant(), False),
        ("MaximumMarginCriterion(9).fit", lambda: MaximumMarginCriterion(_most(y)), False),
        ("InterClassScatter().fit", lambda: InterClassScatter(), False),
        ("FisherDiscriminant, one pass", lambda: FisherDiscriminant(), True),
        ("MaximumMarginCriterion(9), one pass", lambda: MaximumMarginCriterion(_most(y)), True),
        ("InterClassScatter, one pass", lambda: InterClassScatter(head="gaussian"), True),
    ]:
        seconds = []
        for _ in range(repeats):
            time.sleep(0.1)
            start = time.perf_counter()
            model = _learn(make(), rows, y[train], streaming=streaming)
            seconds.append(time.perf_counter() - start)
        own, logistic = _scores(y[test], model.predict(held)), _logistic(model, rows, y[train], held, y[test])
        how = f"{model.solver_}, {model.n_steps_} steps, sampling error {model.sampling_error_:.3f}"
        print(f"{title:<44} {own:>15} {logistic:>15} {np.median(seconds):8.2f}  {how}")
    _peers(rows, y[train], held, y[test], slow=shrink == 1)


def _text(shrink: int) -> tuple[Any, np.ndarray, str]:
    folder = data_folder()
    if shrink == 1 and (folder / "arxiv_bow.npz").exists():
        X = sparse.load_npz(folder / "arxiv_bow.npz").tocsr().astype(np.float64)
        with np.load(folder / "arxiv_labels.npz", allow_pickle=False) as labels:
            return X, labels["y_group"], "the arXiv text"
    return *sparse_text(400_000 // shrink, 41_000, 55, n_classes=10, random_state=0), "generated text"


def _most(y: np.ndarray) -> int:
    return min(9, len(np.unique(y)) - 1)


def _learn(model: Any, rows: Any, y: np.ndarray, *, streaming: bool) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if not streaming:
            return model.fit(rows, y)
        for start in range(0, rows.shape[0], BATCH):
            model.partial_fit(rows[start : start + BATCH], y[start : start + BATCH])
        model.transform(rows[:1])
        return model


def _scores(truth: np.ndarray, predicted: np.ndarray) -> str:
    return " / ".join(f"{f1_score(truth, predicted, average=kind):.3f}" for kind in ("micro", "macro"))


def _logistic(model: Any, rows: Any, y: np.ndarray, held: Any, truth: np.ndarray) -> str:
    points = model.transform(rows)
    scale = points.std(axis=0)
    head = LogisticRegression(max_iter=1000).fit(points / scale, y)
    return _scores(truth, head.predict(model.transform(held) / scale))


def _peers(rows: Any, y: np.ndarray, held: Any, truth: np.ndarray, *, slow: bool) -> None:
    def reduced() -> np.ndarray:
        svd = TruncatedSVD(9, random_state=0).fit(rows)
        return LinearDiscriminantAnalysis().fit(svd.transform(rows), y).predict(svd.transform(held))

    peers: dict[str, Callable[[], np.ndarray]] = {
        "TruncatedSVD(9), LDA head": reduced,
        "SGDClassifier on all columns": lambda: SGDClassifier(random_state=0).fit(rows, y).predict(held),
    }
    if slow:
        peers["LinearSVC on all columns"] = lambda: LinearSVC().fit(rows, y).predict(held)
    for title, run in peers.items():
        start = time.perf_counter()
        predicted = run()
        print(f"{title:<44} {_scores(truth, predicted):>15} {'':>15} {time.perf_counter() - start:8.2f}")
