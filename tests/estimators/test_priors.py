"""Shares of the classes that are given: as in scikit-learn's LDA, for every head, in streams, merges and files."""

import numpy as np
import pytest
from scipy import special
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

import kampong
from kampong import (
    CriterionSubspace,
    FisherDiscriminant,
    InterClassScatter,
    KernelFisherDiscriminant,
    KernelMarginSubspace,
    MarginSubspace,
    MaximumMarginCriterion,
    SupervisedKampongMeasure,
)
from linear_models import quiet
from problems import problem
from reference_linear import largest_angle

GIVEN = np.array([0.7, 0.2, 0.1])
HEADS = ["gaussian", "nearest_mean", "cosine", "regression", "mixture", "quadratic", "logistic", "hinge", "auto"]


def uneven(load):
    X, y = load(return_X_y=True)
    kept = np.r_[np.flatnonzero(y == 0)[:20], np.flatnonzero(y > 0)]
    order = np.random.default_rng(0).permutation(len(kept))
    return X[kept[order]], y[kept[order]]


@pytest.mark.parametrize("load", [load_iris, load_wine])
@pytest.mark.parametrize("priors", [GIVEN, [1 / 3, 1 / 3, 1 / 3]])
def test_without_a_ridge_it_is_scikit_learns_lda(load, priors):
    X, y = uneven(load)
    peer = LinearDiscriminantAnalysis(priors=priors).fit(X, y)
    model = FisherDiscriminant(ridge=0.0, priors=priors).fit(X, y)
    np.testing.assert_allclose(model.priors_, peer.priors_)
    np.testing.assert_allclose(model.xbar_, peer.xbar_)
    np.testing.assert_allclose(model.explained_variance_ratio_, peer.explained_variance_ratio_, rtol=1e-7)
    for theirs, ours in zip(peer.scalings_.T, model.components_, strict=False):
        assert abs(theirs @ ours) / np.linalg.norm(theirs) / np.linalg.norm(ours) == pytest.approx(1.0, abs=1e-9)
    # older versions divide S_w by n − K, ours by n: distances differ by that factor, the priors do not
    n, K = len(y), 3
    factor = 1.0 if np.allclose(model.coef_ - model.coef_[0], peer.coef_ - peer.coef_[0]) else n / (n - K)
    expected = (peer.decision_function(X) - np.log(priors)) * factor + np.log(priors)
    np.testing.assert_allclose(np.diff(model.decision_function(X)), np.diff(expected), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(model.predict_proba(X), special.softmax(expected, axis=1), atol=1e-8)
    np.testing.assert_allclose(X @ model.coef_.T + model.intercept_, model.decision_function(X), atol=1e-6)


def test_fewer_directions_follow_the_given_shares():
    X, y = uneven(load_wine)
    peer = LinearDiscriminantAnalysis(n_components=1, priors=GIVEN).fit(X, y)
    model = FisherDiscriminant(1, ridge=0.0, priors=GIVEN).fit(X, y)
    assert largest_angle(model.components_, peer.scalings_[:, :1].T) < 1e-6
    plain = FisherDiscriminant(1, ridge=0.0).fit(X, y)
    assert largest_angle(model.components_, plain.components_) > 1e-2


@pytest.mark.parametrize("head", HEADS)
def test_every_head_moves_by_the_ratio_of_the_shares(head):
    X, y = load_digits(return_X_y=True)
    kept = (y > 2) | (np.arange(len(y)) % 3 == 0)
    X, y = X[kept], y[kept]
    plain = FisherDiscriminant(head=head).fit(X, y)
    for priors in ("uniform", np.arange(1, 11) / 55):
        model = FisherDiscriminant(head=head, priors=priors).fit(X, y)
        assert model.head_ == plain.head_
        given = np.full(10, 0.1) if isinstance(priors, str) else priors
        np.testing.assert_allclose(model.priors_, given)
        moved = plain.predict_proba(X) * given / plain.priors_
        moved /= moved.sum(axis=1, keepdims=True)
        found = model.predict_proba(X)
        np.testing.assert_allclose(found, moved, atol=1e-5)
        np.testing.assert_array_equal(model.predict(X), model.classes_[found.argmax(axis=1)])
        np.testing.assert_array_equal(model.decision_function(X).argmax(axis=1), found.argmax(axis=1))


ALL = [
    FisherDiscriminant(ridge=0.1),
    FisherDiscriminant(),
    MarginSubspace(2, epsilon=0.1),
    MarginSubspace(2, epsilon="auto"),
    InterClassScatter(),
    MaximumMarginCriterion(2),
    SupervisedKampongMeasure(2, a=1.5),
    CriterionSubspace(2, criterion="margin", parameter=0.1),
    KernelFisherDiscriminant(landmarks=40),
    KernelMarginSubspace(2, landmarks=40, epsilon=0.1),
]


@quiet
@pytest.mark.parametrize("model", ALL, ids=str)
@pytest.mark.parametrize("priors", ["uniform", [0.7, 0.2, 0.1]])
def test_fit_stream_merge_and_file_agree(model, priors, tmp_path):
    X, y = problem(3, classes=3, rows=240, features=5)
    X, y = X[np.r_[0:240]], y
    landmarks = {"landmarks": X[:40]} if hasattr(model, "landmarks") else {}
    model = clone(model).set_params(priors=priors, **landmarks)
    fitted = clone(model).fit(X, y)
    streamed = clone(model)
    for start in range(0, 240, 60):
        streamed.partial_fit(X[start : start + 60], y[start : start + 60])
    assert largest_angle(fitted.components_, streamed.components_) < 1e-6
    np.testing.assert_allclose(streamed.priors_, fitted.priors_)
    if model.get_params().get("ridge") != "auto" and model.get_params().get("epsilon") != "auto" and not landmarks:
        merged = clone(model).fit(X[:100], y[:100]).merge(clone(model).fit(X[100:], y[100:]))
        assert largest_angle(fitted.components_, merged.components_) < 1e-6
        np.testing.assert_allclose(merged.predict_proba(X), streamed.predict_proba(X), atol=1e-8)
    if landmarks:
        return
    fitted.save(tmp_path / "model")
    loaded = kampong.load(tmp_path / "model")
    assert list(loaded.priors) == list(priors)
    np.testing.assert_array_equal(loaded.predict_proba(X), fitted.predict_proba(X))
    kept = streamed.freeze(keep=fitted.freeze())
    np.testing.assert_allclose(kept.probabilities(X).sum(axis=1), 1.0)


def test_a_share_of_zero_is_never_predicted(tmp_path):
    X, y = uneven(load_iris)
    model = FisherDiscriminant(priors=[0.5, 0.5, 0.0]).fit(X, y)
    assert set(model.predict(X)) == {0, 1}
    np.testing.assert_array_equal(model.predict_proba(X)[:, 2], 0.0)
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(kampong.load(tmp_path / "model").predict(X), model.predict(X))


def test_an_exported_model_has_them_too():
    X, y = uneven(load_wine)
    model = FisherDiscriminant(ridge=0.1, head="gaussian", priors="uniform").fit(X, y)
    np.testing.assert_allclose(model.to_sklearn().predict_proba(X), model.predict_proba(X), atol=1e-12)
    bent = FisherDiscriminant(head="gaussian", priors="uniform").fit(X, y)
    if bent.freeze().head.tail:
        with pytest.raises(AttributeError, match="moves probabilities that are not linear"):
            _ = bent.coef_
    np.testing.assert_allclose(bent.to_sklearn().predict_proba(X), bent.predict_proba(X), atol=1e-12)


@pytest.mark.parametrize(
    ("priors", "text"),
    [
        ("equal", "priors must be one of 'observed', 'uniform', got 'equal'"),
        ([0.5, 0.6, 0.1], r"priors sum to 1.2. Give shares that sum to 1"),
        ([0.5, -0.5, 1.0], r"a list of numbers ≥ 0, one for each class, got \[0.5, -0.5, 1.0\]"),
        ([[1.0]], "a list of numbers"),
        (object(), "a list of numbers"),
        ([np.nan, 1.0, 0.0], "a list of numbers"),
        ([0.5, 0.5], r"priors has 2 shares, and there are 3 classes: 0, 1, 2. Give one share for each, in this order"),
    ],
)
@pytest.mark.parametrize("kind", [FisherDiscriminant, KernelFisherDiscriminant])
def test_what_is_wrong_is_named(kind, priors, text):
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=text):
        kind(priors=priors).fit(X, y)


def test_several_labels_a_row_are_refused():
    X = np.random.default_rng(0).normal(size=(60, 4))
    Y = (X[:, :3] > 0).astype(int)
    with pytest.raises(ValueError, match="priors must be 'observed' where a row has several labels"):
        FisherDiscriminant(priors="uniform").fit(X, Y)


def test_models_of_other_shares_are_not_merged():
    X, y = load_iris(return_X_y=True)
    one, other = (FisherDiscriminant(priors=priors).fit(X, y) for priors in ("uniform", GIVEN))
    with pytest.raises(ValueError, match=r"the parameters differ: priors='uniform' and priors=array"):
        one.merge(other)
    FisherDiscriminant(priors=list(GIVEN)).fit(X, y).merge(other)
