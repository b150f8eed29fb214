"""A refused call leaves no trace: whatever an estimator remembers is as before, and so are its answers."""

import copy
import functools
import inspect
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone

import kampong
from fuzz import subjects
from fuzz.subjects import D, N
from kampong import (
    CoreVectorClassifier,
    FisherDiscriminant,
    InterClassScatter,
    KernelFisherDiscriminant,
    MarginSubspace,
)
from kampong.files.saved_models import CLASSES
from kampong.online import OnlineClassifier
from kampong.statistics import ClassMeans, kernel_scatter
from traces import differences, trace_of

ESTIMATORS = {
    **subjects.ESTIMATORS,
    "CoreVectorClassifier hinge": CoreVectorClassifier(
        loss="hinge", probability=True, max_stored_rows=30, max_iter=200
    ),
    "FisherDiscriminant decay": FisherDiscriminant(ridge=0.1, decay=0.97),
    "FisherDiscriminant drift": FisherDiscriminant(ridge="rule", half_life="auto"),
    "FisherDiscriminant hinge": FisherDiscriminant(ridge=0.1, head="hinge"),
    "InterClassScatter scatter": InterClassScatter(solver="scatter", head="gaussian"),
    "KernelFisherDiscriminant fourier": KernelFisherDiscriminant(landmarks=12, placement="fourier"),
    "KernelFisherDiscriminant best": KernelFisherDiscriminant(landmarks=12, head="best", kernel="polynomial"),
    "MarginSubspace several labels": MarginSubspace(2, epsilon=0.1),
    "OnlineClassifier": OnlineClassifier(),
}
LEARNING = ("fit", "fit_transform", "partial_fit", "partial_fit_transform", "predict_then_learn", "unlearn")


def rows(name="", seed=0):
    X, y = subjects.rows(seed)
    return X, (np.eye(3, dtype=int)[y] if "several" in name else y)


def with_entry(X, value, place=(-1, 2)):
    X = X.copy()
    X[place] = value
    return X


def object_entry(X, value):
    X = X.astype(object)
    X[-1, 2] = value
    return X


def beyond(X):
    broken = sparse.csr_array(X)
    broken.indices = broken.indices.copy()
    broken.indices[-1] = D + 7
    return broken


def label(y, value):
    y = np.asarray(y).astype(object)
    y[-1] = value
    return y


ROWS = {
    "NaN": lambda X: with_entry(X, np.nan),
    "infinity": lambda X: with_entry(X, np.inf),
    "minus infinity": lambda X: with_entry(X, -np.inf),
    "squares that overflow": lambda X: with_entry(X, 1e200),
    "a last number that overflows": lambda X: with_entry(X, -1e308, (-1, -1)),
    "float32 infinity": lambda X: with_entry(X.astype(np.float32), np.inf),
    "too wide": lambda X: np.hstack([X, X]),
    "too narrow": lambda X: X[:, :-1],
    "one row without its axis": lambda X: X[0],
    "three axes": lambda X: X[:, :, None],
    "no rows": lambda X: X[:0],
    "no columns": lambda X: X[:, :0],
    "fewer rows than labels": lambda X: X[:-1],
    "more rows than labels": lambda X: np.vstack([X, X]),
    "complex": lambda X: X + 1j,
    "words": lambda X: object_entry(X, "red"),
    "lists": lambda X: object_entry(X, [1.0]),
    "None": lambda X: object_entry(X, None),
    "a whole number past floats": lambda X: object_entry(X, 10**400),
    "no array": lambda X: None,
    "a word": lambda X: "rows",
    "sparse NaN": lambda X: sparse.csr_array(with_entry(X, np.nan)),
    "sparse that overflows": lambda X: sparse.csr_array(with_entry(X, 1e200)),
    "sparse too wide": lambda X: sparse.csr_array(np.hstack([X, X])),
    "sparse with a column beyond": beyond,
}
LABELS = {
    "labels of another kind": lambda y: label(y, "late"),
    "a missing label": lambda y: label(y, None),
    "a NaN label": lambda y: label(y, np.nan),
    "parts of numbers": lambda y: np.linspace(0, 1, len(y)),
    "labels of two axes": lambda y: np.stack([y + 3, y], axis=1),
    "too few labels": lambda y: y[:-1],
    "no labels": lambda y: None,
    "complex labels": lambda y: y + 1j,
    "objects as labels": lambda y: label(y, {1: 2}),
}
WEIGHTS = {
    "negative weights": -1.0 * np.arange(N),
    "NaN weights": np.where(np.arange(N) == 5, np.nan, 1.0),
    "infinite weights": np.where(np.arange(N) == 5, np.inf, 1.0),
    "too few weights": np.ones(N - 1),
    "words as weights": np.array(["1"] * N),
    "weights past the limit": np.full(N, 1e300),
    "weights of two axes": np.ones((N, 2)),
}


