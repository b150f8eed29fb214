"""The Laplacian kernel: distances against SciPy's, equal bits for any blocks, and estimators that use it."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.spatial.distance import cdist
from sklearn.datasets import load_iris, load_wine
from sklearn.metrics.pairwise import laplacian_kernel

import kampong
from kampong import CoreVectorClassifier, KernelFisherDiscriminant, MaximumMarginDiscriminant, MaxMinOverClassifier
from kampong.kernels import city_block
from kampong.kernels.fourier import FourierBasis
from kampong.kernels.functions import Kernel, make_kernel
from problems import at_most

WINE = load_wine(return_X_y=True)


def kernel_of(X, gamma="mean", **more):
    return make_kernel("Test", "laplacian", X, gamma=gamma, degree=3, coef0=0.0, **more)


def with_zeros(rng, n, d):
    X = rng.normal(size=(n, d))
    X[rng.random(X.shape) < 0.6] = 0.0
    return X


@settings(max_examples=at_most(40), deadline=None)
@given(
    n=st.integers(1, 40),
    m=st.integers(1, 40),
    d=st.integers(1, 13),
    left=st.booleans(),
    right=st.booleans(),
    seed=st.integers(0, 99),
)
def test_distances_are_those_of_scipy(n, m, d, left, right, seed):
    rng = np.random.default_rng(seed)
    A, B = with_zeros(rng, n, d), with_zeros(rng, m, d)
    B[: min(n, m)] = A[: min(n, m)]  # equal rows, whose distance must be zero
    found = city_block.city_block(sparse.csr_array(A) if left else A, sparse.csr_array(B) if right else B)
    np.testing.assert_allclose(found, cdist(A, B, "cityblock"), rtol=1e-13, atol=1e-13)
    assert (found.diagonal() == 0).all()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("d", [1, 4, 30])
def test_blocks_loops_and_processors_do_not_matter(monkeypatch, dtype, d):
    rng = np.random.default_rng(0)
    A, B = rng.normal(size=(150, d)).astype(dtype), rng.normal(size=(700, d)).astype(dtype)
    monkeypatch.setattr(city_block, "PLAIN", -1)
    whole = city_block.city_block(A, B)
    pieces = np.vstack([city_block.city_block(A[i : i + 7], B) for i in range(0, len(A), 7)])
    columns = np.hstack([city_block.city_block(A, B[i : i + 33]) for i in range(0, len(B), 33)])
    monkeypatch.setattr(city_block, "PLAIN", 2**30)
    assert (pieces == whole).all()
    assert (columns == whole).all()
    assert (city_block.city_block(A, B) == whole).all()
    naive = np.zeros_like(whole)
    for j in range(d):
        naive += np.abs(A[:, j, None] - B[:, j])
    assert (naive == whole).all()


def test_single_precision_keeps_the_digits_of_rows_far_from_the_origin():
    rng = np.random.default_rng(0)
    X = (1e6 + rng.normal(size=(60, 5))).astype(np.float32)
    kernel = kernel_of(X)
    found = kernel.between(kernel.prepare(X), kernel.prepare(X))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, laplacian_kernel(X.astype(float), gamma=kernel.gamma), atol=3e-6)


@pytest.mark.parametrize("size", [1e150, 1e-100])
def test_huge_and_tiny_rows_have_the_same_kernel(size):
    X = np.random.default_rng(0).normal(size=(30, 3))
    found, plain = kernel_of(size * X), kernel_of(X)
    values = found.between(found.prepare(size * X), found.prepare(size * X))
    np.testing.assert_allclose(values, plain.between(plain.prepare(X), plain.prepare(X)), rtol=1e-9)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_the_usual_width_is_the_mean_distance_of_normal_columns(form):
    X = np.random.default_rng(0).normal(size=(4000, 3)) * [1.0, 10.0, 0.1]
    X -= X.mean(axis=0)
    distances = cdist(X[:2000], X[2000:], "cityblock")
    assert 1 / kernel_of(form(X)).gamma == pytest.approx(distances.mean(), rel=0.02)
    assert kernel_of(form(X), "scale").gamma == pytest.approx(1 / (3 * X.std()))
    units = X.std(axis=0)
    assert kernel_of(form(X), units=units).gamma == pytest.approx(np.sqrt(np.pi) / 6)


def test_fourier_features_approximate_it():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 4))
    expected = laplacian_kernel(X, gamma=0.3)
    errors = []
    for rank in (400, 25600):
        features = FourierBasis(Kernel("laplacian", gamma=0.3), 4, rank, 7).values(X)
        errors.append(np.abs(features @ features.T - expected).max())
    assert errors[1] < 0.03
    assert errors[1] < errors[0] / 4  # the error falls as one over the root of the number
    rbf = FourierBasis(Kernel("rbf", gamma=0.3), 4, 400, 7)
    assert not rbf.same_as(FourierBasis(Kernel("laplacian", gamma=0.3), 4, 400, 7))


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize(
    "model",
    [
        KernelFisherDiscriminant(kernel="laplacian", scale=True),
        KernelFisherDiscriminant(kernel="laplacian", landmarks=30),
        CoreVectorClassifier(kernel="laplacian"),
        MaxMinOverClassifier(kernel="laplacian", nu=0.1),
        MaximumMarginDiscriminant(kernel="laplacian"),
    ],
    ids=lambda model: type(model).__name__,
)
def test_estimators_take_it(model, form):
    X, y = load_iris(return_X_y=True)
    assert model.fit(form(X), y).score(form(X), y) > 0.93
    loaded = kampong.from_bytes(model.to_bytes())
    assert (loaded.predict(form(X)) == model.predict(form(X))).all()
    if form is np.asarray:
        plain = model.to_sklearn()
        assert (plain.predict(X) == model.predict(X)).all()


def test_all_rows_as_landmarks_are_the_kernel_of_scikit_learn():
    X, y = WINE
    units = X.std(axis=0)
    model = KernelFisherDiscriminant(kernel="laplacian", gamma=0.05, scale=True, head="gaussian", ridge=0.01).fit(X, y)
    given = KernelFisherDiscriminant(
        kernel=lambda A, B: laplacian_kernel(A / units, B / units, gamma=0.05),
        scale=False,
        head="gaussian",
        ridge=0.01,
    ).fit(X, y)
    np.testing.assert_allclose(model.predict_proba(X), given.predict_proba(X), atol=1e-8)


def test_batches_do_not_matter_once_there_are_landmarks():
    X, y = WINE
    model = KernelFisherDiscriminant(kernel="laplacian", landmarks=X[::3], gamma=0.002).fit(X, y)
    other = KernelFisherDiscriminant(kernel="laplacian", landmarks=X[::3], gamma=0.002)
    for first in range(0, len(y), 17):
        other.partial_fit(X[first : first + 17], y[first : first + 17])
    np.testing.assert_allclose(other.transform(X), model.transform(X), atol=1e-9)
