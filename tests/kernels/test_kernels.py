"""Kernels against scikit-learn's and against naive loops; the row store against the whole matrix."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.metrics.pairwise import pairwise_kernels

from kampong.kernels.functions import Kernel, kernel_scores, make_kernel
from kampong.margin.kernel_rows import KernelRows
from problems import at_most

CASES = [
    ("linear", "linear", {}),
    ("rbf", "rbf", {"gamma": 0.3}),
    ("laplacian", "laplacian", {"gamma": 0.3}),
    ("polynomial", "poly", {"gamma": 0.5, "degree": 3, "coef0": 1.0}),
    ("polynomial", "poly", {"gamma": 0.5, "degree": 2.5, "coef0": 60.0}),
    ("polynomial", "poly", {"gamma": 0.5, "degree": 6, "coef0": 1.0}),
    ("sigmoid", "sigmoid", {"gamma": 0.1, "coef0": -0.2}),
]


def build(name, X, **parameters):
    settings = {"gamma": 0.7, "degree": 3, "coef0": 0.0} | parameters
    return make_kernel("Test", name, X, **settings)


@pytest.fixture
def X():
    return np.random.default_rng(0).normal(size=(70, 5))


@pytest.mark.parametrize(("name", "peer", "parameters"), CASES)
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_values_are_those_of_scikit_learn(X, name, peer, parameters, form, dtype):
    expected = pairwise_kernels(X, metric=peer, **parameters)
    rows = KernelRows(build(name, form(X), **parameters), form(X.astype(dtype)))
    tolerance = {"rtol": 1e-10, "atol": 1e-12} if dtype == np.float64 else {"rtol": 3e-4, "atol": 1e-4}
    some, others = np.array([3, 1, 60]), np.array([2, 2, 9, 0])
    assert rows.dtype == dtype
    np.testing.assert_allclose(rows.block(np.arange(70)), expected, **tolerance)
    np.testing.assert_allclose(rows.block(some, others), expected[np.ix_(some, others)], **tolerance)
    np.testing.assert_allclose(rows.diagonal, np.diag(expected), **tolerance)


@pytest.mark.parametrize("train", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("test", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("name", ["linear", "rbf", "laplacian"])
def test_scores_of_new_rows_in_any_form(X, train, test, name):
    kernel = build(name, train(X[:50]), gamma=0.2)
    weights = np.random.default_rng(1).normal(size=(50, 3))
    expected = pairwise_kernels(X[50:], X[:50], metric=name, **({} if name == "linear" else {"gamma": 0.2})) @ weights
    scores = kernel_scores(kernel, test(X[50:]), kernel.prepare(train(X[:50])), weights)
    np.testing.assert_allclose(scores, expected, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_gamma_mean_is_one_over_the_mean_squared_distance(X, form):
    naive = np.mean([[np.sum((a - b) ** 2) for a in X] for b in X])
    assert build("rbf", form(X), gamma="mean").gamma == pytest.approx(1 / naive, rel=1e-12)
    assert build("rbf", form(X), gamma="scale").gamma == pytest.approx(1 / (X.shape[1] * X.var()), rel=1e-12)


def test_columns_that_vary_in_new_rows_only_count(X):
    train = X[:50].copy()
    train[:, [1, 3]] = (0.1, -7.3)
    kernel = build("rbf", train, gamma=0.2)
    scores = kernel_scores(kernel, X[50:], kernel.prepare(train), np.eye(50))
    np.testing.assert_allclose(scores, pairwise_kernels(X[50:], train, metric="rbf", gamma=0.2), rtol=1e-9, atol=1e-300)
    assert KernelRows(kernel, train).width == 3 + 2


def test_constant_rows_have_a_gamma():
    assert build("rbf", np.ones((4, 2)), gamma="mean").gamma == 1.0


def test_float32_rows_far_from_the_origin_keep_their_digits(X):
    far = (X + 3000).astype(np.float32)
    expected = np.exp(-0.3 * cdist(far.astype(np.float64), far.astype(np.float64), "sqeuclidean"))
    rows = KernelRows(build("rbf", far, gamma=0.3), far)
    np.testing.assert_allclose(rows.block(np.arange(70)), expected, atol=1e-5)


def test_huge_features(X):
    expected = KernelRows(build("rbf", X, gamma="mean"), X).block(np.arange(70))
    for dtype, atol in ((np.float64, 1e-12), (np.float32, 1e-5)):
        huge = (X * 1e30).astype(dtype)
        rows = KernelRows(build("rbf", huge, gamma="mean"), huge)
        np.testing.assert_allclose(rows.block(np.arange(70)), expected, atol=atol)
    with pytest.raises(ValueError, match=r"linear kernel overflows in float32.*StandardScaler"):
        KernelRows(Kernel("linear"), (X * 1e30).astype(np.float32))
    with pytest.raises(ValueError, match=r"squares of X overflow.*StandardScaler"):
        build("rbf", X * 1e200, gamma="mean")


@settings(max_examples=at_most(40), deadline=None)
@given(seed=st.integers(0, 10**6), capacity=st.integers(1, 700), keep=st.booleans())
def test_any_budget_any_order_gives_the_same_products(seed, capacity, keep):
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(600, 2))
    K = np.exp(-0.5 * cdist(points, points, "sqeuclidean"))
    rows = KernelRows(Kernel("rbf", gamma=0.5), points, budget=capacity * 600 * 8)
    for _ in range(4):
        columns = rng.permutation(600)[: rng.integers(1, 600)]
        weights = rng.normal(size=(len(columns), 2))
        np.testing.assert_allclose(rows.times(columns, weights, keep=keep), K[:, columns] @ weights, atol=1e-10)
        some = rng.permutation(600)[:40]
        np.testing.assert_allclose(rows.times(columns, weights, some), K[np.ix_(some, columns)] @ weights, atol=1e-10)
        rows.fetch(some)
        stored = some[rows.slot_of[some] >= 0]
        assert len(stored) == len(some)
        np.testing.assert_allclose(rows.store[rows.slot_of[stored]], K[stored], atol=1e-12)
        assert rows.store.nbytes <= max(capacity, 512) * 600 * 8


def test_stored_rows_are_not_computed_again_and_the_oldest_give_way():
    X = np.random.default_rng(0).normal(size=(1000, 2))
    rows = KernelRows(Kernel("rbf"), X, budget=1)
    assert rows.capacity == 512
    rows.fetch(np.arange(300))
    rows.fetch(np.arange(200))
    assert rows.n_evaluations == 300 * 1000
    rows.fetch(np.arange(300, 700))
    assert rows.n_evaluations == 700 * 1000
    # 712 rows do not fit: those last used longest ago are gone, and only those
    assert (rows.slot_of[np.arange(300, 700)] >= 0).all()
    assert (rows.slot_of[np.arange(200)] >= 0).sum() == 112
    assert (rows.slot_of[np.arange(200, 300)] < 0).all()


@pytest.mark.parametrize("precomputed", [False, True])
@pytest.mark.parametrize("stored", [False, True])
def test_blocks_and_subsets(X, precomputed, stored):
    expected = pairwise_kernels(X, metric="rbf", gamma=0.3)
    kernel = Kernel("precomputed") if precomputed else Kernel("rbf", gamma=0.3)
    rows = KernelRows(kernel, expected if precomputed else X)
    everything, some = np.arange(70), np.array([4, 50, 7, 9])
    if stored:
        assert rows.fetch_all()
    np.testing.assert_allclose(rows.block(everything), expected, atol=1e-12)
    np.testing.assert_allclose(rows.block(some, some[:2]), expected[np.ix_(some, some[:2])], atol=1e-12)
    np.testing.assert_allclose(rows.diagonal, np.diag(expected), atol=1e-12)
    np.testing.assert_allclose(rows.times(some, np.eye(4)), expected[:, some], atol=1e-12)
    part = rows.subset(some)
    evaluated = part.n_evaluations
    np.testing.assert_allclose(part.block(np.arange(4)), expected[np.ix_(some, some)], atol=1e-12)
    np.testing.assert_allclose(part.times(np.array([2, 0]), np.eye(2)), expected[np.ix_(some, [7, 4])], atol=1e-12)
    assert (part.n_evaluations == evaluated) is stored


def test_callables_are_checked(X):
    def laplacian(A, B):
        return np.exp(-cdist(A, B, "cityblock"))

    rows = KernelRows(build(laplacian, X), X)
    np.testing.assert_allclose(rows.block(np.arange(70)), laplacian(X, X))
    np.testing.assert_allclose(rows.diagonal, 1.0)

    def broken(A, B):
        return np.full((len(A), len(B)), np.nan)

    with pytest.raises(ValueError, match="kernel broken returned NaN"):
        KernelRows(build(broken, X), X)

    def narrow(A, B):
        return np.zeros(len(A))

    with pytest.raises(ValueError, match=r"narrow returned an array of shape .* must return real numbers of shape"):
        KernelRows(build(narrow, X), X)
    with pytest.raises(ValueError, match="precomputed kernel matrix contains infinity"):
        KernelRows(Kernel("precomputed"), np.array([[1.0, np.inf], [0.0, 1.0]]))


def test_a_root_of_a_negative_number_is_refused(X):
    rows = KernelRows(build("polynomial", X, degree=2.5), X)
    with pytest.raises(ValueError, match=r"polynomial kernel of degree 2\.5 returned NaN"):
        rows.block(np.arange(70))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"kernel": "cosine"}, "kernel must be a callable or one of 'linear'"),
        ({"gamma": 0}, "gamma must be 'mean', 'scale' or a number > 0, got 0"),
        ({"gamma": "auto"}, "gamma must be"),
        ({"degree": 0}, "degree must be a number in"),
        ({"coef0": np.nan}, "coef0 must be a number"),
    ],
)
def test_bad_parameters(X, parameters, message):
    settings = {"kernel": "polynomial", "gamma": 1.0, "degree": 3, "coef0": 0.0} | parameters
    with pytest.raises(ValueError, match=message):
        make_kernel("Test", settings.pop("kernel"), X, **settings)


@pytest.mark.parametrize("name", ["linear", "rbf", "polynomial", "sigmoid"])
def test_rows_are_never_modified(X, name):
    X.setflags(write=False)
    before = X.copy()
    rows = KernelRows(build(name, X), X)
    rows.fetch(np.arange(70))
    rows.times(np.arange(10), np.ones((10, 1)))
    np.testing.assert_array_equal(X, before)
