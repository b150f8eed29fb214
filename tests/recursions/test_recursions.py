"""The recursions against the papers' tables written out, against the exact solvers, and their laws."""

import itertools
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

import reference
from kampong import MarginSubspace
from kampong._core.compute import fix_signs
from kampong.datasets import sparse_text
from kampong.recursions import CandidCovarianceFreePCA, MarginRecursion
from problems import at_most

DATA = Path(os.environ.get("KAMPONG_DATA", Path(__file__).parents[3] / "shared" / "data"))

ESTIMATORS = [
    MarginRecursion(),
    MarginRecursion(epsilon=0.0, amnesia=1.0),
    MarginRecursion.kampong(),
    MarginRecursion(theta=1.0),
    CandidCovarianceFreePCA(),
    CandidCovarianceFreePCA(1, amnesia=0.0),
]


IN_ORDER = (
    "A recursion takes one step per row, so it depends on the order of the rows, which this check changes; "
    "test_recursions_reading.py compares weights with copies in their place."
)
SHUFFLED = {f"check_sample_weight_equivalence_on_{kind}_data": IN_ORDER for kind in ("dense", "sparse")}


# The checks fit random labels, where a given theta may not make the criterion positive, and say so in a warning.
@pytest.mark.filterwarnings("ignore:MarginRecursion. along direction:sklearn.exceptions.ConvergenceWarning")
@parametrize_with_checks(ESTIMATORS, expected_failed_checks=lambda _: SHUFFLED)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def automatic(epsilon, scale=1.0):
    """Return the rule theta="auto" as a function for the reference, with tr(S_w) from all rows so far."""

    def theta(n, X, y, estimate):
        within = np.trace(reference.scatters(X, y)[1])
        return max(0.0, scale * epsilon * within * (0.2 / X.shape[1] + 0.1 / np.sqrt(n)) - estimate)

    return theta


