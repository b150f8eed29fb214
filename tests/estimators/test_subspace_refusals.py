"""Bad rows, labels, weights and parameters are refused by the linear estimators, with what is needed instead."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError

from kampong import FisherDiscriminant, MarginSubspace, MaximumMarginCriterion, SupervisedKampongMeasure
from linear_models import MODELS, quiet


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_bad_rows_and_labels_are_refused(model, method):
    X, y = load_iris(return_X_y=True)
    bad = X.copy()
    bad[3, 1] = np.nan

    def call(rows, labels, **extra):
        return getattr(clone(model), method)(rows, labels, **extra)

    for rows, labels, extra, match in [
        (bad, y, {}, "Input X contains NaN"),
        (np.where(np.isnan(bad), np.inf, bad), y, {}, "Input X contains infinity"),
        (sparse.csr_array(bad), y, {}, "Input X contains NaN"),
        (X, None, {}, "requires y to be passed, but the target y is None"),
        (X, y[:-1], {}, "inconsistent numbers of samples"),
        (X, X[:, 0], {}, "Unknown label type: continuous"),
        (X, np.where(y == 2, np.nan, y), {}, "Input y contains NaN"),
        (X, np.where(y == 2, None, y.astype(object)), {}, "y contains None|contains None|Input y contains NaN|label"),
        (X[:0], y[:0], {}, r"Found array with 0 sample\(s\)"),
        (X[0], y[0], {}, "Expected 2D array"),
        (X, y, {"sample_weight": -np.ones(150)}, "negative weight -1. Weights are counts: give numbers ≥ 0"),
        (X, y, {"sample_weight": np.full(150, np.nan)}, "sample_weight contains NaN or infinity"),
        (X, y, {"sample_weight": np.ones(3)}, r"sample_weight has shape \(3,\), but X has 150 rows"),
        (
            X,
            np.eye(3)[y] * 2,
            {},
            "a multi-label target is a matrix of 0 and 1|Unknown label type|multiclass-multioutput",
        ),
    ]:
        with pytest.raises((ValueError, TypeError), match=match):
            call(rows, labels, **extra)


@quiet
@pytest.mark.parametrize("model", MODELS)
def test_one_class_is_refused_where_a_result_is_read(model):
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=r"y holds only one class, 0; directions"):
        clone(model).fit(X[:50], y[:50])
    stream = clone(model).partial_fit(X[:50], y[:50])
    assert stream.classes_.tolist() == [0]
    with pytest.raises(NotFittedError, match="Go on with rows of another class"):
        stream.transform(X)
    assert not hasattr(stream, "components_")
    assert stream.partial_fit(X[50:], y[50:]).transform(X).shape[0] == 150


def test_all_zero_weights():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=r"FisherDiscriminant.fit: all sample weights are zero"):
        FisherDiscriminant().fit(X, y, sample_weight=np.zeros(150))
    model = FisherDiscriminant().fit(X, y)
    before = model.predict_proba(X)
    model.partial_fit(X, y, sample_weight=np.zeros(150))
    np.testing.assert_array_equal(model.predict_proba(X), before)
    assert model.n_samples_seen_ == 150


@pytest.mark.parametrize(
    ("model", "match"),
    [
        (MarginSubspace(5), "MarginSubspace: n_components=5, but X has 4 features. Ask for at most 4"),
        (MarginSubspace(0), "n_components must be a whole number ≥ 1, 'auto' or None, got 0"),
        (MarginSubspace(1.5), "n_components must be a whole number ≥ 1, 'auto' or None, got 1.5"),
        (MarginSubspace("all"), "n_components must be a whole number ≥ 1, 'auto' or None, got 'all'"),
        (
            MarginSubspace(epsilon=-1),
            "MarginSubspace: epsilon must be a number in .*, got -1. 0 weighs the class means",
        ),
        (MarginSubspace(epsilon="big"), "MarginSubspace: epsilon must be a number"),
        (MarginSubspace(decay=0), "MarginSubspace: decay must be a number in .*, got 0. 1 forgets nothing"),
        (MarginSubspace(decay=1.1), "MarginSubspace: decay must be a number in"),
        (
            MarginSubspace(head="softmax"),
            "head must be one of 'auto', 'best', 'gaussian', 'nearest_mean'.*, got 'softmax'",
        ),
        (
            MarginSubspace(solver="exact"),
            r"solver must be 'auto' or one of \['gram', 'reservoir', 'resolvent', 'scatter'",
        ),
        (MarginSubspace(solver="gram"), "'gram' knows the class means only"),
        (SupervisedKampongMeasure(a=0.5), "SupervisedKampongMeasure: a must be a number .*, got 0.5"),
        (FisherDiscriminant(ridge=-1), "FisherDiscriminant: ridge must be a number .*, got -1. Use 'auto'"),
        (
            FisherDiscriminant(3),
            "n_components=3, but 3 classes have at most K − 1 = 2 directions. Ask for at most 2, or give None",
        ),
    ],
)
def test_bad_parameters_are_named(model, match):
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=match):
        model.fit(X, y)


def test_a_stream_keeps_its_width_and_form():
    X, y = load_iris(return_X_y=True)
    model = FisherDiscriminant().partial_fit(X, y)
    with pytest.raises(ValueError, match="X has 3 features, but FisherDiscriminant is expecting 4 features"):
        model.partial_fit(X[:, :3], y)
    with pytest.raises(ValueError, match="X has 3 features, but FisherDiscriminant is expecting 4 features"):
        model.transform(X[:, :3])
    with pytest.raises(ValueError, match="one label per row before, an indicator matrix now"):
        model.partial_fit(X, np.eye(3, dtype=int)[y])
    with pytest.raises(ValueError, match="label 'a', a string, next to labels such as 0, a number"):
        model.partial_fit(X, ["a"] * 150)
    assert model.n_samples_seen_ == 150


def test_merge_refuses_what_does_not_fit():
    X, y = load_iris(return_X_y=True)
    model = MarginSubspace(1, epsilon=0.5).fit(X, y)
    with pytest.raises(ValueError, match=r"MarginSubspace.merge: the parameters differ: epsilon=0.5 and epsilon=0.2"):
        model.merge(MarginSubspace(1, epsilon=0.2).fit(X, y))
    with pytest.raises(ValueError, match="one has 4 features, the other 3"):
        model.merge(MarginSubspace(1, epsilon=0.5).fit(X[:, :3], y))
    with pytest.raises(
        TypeError, match=r"MarginSubspace\.merge needs another MarginSubspace, got MaximumMarginCriterion"
    ):
        model.merge(MaximumMarginCriterion(1).fit(X, y))
    with pytest.raises(NotFittedError):
        model.merge(MarginSubspace(1, epsilon=0.5))
    frame = pd.DataFrame(X, columns=list("abcd"))
    named = MarginSubspace(1, epsilon=0.5).fit(frame, y)
    with pytest.raises(ValueError, match="the feature names differ"):
        named.merge(MarginSubspace(1, epsilon=0.5).fit(frame[list("dcba")].set_axis(list("dcba"), axis=1), y))
    both = named.merge(named)
    assert both.n_samples_seen_ == 300
    assert both.transform(frame).shape == (150, 1)
