"""Rows one by one in river: accuracy before learning beside river's own models, and the microseconds of a row."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import numpy as np
from river import datasets, evaluate, linear_model, metrics, multiclass, naive_bayes, preprocessing, tree

from benchmarks.measure import data_folder, present
from kampong import FisherDiscriminant
from kampong.adapters.river import StreamingSubspace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


def scaled(model: Any) -> Any:
    return preprocessing.StandardScaler() | model


def contenders() -> dict[str, Callable[[], Any]]:
    rule = FisherDiscriminant(ridge="rule")
    return {
        "StreamingSubspace()": lambda: scaled(StreamingSubspace()),
        "StreamingSubspace(FisherDiscriminant())": lambda: scaled(StreamingSubspace(FisherDiscriminant())),
        "the first without half-lives": lambda: scaled(StreamingSubspace(rule)),
        "river LogisticRegression": lambda: scaled(multiclass.OneVsRestClassifier(linear_model.LogisticRegression())),
        "river GaussianNB": naive_bayes.GaussianNB,
        "river HoeffdingTreeClassifier": tree.HoeffdingTreeClassifier,
    }


def streams(shrink: int) -> dict[str, Callable[[], Iterable[Any]]]:
    found: dict[str, Callable[[], Iterable[Any]]] = {
        "Phishing": lambda: datasets.Phishing().take(1250 // shrink),
        "ImageSegments": lambda: datasets.ImageSegments().take(2310 // shrink),
    }
    path = data_folder() / "electricity.npz"
    if present(path.name, small=shrink > 1):
        with np.load(path, allow_pickle=False) as arrays:
            X, y = arrays["X"].astype(float), arrays["y"].tolist()
        rows = [(dict(enumerate(row)), label) for row, label in zip(X.tolist(), y, strict=True)]
        found["electricity"] = lambda: rows[: len(rows) // shrink]
    return found


def accuracies(shrink: int) -> None:
    print("\nprogressive_val_score, accuracy before learning each row (seconds of the whole stream)")
    for name, rows in streams(shrink).items():
        print(f"  {name}")
        for title, make in contenders().items():
            start = time.perf_counter()
            accuracy = evaluate.progressive_val_score(rows(), make(), metrics.Accuracy()).get()
            print(f"    {title:<45} {accuracy:.4f}  ({time.perf_counter() - start:.1f} s)")


def one_row(shrink: int) -> None:
    """Print the median microseconds of a row, contenders interleaved in blocks of rows."""
    rng = np.random.default_rng(0)
    n, d = 6000 // shrink, 64
    X, y = rng.normal(size=(n, d)), rng.integers(0, 5, n)
    rows = [({f"f{j}": v for j, v in enumerate(row)}, int(k)) for row, k in zip(X.tolist(), y, strict=True)]
    models = {
        "StreamingSubspace": StreamingSubspace(),
        "river LogisticRegression": multiclass.OneVsRestClassifier(linear_model.LogisticRegression()),
        "river GaussianNB": naive_bayes.GaussianNB(),
    }
    spent: dict[str, list[list[float]]] = {name: [[], []] for name in models}
    block = max(n // 12, 1)
    for start in range(0, n, block):
        for name, model in models.items():
            for place, act in enumerate((model.learn_one, lambda x, _y, model=model: model.predict_proba_one(x))):
                begin = time.perf_counter()
                for x, label in rows[start : start + block]:
                    act(x, label)
                spent[name][place].append((time.perf_counter() - begin) / len(rows[start : start + block]))
    print(f"\none row of {d} features, 5 classes, microseconds: learn_one, predict_proba_one (solving included)")
    ours = np.median(spent["StreamingSubspace"], axis=1)
    for name, seconds in spent.items():
        learn, predict = np.median(seconds, axis=1)
        print(
            f"    {name:<30} {1e6 * learn:8.0f} {1e6 * predict:8.0f}    ours is {ours[0] / learn:.2f} × its learn_one"
        )


def main(shrink: int = 1) -> None:
    accuracies(shrink)
    one_row(shrink)
