"""The hinge loss against SVC, a quadratic program and a naive certificate; weights of rows and classes."""

import numpy as np
import pytest
from scipy import sparse
from scipy.optimize import minimize
from scipy.spatial.distance import cdist
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

import reference_margin as reference
from kampong import load
from kampong.margin import CoreVectorClassifier, MaxMinOverClassifier, kernel_rows, working_set
from kampong.margin.hinge_loss import Box

REPEATED = (
    "Each fit ends at its own duality gap, so a row of weight 2 and the row twice give models that agree within `tol` "
    "and not to the last digit; test_weights_are_counts compares them at a small one."
)


def weights_within_the_gap(estimator):
    return {f"check_sample_weight_equivalence_on_{kind}_data": REPEATED for kind in ("dense", "sparse")}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(
    [CoreVectorClassifier(loss="hinge"), CoreVectorClassifier(loss="hinge", kernel="linear", class_weight="balanced")],
    expected_failed_checks=weights_within_the_gap,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def overlapping(seed=0, n=120, classes=2):
    return make_classification(
        n, 6, n_informative=4, n_classes=classes, n_clusters_per_class=1, class_sep=0.7, random_state=seed
    )


def naive_gap(K, y, C, beta):
    """Return (P − D)/P by loops, with the best constant among all kinks of the loss."""
    n = len(y)
    scores = [sum(beta[j] * K[i, j] for j in range(n)) for i in range(n)]
    half = 0.5 * sum(b * f for b, f in zip(beta, scores, strict=True))

    def primal(b):
        return half + sum(c * max(0.0, 1 - s * (f + b)) for c, s, f in zip(C, y, scores, strict=True))

    best = min(primal(s - f) for s, f in zip(y, scores, strict=True))
    return (best - (sum(s * b for s, b in zip(y, beta, strict=True)) - half)) / best


def dual_optimum(K, y, C):
    """Return the largest dual objective, by scipy's SLSQP."""
    found = minimize(
        lambda a: 0.5 * (a * y) @ K @ (a * y) - a.sum(),
        np.zeros(len(y)),
        jac=lambda a: y * (K @ (a * y)) - 1,
        bounds=[(0.0, c) for c in C],
        constraints=[{"type": "eq", "fun": lambda a: a @ y, "jac": lambda a: y}],
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    assert found.success, found.message
    return -found.fun


def signs_of(model, y):
    return np.where(y == model.classes_[1], 1.0, -1.0)


def coefficients(model, n):
    beta = np.zeros(n)
    beta[model.support_] = model.dual_coef_[0]
    return beta


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("C", [0.1, 10.0])
@pytest.mark.parametrize("tol", [0.05, 1e-5])
def test_point_is_within_its_gap_of_the_quadratic_program(monkeypatch, tol, C, weighted, small):
    if small:
        monkeypatch.setattr(working_set, "SIZE", 16)
        monkeypatch.setattr(kernel_rows, "BLOCK_ROWS", 8)
    X, y = overlapping(n=80)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, len(y)) if weighted else np.ones(len(y))
    cache = 1e-3 if small else 100
    model = CoreVectorClassifier(C, loss="hinge", gamma=0.2, tol=tol, cache_size=cache).fit(X, y, weights)
    K, s, beta = np.exp(-0.2 * cdist(X, X, "sqeuclidean")), signs_of(model, y), coefficients(model, len(y))
    assert abs(beta.sum()) < 1e-9 * C * len(y)
    assert (s * beta).min() >= 0
    assert (s * beta - C * weights).max() <= 1e-12 * C
    gap = naive_gap(K, s, C * weights, beta)
    assert gap <= tol * 1.0001
    assert model.dual_gap_[0] == pytest.approx(gap, abs=1e-9)
    best, dual = dual_optimum(K, s, C * weights), s @ beta - 0.5 * beta @ K @ beta
    assert best * (1 - tol) * (1 - 1e-6) <= dual <= best * (1 + 1e-6)


@pytest.mark.parametrize("kernel", ["rbf", "linear", "polynomial"])
@pytest.mark.parametrize("classes", [2, 3])
def test_scores_are_those_of_a_support_vector_machine(kernel, classes):
    X, y = overlapping(1, n=150, classes=classes)
    model = CoreVectorClassifier(2.0, loss="hinge", kernel=kernel, gamma=0.2, tol=1e-7).fit(X, y)
    peer = {"C": 2.0, "kernel": kernel[:4] if kernel == "polynomial" else kernel, "gamma": 0.2, "tol": 1e-8}
    for k in range(1 if classes == 2 else 3):
        scores = model.decision_function(X)
        scores, labels = (scores, y) if classes == 2 else (scores[:, k], y == k)
        np.testing.assert_allclose(scores, SVC(**peer).fit(X, labels).decision_function(X), atol=2e-2)


@pytest.mark.parametrize("seed", range(3))
def test_a_large_C_is_the_hard_margin(seed):
    X, y = reference.separable(np.random.default_rng(seed), 60, 3, shift=3.0)
    model = CoreVectorClassifier(1e3, loss="hinge", kernel="linear", tol=1e-6).fit(X, y)
    peer = SVC(kernel="linear", C=1e3, tol=1e-6).fit(X, y)
    assert np.abs(peer.dual_coef_).max() < 1.0  # no row is at the bound C, so nothing is soft
    assert model.margin_[0] == pytest.approx(1 / np.linalg.norm(peer.coef_), rel=1e-3)
    hard = MaxMinOverClassifier(kernel="linear", bias="exact", tol=1e-6).fit(X, y)
    assert model.margin_[0] == pytest.approx(hard.margin_[0], rel=1e-3)


def test_the_reduced_hulls_of_the_nu_form_have_the_same_hyperplane():
    X, y = overlapping(2, n=100)
    model = CoreVectorClassifier(1.0, loss="hinge", gamma=0.2, tol=1e-8).fit(X, y)
    nu = np.abs(model.dual_coef_).sum() / len(y)
    half = round(nu * len(y) / 2)
    # the ν form takes whole numbers of rows: the C whose ν is such a number has the same answer
    low, high = 1e-2, 1e2
    for _ in range(60):
        C = np.sqrt(low * high)
        model.set_params(C=C).fit(X, y)
        low, high = (C, high) if np.abs(model.dual_coef_).sum() / C > 2 * half else (low, C)
    hulls = MaxMinOverClassifier(2 * half / len(y), bias="exact", gamma=0.2, tol=1e-8).fit(X, y)
    ours, theirs = model.decision_function(X), hulls.decision_function(X)
    np.testing.assert_allclose(ours / np.abs(ours).max(), theirs / np.abs(theirs).max(), atol=5e-3)


@pytest.mark.parametrize("loss", ["squared", "hinge"])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("classes", [2, 3])
def test_weights_are_counts(loss, kind, classes):
    X, y = overlapping(3, n=90, classes=classes)
    counts = np.random.default_rng(1).integers(0, 3, len(y))
    model = CoreVectorClassifier(loss=loss, tol=1e-8)
    weighted = model.fit(kind(X), y, counts).decision_function(kind(X))
    assert set(counts[model.support_]) <= {1, 2}
    repeated = model.fit(kind(np.repeat(X, counts, axis=0)), np.repeat(y, counts)).decision_function(kind(X))
    np.testing.assert_allclose(weighted, repeated, atol=2e-3)


@pytest.mark.parametrize("loss", ["squared", "hinge"])
def test_class_weights_multiply_the_rows(loss):
    X, y = overlapping(4)
    y[::3] = 0
    balanced = CoreVectorClassifier(loss=loss, class_weight="balanced", tol=1e-7).fit(X, y).decision_function(X)
    counts = np.bincount(y)
    factors = {k: len(y) / (2 * counts[k]) for k in range(2)}
    named = CoreVectorClassifier(loss=loss, class_weight=factors, tol=1e-7).fit(X, y).decision_function(X)
    np.testing.assert_array_equal(balanced, named)
    # γ is of the rows, not of the weights of their classes
    gamma = CoreVectorClassifier().fit(X, y).gamma_
    rows = CoreVectorClassifier(loss=loss, gamma=gamma, tol=1e-7).fit(X, y, [factors[k] for k in y])
    np.testing.assert_allclose(balanced, rows.decision_function(X), atol=1e-3)


@pytest.mark.parametrize("loss", ["squared", "hinge"])
def test_a_precomputed_kernel_leaves_out_rows_without_weight(loss):
    X, y = overlapping(5)
    K, counts = X @ X.T, np.arange(len(y)) % 3
    model = CoreVectorClassifier(loss=loss, kernel="precomputed", tol=1e-7).fit(K, y, counts)
    plain = CoreVectorClassifier(loss=loss, kernel="linear", tol=1e-7).fit(X, y, counts)
    np.testing.assert_allclose(model.decision_function(K), plain.decision_function(X), atol=1e-3)


@pytest.mark.parametrize("loss", ["squared", "hinge"])
def test_a_path_of_C_starts_warm(loss, tmp_path):
    X, y = overlapping(6, n=400)
    cold = CoreVectorClassifier(2.2, loss=loss, tol=1e-5).fit(X, y)
    warm = CoreVectorClassifier(2.0, loss=loss, tol=1e-5, warm_start=True).fit(X, y)
    warm.save(tmp_path / "model.kampong")
    warm = load(tmp_path / "model.kampong").set_params(C=2.2).fit(X, y)
    assert warm.dual_gap_[0] <= 1e-5
    assert warm.n_iter_[0] < cold.n_iter_[0]
    np.testing.assert_allclose(warm.decision_function(X), cold.decision_function(X), atol=2e-2)


@pytest.mark.parametrize(("loss", "gap"), [("hinge", 0.01), ("squared", 0.05)])
def test_the_gap_to_reach_depends_on_the_loss(monkeypatch, loss, gap):
    monkeypatch.setattr(working_set, "SIZE", 16)
    X, y = overlapping(n=600)
    usual, same = CoreVectorClassifier(loss=loss), CoreVectorClassifier(loss=loss, tol=gap)
    coarse = CoreVectorClassifier(loss=loss, tol=10 * gap)
    for model in (usual, same, coarse):
        model.fit(X, y)
    assert np.array_equal(usual.dual_coef_, same.dual_coef_)
    assert usual.dual_gap_[0] <= gap < coarse.dual_gap_[0]


@pytest.mark.parametrize("seed", range(3))
def test_one_class_against_the_rest_votes_as_support_vector_machines_do(seed):
    X, y = overlapping(seed, n=400, classes=4)
    model = CoreVectorClassifier(10.0, loss="hinge", gamma=0.2, tol=1e-6).fit(X[:200], y[:200])
    peer = OneVsRestClassifier(SVC(C=10.0, gamma=0.2, tol=1e-7)).fit(X[:200], y[:200])
    first, second = np.sort(peer.decision_function(X[200:]), axis=1)[:, -2:].T
    clear = second - first > 1e-3
    assert clear.mean() > 0.98
    assert np.array_equal(model.predict(X[200:])[clear], peer.predict(X[200:])[clear])


def test_overlapping_classes_store_fewer_rows():
    X, y = overlapping(7, n=400)
    y[::5] = 1 - y[::5]
    hinge, squared = (CoreVectorClassifier(loss=loss).fit(X, y) for loss in ("hinge", "squared"))
    assert len(hinge.support_) < len(squared.support_)
    assert hinge.score(X, y) > squared.score(X, y) - 0.05


def test_a_step_limit_warns_with_the_gap():
    X, y = overlapping()
    with pytest.warns(ConvergenceWarning, match=r"max_iter=5 steps ended at a relative duality gap"):
        model = CoreVectorClassifier(loss="hinge", max_iter=5).fit(X, y)
    assert model.status_.tolist() == ["steps"]


@pytest.mark.parametrize(
    ("parameters", "weights", "message"),
    [
        ({"tol": "small"}, None, r"tol must be a number .*, got 'small'.*duality gap to reach"),
        ({"loss": "log"}, None, r"loss must be one of .*'squared', 'hinge'.*got 'log'"),
        (
            {"loss": "hinge", "criterion": "meb"},
            None,
            r"criterion='meb' is a rule of the squared slack.*criterion='gap'",
        ),
        ({"criterion": "meb", "class_weight": "balanced"}, None, r"needs the same weight for all rows"),
        ({"criterion": "meb"}, np.arange(120.0), r"needs the same weight for all rows"),
        ({}, np.zeros(120), r"sample_weight is zero for all rows"),
        ({}, np.arange(120) < 1, r"only one class"),
        ({}, -np.ones(120), r"negative weight"),
        ({"class_weight": 3}, None, r"class_weight must be None, 'balanced' or a dict"),
        ({"class_weight": {0: 0.0, 1: 1.0}}, None, r"factors must be numbers > 0"),
    ],
)
def test_refusals_say_what_is_needed_and_leave_no_trace(parameters, weights, message):
    X, y = overlapping()
    model = CoreVectorClassifier(**parameters)
    before = dict(vars(model))
    with pytest.raises(ValueError, match=message):
        model.fit(X, y, weights)
    assert vars(model) == before


@pytest.mark.parametrize("equal", [True, False])
def test_the_constant_has_the_least_loss_of_all_kinks(equal: bool) -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        labels, caps = np.where(rng.random(41) < 0.4, -1.0, 1.0), np.full(41, 1.5)
        caps = caps if equal else rng.uniform(0.5, 2.0, 41)
        gradient = rng.normal(size=41)
        found = Box(np.ones(41), cap=caps, labels=labels).constant(gradient)
        constants = np.append(-gradient, found)
        losses = np.maximum(0.0, 1.0 - labels * (gradient + labels + constants[:, None])) @ caps
        assert losses[-1] <= losses.min() + 1e-12 * losses.max()