def kinds(name, method, first):
    """Return name → arguments of a bad batch for a method."""
    X, y = rows(name)
    asked = inspect.signature(getattr(type(ESTIMATORS[name]), method)).parameters
    takes_labels = "y" in asked and name != "CandidCovarianceFreePCA"
    found = {kind: ((make(X), y), {}) for kind, make in ROWS.items()}
    if takes_labels and "several" not in name:
        found |= {kind: ((X, make(y)), {}) for kind, make in LABELS.items()}
    elif takes_labels:
        found["entries above 1"] = (X, 2 * y), {}
        found["other columns of labels"] = (X, np.hstack([y, y])), {}
    weight = next((key for key in ("sample_weight", "weights") if key in asked), None)
    if weight:
        found |= {kind: ((X, y), {weight: value}) for kind, value in WEIGHTS.items()}
        found["weights and rows that overflow together"] = (1e100 * X, y), {weight: np.full(N, 1e200)}
        found["few rows that overflow by their weights"] = (1e100 * X[:3], y[:3]), {weight: np.full(3, 1e200)}
    found["few rows of which one overflows"] = (with_entry(X[:3], 1e200), y[:3]), {}
    found["names of columns"] = (pd.DataFrame(with_entry(X, np.nan), columns=list("abcdefghi")), y), {}
    if "classes" in asked and "several" not in name:
        good = [0, 1, 2, 77]
        found["classes declared with NaN rows"] = (with_entry(X, np.nan), y), {"classes": good}
        found["classes declared with rows that overflow"] = (with_entry(X, 1e200), y), {"classes": good}
        found["classes declared with other labels"] = (X, label(y, "late")), {"classes": good}
        found["classes of another kind"] = (X, y), {"classes": ["a", "b"]}
    if first:  # what a first batch may be
        for kind in ("too narrow", "too wide", "sparse too wide", "labels of two axes", "other columns of labels"):
            found.pop(kind, None)
    return found


