"""Streams of any width through the estimators: a sample of rows for S_w, half-lives, and what the sample costs."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import load_digits

from kampong import FisherDiscriminant, InterClassScatter, MarginSubspace, MaximumMarginCriterion
from kampong.datasets import sparse_text
from reference_linear import largest_angle

quiet = pytest.mark.filterwarnings("ignore::kampong.CriterionWarning")


def stream(model, X, y, step):
    for start in range(0, X.shape[0], step):
        model.partial_fit(X[start : start + step], y[start : start + step])
    return model


@pytest.fixture(scope="module")
def text():
    return sparse_text(6000, 10_000, 40, n_classes=4, random_state=0)


@quiet
@pytest.mark.parametrize(
    "model", [FisherDiscriminant(ridge="rule"), MaximumMarginCriterion(3), MarginSubspace(3, epsilon=0.1)]
)
def test_while_everything_fits_a_wide_stream_is_a_fit(model, text):
    X, y = text
    fitted = clone(model).fit(X, y)
    streamed = stream(clone(model), X, y, 700)
    assert (fitted.solver_, streamed.solver_) == ("resolvent", "reservoir")
    assert streamed.head_ == "gaussian"
    assert streamed.sampling_error_ == 0
    np.testing.assert_allclose(streamed.eigenvalues_, fitted.eigenvalues_, rtol=1e-6)
    assert largest_angle(streamed.components_, fitted.components_) < 1e-4
    assert (streamed.predict(X) == fitted.predict(X)).mean() > 0.999


@quiet
def test_a_sample_comes_near_and_says_how_near(text):
    X, y = text
    train, test = slice(0, 5000), slice(5000, 6000)
    whole = FisherDiscriminant(ridge="rule").fit(X[train], y[train])
    small = stream(FisherDiscriminant(ridge="rule", reservoir_bytes=500_000), X[train], y[train], 500)
    tiny = stream(FisherDiscriminant(ridge="rule", reservoir_bytes=100_000), X[train], y[train], 500)
    np.testing.assert_allclose(small.class_means_, whole.class_means_, atol=1e-14)
    assert 0 < small.sampling_error_ < tiny.sampling_error_
    assert small._statistics.nbytes <= 500_000
    assert whole.score(X[test], y[test]) - 0.05 < small.score(X[test], y[test])


@quiet
def test_where_the_class_means_mislead_a_sample_does_not():
    from problems import aligned

    X, y = aligned(0, n=6000)
    exact = MarginSubspace().fit(X, y)
    sampled = stream(MarginSubspace(len(exact.components_), solver="reservoir", reservoir_bytes=2**22), X, y, 1000)
    assert sampled._statistics.full
    scatter = exact._statistics

    def value(components):
        between = scatter.between_factor() @ components.T
        return (between**2).sum() - np.trace(components @ scatter.within_scatter() @ components.T)

    assert value(sampled.components_) >= 0.98 * value(exact.components_)


@quiet
def test_the_cut_into_batches_does_not_matter(text):
    X, y = text
    first = stream(FisherDiscriminant(reservoir_bytes=200_000), X, y, 6000)
    second = stream(FisherDiscriminant(reservoir_bytes=200_000), X, y, 77)
    np.testing.assert_allclose(first.eigenvalues_, second.eigenvalues_, rtol=1e-9)
    assert largest_angle(first.components_, second.components_) < 1e-6


@quiet
def test_wide_streams_merge(text):
    X, y = text
    halves = [stream(FisherDiscriminant(ridge="rule", random_state=s), X[s::2], y[s::2], 500) for s in (0, 1)]
    merged = halves[0].merge(halves[1])
    whole = FisherDiscriminant(ridge="rule").fit(X, y)
    np.testing.assert_allclose(merged.eigenvalues_, whole.eigenvalues_, rtol=1e-6)


@quiet
def test_a_gaussian_head_on_a_wide_stream_of_means(text):
    X, y = text
    plain = stream(InterClassScatter(), X, y, 1000)
    sampled = stream(InterClassScatter(head="gaussian"), X, y, 1000)
    assert (plain.head_, sampled.head_) == ("nearest_mean", "gaussian")
    assert sampled.solver_ == "gram"
    np.testing.assert_allclose(sampled.components_, plain.components_, atol=1e-12)
    fitted = InterClassScatter().fit(X, y)
    np.testing.assert_allclose(sampled.predict_proba(X), fitted.predict_proba(X), atol=1e-8)


@quiet
def test_a_half_life_is_a_decay_in_rows():
    X, y = load_digits(return_X_y=True)
    by_decay = FisherDiscriminant(decay=0.5 ** (1 / 300)).fit(X, y)
    by_half_life = stream(FisherDiscriminant(half_life=300), X, y, 111)
    np.testing.assert_allclose(by_half_life.class_counts_, by_decay.class_counts_, rtol=1e-9)
    np.testing.assert_allclose(by_half_life.eigenvalues_, by_decay.eigenvalues_, rtol=1e-8)
    with pytest.raises(ValueError, match=r"decay=0.9 and half_life=300 say the same thing in two ways"):
        FisherDiscriminant(decay=0.9, half_life=300).fit(X, y)
    with pytest.raises(ValueError, match=r"half_life must be a number ≥ 1e-09, got -3. Give the number of rows"):
        FisherDiscriminant(half_life=-3).fit(X, y)
    with pytest.raises(ValueError, match=r"reservoir_bytes must be an integer of at least 1, got 0. Give bytes"):
        FisherDiscriminant(reservoir_bytes=0).fit(X, y)


@quiet
def test_a_stream_that_turns_round_needs_a_half_life():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((4000, 5))
    y = (X[:, 0] > 0).astype(int)
    y[2000:] = 1 - y[2000:]
    probe = rng.standard_normal((500, 5))
    truth = (probe[:, 0] <= 0).astype(int)
    steady = stream(MarginSubspace(1, epsilon=0.1), X, y, 100)
    forgetting = stream(MarginSubspace(1, epsilon=0.1, half_life=200), X, y, 100)
    assert forgetting.score(probe, truth) > 0.95
    assert steady.score(probe, truth) < 0.8


def test_a_class_that_vanishes_fades_without_trouble():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((200, 4)) + 3 * np.eye(4)[np.arange(200) % 4], np.arange(200) % 4
    model = FisherDiscriminant(half_life=1).partial_fit(X, y)
    for _ in range(40):
        model.partial_fit(X[y < 2], y[y < 2])
    assert model.classes_.tolist() == [0, 1, 2, 3]
    assert (model.class_counts_[2:] < 1e-300).all()
    assert np.isfinite(model.predict_proba(X)).all()
    assert set(model.predict(X)) <= {0, 1}


def test_wide_rows_of_a_dense_stream():
    rng = np.random.default_rng(0)
    y = np.arange(60) % 3
    X = rng.standard_normal((60, 9000)).astype(np.float32) + np.eye(3, 9000, dtype=np.float32)[y] * 40
    model = stream(FisherDiscriminant(), X, y, 20)
    assert model.solver_ == "reservoir"
    assert model.score(X, y) == 1.0
    assert sparse.issparse(X) is False


def test_the_solver_says_why():
    X, y = sparse_text(300, 9000, n_classes=3, random_state=0)
    reason = FisherDiscriminant().fit(X, y).solver_reason_
    assert reason.startswith("9000 features, past the 8192 of a d × d scatter; the rows were in memory")
    assert "the rows passed by" in FisherDiscriminant().partial_fit(X, y).solver_reason_
    assert "class means hold all" in InterClassScatter().fit(X, y).solver_reason_
    assert FisherDiscriminant().fit(X[:, :50].toarray(), y).solver_reason_.endswith("and the result exact")
    asked = FisherDiscriminant(solver="resolvent").fit(X, y)
    assert asked.solver_reason_ == "solver='resolvent' was asked for"
