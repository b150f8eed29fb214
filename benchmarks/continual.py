"""Classes that come task by task: accuracy on the classes so far, beside continual methods and joint fits.

Everything at its default, nothing tuned on test rows. Our models learn with `partial_fit`, a task at a time, and are
held against the same model that learnt all rows at once: the largest difference of any score is printed. Deep SLDA,
KLDA and RanPAC are written here from their formulas; SGD shows what forgetting looks like.
"""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.svm import LinearSVC

from benchmarks.measure import data_folder, present
from kampong import FisherDiscriminant, InterClassScatter, KernelFisherDiscriminant
from kampong.adapters.federated import combine, contribution
from kampong.datasets import sparse_text

"""Where Debian's package dataset-fashion-mnist puts its files."""


class NearestMean:
    """The nearest class mean, by the cosine."""

    def __init__(self) -> None:
        self.sums: dict[Any, Any] = {}

    def partial_fit(self, X: Any, y: np.ndarray) -> None:
        for label in np.unique(y):
            self.sums[label] = self.sums.get(label, 0.0) + np.asarray(X[y == label].sum(axis=0)).ravel()

    def predict(self, X: Any) -> np.ndarray:
        labels = sorted(self.sums)
        means = np.stack([self.sums[label] / np.linalg.norm(self.sums[label]) for label in labels])
        return np.array(labels)[np.argmax(X @ means.T, axis=1)]


class DeepStreamingLDA:
    """Deep SLDA (Hayes and Kanan 2020): running class means, a running shared covariance, shrinkage 1e-4."""

    def __init__(self) -> None:
        self.means: dict[Any, Any] = {}
        self.counts: dict[Any, int] = {}
        self.total, self.covariance = 0, np.zeros(())

    def partial_fit(self, X: np.ndarray, y: np.ndarray) -> None:
        if not self.total:
            self.covariance = np.zeros((X.shape[1], X.shape[1]))
        for label in np.unique(y):
            rows = X[y == label].astype(np.float64)
            n, b = self.counts.get(label, 0), len(rows)
            old, new = self.means.get(label, np.zeros(X.shape[1])), rows.mean(axis=0)
            centred = rows - new
            scatter = centred.T @ centred + (n * b / (n + b)) * np.outer(new - old, new - old)
            self.covariance = (self.total * self.covariance + scatter) / (self.total + b)
            self.means[label] = (n * old + b * new) / (n + b)
            self.counts[label], self.total = n + b, self.total + b

    def predict(self, X: np.ndarray) -> np.ndarray:
        labels = sorted(self.means)
        means = np.stack([self.means[label] for label in labels])
        shrunk = (1 - 1e-4) * self.covariance + 1e-4 * np.eye(len(self.covariance))
        weights = np.linalg.solve(shrunk, means.T)
        return np.array(labels)[np.argmax(X @ weights - 0.5 * np.sum(means.T * weights, axis=0), axis=1)]


class KernelLDA(DeepStreamingLDA):
    """KLDA (AAAI 2025): LDA with a shared covariance on random Fourier features; γ by the mean distance at first."""

    def __init__(self, features: int = 2000) -> None:
        super().__init__()
        self.features, self.weights = features, np.zeros(())

    def partial_fit(self, X: np.ndarray, y: np.ndarray) -> None:
        if not self.total:
            rng, gamma = np.random.default_rng(0), 1.0 / (2.0 * X.var(axis=0).sum())
            self.weights = rng.normal(scale=np.sqrt(2 * gamma), size=(X.shape[1], self.features))
            self.phases = rng.uniform(0, 2 * np.pi, self.features)
        super().partial_fit(self._map(X), y)

    def predict(self, X: np.ndarray) -> np.ndarray:
        return super().predict(self._map(X))

    def _map(self, X: np.ndarray) -> np.ndarray:
        return np.sqrt(2 / self.features) * np.cos(X @ self.weights + self.phases)


class RanPAC:
    """RanPAC (McDonnell and others 2023): a random projection, ReLU, and ridge regression from sums alone."""

    def __init__(self, features: int = 2000) -> None:
        self.features, self.labels = features, []
        self.ridge, self.gram, self.sums = 1.0, np.zeros(()), np.zeros(())

    def partial_fit(self, X: np.ndarray, y: np.ndarray) -> None:
        if not self.labels:
            self.weights = np.random.default_rng(0).normal(size=(X.shape[1], self.features))
            self.gram, self.sums = np.zeros((self.features, self.features)), np.zeros((self.features, 0))
        new = [label for label in np.unique(y).tolist() if label not in self.labels]
        self.labels, self.sums = self.labels + new, np.hstack([self.sums, np.zeros((self.features, len(new)))])
        H, Y = np.maximum(X @ self.weights, 0), (y[:, None] == np.array(self.labels)).astype(float)
        held = np.random.default_rng(1).random(len(y)) < 0.2  # as in the paper: a fifth of the task chooses the ridge
        gram, sums = self.gram + H[~held].T @ H[~held], self.sums + H[~held].T @ Y[~held]
        values, vectors = np.linalg.eigh(gram)
        inside, points = vectors.T @ sums, H[held] @ vectors
        errors = {
            ridge: np.square(Y[held] - (points / (np.maximum(values, 0) + ridge)) @ inside).sum()
            for ridge in 10.0 ** np.arange(-8, 9)
        }
        self.ridge = min(errors, key=errors.__getitem__)
        self.gram, self.sums = gram + H[held].T @ H[held], sums + H[held].T @ Y[held]

    def predict(self, X: np.ndarray) -> np.ndarray:
        weights = np.linalg.solve(self.gram + self.ridge * np.eye(self.features), self.sums)
        return np.array(self.labels)[np.argmax(np.maximum(X @ self.weights, 0) @ weights, axis=1)]


