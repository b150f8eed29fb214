"""What is attacked: every estimator and statistic, fitted on small data, and every public method that takes rows."""

import contextlib
import copy
import functools
import inspect
import warnings

import numpy as np
from scipy import sparse
from sklearn.base import clone

import kampong
from kampong.files.saved_models import CLASSES

N, D = 48, 9
METHODS_WITHOUT_FIT = ("fit_transform", "fit_predict")
quiet = warnings.catch_warnings


def rows(seed=0, n=N):
    """Return sparse-like rows of three classes as a dense array, and their labels."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 3
    X = rng.normal(size=(n, D)) + 2.0 * np.eye(3, D)[y]
    X[rng.random(X.shape) < 0.5] = 0.0
    return X, y


ESTIMATORS = {
    "CandidCovarianceFreePCA": kampong.CandidCovarianceFreePCA(2),
    "CoreVectorClassifier": kampong.CoreVectorClassifier(max_iter=200),
    "CriterionSubspace": kampong.CriterionSubspace(criterion="margin", parameter=0.1),
    "FisherDiscriminant": kampong.FisherDiscriminant(),
    "FisherDiscriminant wide": kampong.FisherDiscriminant(solver="resolvent"),
    "InformationGain": kampong.InformationGain(2),
    "InterClassScatter": kampong.InterClassScatter(),
    "KernelFisherDiscriminant": kampong.KernelFisherDiscriminant(landmarks=12, placement="rows"),
    "KernelMarginSubspace": kampong.KernelMarginSubspace(2, epsilon=0.05, landmarks=12, placement="rows"),
    "MarginRecursion": kampong.MarginRecursion(2),
    "MarginSubspace": kampong.MarginSubspace(2, epsilon="auto"),
    "MarginSubspace sample": kampong.MarginSubspace(2, epsilon=0.1, solver="reservoir", reservoir_bytes=9000),
    "MaxMinOverClassifier": kampong.MaxMinOverClassifier(nu=0.3, max_iter=300),
    "MaximumMarginCriterion": kampong.MaximumMarginCriterion(2),
    "MaximumMarginDiscriminant": kampong.MaximumMarginDiscriminant(max_iter=300),
    "MinOverClassifier": kampong.MinOverClassifier(kernel="rbf", max_iter=100),
    "SupervisedKampongMeasure": kampong.SupervisedKampongMeasure(2, a=1.2),
    "WeighedDiscriminant": kampong.WeighedDiscriminant(),
}
STATISTICS = {
    "ClassMeans": lambda: kampong.statistics.ClassMeans(D),
    "ClassScatter": lambda: kampong.statistics.ClassScatter(D),
    "ClassReservoir": lambda: kampong.statistics.ClassReservoir(D, budget=4000),
}


def left_out():
    """Return the estimators of the library that no subject covers."""
    mine = {type(model).__name__ for model in ESTIMATORS.values()}
    return {name for name, kind in CLASSES.items() if hasattr(kampong, name)} - mine


def methods_of(model):
    """Return the public methods of an estimator that take rows, and that its parameters allow."""
    found = []
    for name, method in inspect.getmembers(type(model), callable):
        names = [] if name.startswith("_") else list(inspect.signature(method).parameters)
        if names[1:2] == ["X"] and hasattr(model, name):
            found.append(name)
    return found


def learns(method):
    """Tell whether a method changes the model."""
    return method.startswith(("fit", "partial_fit", "unlearn"))


def takes_labels(model, method):
    """Tell whether a method takes labels beside rows."""
    return "y" in inspect.signature(getattr(type(model), method)).parameters


@functools.cache
def fitted(name, form="sparse"):
    """Return a model fitted on good rows; nobody may change it."""
    X, y = rows()
    model = clone(ESTIMATORS[name])
    with quiet():
        warnings.simplefilter("ignore")
        if "sample" in name:
            model.partial_fit(sparse.csr_array(X), y)
        else:
            model.fit(sparse.csr_array(X) if form == "sparse" else X, y)
    return model


def subjects():
    """Return every (name, method) that takes rows."""
    pairs = [(name, method) for name, model in ESTIMATORS.items() for method in methods_of(model)]
    return sorted(pairs) + [(name, "update") for name in STATISTICS]


def warm():
    """Compile what the tries need, so that a try is not charged for it."""
    X, _ = rows()
    long = sparse.csr_array(X)
    long.indices, long.indptr = long.indices.astype(np.int64), long.indptr.astype(np.int64)
    for name, method in subjects():
        width = width_of(name, method)
        fixed = X.copy()
        fixed.flags.writeable = False
        for kind in (sparse.csr_array(X), long, X, X.astype(np.float32), fixed):
            with contextlib.suppress(ValueError, TypeError):
                call(name, method, kind[:, :width], form="dense" if isinstance(kind, np.ndarray) else "sparse")


def call(name, method, X, y=None, form="sparse", **more):
    """Call a method with rows; return an array that follows from them: an answer, or that of a model fitted on them."""
    y = rows()[1] if y is None else y
    with quiet():
        warnings.simplefilter("ignore")
        if name in STATISTICS:
            statistics = STATISTICS[name]().update(X, y, **more)
            return np.concatenate([statistics.counts, statistics.means.ravel(), statistics.squares])
        if learns(method):
            model = copy.deepcopy(fitted(name, form)) if method == "unlearn" else clone(ESTIMATORS[name])
            out = getattr(model, method)(X, y, **more)
            return _answer(model) if method in ("fit", "partial_fit", "unlearn") else plain(out)
        model = fitted(name, form)
        return plain(getattr(model, method)(X, *((y,) if takes_labels(model, method) else ()), **more))


def _answer(model):
    """Return what a fitted model says of good rows."""
    good = rows(1)[0]
    for method in ("decision_function", "predict_proba", "transform"):
        if hasattr(model, method):
            return plain(getattr(model, method)(good))
    raise AssertionError(type(model))


def plain(values):
    """Return any answer as a dense array."""
    if sparse.issparse(values) and values.dtype == np.float16:  # which SciPy before 1.14 cannot write as a dense array
        values = values.astype(np.float32)
    return np.asarray(values.toarray() if sparse.issparse(values) else values)


def width_of(name, method):
    """Return the width of the rows that a method takes."""
    if method == "inverse_transform":
        return plain(fitted(name).transform(rows()[0])).shape[1]
    return D
