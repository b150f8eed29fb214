"""same_class: the two-covariance model from its definition, and scores that are true of classes never learnt."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse, special

import kampong
from kampong import FisherDiscriminant, KernelFisherDiscriminant, MarginSubspace
from kampong.estimators.verification import TwoCovariances, Verifier, _Whitened
from problems import at_most, problem, seeds
from reference import same_class_ratio, two_covariances

LEARNERS = [
    FisherDiscriminant(ridge=0.3, head="best", scale=False),
    FisherDiscriminant(),
    FisherDiscriminant(half_life="auto"),
    KernelFisherDiscriminant(landmarks=30, gamma=0.05),
]


def two_covariance_rows(seed, *, classes, rows=20, features=8, within=1.0):
    """Return rows of classes whose means are drawn as the model says, and their labels."""
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(classes), rows)
    spread = np.linspace(0.3, 2.0, features)
    return (spread * rng.standard_normal((classes, features)))[y] + within * rng.standard_normal((len(y), features)), y


def bits(scores, same):
    """Return the log-loss of likelihood ratios, both kinds of pairs weighing the same."""
    return (special.log_expit(scores[same]).mean() + special.log_expit(-scores[~same]).mean()) / -np.log(4)


@settings(max_examples=at_most(30), deadline=None)
@given(
    seeds,
    st.integers(2, 6),
    st.integers(1, 7),
    st.sampled_from([0.0, 0.5]),
    st.booleans(),
    st.sampled_from(["observed", "uniform"]),
)
def test_scores_are_those_of_the_definition(seed, classes, features, ridge, scale, priors):
    X, y = problem(seed, classes=classes, rows=50, features=features)
    model = FisherDiscriminant(ridge=ridge, head="gaussian", scale=scale, priors=priors).fit(X, y)
    units = model.scale_ if scale else np.ones(features)
    shares = np.full(classes, 1 / classes) if priors == "uniform" else None
    known = two_covariances(X, y, ridge=ridge, units=units, priors=shares)
    enrolled, groups, others = X[:6], np.array(list("babcba")), X[6:10]
    expected = [[same_class_ratio([one / units], other / units, *known) for other in others] for one in enrolled]
    found = model.same_class(enrolled, others, all_pairs=True, calibrate=False)
    # a ratio is a difference of log-likelihoods, which are about 1 where it is about 0
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-10 * max(1.0, np.abs(expected).max()))
    several = [
        [same_class_ratio(list(enrolled[groups == group] / units), other / units, *known) for other in others]
        for group in "abc"
    ]
    found = model.same_class(enrolled, others, groups=groups, calibrate=False)
    np.testing.assert_allclose(found, several, rtol=1e-10, atol=1e-10 * max(1.0, np.abs(several).max()))


@pytest.mark.parametrize("model", LEARNERS, ids=repr)
def test_pairs_groups_and_all_pairs_agree_and_order_does_not_matter(model):
    X, y = two_covariance_rows(0, classes=10)
    model = kampong.from_bytes(model.fit(X, y).to_bytes())
    first, second = X[:30], X[100:130]
    every = model.same_class(first, second, all_pairs=True)
    close = {"rtol": 1e-9, "atol": 1e-9 * np.abs(every).max()}
    np.testing.assert_allclose(model.same_class(first, second), every.diagonal(), **close)
    np.testing.assert_allclose(model.same_class(second, first, all_pairs=True), every.T, **close)
    np.testing.assert_allclose(model.same_class(first, second, groups=np.arange(30)), every, **close)
    np.testing.assert_allclose(model.same_class(sparse.csr_array(first), second), every.diagonal(), **close)


@pytest.mark.parametrize("lengths", [0.0, 0.7], ids=["Gaussian", "heavy tails"])
@pytest.mark.parametrize("seed", range(2))
def test_scores_of_new_classes_are_calibrated_also_where_the_model_is_wrong(seed, lengths):
    X, y = two_covariance_rows(seed, classes=60, features=40)
    X *= np.random.default_rng(seed).lognormal(0.0, lengths, len(X))[:, None]
    new = y >= 30
    model = FisherDiscriminant().fit(X[~new], y[~new])
    pairs = np.triu_indices(int(new.sum()), 1)
    same = y[new][pairs[0]] == y[new][pairs[1]]
    scores, plain = (
        model.same_class(X[new], X[new], all_pairs=True, calibrate=calibrate)[pairs] for calibrate in (True, False)
    )
    # neither sharper nor flatter, and no offset, would be much better
    others = [bits(slope * scores + offset, same) for slope in (0.8, 1.0, 1.25) for offset in (-0.5, 0.0, 0.5)]
    assert bits(scores, same) < min(others) + 0.05
    assert bits(scores, same) < (0.5 * bits(plain, same) if lengths else 0.2)


@pytest.mark.parametrize("scale", [False, True])
def test_classes_that_are_left_out_leave_the_directions_and_the_metric(scale):
    X, y = two_covariance_rows(4, classes=9, features=6)
    model = FisherDiscriminant(scale=scale).fit(X, y)
    units = np.ones(6) if model.scale_ is None else model.scale_
    statistics = model._statistics
    sample = statistics.sample(10_000)
    assert len(sample.rows) == len(X)
    codes = sample.members.codes
    whitened = _Whitened.of(statistics, statistics.means, sample, codes, model.ridge_, model.scale_)
    left_out = np.arange(9) % 3 == 1
    mine = np.flatnonzero(left_out[codes])
    centres, points = whitened.without(left_out, mine, model.priors_[~left_out])
    counts = statistics.counts[~left_out]
    verifier = Verifier(TwoCovariances.of(centres, counts, model.priors_[~left_out]), model.mean_)
    rest = FisherDiscriminant(ridge=model.ridge_, scale=False, head="gaussian").fit(
        X[~left_out[y]] / units, y[~left_out[y]]
    )
    rows = sample.rows[mine] / units
    expected = rest.same_class(rows, rows, all_pairs=True, calibrate=False)
    np.testing.assert_allclose(verifier.scores(points, points), expected, rtol=1e-8, atol=1e-8 * np.abs(expected).max())


def test_what_only_new_classes_differ_in_counts_as_well():
    rng = np.random.default_rng(0)
    means = 1.2 * rng.standard_normal((40, 50))
    y = np.repeat(np.arange(40), 15)
    X = means[y] + rng.standard_normal((len(y), 50))
    new = y >= 6  # six classes have five directions
    model = FisherDiscriminant().fit(X[~new], y[~new])
    pairs = np.triu_indices(int(new.sum()), 1)
    same = y[new][pairs[0]] == y[new][pairs[1]]
    scores, plain = (
        model.same_class(X[new], X[new], all_pairs=True, calibrate=calibrate)[pairs] for calibrate in (True, False)
    )
    best = min(bits(slope * plain + offset, same) for slope in (0.1, 0.25, 0.5, 1.0) for offset in (-1.0, 0.0, 1.0))
    assert bits(scores, same) < 0.8 * best


@pytest.mark.parametrize("units", [None, np.array([1.0, 2.0, 0.5])])
def test_cosines_are_those_of_their_definition(units):
    rng = np.random.default_rng(0)
    first, second, centre = rng.standard_normal((4, 3)), rng.standard_normal((4, 3)), rng.standard_normal(3)
    first[0], second[1] = centre, 0.0
    verifier = Verifier(TwoCovariances(np.zeros(1), np.eye(1), np.ones(1)), centre, units)
    a, b = ((rows - centre) / (1.0 if units is None else units) for rows in (first, second))
    expected = [[p @ q / (np.linalg.norm(p) * np.linalg.norm(q) or 1.0) for q in b] for p in a]
    for kinds in ((np.asarray, np.asarray), (sparse.csr_array, sparse.csr_array), (np.asarray, sparse.csr_array)):
        rows = [kind(one) for kind, one in zip(kinds, (first, second), strict=True)]
        found = verifier.cosines(*rows)
        np.testing.assert_allclose(found[1:], expected[1:], atol=1e-12)
        np.testing.assert_allclose(verifier.cosines(*rows, each=True)[1:], np.diagonal(expected)[1:], atol=1e-12)
        assert np.abs(found[0]).max() == 0.0  # a row that is the mean has no direction


def test_more_enrolled_rows_tell_more():
    X, y = two_covariance_rows(5, classes=60, features=30, within=1.5)
    new = y >= 30
    model = FisherDiscriminant().fit(X[~new], y[~new])
    rows, labels = X[new].reshape(30, 20, 30), np.arange(30)
    same = labels[:, None] == np.repeat(labels, 10)
    probes = rows[:, 10:].reshape(300, 30)
    one = model.same_class(rows[:, 0], probes, all_pairs=True)
    ten = model.same_class(rows[:, :10].reshape(300, 30), probes, groups=np.repeat(labels, 10))
    assert bits(ten, same) < 0.7 * bits(one, same)


@pytest.mark.parametrize("model", LEARNERS[:2], ids=repr)
def test_merged_loaded_unlearnt_and_weighted_models_give_the_scores_of_one_fit(model):
    X, y = two_covariance_rows(1, classes=8)
    order = np.random.default_rng(0).permutation(len(X))
    X, y = X[order], y[order]
    expected = model.fit(X[:120], y[:120]).same_class(X[120:140], X[140:160])
    close = {"rtol": 1e-5, "atol": 1e-5 * np.abs(expected).max()}
    first, second = (FisherDiscriminant(**model.get_params()).set_params(random_state=seed) for seed in (0, 7))
    merged = first.partial_fit(X[:50], y[:50]).merge(second.partial_fit(X[50:120], y[50:120]))
    np.testing.assert_allclose(merged.same_class(X[120:140], X[140:160]), expected, **close)
    first.partial_fit(X[50:160], y[50:160])
    assert not np.allclose(first.same_class(X[120:140], X[140:160]), expected, rtol=1e-3)
    first.unlearn(X[120:160], y[120:160])
    np.testing.assert_allclose(first.same_class(X[120:140], X[140:160]), expected, **close)
    weighted = first.fit(X[:120], y[:120], sample_weight=np.full(120, 1e-3))
    np.testing.assert_allclose(weighted.same_class(X[120:140], X[140:160]), expected, **close)


def test_a_class_declared_but_not_seen_changes_nothing():
    X, y = two_covariance_rows(2, classes=6)
    plain = FisherDiscriminant(ridge=1.0, head="best").partial_fit(X, y)
    declared = FisherDiscriminant(ridge=1.0, head="best").partial_fit(X, y, classes=np.arange(-1, 9))
    np.testing.assert_allclose(declared.same_class(X[:9], X[9:18]), plain.same_class(X[:9], X[9:18]))


def test_refusals_say_what_to_do():
    X, y = two_covariance_rows(3, classes=3)
    model = FisherDiscriminant().fit(X, y)
    with pytest.raises(ValueError, match=r"X1 has 2 rows and X2 3\. .* all_pairs=True"):
        model.same_class(X[:2], X[:3])
    with pytest.raises(ValueError, match=r"groups has the shape \(3,\), and X1 has 2 rows\. Give one entry for each"):
        model.same_class(X[:2], X[:2], groups=[1, 2, 3])
    with pytest.raises(ValueError, match=r"at least four classes; there are 60 rows and 3 classes\. Give"):
        model.same_class(X[:2], X[:2])
    assert np.isfinite(model.same_class(X[:2], X[:2], calibrate=False)).all()
    given = FisherDiscriminant(ridge=1.0, head="gaussian").fit(X, y)
    with pytest.raises(ValueError, match=r"which this model does not keep\. Give calibrate=False"):
        given.same_class(X[:2], X[:2])
    several = FisherDiscriminant().fit(X, np.eye(3, dtype=int)[y])
    with pytest.raises(ValueError, match="rows have several labels, so they are not of one class or of two"):
        several.same_class(X[:2], X[:2])
    assert not hasattr(MarginSubspace(), "same_class")