def main(shrink: int = 1) -> None:
    """Print a table a set, then what 100 clients send, and what unlearning costs beside a fit."""
    warnings.simplefilter("ignore")
    for name, split, n_tasks in _sets(shrink):
        _table(name, split, n_tasks, shrink)
    _clients(shrink)
    _unlearning(shrink)


def _table(name: str, split: Any, n_tasks: int, shrink: int) -> None:
    X, y, T, t = split
    labels = np.random.default_rng(0).permutation(np.unique(y))
    tasks = np.array_split(labels, n_tasks)
    print(f"\n{name}: {X.shape[0]} rows, {X.shape[1]} features, {len(labels)} classes in {n_tasks} tasks")
    heading = f"{1:>7}{n_tasks // 2 + 1:>7}{n_tasks:>7}{'all at once':>13}{'largest change':>16}{'s':>8}"
    print(f"  {'accuracy % after task':<46}{heading}")
    for title, make in _contenders(sparse.issparse(X), shrink).items():
        _line(title, make, tasks, split)
    joint: dict[str, Any] = (
        {} if sparse.issparse(X) else {"joint KernelFisherDiscriminant()": KernelFisherDiscriminant()}
    )
    joint |= {"joint LogisticRegression": LogisticRegression(max_iter=300), "joint LinearSVC": LinearSVC()}
    for title, model in joint.items():
        start = time.perf_counter()
        known = np.isin(t, y)
        right = np.mean(model.fit(X, y).predict(T[known]) == t[known])
        print(f"  {title:<46}{'':>14}{100 * right:7.2f}{'':>29}{time.perf_counter() - start:8.1f}", flush=True)


def _contenders(is_text: bool, shrink: int) -> dict[str, Any]:
    ours: dict[str, Any] = {"FisherDiscriminant()": FisherDiscriminant}
    if is_text:
        ours["InterClassScatter(head='cosine')"] = lambda: InterClassScatter(head="cosine")
    else:
        ours["KernelFisherDiscriminant()"] = KernelFisherDiscriminant
        ours["KernelFisherDiscriminant(landmarks='fourier')"] = lambda: KernelFisherDiscriminant(landmarks="fourier")
    peers: dict[str, Any] = {"nearest class mean": NearestMean}
    if not is_text:
        few = 200 if shrink > 1 else 2000  # as many as ours
        peers |= {
            "Deep SLDA": DeepStreamingLDA,
            f"KLDA, {few:,} features": lambda: KernelLDA(few),
            f"RanPAC, {few:,} features": lambda: RanPAC(few),
        }
    return ours | peers | {"SGDClassifier.partial_fit": lambda: SGDClassifier(random_state=0)}