def table(n=70, d=6, seed=0, *, density=1.0):
    """Return rows of three classes with different means, the third of which appears late."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    y[n // 3 :] = rng.integers(0, 3, n - n // 3)
    X = rng.normal(size=(n, d)) + 2.0 * rng.normal(size=(3, d))[y] + 1.0
    return np.where(rng.random((n, d)) < density, X, 0.0), np.array(["b", "c", "a"])[y]


def vectors_of(model):
    """Return the vectors with their sign fixed, whose lengths must be what the attributes say: ‖v‖ = λ + θ."""
    scale = 2.0 if getattr(model, "update", "") == "distance" else 1.0
    lengths = np.where(model.vectors_.any(axis=1), scale * model.eigenvalues_ + getattr(model, "theta_", 0.0), 0.0)
    np.testing.assert_allclose(np.linalg.norm(model.vectors_, axis=1), lengths, rtol=1e-9, atol=1e-12)
    return fix_signs(model.vectors_)


def assert_iterates(model, X, y, expected, *, tolerance):
    """Feed one row at a time and compare after every row."""
    for i in range(X.shape[0]):
        model.partial_fit(X[i : i + 1], None if y is None else y[i : i + 1])
        found = vectors_of(model)
        largest = max(np.abs(expected[i]).max(), 1e-300)
        assert np.abs(found - fix_signs(expected[i])).max() <= tolerance * largest, f"row {i}"


CASES = [
    pytest.param(MarginRecursion.inter_class(3), {"epsilon": 0.0}, id="inter-class scatter, table 4"),
    pytest.param(MarginRecursion(3, theta=9.0), {"epsilon": 1.0, "theta": 9.0}, id="maximum margin, table 2"),
    pytest.param(
        MarginRecursion(3, epsilon=0.4, theta=5.0, amnesia=2.0),
        {"epsilon": 0.4, "theta": 5.0, "amnesia": 2.0},
        id="weighted, amnesic",
    ),
    pytest.param(MarginRecursion(3), {"epsilon": 1.0, "theta": automatic(1.0)}, id="maximum margin, theta auto"),
    pytest.param(MarginRecursion(2, epsilon=3.0), {"epsilon": 3.0, "theta": automatic(3.0)}, id="negative, theta auto"),
    pytest.param(MarginRecursion.kampong(3, a=1.0), {"a": 1.0}, id="kampong measure, a=1"),
    pytest.param(MarginRecursion.kampong(3, a=2.0, theta=20.0), {"a": 2.0, "theta": 20.0}, id="kampong measure, a=2"),
    pytest.param(
        MarginRecursion.kampong(2, a=3.0, theta="auto"), {"a": 3.0, "theta": automatic(1.0, 2.0)}, id="kampong, auto"
    ),
]


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize(("model", "settings"), CASES)
def test_every_iterate_is_the_papers(model, settings, form):
    recursion = reference.kampong_recursion if "a" in settings else reference.margin_recursion
    X, y = table(density=1.0 if form is np.asarray else 0.25)
    expected = recursion(X, y, model.n_components, **settings)
    assert_iterates(model.__class__(**model.get_params()), form(X), y, expected, tolerance=1e-10)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("amnesia", [0.0, 2.0, 3.5])
def test_every_iterate_is_the_principal_component_recursion(amnesia, form):
    X, _ = table(density=1.0 if form is np.asarray else 0.25)
    expected = reference.candid_covariance_free_pca(X, 3, amnesia=amnesia)
    assert_iterates(CandidCovarianceFreePCA(3, amnesia=amnesia), form(X), None, expected, tolerance=1e-10)


@pytest.mark.parametrize(
    "model",
    [
        MarginRecursion(3),
        MarginRecursion(3, theta=0.01, amnesia=2.0),
        MarginRecursion.inter_class(3),
        MarginRecursion.kampong(3, a=2.0, theta="auto"),
        CandidCovarianceFreePCA(3),
    ],
)
def test_sparse_iterates_equal_dense_ones_over_ten_thousand_steps(model):
    X, y = sparse_text(10_000, 600, 20, random_state=3)
    dense = X.toarray()
    slow = model.__class__(**model.get_params())
    fast = model.__class__(**model.get_params())
    for start in range(0, 10_000, 250):
        part = slice(start, start + 250)
        slow.partial_fit(dense[part], y[part])
        fast.partial_fit(X[part], y[part])
        expected = vectors_of(slow)
        assert np.abs(vectors_of(fast) - expected).max() <= 1e-8 * np.abs(expected).max()


def test_dense_and_sparse_batches_may_alternate():
    X, y = sparse_text(900, 80, 10, random_state=1)
    dense = X.toarray()
    alone, mixed = MarginRecursion(3), MarginRecursion(3)
    for number, start in enumerate(range(0, 900, 90)):
        part = slice(start, start + 90)
        alone.partial_fit(dense[part], y[part])
        mixed.partial_fit(X[part] if number % 2 else dense[part], y[part])
    np.testing.assert_allclose(vectors_of(mixed), vectors_of(alone), atol=1e-11, rtol=0)
    np.testing.assert_allclose(mixed.class_means_, alone.class_means_, atol=1e-14)


def test_full_rows_in_sparse_form_keep_their_digits_far_from_the_origin():
    X, y = table(200)
    dense = MarginRecursion(2).fit(X + 1e6, y)
    stored = MarginRecursion(2).fit(sparse.csr_array(X + 1e6), y)
    np.testing.assert_array_equal(stored.components_, dense.components_)


@settings(max_examples=at_most(25), deadline=None)
@given(
    cuts=st.lists(st.integers(1, 59), max_size=8),
    seed=st.integers(0, 2**16),
    density=st.sampled_from([1.0, 0.3]),
    update=st.sampled_from(["scatter", "distance"]),
)
def test_the_cut_into_batches_does_not_matter(cuts, seed, density, update):
    X, y = table(60, 7, seed, density=density)
    rows = X if density == 1.0 else sparse.csr_array(X)
    whole = MarginRecursion(3, update=update).fit(rows, y)
    parts = MarginRecursion(3, update=update)
    edges = [0, *sorted(set(cuts)), 60]
    for start, stop in itertools.pairwise(edges):
        parts.partial_fit(rows[start:stop], y[start:stop])
    largest = np.abs(vectors_of(whole)).max()
    np.testing.assert_allclose(vectors_of(parts), vectors_of(whole), atol=1e-12 * largest, rtol=0)
    np.testing.assert_array_equal(parts.class_counts_, whole.class_counts_)


def planted(n, seed):
    """Return rows whose margin criterion is negative definite, with a clear best direction."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    spread = np.sqrt([1.0, 2.0, 3.0, 3.0, 4.0, 4.0])
    means = np.zeros((3, 6))
    means[:, 0] = [-1.0, 0.0, 1.0]
    return rng.normal(size=(n, 6)) * spread + means[y] + 0.5, y


@pytest.mark.parametrize("update", ["scatter", "distance"])
def test_automatic_theta_converges_where_the_criterion_is_negative_definite(update):
    cosines, unshifted = [], []
    for seed in range(5):
        X, y = planted(20_000, seed)
        S_b, S_w = reference.scatters(X, y)
        values, directions = np.linalg.eigh(S_b - S_w)
        assert values[-1] < 0
        model = MarginRecursion(1, update=update).fit(X, y)
        cosines.append(abs(model.components_[0] @ directions[:, -1]))
        with pytest.warns(ConvergenceWarning, match="turns round"):
            wrong = MarginRecursion(1, update=update, theta=0.0).fit(X, y)
        unshifted.append(abs(wrong.components_[0] @ directions[:, -1]))
        assert model.eigenvalues_[0] == pytest.approx(values[-1], abs=0.1)
    assert min(cosines) > 0.98
    assert np.median(unshifted) < 0.9


