"""Weights of rows in MinOver, MaxMinOver and MMDA: a weight of 2 is the row twice."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification

import kampong
import reference_margin as reference
from kampong.margin import MaximumMarginDiscriminant, MaxMinOverClassifier, MinOverClassifier
from kampong.margin import problem as problem_module
from kampong.margin.hull import Hull

SOFT = [
    MaxMinOverClassifier(0.3, tol=1e-8, gamma=0.2),
    MaxMinOverClassifier(0.3, tol=1e-8, gamma=0.2, bias="exact"),
    MaxMinOverClassifier(0.6, nu_of="largest", tol=1e-8, gamma=0.2),
]
HARD = [
    MinOverClassifier(tol=1e-8, gamma=2.0),
    MaxMinOverClassifier(tol=1e-8, gamma=2.0, bias="exact"),
    MaxMinOverClassifier(tol=1e-3, gamma=2.0, walk="paper"),
]


def clouds(seed, classes, n=90):
    return make_classification(
        n, 5, n_informative=4, n_redundant=0, n_classes=classes, n_clusters_per_class=1, random_state=seed
    )


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("model", [*SOFT, *HARD], ids=str)
def test_weights_are_counts(model, classes, small, monkeypatch):
    if small:
        # core sets that grow, in place of all patterns from the start
        monkeypatch.setattr(problem_module, "SMALL", 20)
    X, y = clouds(3, classes)
    weights = np.random.default_rng(0).integers(0, 4, len(y))
    copies = np.repeat(np.arange(len(y)), weights)
    weighted = clone(model).fit(X, y, weights)
    repeated = clone(model).fit(X[copies], y[copies])
    atol = 1e-2 if model.walk == "paper" else 1e-3
    np.testing.assert_allclose(weighted.decision_function(X), repeated.decision_function(X), atol=atol)
    np.testing.assert_allclose(weighted.margin_, repeated.margin_, rtol=atol)
    assert (weights[weighted.support_] > 0).all()
    np.testing.assert_array_equal(X[weighted.support_], weighted.support_vectors_)
    if model in SOFT:
        np.testing.assert_allclose(weighted.nu_, repeated.nu_)


@pytest.mark.parametrize("seed", range(5))
def test_the_bound_of_unequal_caps_is_the_least_over_the_hull(seed):
    rng = np.random.default_rng(seed)
    caps, gradient = rng.uniform(0.05, 0.6, 12), rng.normal(size=12)
    signs = np.where(np.arange(12) % 2, 1.0, -1.0)
    for split in (False, True):
        hull = Hull(signs, cap=caps, split=split)
        bound = hull.gap(np.zeros(12), gradient).bound
        expected = 0.0
        for group in range(2 if split else 1):
            left, mine = hull.group_sum, np.flatnonzero(hull.groups == group)
            for i in sorted(mine, key=lambda i: gradient[i]):
                used = min(left, caps[i])
                expected, left = expected + used * gradient[i], left - used
        assert bound == pytest.approx(expected)
        same = Hull(signs, cap=0.2, split=split).gap(np.zeros(12), gradient).bound
        assert Hull(signs, cap=np.full(12, 0.2), split=split).gap(np.zeros(12), gradient).bound == pytest.approx(same)


def test_soft_weights_against_a_quadratic_program():
    X, y = clouds(5, 2, n=40)
    weights = np.random.default_rng(1).uniform(0.5, 2.0, 40)
    model = MaxMinOverClassifier(0.4, kernel="linear", tol=1e-9).fit(X, y, weights)
    Z = reference.patterns(X, np.where(y == 1, 1.0, -1.0))
    count = np.ceil(0.4 * weights.sum())
    alpha = reference.nearest_capped(Z @ Z.T, weights / count)
    v = alpha @ Z
    raw = np.zeros(40)
    raw[model.support_] = np.abs(model.dual_coef_[0])
    raw /= raw.sum()
    assert (raw <= weights / count + 1e-9).all()
    assert np.sum((raw @ Z) ** 2) == pytest.approx(v @ v, rel=1e-5)


def test_refusals():
    X, y = clouds(6, 2)
    weights = np.arange(90) % 2 + 1.0
    with pytest.raises(ValueError, match=r"walk='paper' counts patterns in whole steps.*Use walk='fast'"):
        MaxMinOverClassifier(0.3, walk="paper").fit(X, y, weights)
    with pytest.raises(ValueError, match="sample_weight is zero for all rows, so none is left"):
        MinOverClassifier().fit(X, y, np.zeros(90))
    with pytest.raises(ValueError, match=r"nu=0.3 asks for 1 of 0.9 patterns"):
        MaxMinOverClassifier(0.3).fit(X, y, np.full(90, 0.01))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        same = MaxMinOverClassifier(0.3, walk="paper", max_iter=50).fit(X, y, np.ones(90))
        assert same.predict(X).shape == (90,)


def batches(X, y, weights, cut):
    """Return the two batches of a stream."""
    return (X[:cut], y[:cut], [0, 1], weights[:cut]), (X[cut:], y[cut:], None, weights[cut:])


@pytest.mark.parametrize("model", [*SOFT, *HARD], ids=str)
def test_weights_of_a_stream_are_counts_of_what_is_stored(model):
    X, y = clouds(3, 2)
    weights = np.random.default_rng(0).integers(1, 4, len(y)).astype(float)
    one, two = batches(X, y, weights, 60)
    stream = clone(model).partial_fit(*one)
    np.testing.assert_array_equal(stream.decision_function(X), clone(model).fit(*one[:2], one[3]).decision_function(X))
    kept = stream.support_
    stream.partial_fit(*two)
    together = clone(model).fit(np.concatenate([X[kept], two[0]]), np.r_[y[kept], two[1]], np.r_[weights[kept], two[3]])
    atol = 1e-2 if model.walk == "paper" else 1e-3
    np.testing.assert_allclose(stream.decision_function(X), together.decision_function(X), atol=atol)
    plain = clone(model).partial_fit(*one[:3]).partial_fit(*two[:2])
    moved = np.abs(plain.decision_function(X) - stream.decision_function(X)).max()
    assert moved > 10 * atol if model in SOFT else moved < atol, "a hard margin is the same however often a row counts"


@pytest.mark.parametrize("model", [*SOFT, *HARD], ids=str)
def test_rows_of_weight_zero_are_absent_from_a_stream(model):
    X, y = clouds(3, 2)
    weights = np.where(np.arange(len(y)) % 3, 2.0, 0.0)
    stream, short = clone(model), clone(model)
    for X_part, y_part, classes, some in batches(X, np.where(weights > 0, y, 7), weights, 40):
        stream.partial_fit(X_part, y_part, classes, some)
        short.partial_fit(X_part[some > 0], y_part[some > 0], classes, some[some > 0])
        stream = kampong.from_bytes(stream.to_bytes())
    np.testing.assert_array_equal(stream.decision_function(X), short.decision_function(X))
    np.testing.assert_array_equal(X[stream.support_], stream.support_vectors_)
    assert stream.n_samples_seen_ == len(y)
    before = stream.dual_coef_
    stream.partial_fit(X[:9], y[:9], sample_weight=np.zeros(9))
    assert stream.n_samples_seen_ == len(y) + 9
    np.testing.assert_array_equal(before, stream.dual_coef_)


FEATURES = [
    MaximumMarginDiscriminant(2, tol=1e-9, gamma=0.2),
    MaximumMarginDiscriminant(1, tol=1e-9, kernel="linear", C=10.0),
    MaximumMarginDiscriminant(1, method="exact", gamma="mean"),
    MaximumMarginDiscriminant(2, tol=1e-9, gamma=0.2, orthogonal="all"),
]


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("model", FEATURES, ids=str)
def test_weights_of_features_are_counts(model, classes, small, monkeypatch):
    if small:
        monkeypatch.setattr(problem_module, "SMALL", 20)
    X, y = clouds(3, classes)
    weights = np.random.default_rng(0).integers(0, 4, len(y))
    copies = np.repeat(np.arange(len(y)), weights)
    weighted = clone(model)
    values = weighted.fit_transform(X, y, sample_weight=weights)
    repeated = clone(model).fit(X[copies], y[copies])
    np.testing.assert_allclose(weighted.transform(X), repeated.transform(X), atol=1e-3)
    np.testing.assert_allclose(values, weighted.transform(X), atol=1e-9)
    np.testing.assert_allclose(weighted.class_means_, repeated.class_means_, atol=1e-3)
    np.testing.assert_allclose(weighted.margin_, repeated.margin_, rtol=1e-3)
    assert weighted.gamma_ == pytest.approx(repeated.gamma_)
    np.testing.assert_array_equal(X[weighted.support_], weighted.support_vectors_)
    assert (weights[weighted.support_] > 0).all()
    plain = clone(model).fit(X, y)
    assert np.abs(plain.transform(X) - weighted.transform(X)).max() > 0.01


def test_the_first_weighted_feature_is_that_of_the_classifier():
    X, y = clouds(4, 2)
    weights = np.random.default_rng(1).uniform(0.2, 3.0, len(y))
    feature = MaximumMarginDiscriminant(1, C=3.0, tol=1e-9, gamma=0.2).fit(X, y, weights).transform(X)[:, 0]
    scores = kampong.CoreVectorClassifier(3.0, tol=1e-9, gamma=0.2).fit(X, y, weights).decision_function(X)
    assert np.corrcoef(feature, scores)[0, 1] == pytest.approx(1.0, abs=1e-6)


def test_kernel_values_and_warm_starts_with_rows_of_weight_zero():
    X, y = clouds(3, 3)
    weights = np.where(np.arange(len(y)) % 3, 1.5, 0.0)
    model = MaximumMarginDiscriminant(2, tol=1e-9, kernel="linear").fit(X, y, weights)
    given = MaximumMarginDiscriminant(2, tol=1e-9, kernel="precomputed")
    values = given.fit_transform(X @ X.T, y, sample_weight=weights)
    np.testing.assert_allclose(values, model.transform(X), atol=1e-6)
    warm = MaximumMarginDiscriminant(2, tol=1e-9, gamma=0.2, warm_start=True).fit(X, y, weights)
    before = warm.transform(X)
    warm = kampong.from_bytes(warm.to_bytes()).fit(X, y, weights)
    np.testing.assert_allclose(warm.transform(X), before, atol=1e-4)


def test_weights_of_a_stream_of_features():
    X, y = clouds(3, 2)
    weights = np.random.default_rng(0).integers(0, 4, len(y)).astype(float)
    one, two = batches(X, y, weights, 60)
    model = MaximumMarginDiscriminant(1, tol=1e-9, gamma=0.2)
    stream = clone(model).partial_fit(*one)
    np.testing.assert_allclose(stream.transform(X), clone(model).fit(*one[:2], one[3]).transform(X), atol=1e-9)
    kept = stream.support_
    stream = kampong.from_bytes(stream.to_bytes()).partial_fit(*two)
    together = np.r_[kept, np.arange(60, 90)]
    again = clone(model).fit(X[together], y[together], weights[together])
    np.testing.assert_allclose(stream.transform(X), again.transform(X), atol=1e-3)
    # the sample holds all rows here, so class means are those of all rows
    Z = stream.transform(X)
    means = [np.average(Z[y == k], axis=0, weights=weights[y == k]) for k in (0, 1)]
    np.testing.assert_allclose(stream.class_means_, means, atol=1e-9)
    before = stream.class_means_
    stream.partial_fit(X[:9], y[:9], sample_weight=np.zeros(9))
    assert stream.n_samples_seen_ == 99
    np.testing.assert_array_equal(before, stream.class_means_)


def test_weights_that_features_refuse():
    X, y = clouds(3, 2)
    with pytest.raises(ValueError, match="MaximumMarginDiscriminant: criterion='meb' needs the same weight"):
        MaximumMarginDiscriminant(criterion="meb").fit(X, y, np.arange(90) + 1.0)
    with pytest.raises(ValueError, match="MaximumMarginDiscriminant: sample_weight is zero for all rows"):
        MaximumMarginDiscriminant().fit(X, y, np.zeros(90))
    same = MaximumMarginDiscriminant(criterion="meb", tol=1e-3, gamma=0.2, C=2.0).fit(X, y).transform(X)
    doubled = MaximumMarginDiscriminant(criterion="meb", tol=1e-3, gamma=0.2).fit(X, y, np.full(90, 2.0)).transform(X)
    np.testing.assert_array_equal(doubled, same)
