"""Probabilities of core vector machines: calibrated on rows not learnt, by folds or before a batch is learnt."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification
from sklearn.metrics import log_loss
from sklearn.metrics.pairwise import rbf_kernel

from kampong import from_bytes
from kampong.heads.calibration import ValidationRows, calibrated, fit_calibration
from kampong.margin import CoreVectorClassifier
from kampong.margin.probabilities import by_folds
from kampong.selection.settings import SETTINGS
from kampong.statistics.sampling import row_keys

LOSSES = ["squared", "hinge"]


def clouds(seed=0, n=600, classes=3):
    X, y = make_classification(
        n, 6, n_informative=4, n_redundant=0, n_classes=classes, n_clusters_per_class=1, class_sep=0.8,
        flip_y=0.15, random_state=seed,
    )  # fmt: skip
    return X, np.array(["b", "a", "c", "d"])[y]


def machine(**more):
    return CoreVectorClassifier(10.0, probability=True, **more)


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("classes", [2, 3])
def test_probabilities_add_up_agree_with_predict_and_are_as_good_as_a_peers(loss, classes):
    X, y = clouds(1, 1600, classes)
    X, y, X_test, y_test = X[:800], y[:800], X[800:], y[800:]
    model = machine(loss=loss).fit(X, y)
    found = model.predict_proba(X_test)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    np.testing.assert_allclose(np.log(found), model.predict_log_proba(X_test))
    assert (model.classes_[found.argmax(axis=1)] == model.predict(X_test)).all()
    mine = log_loss(y_test, found)
    peer = CalibratedClassifierCV(CoreVectorClassifier(10.0, loss=loss), cv=5, ensemble=False).fit(X, y)
    assert mine < log_loss(y_test, peer.predict_proba(X_test)) + 0.03
    streamed = machine(loss=loss)
    for start in range(0, 800, 200):
        streamed.partial_fit(X[start : start + 200], y[start : start + 200])
    assert log_loss(y_test, streamed.predict_proba(X_test)) < mine + 0.05


@pytest.mark.parametrize("kernel", ["rbf", "precomputed"])
def test_folds_score_each_row_once_by_a_model_of_the_others(kernel):
    X, y = clouds(2, 150)
    K, weights = rbf_kernel(X, gamma=0.1), np.arange(150) % 3 + 1.0
    model = machine(gamma=0.1, kernel=kernel, class_weight={"a": 2.0}, tol=1e-8)
    rows = K if kernel == "precomputed" else X
    model.fit(rows, y, weights)
    held_out = by_folds(model, rows, np.searchsorted(model.classes_, y), weights, 3)
    assert len(held_out.codes) == 150
    assert held_out.weights.sum() == weights.sum()
    assert model._calibration == fit_calibration(held_out.scores, ValidationRows(held_out.codes, held_out.weights))
    np.testing.assert_array_equal(
        model.predict_log_proba(rows), calibrated(model.decision_function(rows), *model._calibration)
    )
    # the first fold, by the rule written out again: of each class every fifth row, in the order of the keys
    keys = row_keys(np.arange(1, 151), np.ones(150), seed=0)
    members = [np.flatnonzero(y == label) for label in model.classes_]
    out = np.sort(np.concatenate([mine[np.argsort(keys[mine])][:: SETTINGS.folds] for mine in members]))
    others = np.setdiff1d(np.arange(150), out)
    alone = clone(model).set_params(kernel="precomputed", probability=False)
    alone.fit(K[np.ix_(others, others)], y[others], weights[others])
    np.testing.assert_allclose(held_out.scores[: len(out)], alone.decision_function(K[np.ix_(out, others)]), atol=1e-3)


def test_a_batch_is_scored_before_it_is_learnt_and_the_last_ones_count():
    X, y = clouds(3, 400)
    model = machine(max_stored_rows=150).partial_fit(X[:100], y[:100])
    assert len(model._held_out.codes) == 100
    expected = model.decision_function(X[100:200])
    model.partial_fit(X[100:200], y[100:200])
    np.testing.assert_array_equal(model._held_out.scores[-100:], expected)
    assert len(model._held_out.codes) == 150
    again = from_bytes(model.to_bytes())
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    merged = again.merge(machine(max_stored_rows=150).partial_fit(X[200:], y[200:]))
    assert len(merged._held_out.codes) == 150
    # a class that comes late: earlier scores do not know it
    labels = np.where(np.arange(100) % 5 == 0, "new", y[200:300])
    model.partial_fit(X[200:300], labels)
    assert model._held_out.scores.shape == (100, 4)
    assert model.predict_proba(X).shape == (400, 4)


def test_without_held_out_rows_there_are_no_probabilities():
    X, y = clouds(4, 60)
    plain = CoreVectorClassifier().fit(X, y)
    assert not hasattr(plain, "predict_proba")
    with pytest.raises(AttributeError, match="predict_proba") as error:
        plain.predict_proba(X)
    assert "with probability=True only" in str(error.value.__cause__)
    with pytest.raises(AttributeError, match="predict_log_proba") as error:
        plain.set_params(probability=True).predict_log_proba(X)
    assert "set after the fit" in str(error.value.__cause__)
    # one row of a class: a model of the other folds does not know it, so its fold of 13 rows is left out
    y[:] = "a"
    y[0] = "b"
    alone = machine().fit(X, y)
    assert alone._held_out.codes.tolist() == [0] * 47
    np.testing.assert_allclose(alone.predict_proba(X).sum(axis=1), 1.0)
