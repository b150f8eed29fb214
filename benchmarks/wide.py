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

from benchmarks.measure import data_folder, present, resident
from kampong import FisherDiscriminant, InterClassScatter, MarginSubspace, MaximumMarginCriterion
from kampong.datasets import sparse_text

if TYPE_CHECKING:
    from collections.abc import Callable

BATCH = 10_000


def main(shrink: int = 1) -> None:
    """Print the tables; a large `shrink` takes generated text in place of the real one, and no slow peer."""
    X, y, fine, name = text_rows(shrink)
    order = np.random.default_rng(0).permutation(X.shape[0])
    cut = int(0.8 * len(order))
    train, test = np.sort(order[:cut]), np.sort(order[cut:])
    idf = TfidfTransformer(sublinear_tf=True).fit(X[train])
    rows, held = idf.transform(X[train]), idf.transform(X[test])
    split = rows, y[train], held, y[test]
    print(
        f"{name}: {len(train)} rows to learn, {len(test)} to judge, {X.shape[1]} columns, {len(np.unique(y))} classes"
    )
    print(f"{'micro / macro F1':<44} {'own head':>15} {'logistic head':>15} {'seconds':>8}  what solved it")
    repeats = 3 if shrink == 1 else 1
    for title, make, streaming in [
        ("FisherDiscriminant().fit", lambda: FisherDiscriminant(), False),
        ("MarginSubspace(9, epsilon='auto').fit", lambda: MarginSubspace(_most(y), epsilon="auto"), False),
        ("MaximumMarginCriterion(9).fit", lambda: MaximumMarginCriterion(_most(y)), False),
        ("InterClassScatter().fit", lambda: InterClassScatter(), False),
        ("FisherDiscriminant, one pass", lambda: FisherDiscriminant(), True),
        ("MaximumMarginCriterion(9), one pass", lambda: MaximumMarginCriterion(_most(y)), True),
        ("InterClassScatter, one pass", lambda: InterClassScatter(head="gaussian"), True),
    ]:
        _row(title, make, split, repeats, streaming=streaming, logistic=True)
    _peers(*split, slow=shrink == 1)
    _grid(split)
    if len(np.unique(fine)) > len(np.unique(y)):
        print(f"\n{len(np.unique(fine))} classes")
        split = rows, fine[train], held, fine[test]
        _row("FisherDiscriminant().fit", lambda: FisherDiscriminant(), split, 1, streaming=False, logistic=False)
        _row("FisherDiscriminant, one pass", lambda: FisherDiscriminant(), split, 1, streaming=True, logistic=False)
        _row("InterClassScatter().fit", lambda: InterClassScatter(), split, 1, streaming=False, logistic=False)
        _peers(*split, slow=False)
    _flat(shrink)


def _row(title: str, make: Any, split: Any, repeats: int, *, streaming: bool, logistic: bool) -> None:
    rows, y, held, truth = split
    seconds = []
    for _ in range(repeats):
        time.sleep(0.1)
        start = time.perf_counter()
        model = _learn(make(), rows, y, streaming=streaming)
        seconds.append(time.perf_counter() - start)
    own = _scores(truth, model.predict(held))
    other = _logistic(model, rows, y, held, truth) if logistic else ""
    how = f"{model.solver_}, {model.n_steps_} steps"
    if model.choice_ is not None:
        how += f", chose {model.choice_.value:.3g}"
    print(f"{title:<44} {own:>15} {other:>15} {np.median(seconds):8.2f}  {how}", flush=True)


def _grid(split: Any) -> None:
    """Print what fixed values reach, beside what is chosen."""
    rows, y, held, truth = split
    spread = FisherDiscriminant(ridge=1.0).fit(rows, y)._statistics.within_trace / rows.shape[1]
    print("\nmicro F1 of fixed values, and of the one chosen")
    for name, make, values in [
        ("ridge", lambda v: FisherDiscriminant(ridge=v), [part * spread for part in (1e-4, 1e-2, 1e-1, 1.0, 10.0)]),
        ("epsilon", lambda v: MarginSubspace(_most(y), epsilon=v), [0.0, 0.1, 0.5, 1.0, 2.0, 5.0]),
    ]:
        scores = {v: _micro(truth, _learn(make(v), rows, y, streaming=False).predict(held)) for v in values}
        chosen = _micro(truth, _learn(make("auto"), rows, y, streaming=False).predict(held))
        line = "  ".join(f"{value:.2g}: {score:.4f}" for value, score in scores.items())
        print(f"{name:<8} {line}  auto: {chosen:.4f} ({chosen - max(scores.values()):+.4f} to the best)", flush=True)


def _flat(shrink: int) -> None:
    """Print the memory of a stream that goes on: generated text, its columns rolled from batch to batch."""
    n, d = 100_000 // shrink, 300_000 if shrink == 1 else 10_000
    X, y = sparse_text(n, d, n_classes=4, random_state=0)
    rng, model, seen = np.random.default_rng(0), FisherDiscriminant(), 0
    print(f"\nresident memory of FisherDiscriminant.partial_fit, {d} columns")
    for goal in (10, 20, 50, 100):
        while seen < goal * n:
            X.indices = ((X.indices + rng.integers(1, d)) % d).astype(X.indices.dtype)
            X.has_sorted_indices = False
            X.sort_indices()
            model.partial_fit(X, y)
            seen += n
        print(
            f"  after {seen:>9} rows: {resident():8.1f} MiB, {model._statistics.n_kept} rows in the sample", flush=True
        )


def text_rows(shrink: int) -> tuple[Any, np.ndarray, np.ndarray, str]:
    folder = data_folder()
    if present("arxiv_bow.npz", "arxiv_labels.npz", small=shrink > 1):
        X = sparse.load_npz(folder / "arxiv_bow.npz").tocsr().astype(np.float64)
        with np.load(folder / "arxiv_labels.npz", allow_pickle=False) as labels:
            return X, labels["y_group"], labels["y"], "the arXiv text"
    X, y = sparse_text(400_000 // shrink, 41_000 if shrink == 1 else 9_000, 55, n_classes=10, random_state=0)
    return X, y, y, "generated text"


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


def _micro(truth: np.ndarray, predicted: np.ndarray) -> float:
    return float(np.mean(truth == predicted))


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