@pytest.mark.parametrize(
    ("epsilon", "update"), [(0.0, "scatter"), (0.3, "scatter"), (0.0, "distance"), (0.3, "distance")]
)
def test_the_limit_is_the_exact_subspace(epsilon, update):
    rng = np.random.default_rng(5)
    y = rng.integers(0, 3, 30_000)
    means = np.array([[3.0, 0, 0, 0, 0], [0, 2.0, 0, 0, 0], [-3.0, 0.5, 1.0, 0, 0]])
    X = rng.normal(size=(len(y), 5)) + means[y]
    exact = MarginSubspace(2, epsilon=epsilon).fit(X, y)
    model = MarginRecursion(2, epsilon=epsilon, update=update).fit(X, y)
    assert np.abs(np.sum(model.components_ * exact.components_, axis=1)).min() > 0.998
    np.testing.assert_allclose(model.eigenvalues_, exact.eigenvalues_, rtol=0, atol=0.01 * exact.eigenvalues_[0])


def test_the_limit_is_the_principal_subspace():
    rng = np.random.default_rng(6)
    X = rng.normal(size=(20_000, 8)) * np.sqrt([20.0, 10.0, 5.0, 2.0, 1.0, 1.0, 1.0, 1.0]) + 50.0
    peer = PCA(3).fit(X)
    model = CandidCovarianceFreePCA(3).fit(X)
    assert np.abs(np.sum(model.components_ * peer.components_, axis=1)).min() > 0.995
    np.testing.assert_allclose(model.eigenvalues_, peer.explained_variance_, rtol=0.05)


def test_principal_components_do_not_depend_on_the_origin():
    X, _ = table(200)
    near, far = (CandidCovarianceFreePCA(3).fit(X + shift) for shift in (0.0, 1e5))
    np.testing.assert_allclose(far.components_, near.components_, atol=1e-8)


def load(name):
    path = DATA / f"{name}.npz"
    if not path.exists():
        pytest.skip(f"{path.name} is not in {DATA}; set KAMPONG_DATA to the directory that holds it")
    with np.load(path, allow_pickle=False) as arrays:
        return arrays["X"].astype(np.float64), arrays["y"].astype(np.int64)


def cosines(name, recursion, n_shuffles=20):
    X, y = load(name)
    S_b, S_w = reference.scatters(X, y)
    target = np.linalg.eigh(S_b - S_w)[1][:, -1]
    result = []
    for seed in range(n_shuffles):
        order = np.random.default_rng(seed).permutation(len(X))
        result.append(abs(recursion.fit(X[order], y[order]).components_[0] @ target))
    return np.array(result)


@pytest.mark.parametrize("name", ["iris", "balance_scale", "wine"])
def test_one_pass_over_the_papers_sets_reaches_the_batch_direction(name):
    assert np.median(cosines(name, MarginRecursion(1))) > 0.99


def test_waveform_is_nearer_to_the_batch_direction_than_with_the_smallest_definite_shift():
    X, y = load("waveform21")
    S_b, S_w = reference.scatters(X, y)
    definite = -float(np.linalg.eigvalsh(S_b - S_w)[0])
    automatic_shift = np.median(cosines("waveform21", MarginRecursion(1)))
    assert automatic_shift > np.median(cosines("waveform21", MarginRecursion(1, theta=definite)))


def test_predictions_are_those_of_the_nearest_mean_in_the_subspace():
    X, y = table(120)
    model = MarginRecursion(2).fit(X, y)
    points = model.transform(X)
    means = np.array([((X[y == label].mean(axis=0) - X.mean(axis=0)) @ model.components_.T) for label in "abc"])
    nearest = np.argmin(((points[:, None] - means) ** 2).sum(axis=2), axis=1)
    np.testing.assert_array_equal(model.predict(X), np.array(list("abc"))[nearest])
    assert model.score(X, y) == np.mean(model.predict(X) == y)


def test_inverse_transform_is_a_right_inverse():
    X, y = table(120)
    model = MarginRecursion(3).fit(X, y)
    points = model.transform(X)
    np.testing.assert_allclose(model.transform(model.inverse_transform(points)), points, atol=1e-10)
    with pytest.raises(ValueError, match="X has 2 columns, expected 3"):
        model.inverse_transform(points[:, :2])


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_vectors_wait_for_rows_that_leave_something(form):
    X = np.array([[0.0, 0, 0, 0, 0], [1.0, 0, 0, 0, 0], [1.0, 0, 0, 0, 0], [0.0, 0, 2.0, 0, 0], [0, 3.0, 0, 0, 0]])
    model = MarginRecursion(3, theta=1.0)
    lengths = [
        (np.linalg.norm(model.partial_fit(form(X[i : i + 1]), [i % 2]).components_, axis=1) > 0).sum() for i in range(5)
    ]
    assert lengths == [0, 1, 1, 2, 3]