def _line(title: str, make: Any, tasks: list[np.ndarray], split: Any) -> None:
    X, y, T, t = split
    model, found, start = make(), [], time.perf_counter()
    order = []
    for number, task in enumerate(tasks):
        rows = np.flatnonzero(np.isin(y, task))
        order.append(rows)
        if isinstance(model, SGDClassifier):
            model.partial_fit(X[rows], y[rows], classes=np.unique(y))
        else:
            model.partial_fit(X[rows], y[rows])
        if number in (0, len(tasks) // 2, len(tasks) - 1):
            known = np.isin(t, np.concatenate(tasks[: number + 1]))
            found.append(100 * np.mean(model.predict(T[known]) == t[known]))
    seconds = time.perf_counter() - start
    after = "".join(f"{one:7.2f}" for one in found)
    both = ""
    if hasattr(model, "merge"):  # ours: the same rows in one batch, on the same landmarks and kernel
        rows = np.concatenate(order)
        given = {} if not hasattr(model, "gamma_") else {"gamma": model.gamma_}
        if hasattr(model, "landmarks_"):
            given["landmarks"] = model.landmarks_
        joint = make().set_params(**given).partial_fit(X[rows], y[rows])
        mine, theirs = model.decision_function(T[:500]), joint.decision_function(T[:500])
        change = np.abs(mine - theirs).max() / np.abs(theirs).max()
        both = f"{100 * np.mean(joint.predict(T[known]) == t[known]):13.2f}{change:16.1e}"
    print(f"  {title:<46}{after}{both or ' ' * 29}{seconds:8.1f}", flush=True)


def _clients(shrink: int) -> None:
    """Print what 100 clients of one or two classes send, and how far their model is from one fit."""
    X, y, T, _ = _embeddings(shrink)
    m = 500 if shrink > 1 else 2000
    agreed = KernelFisherDiscriminant(
        landmarks=m, placement="fourier", gamma=0.64, ridge=1e-4, head="cosine", n_components=None
    )
    shares = np.array_split(np.argsort(y, kind="stable"), 100 if shrink == 1 else 10)
    letters = [contribution(agreed, X[s], y[s], number=i, min_class_rows=0) for i, s in enumerate(shares)]
    merged = combine(letters[i] for i in np.random.default_rng(0).permutation(len(letters)))
    whole = KernelFisherDiscriminant(**agreed.get_params()).partial_fit(X, y)
    mine, theirs = merged.decision_function(T), whole.decision_function(T)
    held = np.mean([len(np.unique(y[s])) for s in shares])
    print(f"\n{len(letters)} clients of {held:.1f} classes each, {m} Fourier features, merged in a random order")
    print(f"  largest change of a score beside one fit   {np.abs(mine - theirs).max() / np.abs(theirs).max():.1e}")
    size = np.mean([len(letter) for letter in letters])
    print(f"  bytes a client                             {size:,.0f}")
    print(f"  8·(K·m + m²/2)                             {8 * (held * m + m * m / 2):,.0f}")


def _unlearning(shrink: int) -> None:
    """Print how near a model is to one that never saw the rows, and what that costs beside a fit."""
    X, y, T, _ = _embeddings(shrink)
    rng = np.random.default_rng(0)
    parts = {
        "10 % of the rows": rng.random(len(y)) < 0.1,
        "one class": y == y[0],
        "one client (1 % of the rows)": np.arange(len(y)) % 100 == 0,
    }
    models = {
        "FisherDiscriminant(ridge=1e-4)": FisherDiscriminant(ridge=1e-4),
        "kernel, 1,000 Fourier features": KernelFisherDiscriminant(
            landmarks=1000, placement="fourier", gamma=0.64, ridge=1e-4, head="cosine"
        ),
        "InterClassScatter(head='cosine')": InterClassScatter(head="cosine"),
    }
    print(f"\nunlearning: {'largest change of a score beside a model that never saw the rows; time / fit':>20}")
    for title, model in models.items():
        for name, out in parts.items():
            learnt = type(model)(**model.get_params()).partial_fit(X, y)
            start = time.perf_counter()
            learnt.unlearn(X[out], y[out])
            spent = time.perf_counter() - start
            start = time.perf_counter()
            never = type(model)(**model.get_params()).partial_fit(X[~out], y[~out])
            again = time.perf_counter() - start
            mine, theirs = learnt.decision_function(T), never.decision_function(T)
            change = np.abs(mine - theirs).max() / np.abs(theirs).max()
            print(f"  {title:<34}{name:<30}{change:10.1e}{spent / again:8.2f}", flush=True)


def _sets(shrink: int) -> Any:
    folder = data_folder()
    if not present("banking77_minilm.npz", "mnist.npz", small=shrink > 1):
        X, y = load_digits(return_X_y=True)
        yield "digits", (X[:1200], y[:1200], X[1200:], y[1200:]), 5
        text, labels = sparse_text(600, n_features=2000)
        yield "text", (text[:400], labels[:400], text[400:], labels[400:]), 3
        return
    yield "Banking77, MiniLM", _embeddings(1), 7
    found = np.load(folder / "mnist.npz")
    X, T = (found[name].reshape(len(found[name]), -1).astype(np.float32) / 255 for name in ("X", "X_test"))
    yield "Split-MNIST, 20,000 rows", (X[:20000], found["y"][:20000].astype(int), T, found["y_test"].astype(int)), 5
    present("reuters21578_65_X.npz", "reuters21578_65_labels.npz")
    counts, labels = sparse.load_npz(folder / "reuters21578_65_X.npz"), np.load(folder / "reuters21578_65_labels.npz")
    rows = TfidfTransformer(sublinear_tf=True).fit(counts[labels["train_idx"]]).transform(counts)
    y, inside, outside = labels["y"].astype(int), labels["train_idx"], labels["test_idx"]
    yield "Reuters, 65 classes", (rows[inside], y[inside], rows[outside], y[outside]), 5


def _embeddings(shrink: int) -> Any:
    path = data_folder() / "banking77_minilm.npz"
    if not present(path.name, small=shrink > 1):
        X, y = load_digits(return_X_y=True)
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        return X[:1200], y[:1200], X[1200:], y[1200:]
    found = np.load(path)
    X, T = (found[name].astype(np.float64) for name in ("X", "X_test"))
    return X, found["y"].astype(int), T, found["y_test"].astype(int)