@functools.cache
def learnt(name, state):
    """Return a model in a state; nobody may change it."""
    model = clone(ESTIMATORS[name])
    if state == "new":
        return model
    X, y = rows(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        learn = model.fit if state == "fitted" or not hasattr(model, "partial_fit") else model.partial_fit
        learn(X, *(() if "Candid" in name else (y,)))
        if state == "read":
            answers(model, X)
        model.to_bytes(solve=False)  # rows that wait for their place in a sample get it
    return model


def answers(model, X):
    """Return what a model says of rows, as far as it can."""
    found = []
    for method in ("transform", "decision_function", "predict_proba", "predict"):
        if hasattr(model, method):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found.append(np.asarray(getattr(model, method)(X)).tobytes())
    return found


def attempt(model, method, arguments, named):
    """Return the error of a call, None where there is none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            getattr(model, method)(*arguments, **named)
        except (ValueError, TypeError) as error:
            return error
    return None


def cases():
    """Return every estimator, state and method that changes it."""
    for name, model in ESTIMATORS.items():
        for method in LEARNING:
            if not hasattr(model, method) or (method == "partial_fit" and "wide" in name):
                continue
            for state in ("new", "fitted") if "wide" in name else ("new", "learnt", "read", "fitted"):
                if method == "unlearn" and (state == "new" or {"decay", "drift", "wide"} & set(name.split())):
                    continue
                slow = [pytest.mark.slow] if state in ("learnt", "fitted") else []
                yield pytest.param(name, method, state, id=f"{name}-{method}-{state}", marks=slow)


@pytest.mark.parametrize(("name", "method", "state"), list(cases()))
def test_a_bad_batch_leaves_no_trace(name, method, state):
    X = rows(name, 1)[0]
    refused, first = 0, state == "new" or method.startswith("fit")
    for kind, (arguments, named) in kinds(name, method, first).items():
        model = copy.deepcopy(learnt(name, state))
        before = trace_of(model)
        error = attempt(model, method, arguments, named)
        if error is None:
            continue
        refused += 1
        assert differences(before, trace_of(model)) == [], (kind, error)
        if state != "new":
            assert model.to_bytes(solve=False) == copy.deepcopy(learnt(name, state)).to_bytes(solve=False), kind
            if refused % 6 == 0:
                assert answers(model, X) == answers(copy.deepcopy(learnt(name, state)), X), (kind, error)
    assert refused >= 20


def test_no_estimator_is_left_out():
    ours = {kind for kind in CLASSES.values() if kind.__module__.startswith("kampong.")}
    assert ours == {type(model) for model in ESTIMATORS.values()}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_bad_rows_that_are_asked_about_leave_no_trace(name):
    model, (X, y) = copy.deepcopy(learnt(name, "fitted" if "wide" in name else "read")), rows(name)
    said = answers(model, X)
    methods = {*subjects.methods_of(model), *(["same_class"] if hasattr(model, "same_class") else [])}
    found = {
        method: inspect.signature(getattr(type(model), method)).parameters
        for method in sorted(methods - {*LEARNING, "inverse_transform"})
    }
    for method, asked in found.items():  # what a first answer finds out is kept
        attempt(model, method, [X, *([X] if "X2" in asked else [y] if "y" in asked else [])], {})
    before, refused = trace_of(model), 0
    for method, asked in found.items():
        for kind, make in ROWS.items():
            bad = make(X)
            more = [bad] if "X2" in asked else [y] if "y" in asked else []
            refused += attempt(model, method, [bad, *more], {}) is not None
            assert differences(before, trace_of(model)) == [], (method, kind)
    assert refused >= 12
    assert answers(model, X) == said


OTHERS = {
    "another class": lambda model: (
        InterClassScatter() if type(model) is not InterClassScatter else FisherDiscriminant()
    ),
    "no estimator": lambda model: "model",
    "None": lambda model: None,
    "not fitted": lambda model: clone(model),
    "other columns": lambda model: clone(model).fit(*_wider(model)),
    "other names": lambda model: clone(model).fit(pd.DataFrame(rows()[0], columns=list("abcdefghi")), rows()[1]),
    "other kinds of labels": lambda model: clone(model).fit(rows()[0], rows()[1].astype(str)),
    "several labels per row": lambda model: clone(model).fit(rows()[0], np.eye(3, dtype=int)[rows()[1]]),
}


def _wider(model):
    X, y = rows()
    return np.hstack([X, X[:, :2]]), y


@pytest.mark.parametrize("name", [name for name, model in ESTIMATORS.items() if hasattr(model, "merge")])
def test_a_refused_merge_leaves_no_trace_in_either(name):
    model, X = copy.deepcopy(learnt(name, "read")) if "wide" not in name else learnt(name, "fitted"), rows(name, 1)[0]
    said, refused = answers(model, X), 0
    before = trace_of(model)
    for kind, make in OTHERS.items():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                other = make(model)
        except (ValueError, TypeError):
            continue  # such a model cannot be made
        theirs = trace_of(other)
        error = attempt(model, "merge", (other,), {})
        refused += error is not None
        assert differences(before, trace_of(model)) == [], (kind, error)
        assert differences(theirs, trace_of(other)) == [], (kind, error)
    assert refused >= 4
    assert answers(model, X) == said


@pytest.mark.parametrize("name", ESTIMATORS)
def test_refused_parameters_and_classes_leave_no_trace(name):
    model, X = copy.deepcopy(learnt(name, "fitted" if "wide" in name else "read")), rows(name, 1)[0]
    said = answers(model, X)
    before = trace_of(model)
    known = next(iter(model.get_params()))
    calls = [("set_params", (), {known: 3, "unknown": 1}), ("set_params", (), {known: 3, "unknown__deep": 1})]
    if hasattr(model, "unlearn_class"):
        calls += [("unlearn_class", (label,), {}) for label in (77, "late", None, np.nan, 0.5, -1)]
    for method, arguments, named in calls:
        assert attempt(model, method, arguments, named) is not None, (method, arguments)
        assert differences(before, trace_of(model)) == [], (method, arguments)
    assert answers(model, X) == said


def test_a_kernel_batch_whose_last_block_is_refused_leaves_the_first_blocks_unlearnt(monkeypatch):
    monkeypatch.setattr(kernel_scatter, "VALUES_BYTES", 12 * 8 * 7)  # seven rows a block
    X, y = rows()
    model = KernelFisherDiscriminant(landmarks=12, kernel="polynomial", placement="rows").partial_fit(X, y)
    said = model.predict_proba(X)
    before = trace_of(model)
    assert "infinity" in str(attempt(model, "partial_fit", (with_entry(X, 1e140), y), {}))
    assert differences(before, trace_of(model)) == []
    assert np.array_equal(model.predict_proba(X), said)
    cut = copy.deepcopy(model).partial_fit(X, y)
    monkeypatch.undo()
    whole = copy.deepcopy(model).partial_fit(X, y)
    np.testing.assert_allclose(
        cut._statistics.within_scatter(), whole._statistics.within_scatter(), rtol=1e-9, atol=1e-9
    )
    np.testing.assert_allclose(cut.class_means_, whole.class_means_, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("rows_at_once", [3, 30])
def test_what_would_overflow_in_the_sums_is_refused_before_it_is_learnt(rows_at_once):
    X, y = rows()
    means = ClassMeans(D).update(1e140 * X, y)
    before = trace_of(means)
    with pytest.raises(ValueError, match=r"weighted squares of X overflow .*largest weight 1e\+25.*below 1e300"):
        means.update(1e140 * X[:rows_at_once], y[:rows_at_once], np.full(rows_at_once, 1e25))
    with pytest.raises(ValueError, match=r"squares of X overflow \(largest magnitude 1e\+151"):
        means.update(with_entry(X[:rows_at_once], 1e151), y[:rows_at_once])
    assert differences(before, trace_of(means)) == []
    heavy = ClassMeans(D).update(1e140 * X, y, np.full(N, 1e17))
    twice = heavy.merge(heavy)
    before = trace_of(twice)
    with pytest.raises(ValueError, match="both together pass 1e300"):
        twice.merge(twice)
    assert differences(before, trace_of(twice)) == []


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("name", ["MarginRecursion", "CandidCovarianceFreePCA"])
def test_steps_that_overflow_are_refused_and_others_are_right(name, form):
    X, y = rows()
    refused = 0
    for exponent in range(0, 150, 10):
        model = copy.deepcopy(learnt(name, "read"))
        before = trace_of(model)
        error = attempt(model, "partial_fit", (form(X * 10.0**exponent), y), {})
        if error is None:
            assert np.isfinite(kampong.from_bytes(model.to_bytes()).transform(X)).all(), exponent
            continue
        refused += 1
        assert "the steps for these rows overflow (largest magnitude" in str(error)
        assert differences(before, trace_of(model)) == [], exponent
    assert 0 < refused < 12


ROWS_OF_RIVER = {
    "a word": ({"new": "red"}, 0, 1.0),
    "None": ({"new": None}, 0, 1.0),
    "a list": ({"new": [1.0]}, 0, 1.0),
    "NaN": ({"new": np.nan}, 0, 1.0),
    "infinity": ({"new": np.inf}, 0, 1.0),
    "minus infinity": ({"new": -np.inf}, 0, 1.0),
    "an old feature infinite": ({"a": np.inf, "new": 1.0}, 0, 1.0),
    "an old feature a word": ({"a": "red", "new": 1.0}, 0, 1.0),
    "squares that overflow": ({"new": 1e200}, 0, 1.0),
    "an old feature that overflows": ({"a": 1e200, "new": 1.0}, 0, 1.0),
    "overflow by the weight": ({"new": 1e100}, 0, 1e200),
    "a whole number past floats": ({"new": 10**400}, 0, 1.0),
    "complex": ({"new": 1j}, 0, 1.0),
    "no label": ({"new": 1.0}, None, 1.0),
    "a label that is no label": ({"new": 1.0}, [1], 1.0),
    "a dictionary as a label": ({"new": 1.0}, {1: 2}, 1.0),
    "a negative weight": ({"new": 1.0}, 0, -1.0),
    "a NaN weight": ({"new": 1.0}, 0, np.nan),
    "an infinite weight": ({"new": 1.0}, 0, np.inf),
    "a weight past the limit": ({"new": 1.0}, 0, 1e300),
    "a word as a weight": ({"new": 1.0}, 0, "1"),
    "too many features": ({f"word {j}": 1.0 for j in range(9000)}, 0, 1.0),
    "a late class that overflows": ({"new": 1e200}, "late", 1.0),
}


@pytest.mark.parametrize("estimator", [None, FisherDiscriminant(), MarginSubspace(epsilon=0.1), InterClassScatter()])
def test_a_row_that_river_is_refused_adds_no_column_and_no_class(estimator):
    model = pytest.importorskip("kampong.adapters.river").StreamingSubspace(estimator)
    rng = np.random.default_rng(0)
    for _ in range(40):
        model.learn_one(dict(zip("abc", rng.normal(size=3).tolist(), strict=True)), int(rng.integers(2)))
    asked = {"a": 0.3, "b": -1.0, "new": 5.0}
    said, refused = model.predict_proba_one(asked), 0
    for kind, (x, y, w) in ROWS_OF_RIVER.items():
        if kind == "too many features" and isinstance(estimator, InterClassScatter):
            continue  # which takes any number
        before = trace_of(model)
        with pytest.raises((TypeError, ValueError)):
            model.learn_one(x, y, w)
        assert differences(before, trace_of(model)) == [], kind
        many = pd.DataFrame([{"a": 1.0}, x])
        if kind != "no label":
            with pytest.raises((TypeError, ValueError)):
                model.learn_many(many, pd.Series([0, y], dtype=object), [1.0, w])
            assert differences(before, trace_of(model)) == [], kind
        refused += 1
    assert refused >= 20
    assert model.predict_proba_one(asked) == said
    model.learn_one({"new": 1.0}, "late")
    assert set(model.predict_proba_one(asked)) == {0, 1, "late"}