def test_one_class_and_equal_rows_leave_finite_results():
    X = np.full((6, 3), 0.1)
    model = MarginRecursion(2).fit(X, ["a"] * 6)
    assert np.isfinite(model.transform(X)).all()
    assert model.predict(X).tolist() == ["a"] * 6
    principal = CandidCovarianceFreePCA(2).fit(X)
    assert not principal.components_.any()
    assert not principal.transform(X).any()


def test_classes_may_be_declared_and_rows_stay_as_they_are():
    X, y = table(40)
    rows = sparse.csr_array(np.where(np.abs(X) > 1, X, 0.0))
    before = rows.copy()
    model = MarginRecursion(2).partial_fit(rows, y, classes=["a", "b", "c", "z"])
    assert model.classes_.tolist() == ["a", "b", "c", "z"]
    assert model.class_counts_.tolist() == [*(np.sum(y == k) for k in "abc"), 0]
    np.testing.assert_array_equal(model.class_means_[3], model.mean_)
    assert "z" not in model.predict(rows)
    assert (rows != before).nnz == 0


def test_duplicate_entries_of_sparse_rows_are_added():
    X = sparse.csr_array((np.ones(5), np.array([0, 0, 2, 1, 1]), np.array([0, 3, 5])), shape=(2, 9))
    model = MarginRecursion(2, theta=1.0).fit(X, [0, 1])
    np.testing.assert_allclose(model.components_, MarginRecursion(2, theta=1.0).fit(X.toarray(), [0, 1]).components_)
    assert X.nnz == 5


def test_a_refused_batch_leaves_the_state_as_it_was():
    X, y = table(30)
    model = MarginRecursion(2).fit(X, y)
    before = model.components_.copy()
    broken = X.copy()
    broken[3, 2] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        model.partial_fit(broken, y)
    with pytest.raises(ValueError, match="label"):
        model.partial_fit(X, np.arange(30) % 3)
    with pytest.raises(ValueError, match="overflow"):
        model.partial_fit(1e200 * X, y)
    assert model.n_samples_seen_ == 30
    np.testing.assert_array_equal(model.components_, before)


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (MarginRecursion(0), "n_components must be a whole number ≥ 1, got 0"),
        (MarginRecursion(7), "n_components=7, but X has n_features=6"),
        (MarginRecursion(epsilon=-1), "epsilon must be a number .* got -1"),
        (MarginRecursion(theta="large"), "theta must be a number .* got 'large'.*auto"),
        (MarginRecursion(amnesia=-0.5), "amnesia must be a number .* got -0.5"),
        (MarginRecursion(update="both"), "update must be one of 'scatter', 'distance', got 'both'"),
    ],
)
def test_wrong_parameters_are_named(model, message):
    with pytest.raises(ValueError, match=message):
        model.fit(*table())


def test_wrong_calls_say_what_to_use_instead():
    X, y = table()
    model = MarginRecursion().fit(X, y)
    with pytest.raises(TypeError, match=r"depends on the order of its rows.*MarginSubspace, InterClassScatter and Max"):
        model.merge(model)
    with pytest.raises(TypeError, match=r"depends on the order of its rows.*MarginSubspace"):
        CandidCovarianceFreePCA().fit(X).merge(model)
    with pytest.raises(ValueError, match=r"one label.*MarginSubspace"):
        MarginRecursion().fit(X, np.eye(3, dtype=int)[np.arange(len(X)) % 3])
    with pytest.raises(ValueError, match="a must be a number"):
        MarginRecursion.kampong(a=0.5).fit(X, y)


def test_float32_rows_and_names():
    X, y = table()
    model = MarginRecursion(2).set_output(transform="pandas").fit(X, y)
    names = ["marginrecursion0", "marginrecursion1"]
    assert list(model.transform(X).columns) == names == model.get_feature_names_out().tolist()
    assert MarginRecursion(2).fit(X.astype(np.float32), y).transform(X.astype(np.float32)).dtype == np.float32


def test_constructors_name_the_papers_algorithms():
    X, y = table()
    immc = MarginRecursion.maximum_margin(2, theta=3.0).fit(X, y)
    np.testing.assert_array_equal(immc.components_, MarginRecursion(2, theta=3.0).fit(X, y).components_)
    np.testing.assert_array_equal(immc.theta_, [3.0, 3.0])
    scatter = MarginRecursion.inter_class(2).fit(X, y)
    unshifted = MarginRecursion(2, epsilon=0.0, theta="auto").fit(X, y)
    np.testing.assert_array_equal(scatter.components_, unshifted.components_)
    np.testing.assert_array_equal(unshifted.theta_, [0.0, 0.0])
