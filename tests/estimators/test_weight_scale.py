"""Weights compare rows: their scale changes nothing, in any estimator, head or stream."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_wine, make_multilabel_classification
from sklearn.utils.estimator_checks import (
    check_sample_weight_equivalence_on_dense_data,
    check_sample_weight_equivalence_on_sparse_data,
)

from kampong import (
    CriterionSubspace,
    FisherDiscriminant,
    InformationGain,
    InterClassScatter,
    KernelFisherDiscriminant,
    KernelMarginSubspace,
    MarginSubspace,
    MaximumMarginCriterion,
    SupervisedKampongMeasure,
)
from kampong.criteria import FisherCriterion
from kampong.statistics import ClassMeans, ClassScatter
from kampong.statistics.all_rows import ClassRows, PartRows, drawn, within_squares, within_times

HEADS = (
    "auto",
    "best",
    "gaussian",
    "nearest_mean",
    "cosine",
    "regression",
    "quadratic",
    "logistic",
    "hinge",
    "mixture",
)
LINEAR = (FisherDiscriminant, MarginSubspace, InterClassScatter, MaximumMarginCriterion, SupervisedKampongMeasure)
KERNEL = (KernelFisherDiscriminant, KernelMarginSubspace)
OTHERS = (
    FisherDiscriminant(ridge="rule"),
    FisherDiscriminant(ridge=0.1),
    FisherDiscriminant(decay=0.99),
    FisherDiscriminant(half_life=50.0),
    FisherDiscriminant(ridge="rule", half_life="auto"),
    FisherDiscriminant(scale=True),
    FisherDiscriminant(solver="resolvent"),
    MarginSubspace(epsilon="auto", solver="resolvent"),
    MarginSubspace(epsilon=0.5, half_life=20.0, head="best"),
    KernelFisherDiscriminant(gamma="auto", landmarks=20),
    KernelFisherDiscriminant(landmarks="fourier"),
)
QUICK = (FisherDiscriminant, KernelMarginSubspace)  # the others go the same ways
EVERY = [
    *OTHERS,
    *(
        pytest.param(kind(head=head), marks=() if kind in QUICK or head == "auto" else pytest.mark.slow)
        for kind in LINEAR + KERNEL
        for head in HEADS
    ),
]
ANY = [
    pytest.param(kind(head=head), marks=() if head in ("auto", "mixture") else pytest.mark.slow)
    for kind in LINEAR
    for head in HEADS
]

pytestmark = pytest.mark.filterwarnings("ignore::kampong.CriterionWarning")


def problem(n=150):
    X, y = load_wine(return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(X))[:n]
    return (X[rows] - X.mean(axis=0)) / X.std(axis=0), y[rows]


def answers(model, X, y, weights, *, stream):
    model = clone(model)
    if not stream:
        return model.fit(X, y, sample_weight=weights).predict_proba(X)
    for start in range(0, len(y), 40):
        part = slice(start, start + 40)
        model.partial_fit(X[part], y[part], sample_weight=weights[part])
    return model.predict_proba(X)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("model", EVERY, ids=str)
def test_a_power_of_four_changes_no_bit(model, stream):
    # Such a multiple of a weight rounds as the weight does, and so does its root: no tolerance on any machine.
    if stream and getattr(model, "solver", "") == "resolvent":
        pytest.skip("the solver of rows in memory")
    X, y = problem()
    weights = np.random.default_rng(1).exponential(size=len(X))
    plain = answers(model, X, y, weights, stream=stream)
    for factor in (2.0**-20, 2.0**20):
        assert np.array_equal(answers(model, X, y, factor * weights, stream=stream), plain)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("model", ANY, ids=str)
def test_any_factor_changes_rounding_alone(model, stream):
    X, y = problem()
    weights = np.random.default_rng(2).exponential(size=len(X))
    plain = answers(model, X, y, weights, stream=stream)
    for factor in (1.0 / weights.sum(), 1e-6, 1e6):  # boosting scales weights to sum to one
        np.testing.assert_allclose(answers(model, X, y, factor * weights, stream=stream), plain, rtol=0, atol=1e-9)


@pytest.mark.parametrize("model", [FisherDiscriminant(), MarginSubspace(head="best"), InterClassScatter(head="best")])
def test_equal_weights_are_no_weights(model):
    X, y = load_breast_cancer(return_X_y=True)
    plain = answers(model, X, y, np.ones(len(X)), stream=False)
    for weight in (4.0, 2.0**-30, 1.0 / 256):  # whose roots are exact too
        assert np.array_equal(answers(model, X, y, np.full(len(X), weight), stream=False), plain)


def test_wide_sparse_rows_and_several_labels():
    rng = np.random.default_rng(3)
    X = sparse.csr_array(np.where(rng.random((300, 9000)) < 0.01, rng.random((300, 9000)), 0.0))
    y, weights = rng.integers(0, 3, 300), rng.exponential(size=300)
    X = sparse.csr_array(X + sparse.csr_array((np.ones(300), (np.arange(300), y)), shape=X.shape))
    for model in (FisherDiscriminant(), MarginSubspace(epsilon="auto"), InterClassScatter(head="best")):
        for stream in (False, True):
            plain = answers(model, X, y, weights, stream=stream)
            assert np.array_equal(answers(model, X, y, weights / 2**20, stream=stream), plain)
    X, y = make_multilabel_classification(200, 12, n_classes=4, random_state=0)
    weights = rng.exponential(size=200)
    for model in (FisherDiscriminant(), MarginSubspace(epsilon="auto"), FisherDiscriminant(ridge="rule")):
        plain = answers(model, X, y, weights, stream=True)
        assert np.array_equal(answers(model, X, y, weights / 2**20, stream=True), plain)


@pytest.mark.parametrize("n_features", [30, 150])
def test_a_contest_beside_the_stream(n_features):
    rng = np.random.default_rng(4)
    y, weights = rng.integers(0, 3, 600), rng.exponential(size=600)
    X = rng.normal(size=(600, n_features)) + 0.5 * rng.normal(size=(3, n_features))[y]
    y[300:] = (y[300:] + 1) % 3  # the classes change places
    found = []
    for factor in (1.0, 2.0**-20, 2.0**20):
        model = FisherDiscriminant(ridge="rule", half_life="auto")
        for start in range(0, 600, 50):
            part = slice(start, start + 50)
            model.partial_fit(X[part], y[part], sample_weight=factor * weights[part])
        found.append((model.predict_proba(X), np.array(list(model.member_weights_.values()))))
    for other in found[1:]:
        assert all(np.array_equal(mine, theirs) for mine, theirs in zip(found[0], other, strict=True))


def test_information_gain_does_not_depend_on_the_scale():
    rng = np.random.default_rng(5)
    X, y, weights = rng.integers(0, 2, (200, 10)), rng.integers(0, 3, 200), rng.exponential(size=200)
    plain = InformationGain(4).fit(X, y, sample_weight=weights).scores_
    assert np.array_equal(InformationGain(4).fit(X, y, sample_weight=weights / 2**20).scores_, plain)


class Parts:
    """One part of rows, elsewhere."""

    def __init__(self, rows):
        self.rows = rows

    def product(self, means, block):
        return within_times(*self.rows.held(), means, block)

    def squares(self, means):
        return within_squares(*self.rows.held(), means)

    def drawn(self, most, seed):
        return drawn(*self.rows.held(), 0, 0, most, seed)


def test_rows_that_lie_elsewhere_are_scaled_too():
    X, y = problem()
    weights = 3.0 * np.random.default_rng(6).exponential(size=len(X))
    here = ClassRows(X.shape[1]).update(X, y, weights)
    there = PartRows(ClassMeans(X.shape[1]).update(X, y, weights), Parts(here))
    mine, theirs = here.in_rows(), there.in_rows()
    block = np.eye(X.shape[1])[:, :3]
    np.testing.assert_allclose(theirs.within_times(block), here.within_times(block), rtol=1e-12)
    np.testing.assert_allclose(theirs.within_variances(), here.within_variances(), rtol=1e-12)
    for most in (50, 1000):
        one, other = mine.sample(most), theirs.sample(most)
        np.testing.assert_allclose(np.sort(one.weights), np.sort(other.weights), rtol=1e-12)
        np.testing.assert_allclose(np.sort(one.own), np.sort(other.own), rtol=1e-12)


# What a number of rows is.


def test_effective_rows_are_those_of_kish():
    X, y = problem()
    weights = np.random.default_rng(7).exponential(size=len(X))
    known = ClassScatter(X.shape[1]).update(X, y, weights)
    assert known.effective_rows == pytest.approx(weights.sum() ** 2 / np.square(weights).sum(), rel=1e-12)
    assert ClassScatter(X.shape[1]).update(X, y).effective_rows == len(X)
    view = known.in_rows()
    assert view.total == pytest.approx(known.effective_rows, rel=1e-12)
    assert view.weight_unit == pytest.approx(1.0, rel=1e-12)
    np.testing.assert_allclose(view.within_scatter(), known.within_scatter(), rtol=1e-12)
    # the usual ridge is a part of tr S_w, one over the number of rows
    assert FisherCriterion.usual(known) == pytest.approx(known.within_trace / known.effective_rows, rel=1e-12)


@pytest.mark.parametrize("kind", [ClassMeans, ClassScatter])
def test_effective_rows_follow_batches_merge_decay_and_removal(kind):
    X, y = problem()
    weights = np.random.default_rng(8).exponential(size=len(X))
    whole = kind(X.shape[1]).update(X, y, weights)
    cut = kind(X.shape[1])
    for start, stop in ((0, 1), (1, 7), (7, 60), (60, len(X))):
        cut.update(X[start:stop], y[start:stop], weights[start:stop])
    assert cut.effective_rows == pytest.approx(whole.effective_rows, rel=1e-12)
    halves = [kind(X.shape[1]).update(X[part], y[part], weights[part]) for part in (slice(70), slice(70, None))]
    assert halves[0].merge(halves[1]).effective_rows == pytest.approx(whole.effective_rows, rel=1e-12)
    left = whole._copy().unlearn(X[:30], y[:30], weights[:30])
    never = kind(X.shape[1]).update(X[30:], y[30:], weights[30:])
    assert left.effective_rows == pytest.approx(never.effective_rows, rel=1e-9)
    assert whole._copy().decay(0.5).effective_rows == pytest.approx(whole.effective_rows, rel=1e-12)
    aged = kind(X.shape[1]).update(X[:70], y[:70]).update(X[70:], y[70:], decay=0.5)
    own = np.where(np.arange(len(X)) < 70, 0.5, 1.0)
    assert aged.effective_rows == pytest.approx(own.sum() ** 2 / np.square(own).sum(), rel=1e-12)
    again = kind.from_arrays(whole.to_arrays())
    assert again.effective_rows == whole.effective_rows


@pytest.mark.parametrize("head", ["gaussian", "nearest_mean", "cosine", "regression"])
@pytest.mark.parametrize("kind", [FisherDiscriminant, MarginSubspace])
def test_weight_two_is_the_row_twice_where_the_parameter_is_given(kind, head):
    X, y = problem()
    weights = np.random.default_rng(9).integers(0, 4, len(X))
    rows = np.repeat(np.arange(len(X)), weights)
    given = {"ridge": 0.3} if kind is FisherDiscriminant else {"epsilon": 0.3}
    model = kind(head=head, **given)
    weighed, twice = clone(model).fit(X, y, sample_weight=weights), clone(model).fit(X[rows], y[rows])
    np.testing.assert_allclose(weighed.predict_proba(X), twice.predict_proba(X), rtol=0, atol=1e-9)
    assert weighed._statistics.total == twice._statistics.total


def test_a_row_ages_the_others_by_one_step_whatever_its_weight():
    X, y = problem(60)
    weights = np.random.default_rng(10).exponential(size=60)
    weights[::7] = 0.0
    model = FisherDiscriminant(ridge=0.1, decay=0.9)
    for start, stop in ((0, 11), (11, 12), (12, 60)):
        model.partial_fit(X[start:stop], y[start:stop], sample_weight=weights[start:stop])
    number = np.cumsum(weights > 0)
    expected = np.bincount(y, weights=weights * 0.9 ** (number[-1] - number))
    np.testing.assert_allclose(model._statistics.counts, expected, rtol=1e-12)


# Why scikit-learn's check of weights against repeated rows is an expected failure (decision 18).


@pytest.mark.parametrize(
    "check", [check_sample_weight_equivalence_on_dense_data, check_sample_weight_equivalence_on_sparse_data]
)
@pytest.mark.parametrize(
    "model",
    [
        FisherDiscriminant(),
        FisherDiscriminant(ridge="rule"),
        CriterionSubspace(),
        KernelMarginSubspace(),
        KernelFisherDiscriminant(kernel="linear", head="nearest_mean"),
    ],
    ids=str,
)
def test_weights_differ_from_repeated_rows_by_the_number_of_rows_alone(model, check, monkeypatch):
    """With the unit of weight set to one, weights count rows, and scikit-learn's own check holds."""
    with pytest.raises(AssertionError, match="not equivalent"):
        check(type(model).__name__, model)
    monkeypatch.setattr(ClassMeans, "weight_unit", 1.0)
    check(type(model).__name__, model)


@pytest.mark.parametrize("model", [FisherDiscriminant(), KernelMarginSubspace(head="best")], ids=str)
def test_whole_weights_do_not_count_rows(model):
    X, y = problem()
    weights = 1.0 + np.random.default_rng(11).integers(0, 5, len(X))
    plain = answers(model, X, y, weights, stream=False)
    assert np.array_equal(answers(model, X, y, 1024.0 * weights, stream=False), plain)
