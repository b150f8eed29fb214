"""The papers' text experiment: a subspace learnt from some documents, then an SVM on all training documents in it.

RCV1 and its four topics (789,670 documents, some 300,000 terms) cannot be had. arXiv's four largest groups stand in
(334,154 abstracts, 41,006 terms); the four largest topics of the one-topic documents of Reuters-21578 and 1,500 real
RCV1 documents in two classes stand beside it.
"""

from __future__ import annotations

import functools
import time
import warnings
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.metrics import f1_score
from sklearn.model_selection import KFold
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from kampong import CriterionWarning, InformationGain, MarginSubspace
from kampong.recursions import CandidCovarianceFreePCA, MarginRecursion
from reproduction._sets import need

STEPS = (10, 100, 1000, 10_000, 100_000)
SVD_ROWS = 40_000
"""Rows that PCA with 500 directions sees, by SVD in one fold: the paper took 43 days for 500 vectors of CCIPCA."""


PRINCIPAL = "PCA 500"

FILES = {
    "arxiv": ("arxiv_bow.npz", "arxiv_labels.npz"),
    "reuters": ("reuters21578_65_X.npz", "reuters21578_65_labels.npz"),
    "rcv1": ("rcv1_vw_sample_X.npz", "rcv1_vw_sample_labels.npz"),
}


class Score(NamedTuple):
    """Means over the folds."""

    micro: float
    macro: float
    reduction: float
    classification: float


def documents(name: str) -> tuple[Any, np.ndarray]:
    """Return tf-idf rows and the labels of a set."""
    if name == "arxiv":
        X = sparse.load_npz(need("arxiv_bow.npz")).tocsr()
        with np.load(need("arxiv_labels.npz"), allow_pickle=False) as arrays:
            y = arrays["y_group"].astype(int)
        largest = np.argsort(np.bincount(y))[::-1][:4]
    elif name == "reuters":
        X = sparse.load_npz(need("reuters21578_65_X.npz")).tocsr()
        with np.load(need("reuters21578_65_labels.npz"), allow_pickle=False) as arrays:
            y = arrays["y"].astype(int)
        largest = np.argsort(np.bincount(y))[::-1][:4]
    else:
        X = sparse.load_npz(need("rcv1_vw_sample_X.npz")).tocsr()
        with np.load(need("rcv1_vw_sample_labels.npz"), allow_pickle=False) as arrays:
            y = arrays["y"].astype(int)
        return sparse.csr_array(X.astype(np.float64)), y
    kept = np.flatnonzero(np.isin(y, largest))
    order = np.random.default_rng(0).permutation(kept)
    return X[order].astype(np.float64), y[order]


def experiment(name: str, folds: int, limit: int | None = None) -> dict[str, Score]:
    """Return micro and macro F1 and both times of every method, means over the first folds of five; once a run."""
    for file in FILES[name]:
        need(file)
    return _experiment(name, folds, limit)


@functools.cache
def _experiment(name: str, folds: int, limit: int | None) -> dict[str, Score]:
    X, y = documents(name)
    X, y = (X, y) if limit is None else (X[:limit], y[:limit])
    scores: dict[str, list[Score]] = {}
    for fold, (train, test) in enumerate(list(KFold(5, shuffle=True, random_state=0).split(X))[:folds]):
        # the terms' weights come from the training part alone; the RCV1 sample has them already
        weigh = None if name == "rcv1" else TfidfTransformer(sublinear_tf=True).fit(X[train])
        A, B = (X[train], X[test]) if weigh is None else (weigh.transform(X[train]), weigh.transform(X[test]))
        A, B = sparse.csr_array(A), sparse.csr_array(B)
        directions = min(3, len(np.unique(y)) - 1) if name == "rcv1" else 3
        for label, (model, rows, labels) in _methods(A, y[train], directions).items():
            if label == PRINCIPAL and fold == 0:
                # 500 dense columns: the SVM sees the rows that PCA has seen, in one fold
                scores[label] = [_score(model, rows, labels, rows, labels, B, y[test])]
            elif label != PRINCIPAL:
                scores.setdefault(label, []).append(_score(model, rows, labels, A, y[train], B, y[test]))
    return {label: Score(*np.mean(values, axis=0)) for label, values in scores.items()}


def _methods(A: Any, y: np.ndarray, p: int) -> dict[str, tuple[Any, Any, np.ndarray]]:
    methods: dict[str, tuple[Any, Any, np.ndarray]] = {}
    for count in STEPS:
        if count <= A.shape[0]:
            methods[f"IIS 3@{count}"] = (MarginRecursion.inter_class(p), A[:count], y[:count])
    methods["IIS 3@all"] = (MarginRecursion.inter_class(p), A, y)
    methods["IG 3@all"] = (InformationGain(3), A, y)
    methods["IG 500@all"] = (InformationGain(500), A, y)
    methods["IPCA 3@all"] = (CandidCovarianceFreePCA(3), A, y)
    few = min(SVD_ROWS, A.shape[0])
    methods[PRINCIPAL] = (TruncatedSVD(min(500, few // 4), random_state=0), A[:few], y[:few])
    methods["weighted MMC, ε chosen"] = (MarginSubspace(p, epsilon="auto"), A, y)
    return methods


def _score(model: Any, rows: Any, labels: np.ndarray, A: Any, y: np.ndarray, B: Any, y_test: np.ndarray) -> Score:
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CriterionWarning)  # ε chosen may leave one direction that raises the criterion
        model.fit(rows, labels)
    Z, Z_test = model.transform(A), model.transform(B)
    reduced = time.process_time()
    svm = LinearSVC(dual=False)
    if not sparse.issparse(Z):
        scaler = StandardScaler().fit(Z)
        Z, Z_test = scaler.transform(Z), scaler.transform(Z_test)
    found = svm.fit(Z, y).predict(Z_test)
    ended = time.process_time()
    both = [float(f1_score(y_test, found, average=kind)) for kind in ("micro", "macro")]
    return Score(*both, reduced - start, ended - reduced)


def sizes(quick: bool) -> dict[str, tuple[str, int, int | None]]:
    """Return the sets, folds and rows of a full or a quick run."""
    if quick:
        return {"arXiv": ("arxiv", 1, 20_000)}
    return {"arXiv": ("arxiv", 5, None), "Reuters": ("reuters", 5, None), "RCV1 sample": ("rcv1", 5, None)}
