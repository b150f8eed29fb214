"""Maximum margin discriminant analysis against its quadratic program, written out with its constraints."""

import functools
import importlib
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import linalg, sparse
from scipy.optimize import minimize
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.neighbors import KNeighborsClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

import reference_margin as reference
from kampong.margin import CoreVectorClassifier
from kampong.margin import problem as problem_module
from kampong.margin.mmda import MaximumMarginDiscriminant
from mmda_problems import GAMMA, gram_of_features, problem
from problems import at_most, seeds


def weighted(estimator):
    """Return the checks of weights that MMDA fails, with the reason."""
    within = "Each fit ends at its own duality gap; test_weights_of_features_are_counts compares at a small one."
    failed = {f"check_sample_weight_equivalence_on_{kind}_data": within for kind in ("dense", "sparse")}
    ball = "The ball of the paper needs patterns of equal length, so unequal weights are refused with criterion='meb'."
    refused = ("check_sample_weights_not_overwritten",) if estimator.criterion == "meb" else ()
    return failed | dict.fromkeys(refused, ball)


# The checks fit random labels and few rows; where a chain ends early or a solve stops, a warning says so.
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::kampong.CriterionWarning")
@parametrize_with_checks(
    [
        MaximumMarginDiscriminant(),
        MaximumMarginDiscriminant(2, orthogonal="all"),
        MaximumMarginDiscriminant(method="exact"),
        MaximumMarginDiscriminant(criterion="meb", tol=1e-3, selection="sample"),
        MaximumMarginDiscriminant(kernel="linear"),
    ],
    expected_failed_checks=weighted,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def angle(one, two, K):
    """Return the largest principal angle between the spans of two sets of features."""
    A, B = np.zeros((2, len(K), one.features_.shape[0]))
    A[one.support_], B[two.support_] = one.features_.toarray().T, two.features_.toarray().T
    root = reference.factor(K)
    return float(np.max(linalg.subspace_angles(root.T @ A, root.T @ B)))


@pytest.fixture
def small_cores(monkeypatch):
    """Make subsets, small core sets and many rounds happen on small data."""
    monkeypatch.setattr(problem_module, "SMALL", 16)


def constrained(phi, signs, C, earlier):
    """Solve equations 6 to 8 as they stand: slack eliminated, one equality constraint for each earlier direction."""
    d = phi.shape[1]

    def objective(p):
        w, b, rho = p[:d], p[d], p[d + 1]
        slack = np.maximum(rho - signs * (phi @ w + b), 0.0)
        value = w @ w + b * b - 2 * rho + C * slack @ slack
        pull = 2 * C * slack
        return value, np.concatenate([2 * w - phi.T @ (pull * signs), [2 * b - pull @ signs, -2 + pull.sum()]])

    constraints = [
        {"type": "eq", "fun": lambda p, u=u: u @ p[:d], "jac": lambda _, u=u: np.append(u, [0.0, 0.0])} for u in earlier
    ]
    options = {"ftol": 1e-15, "maxiter": 5000}
    start = np.append(phi.T @ signs / len(signs), [0.0, 0.1])
    found = minimize(objective, start, jac=True, constraints=constraints, method="SLSQP", options=options)
    w = found.x[:d]
    return w / np.linalg.norm(w), found.fun


@pytest.mark.parametrize("kernel", ["rbf", "linear"])
@pytest.mark.parametrize("C", [0.3, 5.0])
@pytest.mark.parametrize("method", ["exact", "core"])
def test_three_features_solve_the_program_with_explicit_constraints(kernel, C, method):
    X, y = problem(0, 30, 2)
    signs = 2.0 * y - 1
    K = rbf_kernel(X, gamma=GAMMA) if kernel == "rbf" else X @ X.T
    phi = reference.factor(K) if kernel == "rbf" else X
    model = MaximumMarginDiscriminant(2, C=C, kernel=kernel, gamma=GAMMA, method=method, tol=1e-8).fit(X, y)
    values, earlier = model.transform(X), []
    for q in range(3):
        u, least = constrained(phi, signs, C, earlier)
        earlier.append(u)
        assert model.objective_[q] == pytest.approx(-least, rel=1e-5)
        np.testing.assert_allclose(values[:, q], phi @ u, atol=2e-3 * np.abs(phi @ u).max())


def test_several_classes_have_chains_of_their_own():
    X, y = problem(1, 36, 3)
    phi = reference.factor(rbf_kernel(X, gamma=GAMMA))
    model = MaximumMarginDiscriminant(2, gamma=GAMMA, method="exact").fit(X, y)
    np.testing.assert_array_equal(model.feature_classes_, [0, 0, 1, 1, 2, 2])
    values = model.transform(X)
    for k in range(3):
        first, _ = constrained(phi, np.where(y == k, 1.0, -1.0), 1.0, [])
        second, _ = constrained(phi, np.where(y == k, 1.0, -1.0), 1.0, [first])
        np.testing.assert_allclose(values[:, 2 * k], phi @ first, atol=2e-3)
        np.testing.assert_allclose(values[:, 2 * k + 1], phi @ second, atol=2e-3)


def test_orthogonal_to_all_takes_the_classes_in_turn():
    X, y = problem(1, 36, 3)
    phi = reference.factor(rbf_kernel(X, gamma=GAMMA))
    model = MaximumMarginDiscriminant(2, gamma=GAMMA, method="exact", orthogonal="all").fit(X, y)
    values, earlier = model.transform(X), []
    for order in range(2):
        for k in range(3):
            u, _ = constrained(phi, np.where(y == k, 1.0, -1.0), 1.0, earlier)
            earlier.append(u)
            np.testing.assert_allclose(values[:, 2 * k + order], phi @ u, atol=5e-3)
    np.testing.assert_allclose(gram_of_features(model, rbf_kernel(X, gamma=GAMMA)), np.eye(6), atol=1e-9)


@functools.cache
def exact_model(orthogonal):
    X, y = problem(2, 300)
    return X, y, MaximumMarginDiscriminant(3, gamma=GAMMA, method="exact", orthogonal=orthogonal).fit(X, y)


@pytest.mark.parametrize("orthogonal", ["class", "all"])
@pytest.mark.usefixtures("small_cores")
def test_core_sets_come_to_the_exact_features(orthogonal):
    X, y, exact = exact_model(orthogonal)
    K = rbf_kernel(X, gamma=GAMMA)
    angles = []
    for tol in (0.1, 1e-2, 1e-3, 1e-6):
        model = MaximumMarginDiscriminant(3, gamma=GAMMA, tol=tol, orthogonal=orthogonal).fit(X, y)
        assert (model.status_ == "converged").all()
        assert model.dual_gap_.max() <= tol
        angles.append(angle(model, exact, K))
    assert angles[1] < angles[0]
    assert angles[2] < 0.5 * angles[1]
    assert angles[3] < 2e-3
    np.testing.assert_allclose(model.transform(X), exact.transform(X), atol=2e-3)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("orthogonal", ["class", "all"])
@pytest.mark.usefixtures("small_cores")
def test_features_are_orthonormal_in_feature_space(dtype, orthogonal):
    X, y = problem(3, 400, 4)
    X = X.astype(dtype)
    model = MaximumMarginDiscriminant(5, C=10.0, gamma=GAMMA, orthogonal=orthogonal).fit(X, y)
    G = gram_of_features(model, rbf_kernel(X.astype(np.float64), gamma=GAMMA))
    chains = [slice(0, 20)] if orthogonal == "all" else [slice(5 * k, 5 * k + 5) for k in range(4)]
    for chain in chains:
        assert np.abs(G[chain, chain] - np.eye(chain.stop - chain.start)).max() <= 1e-6


@settings(max_examples=at_most(30))
@given(seeds, st.integers(2, 4))
def test_a_second_feature_is_a_first_one_of_projected_rows(seed, classes):
    rng = np.random.default_rng(seed)
    y = np.arange(40) % classes
    X = rng.normal(size=(40, 8)) + np.eye(8)[y]
    model = MaximumMarginDiscriminant(1 if classes == 2 else 2, kernel="linear", method="exact").fit(X, y)
    for k in range(0, len(model.components_), 2):
        first, second = model.components_[k : k + 2]
        projected = X - np.outer(X @ first, first)
        again = MaximumMarginDiscriminant(1, kernel="linear", method="exact").fit(projected, y)
        np.testing.assert_allclose(again.components_[k // 2], second, atol=5e-3)
        np.testing.assert_allclose([first @ first, second @ second, first @ second], [1, 1, 0], atol=1e-8)


@pytest.mark.parametrize("epsilon", [0.1, 0.02, 2e-3])
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.filterwarnings("ignore:.*the duality gap is still")
def test_the_ball_of_the_paper_holds_all_points_and_bounds_the_objective(epsilon, seed):
    X, y = problem(seed, 150, 2)
    signs, C, constant = 2.0 * y - 1, 2.0, 2.5
    model = MaximumMarginDiscriminant(2, C=C, gamma=GAMMA, criterion="meb", tol=epsilon).fit(X, y)
    K, values = rbf_kernel(X, gamma=GAMMA), model.transform(X)
    for q in range(4):
        F = values[:, :q]
        Q = np.outer(signs, signs) * (K - F @ F.T + 1) + np.eye(len(X)) / C
        best = reference.nearest(Q)
        radius, optimum = constant - model.objective_[q], constant - best @ Q @ best
        assert max(radius / optimum, optimum / radius) <= (1 + epsilon) ** 2
        assert model.n_core_[q] <= 2 + 2 / epsilon
        # the centre is (w, b, …): the direction times its length, found again from what is stored
        point = np.zeros(len(X))
        point[model.support_] = model._points[0, q]
        distances = constant + point @ Q @ point - 2 * Q @ point
        assert distances.max() <= (1 + epsilon) ** 2 * radius * (1 + 1e-6)


def test_the_ball_may_be_far_from_the_optimum_and_says_so():
    X, y = problem(0, 400, 2)
    with pytest.warns(ConvergenceWarning, match=r"the duality gap is still \d+% of the objective"):
        MaximumMarginDiscriminant(C=100.0, criterion="meb", tol=0.05).fit(X, y)
    with pytest.raises(ValueError, match=r"criterion='meb' needs a kernel with k\(x, x\) the same for all x"):
        MaximumMarginDiscriminant(kernel="linear", criterion="meb").fit(X, y)


def test_the_first_features_are_core_vector_machines():
    X, y = load_iris(return_X_y=True)
    model = MaximumMarginDiscriminant(C=3.0, tol=1e-6).fit(X, y)
    machine = CoreVectorClassifier(C=3.0, tol=1e-6).fit(X, y)
    scores = machine.decision_function(X) - machine.intercept_
    np.testing.assert_allclose(
        model.transform(X) / np.linalg.norm(model.transform(X), axis=0),
        scores / np.linalg.norm(scores, axis=0),
        atol=1e-5,
    )
    np.testing.assert_allclose(model.margin_, machine.margin_, rtol=1e-5)


# Forms of rows, what is read from a model.


def test_any_form_of_rows_gives_the_same_features():
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    model = MaximumMarginDiscriminant(2, gamma=0.3, tol=1e-6)
    values = model.fit_transform(X, names)
    np.testing.assert_allclose(model.transform(X), values, atol=1e-10)
    np.testing.assert_allclose(model.transform(sparse.csr_array(X)), values, atol=1e-10)
    assert model.transform(X.astype(np.float32)).dtype == np.float32
    np.testing.assert_allclose(model.transform(X.astype(np.float32)), values, atol=1e-4)
    K = rbf_kernel(X, gamma=0.3)
    for kernel, rows in (
        ("rbf", sparse.csr_array(X)),
        ("precomputed", K),
        (lambda A, B: rbf_kernel(A, B, gamma=0.3), X),
    ):
        other = MaximumMarginDiscriminant(2, kernel=kernel, gamma=0.3, tol=1e-6).fit(rows, names)
        np.testing.assert_allclose(other.transform(rows), values, atol=2e-4)
        np.testing.assert_array_equal(other.predict(rows), model.predict(X))
    single = MaximumMarginDiscriminant(2, gamma=0.3, tol=1e-3)
    np.testing.assert_allclose(single.fit_transform(X.astype(np.float32), names), values, atol=0.02)
    # features are expansions over the support vectors
    np.testing.assert_array_equal(model.support_vectors_, X[model.support_])
    np.testing.assert_allclose(K[:, model.support_] @ model.features_.toarray().T, values, atol=1e-10)
    np.testing.assert_array_equal(model.n_kernel_evaluations_per_feature_, np.diff(model.features_.indptr))
    with pytest.raises(AttributeError, match="components_ exists for kernel='linear' only"):
        _ = model.components_


def test_linear_directions_are_explicit():
    X, y = problem(0, 200, 3)
    for rows in (X, sparse.csr_array(X)):
        model = MaximumMarginDiscriminant(2, kernel="linear").fit(rows, y)
        assert model.components_.shape == (6, 6)
        np.testing.assert_allclose(model.transform(rows), X @ model.components_.T, atol=1e-10)
        np.testing.assert_allclose(np.linalg.norm(model.components_, axis=1), 1.0)


def test_prediction_is_the_nearest_class_mean():
    X, y = load_iris(return_X_y=True)
    for labels in (y, y > 0):
        model = MaximumMarginDiscriminant().fit(X, labels)
        Z = model.transform(X)
        means = np.array([Z[labels == k].mean(axis=0) for k in model.classes_])
        nearest = np.argmin(((Z[:, None] - means) ** 2).sum(axis=2), axis=1)
        np.testing.assert_array_equal(model.predict(X), model.classes_[nearest])
        assert model.score(X, labels) == np.mean(model.classes_[nearest] == labels)
        assert Z.shape[1] == len(model.classes_)


def test_names_and_frames():
    pd = pytest.importorskip("pandas")
    X, y = load_iris(return_X_y=True, as_frame=True)
    model = MaximumMarginDiscriminant().set_output(transform="pandas").fit(X, y)
    frame = model.transform(X)
    assert isinstance(frame, pd.DataFrame)
    assert list(frame.columns) == [f"maximummargindiscriminant{k}" for k in range(3)]
    assert isinstance(model.fit_transform(X, y), pd.DataFrame)


def test_features_serve_nearest_neighbours_better_than_the_pixels():
    X, y = load_digits(return_X_y=True)
    model = MaximumMarginDiscriminant()
    Z = model.fit_transform(X[:1000], y[:1000])
    ours = KNeighborsClassifier(1).fit(Z, y[:1000]).score(model.transform(X[1000:]), y[1000:])
    assert ours > KNeighborsClassifier(1).fit(X[:1000], y[:1000]).score(X[1000:], y[1000:]) - 0.005


@pytest.mark.usefixtures("small_cores")
def test_classes_and_rounds_share_kernel_values():
    X, y = problem(0, 400, 3)
    X = np.hstack([X, np.zeros((400, 200))])  # wide rows are kept
    X[:, 6:] = np.random.default_rng(0).normal(size=(400, 200)) * 1e-3
    together = MaximumMarginDiscriminant(3, gamma=GAMMA).fit(X, y).n_kernel_evaluations_
    apart = sum(MaximumMarginDiscriminant(3, gamma=GAMMA).fit(X, y == k).n_kernel_evaluations_ for k in range(3))
    assert together < 0.8 * apart
    again = MaximumMarginDiscriminant(3, gamma=GAMMA).fit(X, y)
    assert again.n_kernel_evaluations_ == together
    np.testing.assert_array_equal(again.transform(X), MaximumMarginDiscriminant(3, gamma=GAMMA).fit(X, y).transform(X))


def test_verbose_shows_progress(capsys):
    X, y = problem()
    MaximumMarginDiscriminant(2, verbose=1).fit(X, y)
    text = capsys.readouterr().out
    assert "direction 2 of problem 2" in text
    assert "relative gap" in text


# Starting again, interrupts.


@pytest.mark.usefixtures("small_cores")
def test_warm_start_follows_a_path():
    X, y = problem(0, 300)
    warm = MaximumMarginDiscriminant(2, warm_start=True, tol=1e-4).fit(X, y)
    warm.set_params(C=1.2).fit(X, y)
    cold = MaximumMarginDiscriminant(2, C=1.2, tol=1e-4).fit(X, y)
    assert warm.n_steps_.sum() < cold.n_steps_.sum()
    np.testing.assert_allclose(warm.transform(X), cold.transform(X), atol=5e-3)
    longer = warm.set_params(n_components_per_class=3).fit(X, y)
    assert longer.transform(X).shape == (300, 9)
    assert warm.fit(X[:200], y[:200]).support_.max() < 200


@pytest.mark.parametrize("after", [1, 12])
@pytest.mark.usefixtures("small_cores")
def test_an_interrupt_leaves_features(monkeypatch, after):
    X, y = problem(0, 300)
    calls, real = [], problem_module.pairwise

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) > after:
            raise KeyboardInterrupt
        return real(*arguments)

    monkeypatch.setattr(problem_module, "pairwise", interrupted)
    with pytest.warns(ConvergenceWarning, match="interrupted"):
        model = MaximumMarginDiscriminant(3, gamma=GAMMA, tol=1e-6).fit(X, y)
    assert "interrupted" in model.status_
    np.testing.assert_allclose(np.diag(gram_of_features(model, rbf_kernel(X, gamma=GAMMA))), 1.0, atol=1e-9)


def test_the_papers_figure_on_optdigits(real_data):
    X, y = real_data("optdigits")
    # the test part of the set is what scikit-learn has as its digits
    X_test, y_test = load_digits(return_X_y=True)
    model = MaximumMarginDiscriminant()
    Z = model.fit_transform(X, y)
    assert KNeighborsClassifier(1).fit(Z, y).score(model.transform(X_test), y_test) >= 0.9744


ROOT = Path(__file__).resolve().parents[2]


# Peers warn of their own on few rows.
@pytest.mark.filterwarnings("ignore")
def test_the_reproduction_scripts_run(monkeypatch, capsys, real_data):
    monkeypatch.syspath_prepend(str(ROOT))
    importlib.import_module("reproduction.mmda_unselected").main(("wine",))
    real_data("optdigits")
    importlib.import_module("reproduction.mmda_tables").main(("optdigits",), ("none", "core K", "ball K"), shrink=20)
    importlib.import_module("reproduction.mmda_figure1").main(shrink=5)
    importlib.import_module("reproduction.mmda_figure2").main(("optdigits",), ("core K",), shrink=20)
    printed = capsys.readouterr().out
    for title in ("wine", "Table 6", "goal: 97.44", "digits 0, 6 and 9", "against the number of features"):
        assert title in printed


@pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from /proc")
@pytest.mark.filterwarnings("ignore")
def test_the_benchmark_runs(monkeypatch, capsys, real_data):
    real_data("letter")
    monkeypatch.syspath_prepend(str(ROOT))
    module = importlib.import_module("benchmarks.mmda")
    module.against_peers("letter", "none", shrink=40)
    monkeypatch.setattr(module, "SIZES", (2000, 4000))
    module.growth(shrink=20)
    printed = capsys.readouterr().out
    assert "MMDA + 1-NN" in printed
    assert "seconds grow as" in printed
