"""SoftMaxMinOver as a reader of its paper asks for it: ν by problem, up to 1, the smallest; traces, coefficients, γ."""

import numpy as np
import pytest
from scipy import optimize
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.svm import OneClassSVM

import kampong
import reference_margin as reference
from kampong import MaxMinOverClassifier, MinOverClassifier


def overlapping(n=60, seed=0, share=0.5):
    rng = np.random.default_rng(seed)
    y = (np.arange(n) < share * n).astype(int)
    return rng.normal(size=(n, 2)) + 1.5 * y[:, None], y


def unequal(n=200, seed=0):
    """Return three classes of 50, 42 and 8 % that overlap."""
    rng = np.random.default_rng(seed)
    y = np.repeat([0, 1, 2], [n * 50 // 100, n * 42 // 100, n * 8 // 100])
    return rng.normal(size=(len(y), 2)) + np.array([[0.0, 0.0], [1.0, 0.0], [0.5, 6.0]])[y], y


def test_classes_of_very_different_size_have_a_nu_of_their_own():
    X, y = unequal()
    with pytest.raises(ValueError, match=r"nu must be at most 2·16/200 = 0\.16.*nu_of=\"largest\""):
        MaxMinOverClassifier(nu=0.5, kernel="linear").fit(X, y)
    with pytest.warns(ConvergenceWarning, match=r"no soft margin at nu=\[0\.1, 0\.1, 0\.1\].*Raise nu"):
        MaxMinOverClassifier(nu=0.1, kernel="linear", max_iter=3000).fit(X, y)
    share = MaxMinOverClassifier(nu=0.9, nu_of="largest", kernel="linear", tol=1e-2).fit(X, y)
    np.testing.assert_allclose(share.nu_, 0.9 * 2 * np.array([100, 84, 16]) / 200, atol=1 / 200)
    each = MaxMinOverClassifier(nu=share.nu_.tolist(), kernel="linear", tol=1e-2).fit(X, y)
    np.testing.assert_allclose(each.decision_function(X), share.decision_function(X), rtol=1e-6)
    assert share.score(X, y) > 0.6
    with pytest.raises(ValueError, match="nu has 2 values for 3 problems of two classes"):
        MaxMinOverClassifier(nu=(0.5, 0.5)).fit(X, y)


@pytest.mark.parametrize("nu", [0.6, 0.8, 1.0])
def test_the_papers_walk_converges_up_to_nu_one(nu):
    X, y = overlapping(share=0.2)
    model = MaxMinOverClassifier(nu=nu, kernel="linear", walk="paper", tol=1e-3).fit(X, y)
    assert model.nu_[0] == pytest.approx(nu, abs=1 / 60)
    # the reference: the longest mean of K patterns that v can be made to have, maximised directly
    z = np.where(y == 1, 1.0, -1.0)[:, None] * np.column_stack([X, np.ones(len(X))])
    K = round(model.nu_[0] * len(X))

    def mean_margin(v):
        v = v / np.linalg.norm(v)
        return -np.sort(z @ v)[:K].mean()

    best = max(-optimize.minimize(mean_margin, start, method="Nelder-Mead").fun for start in z[::6])
    assert model.trace_[0]["margin"][-1] == pytest.approx(best, rel=2e-2)
    with pytest.raises(ValueError, match='walk="paper" goes up to 1'):
        MaxMinOverClassifier(nu=nu, kernel="linear").fit(X, y)


def separable_at(X, y, K):
    """Return whether weights of at most 1/K cannot reach the origin: a linear program, not our solver."""
    z = np.where(y == 1, 1.0, -1.0)[:, None] * np.column_stack([X, np.ones(len(X))])
    equal = np.vstack([z.T, np.ones(len(z))])
    return not optimize.linprog(np.zeros(len(z)), A_eq=equal, b_eq=[0, 0, 0, 1], bounds=(0, 1 / K)).success


@pytest.mark.parametrize("seed", range(3))
def test_the_smallest_nu_is_found_by_bisection(seed):
    X, y = overlapping(seed=seed)
    model = MaxMinOverClassifier(nu="auto", kernel="linear", tol=0.5).fit(X, y)
    K = round(model.nu_[0] * len(X))
    assert separable_at(X, y, K)
    assert not separable_at(X, y, K - 1)


def test_a_separable_set_needs_one_pattern():
    X, y = load_iris(return_X_y=True)
    model = MaxMinOverClassifier(nu="auto").fit(X, y)
    np.testing.assert_allclose(model.nu_, 1 / 150)


def test_a_hard_margin_still_names_a_soft_one():
    X, y = overlapping()
    with pytest.warns(ConvergenceWarning, match=r"no hard margin.*Use a soft margin"):
        MaxMinOverClassifier(kernel="linear", max_iter=2000).fit(X, y)


def test_linear_kernels_have_coefficients():
    X, y = load_iris(return_X_y=True)
    for rows, labels in ((X, y), (X[y < 2], y[y < 2])):
        model = MaxMinOverClassifier(nu=0.6, kernel="linear", tol=0.1).fit(rows, labels)
        scores = np.squeeze(rows @ model.coef_.T + model.intercept_)
        np.testing.assert_allclose(scores, model.decision_function(rows), atol=1e-10)
    curved = MaxMinOverClassifier(nu=0.2).fit(X, y)
    assert not hasattr(curved, "coef_")
    with pytest.raises(AttributeError, match=r"coef_ for kernel='linear' only, not for 'rbf'.*Use support_vectors_"):
        _ = curved.coef_


@pytest.mark.parametrize("t", [1, 30, 300])
def test_soft_double_maxminover_is_the_forgetting_walk_on_the_kernel_plus_one_over_c(t):
    X, y = overlapping(24)
    X, C = np.round(2 * X), 4.0  # 1/√C is exact, so that equal margins are equal
    counts, w = reference.soft_double_maxminover(X, np.where(y == 1, 1.0, -1.0), C, t)[-1]
    model = MaxMinOverClassifier(kernel="precomputed", bias="exact", walk="paper", tol=0.0, max_iter=t)
    with pytest.warns(ConvergenceWarning):
        model.fit(X @ X.T + np.eye(len(X)) / C, y)
    np.testing.assert_array_equal(model.support_, np.flatnonzero(counts))
    np.testing.assert_array_equal(model.counts_[0], counts[counts > 0])
    # new rows have nothing in the coordinates of the slack, so their kernel values are the plain ones
    scores = model.decision_function(X @ X.T) - model.intercept_
    np.testing.assert_allclose(scores / scores[0], X @ w[:2] / (X @ w[:2])[0], rtol=1e-9)


def test_soft_double_maxminover_ends_at_the_machine_with_squared_slack():
    X, y = overlapping(40)
    C, signs = 2.0, np.where(y == 1, 1.0, -1.0)
    K = X @ X.T + np.eye(len(X)) / C
    model = MaxMinOverClassifier(kernel="precomputed", bias="exact", walk="paper", tol=1e-3, max_iter=10**6).fit(K, y)

    def objective(v):
        slack = np.maximum(0.0, 1.0 - signs * (X @ v[:2] + v[2]))
        return 0.5 * v[:2] @ v[:2] + 0.5 * C * slack @ slack

    best = optimize.minimize(objective, np.zeros(3), method="BFGS", options={"gtol": 1e-9}).x
    np.testing.assert_allclose(model.decision_function(X @ X.T), X @ best[:2] + best[2], rtol=0.02, atol=0.02)


@pytest.mark.parametrize("t", [1, 30, 300])
def test_one_class_maxminover_is_the_walk_on_patterns_and_their_mirror_images(t):
    rng = np.random.default_rng(1)
    X = np.column_stack([np.round(3 * rng.normal(size=(20, 2))), rng.integers(5, 8, 20)])
    counts, w = reference.maxminover(X, t)[-1]
    K, y = np.kron([[1, -1], [-1, 1]], X @ X.T), np.repeat([1, 0], len(X))
    model = MaxMinOverClassifier(kernel="precomputed", bias="exact", walk="paper", tol=0.0, max_iter=t)
    with pytest.warns(ConvergenceWarning):
        model.fit(K, y)
    stored = np.flatnonzero(counts)
    np.testing.assert_array_equal(model.support_, [*stored, *(len(X) + stored)])
    np.testing.assert_array_equal(model.counts_[0], np.tile(counts[stored], 2))
    np.testing.assert_allclose(model.intercept_, 0.0, atol=1e-9)
    scores = model.decision_function(np.hstack([X @ X.T, -X @ X.T]))
    np.testing.assert_allclose(scores / scores[0], X @ w / (X @ w)[0], rtol=1e-9)


def test_one_class_maxminover_ends_at_the_one_class_machine():
    X = np.random.default_rng(2).normal(size=(60, 2))
    K = rbf_kernel(X, gamma=0.2)
    model = MaxMinOverClassifier(kernel="precomputed", bias="exact", walk="paper", tol=1e-3, max_iter=10**6)
    model.fit(np.kron([[1, -1], [-1, 1]], K), np.repeat([1, 0], len(X)))
    scores = model.decision_function(np.hstack([K, -K]))
    # a nu so small that no pattern may be wrong: the hard margin to the origin
    peer = OneClassSVM(kernel="precomputed", nu=1e-6, tol=1e-9).fit(K)
    expected = (peer.decision_function(K) + peer.offset_[0]) / peer.offset_[0]
    assert scores.min() == pytest.approx(1.0, abs=2e-3)
    np.testing.assert_allclose(scores, expected, rtol=0.03)


@pytest.mark.parametrize("kind", [MinOverClassifier, MaxMinOverClassifier])
def test_the_trace_is_the_papers_walk(kind):
    X, y = load_iris(return_X_y=True)
    X, y = X[y < 2], y[y < 2]
    model = kind(kernel="linear", walk="paper", tol=1e-2).fit(X, y)
    (trace,) = model.trace_
    assert trace["step"][0] == 1
    assert trace["step"][-1] == model.n_iter_[0]
    assert trace["stored"][-1] == len(model.support_)
    assert trace["gap"][-1] == pytest.approx(model.dual_gap_[0])
    z = np.where(y == 1, 1.0, -1.0)[:, None] * np.column_stack([X, -np.ones(len(X))])
    v = model.counts_[0] @ z[model.support_]
    assert trace["length"][-1] == pytest.approx(np.linalg.norm(v))
    assert trace["margin"][-1] == pytest.approx((z @ v).min() / np.linalg.norm(v))
    # equation 1: d* t ≤ ‖v_t‖ ≤ d* t + R √t, at every moment, with d* from another solver to a tiny gap
    d = kind(kernel="linear", tol=1e-9, max_iter=10**6).fit(X, y)
    best = 1 / np.linalg.norm([*d.coef_[0], d.intercept_[0]])
    t, R = trace["step"], np.linalg.norm(z, axis=1).max()
    assert (trace["length"] >= best * t * (1 - 1e-6)).all()
    assert (trace["length"] <= best * t + R * np.sqrt(t)).all()


@pytest.mark.parametrize("gamma", ["mean", "scale"])
def test_gamma_of_a_stream_is_not_that_of_its_first_row(gamma, tmp_path):
    X, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(150)
    X, y = X[order], y[order]
    stream = MaxMinOverClassifier(nu=0.05, nu_of="largest", gamma=gamma, tol=0.05)
    stream.partial_fit(X[:1], y[:1], classes=[0, 1, 2])
    for start in range(1, 150):
        stream.partial_fit(X[start : start + 1], y[start : start + 1])
        if start == 70:
            stream.save(tmp_path / "model")
            stream = kampong.load(tmp_path / "model")
    whole = MaxMinOverClassifier(nu=0.05, nu_of="largest", gamma=gamma, tol=0.05).fit(X[:128], y[:128])
    assert stream.gamma_ == pytest.approx(whole.gamma_, rel=1e-9)  # as of row 128, when the rows last doubled
    assert stream.score(X, y) > 0.8
