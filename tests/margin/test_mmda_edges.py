"""Maximum margin discriminant analysis on streams, at the ends of its rank, and on input that it refuses."""

import functools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_digits, load_iris
from sklearn.metrics.pairwise import rbf_kernel

from kampong import CriterionWarning
from kampong.margin.mmda import MaximumMarginDiscriminant
from kampong.margin.row_sample import SAMPLE_ROWS, RowSample
from mmda_problems import GAMMA, gram_of_features, problem
from problems import seeds

# Streams.


def test_a_stream_ends_near_the_whole():
    X, y = load_digits(return_X_y=True)
    train, test = slice(0, 1200), slice(1200, None)
    whole = MaximumMarginDiscriminant(2).fit(X[train], y[train])
    stream = MaximumMarginDiscriminant(2)
    for start in range(0, 1200, 200):
        stream.partial_fit(X[start : start + 200], y[start : start + 200], classes=np.arange(10))
    assert stream.n_samples_seen_ == 1200
    assert len(stream.support_) < 1200
    np.testing.assert_array_equal(stream.support_vectors_, X[stream.support_])
    assert stream.score(X[test], y[test]) > whole.score(X[test], y[test]) - 0.02
    # the widths of the kernels differ: that of the stream is that of its first batch
    K = rbf_kernel(X[train], gamma=stream.gamma_)
    same = MaximumMarginDiscriminant(2, gamma=stream.gamma_).fit(X[train], y[train])
    G = gram_of_features(stream, K)
    np.testing.assert_allclose(G[:2, :2], np.eye(2), atol=1e-8)
    A, B = np.zeros((2, 1200, 20))
    A[stream.support_], B[same.support_] = stream.features_.toarray().T, same.features_.toarray().T
    assert np.diag(A.T @ K @ B)[::2].min() > 0.95


def test_a_stream_keeps_its_memory_bounded_and_its_means_honest():
    rng = np.random.default_rng(0)
    stream = MaximumMarginDiscriminant(kernel="linear", C=100.0)
    seen = []
    for _ in range(12):
        y = rng.integers(0, 2, 300)
        X = rng.normal(size=(300, 3)) + 8.0 * y[:, None]
        stream.partial_fit(X, y)
        seen.append(X[y == 1])
    assert len(stream.support_) < 400
    assert len(stream._sample.codes) == 2 * SAMPLE_ROWS
    true = np.concatenate(seen).mean(axis=0) @ stream.components_.T
    np.testing.assert_allclose(stream.class_means_[1], true, atol=4 / np.sqrt(SAMPLE_ROWS))


def test_a_stream_that_begins_with_one_class():
    X, y = load_iris(return_X_y=True)
    model = MaximumMarginDiscriminant().partial_fit(X[:30], y[:30], classes=[0, 1, 2])
    assert (model.predict(X) == 0).all()
    order = np.random.default_rng(0).permutation(150)
    model.partial_fit(X[order], y[order])
    assert model.score(X, y) > 0.9
    with pytest.raises(ValueError, match=r"label .* is not among the classes"):
        model.partial_fit(X[:2], [0, 7])
    with pytest.raises(ValueError, match="partial_fit cannot use kernel='precomputed'"):
        MaximumMarginDiscriminant(kernel="precomputed").partial_fit(X @ X.T, y)
    after = MaximumMarginDiscriminant(warm_start=True).fit(X, y).partial_fit(X[:50], y[:50])
    assert after.n_samples_seen_ == 200
    assert after.fit(X, y).n_samples_seen_ == 150


@given(seeds, st.integers(1, 5))
def test_a_sample_of_a_stream_does_not_depend_on_its_batches(seed, parts):
    rng = np.random.default_rng(seed)
    n = 1200
    X, codes, numbers = rng.normal(size=(n, 2)), rng.integers(0, 3, n), np.arange(n)
    counts = rng.uniform(0.5, 2.0, n)
    whole = RowSample(X, codes, numbers, counts)
    cuts = np.sort(rng.integers(0, n, parts - 1))
    pieces = [RowSample(X[p], codes[p], p, counts[p]) for p in np.split(numbers, cuts)]
    joined = functools.reduce(RowSample.joined, pieces)
    assert set(joined.numbers) == set(whole.numbers)
    np.testing.assert_array_equal(joined.X, X[joined.numbers])
    np.testing.assert_array_equal(joined.counts, counts[joined.numbers])
    assert (np.bincount(whole.codes) == np.minimum(np.bincount(codes), SAMPLE_ROWS)).all()


# Bad input, and what cannot be had.


def test_bad_input():
    X, y = problem()
    with pytest.raises(ValueError, match="y holds only one class"):
        MaximumMarginDiscriminant().fit(X, np.zeros(len(X)))
    for parameters in (
        {"n_components_per_class": 0},
        {"n_components_per_class": 1.5},
        {"C": 0},
        {"method": "smo"},
        {"criterion": "ball"},
        {"orthogonal": "none"},
        {"selection": "all"},
        {"tol": -1},
        {"max_iter": 0},
        {"cache_size": 0},
        {"gamma": "auto"},
        {"kernel": "cosine"},
    ):
        with pytest.raises(ValueError, match=f"MaximumMarginDiscriminant: {next(iter(parameters))} must be"):
            MaximumMarginDiscriminant(**parameters).fit(X, y)
    with pytest.raises(TypeError, match="takes X, y and sample_weight only, got groups"):
        MaximumMarginDiscriminant().fit_transform(X, y, groups=y)
    huge = MaximumMarginDiscriminant().fit(X * 1e30, y)
    np.testing.assert_array_equal(huge.predict(X * 1e30), MaximumMarginDiscriminant().fit(X, y).predict(X))
    before = X.copy()
    MaximumMarginDiscriminant(2).fit(X, y)
    np.testing.assert_array_equal(X, before)


def test_what_does_not_fit_is_refused_with_its_bytes():
    X, y = problem(0, 600, 2)
    with pytest.raises(ValueError, match=r"kernel matrix of 600 rows, 2,880,000 bytes .* Use method='core'"):
        MaximumMarginDiscriminant(method="exact", cache_size=1).fit(X, y)
    with pytest.raises(ValueError, match=r"2,508,800 bytes .* or cache_size=3\.$"):
        MaximumMarginDiscriminant(method="exact", cache_size=1).fit(X[:560], y[:560])
    MaximumMarginDiscriminant(method="exact", cache_size=3).fit(X[:560], y[:560])
    with pytest.raises(ValueError, match=r"2000 features of 600 rows take 9,600,000 bytes"):
        MaximumMarginDiscriminant(1000, cache_size=1).fit(X, y)
    assert MaximumMarginDiscriminant(cache_size=1).fit(X, y).status_[0] == "converged"


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("orthogonal", ["class", "all"])
def test_chains_end_with_the_rank(dtype, orthogonal):
    X, y = problem(0, 90, 3)
    X = X[:, :2].astype(dtype)
    with pytest.warns(CriterionWarning, match=r"of 12 features exist.* Lower n_components_per_class=4"):
        model = MaximumMarginDiscriminant(4, kernel="linear", orthogonal=orthogonal).fit(X, y)
    assert len(model.components_) == (6 if orthogonal == "class" else 2)
    first = model.components_[:2]
    np.testing.assert_allclose(first @ first.T, np.eye(2), atol=1e-6)


def test_more_features_than_rows():
    X, y = problem(0, 8, 2)
    with pytest.warns(CriterionWarning, match=r"8 of 20 features exist"):
        model = MaximumMarginDiscriminant(10).fit(X, y)
    K = rbf_kernel(X, gamma=model.gamma_)
    np.testing.assert_allclose(gram_of_features(model, K), np.eye(8), atol=1e-6)


def test_identical_rows_and_lonely_ones():
    X, y = problem(0, 60, 3)
    for kernel in ("rbf", "linear"):
        with pytest.raises(ValueError, match="no direction tells the classes apart"):
            MaximumMarginDiscriminant(kernel=kernel).fit(np.ones((20, 3)), np.arange(20) % 2)
    # every row twice is every row with half the slack's price
    twice = MaximumMarginDiscriminant(C=1.0, gamma=GAMMA, method="exact").fit(np.repeat(X, 2, axis=0), np.repeat(y, 2))
    once = MaximumMarginDiscriminant(C=2.0, gamma=GAMMA, method="exact").fit(X, y)
    np.testing.assert_allclose(twice.transform(X), once.transform(X), atol=5e-3)
    lonely = np.where(np.arange(60) == 7, 3, y)
    model = MaximumMarginDiscriminant(2).fit(X, lonely)
    assert model.transform(X).shape == (60, 8)
    assert np.argmax(model.transform(X)[:, 6]) == 7


def test_kernels_that_fail():
    X, y = problem()

    def broken(A, B):
        return np.full((len(A), len(B)), np.nan)

    with pytest.raises(ValueError, match="kernel broken returned NaN"):
        MaximumMarginDiscriminant(kernel=broken).fit(X, y)
    with pytest.raises(ValueError, match="square matrix"):
        MaximumMarginDiscriminant(kernel="precomputed").fit(X, y)
