"""What a reader of the papers asks of the recursions: orthogonal directions, an end, θ(j), ε and a chosen, y(i)."""

import itertools
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

import kampong
import reference
from kampong.datasets import sparse_text
from kampong.recursions import CandidCovarianceFreePCA, MarginRecursion
from kampong.recursions.recursion import EPSILONS
from problems import at_most

DATA = Path(os.environ.get("KAMPONG_DATA", Path(__file__).parents[3] / "shared" / "data"))
MODELS = [MarginRecursion(3), MarginRecursion.kampong(3, a=2.0), MarginRecursion(3, epsilon="auto")]


def table(n=200, d=6, seed=0, *, density=1.0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    X = rng.normal(size=(n, d)) + 2.0 * rng.normal(size=(3, d))[y] + 1.0
    return np.where(rng.random((n, d)) < density, X, 0.0), y


def orthonormal(vectors):
    """Return Gram–Schmidt by QR, with the signs of the vectors."""
    q, r = np.linalg.qr(vectors.T)
    return (q * np.sign(np.diag(r))).T


@pytest.mark.parametrize("model", [*MODELS, CandidCovarianceFreePCA(3)], ids=str)
def test_directions_are_orthonormal_and_keep_the_span(model):
    X, y = table(60)
    model = clone(model).fit(X, y)
    np.testing.assert_allclose(model.components_ @ model.components_.T, np.eye(3), atol=1e-12)
    raw = model.vectors_ / np.linalg.norm(model.vectors_, axis=1)[:, None]
    assert np.abs(raw @ raw.T - np.eye(3)).max() > 1e-3, "the vectors themselves are orthogonal in the limit only"
    expected = orthonormal(model.vectors_)
    np.testing.assert_allclose(np.abs(np.sum(expected * model.components_, axis=1)), 1.0, atol=1e-12)


@pytest.mark.skipif(not (DATA / "letter.npz").exists(), reason="needs letter.npz in KAMPONG_DATA")
def test_letters_nearest_neighbour_survives_the_projection():
    from sklearn.neighbors import KNeighborsClassifier

    with np.load(DATA / "letter.npz", allow_pickle=False) as arrays:
        X, y = arrays["X"].astype(float), arrays["y"]
    model = MarginRecursion(16).fit(X[:16000], y[:16000])
    Z, Z_test = model.transform(X[:16000]), model.transform(X[16000:18000])
    error = 1 - KNeighborsClassifier(1).fit(Z, y[:16000]).score(Z_test, y[16000:18000])
    raw = model.vectors_ / np.linalg.norm(model.vectors_, axis=1)[:, None]
    neighbours = KNeighborsClassifier(1).fit(X[:16000] @ raw.T, y[:16000])
    assert error < 0.06 < 0.15 < 1 - neighbours.score(X[16000:18000] @ raw.T, y[16000:18000])


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("model", MODELS[:2], ids=str)
def test_each_row_is_projected_by_the_directions_of_its_own_time(model, form):
    X, y = table(70, 12, density=1.0 if form is np.asarray else 0.25)
    found = clone(model).partial_fit_transform(form(X), y)
    slow = clone(model)
    for i in range(len(X)):
        slow.partial_fit(X[i : i + 1], y[i : i + 1])
        started = slow.vectors_.any(axis=1)
        expected = np.zeros(3)
        expected[started] = orthonormal(slow.vectors_[started]) @ (X[i] - X[: i + 1].mean(axis=0))
        np.testing.assert_allclose(found[i], expected, atol=1e-8 * max(1.0, np.abs(expected).max()))


def test_rows_projected_on_the_way_form_no_wide_vector(monkeypatch):
    X, y = sparse_text(200, 50_000, 30, n_classes=4, random_state=0)
    model = MarginRecursion.inter_class(3)
    model.partial_fit(X[:40], y[:40])
    monkeypatch.setattr("kampong.recursions.recursion_memory.RecursionState.vectors", property(lambda self: 1 / 0))
    assert model.partial_fit_transform(X[40:60], y[40:60]).shape == (20, 3)  # no snapshot falls due between 32 and 64


@settings(max_examples=at_most(15), deadline=None)
@given(cuts=st.lists(st.integers(1, 149), max_size=6), model=st.sampled_from(MODELS), sparsely=st.booleans())
def test_everything_that_is_read_is_the_same_for_any_cut_into_batches(cuts, model, sparsely):
    X, y = table(150, 7, density=0.3 if sparsely else 1.0)
    rows = sparse.csr_array(X) if sparsely else X
    whole, parts = clone(model).fit(rows, y), clone(model)
    points = [
        parts.partial_fit_transform(rows[start:stop], y[start:stop])
        for start, stop in itertools.pairwise([0, *sorted(set(cuts)), 150])
    ]
    np.testing.assert_allclose(np.concatenate(points), clone(model).partial_fit_transform(rows, y), atol=1e-9)
    assert parts.convergence_ == pytest.approx(whole.convergence_, abs=1e-9)
    assert parts.epsilon_ == whole.epsilon_
    np.testing.assert_allclose(parts.predict_proba(X), whole.predict_proba(X), atol=1e-9)


def test_convergence_is_the_angle_between_two_subspaces():
    X, y = table(128)
    earlier, later = MarginRecursion(2).fit(X[:64], y[:64]), MarginRecursion(2).fit(X, y)
    cosines = np.linalg.svd(later.components_ @ earlier.components_.T, compute_uv=False)
    assert later.convergence_ == pytest.approx(np.sqrt(1 - cosines[-1] ** 2), abs=1e-9)
    assert MarginRecursion(2).fit(X[:31], y[:31]).convergence_ == np.inf


@pytest.mark.parametrize("kind", [MarginRecursion, CandidCovarianceFreePCA])
def test_learning_ends_when_it_has_converged(kind):
    X, y = table(5000)
    model = kind(1, tol=0.05).fit(X, y)
    assert model.converged_
    assert model.convergence_ <= 0.05
    assert 32 <= model.n_samples_seen_ < 5000
    assert model.n_samples_seen_ == 2 ** int(np.log2(model.n_samples_seen_))
    shorter = kind(1).fit(X[: model.n_samples_seen_], y[: model.n_samples_seen_])
    np.testing.assert_allclose(model.components_, shorter.components_, atol=1e-12)
    before = model.components_
    model.partial_fit(X[::-1], y[::-1])
    np.testing.assert_array_equal(model.components_, before)
    assert not kind(1).fit(X, y).converged_


def test_theta_of_each_direction():
    X, y = table()
    several = MarginRecursion(3, theta=[9.0, 12.0, 15.0]).fit(X, y)
    np.testing.assert_array_equal(several.theta_, [9.0, 12.0, 15.0])
    # the first vector does not depend on the others, so it is that of its own θ alone
    np.testing.assert_allclose(several.vectors_[0], MarginRecursion(1, theta=9.0).fit(X, y).vectors_[0], rtol=1e-12)
    assert np.linalg.norm(several.vectors_[2] - MarginRecursion(3, theta=9.0).fit(X, y).vectors_[2]) > 1.0
    with pytest.raises(ValueError, match=r"theta has 2 shifts for n_components=3\. Give one number"):
        MarginRecursion(3, theta=(1.0, 2.0)).fit(X, y)
    with pytest.raises(ValueError, match=r"theta must be a number .* got 'x'"):
        MarginRecursion(2, theta=[1.0, "x"]).fit(X, y)


def test_theta_of_each_direction_can_be_saved(tmp_path):
    X, y = table()
    model = MarginRecursion(2, theta=(9.0, 12.0)).fit(X, y)
    model.save(tmp_path / "model")
    loaded = kampong.load(tmp_path / "model")
    assert list(loaded.theta) == [9.0, 12.0]
    np.testing.assert_array_equal(loaded.partial_fit(X, y).components_, model.partial_fit(X, y).components_)


def standardised(name):
    with np.load(DATA / f"{name}.npz", allow_pickle=False) as arrays:
        X, y = arrays["X"].astype(float), arrays["y"].astype(int)
    return (X - X.mean(axis=0)) / X.std(axis=0), y


@pytest.mark.skipif(not (DATA / "pima_diabetes.npz").exists(), reason="needs pima_diabetes.npz in KAMPONG_DATA")
def test_a_criterion_that_is_nowhere_positive_gives_its_direction_or_a_warning():
    X, y = standardised("pima_diabetes")
    order = np.random.default_rng(0).permutation(len(X))
    S_b, S_w = reference.scatters(X, y)
    values, vectors = np.linalg.eigh(S_b - 0.5 * S_w)
    assert values[-1] < 0
    model = MarginRecursion.kampong(1, a=2).fit(X[order], y[order])
    assert model.theta_[0] > 0
    assert model.eigenvalues_[0] == pytest.approx(values[-1], abs=0.03)
    assert abs(model.components_[0] @ vectors[:, -1]) > 0.9
    with pytest.warns(ConvergenceWarning, match=r'direction 0 .* averages -0\.\d+, and theta=0 .* Use theta="auto"'):
        MarginRecursion.kampong(1, a=2, theta=0.0).fit(X[order], y[order])


def test_a_theta_that_is_large_enough_brings_no_warning():
    X, y = table(400)
    S_b, S_w = reference.scatters(X, y)
    MarginRecursion(6, theta=1.5 - np.linalg.eigvalsh(S_b - S_w)[0]).fit(X, y)


def test_a_is_a_parameter_like_the_others():
    X, y = table()
    model = MarginRecursion.kampong(2, a=2.0).set_params(a=3.0).fit(X, y)
    assert model.epsilon_ == 1.0
    expected = MarginRecursion(2, epsilon=1.0, update="distance").fit(X, y)
    np.testing.assert_array_equal(model.components_, expected.components_)
    with pytest.raises(ValueError, match=r"a must be a number .* got 0\.5.*auto"):
        MarginRecursion(a=0.5).fit(X, y)


def confusing(n, seed):
    """Return classes whose means differ most where the rows vary most, and a little where they vary little."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    X = rng.normal(size=(n, 4)) * [20.0, 0.5, 0.5, 0.5]
    X[:, 0] += 3.0 * y
    X[:, 1] += 2.0 * y
    return X, y


@pytest.mark.parametrize("update", ["scatter", "distance"])
def test_epsilon_is_chosen_by_rows_that_come_later(update):
    X, y = confusing(6000, 1)
    model = MarginRecursion(1, epsilon="auto", update=update).fit(X[:4000], y[:4000])
    fixed = [
        MarginRecursion(1, epsilon=value, update=update).fit(X[:4000], y[:4000]).score(X[4000:], y[4000:])
        for value in EPSILONS
    ]
    assert model.score(X[4000:], y[4000:]) > max(fixed) - 0.02 > fixed[0] + 0.1
    assert model.epsilon_ > 0
    assert model.losses_.shape == (len(EPSILONS),)
    assert model.losses_[EPSILONS.index(model.epsilon_)] <= model.losses_.min() + 1e-7
    same = MarginRecursion(1, epsilon=model.epsilon_, update=update).fit(X[:4000], y[:4000])
    np.testing.assert_array_equal(model.components_, same.components_)
    assert MarginRecursion.kampong(1, a="auto").fit(X[:4000], y[:4000]).epsilon_ > 0


def test_the_loss_is_the_mean_relative_distance_of_rows_that_came_later():
    X, y = confusing(64, 4)
    model, shares = MarginRecursion(1, epsilon="auto").fit(X, y), []
    for place, epsilon in enumerate(EPSILONS):
        shares.append([])
        for known in (16, 32):  # each snapshot validates the rows until the next one
            earlier = MarginRecursion(1, epsilon=epsilon).fit(X[:known], y[:known])
            means = np.array([X[:known][y[:known] == k].mean(axis=0) for k in (0, 1)])
            for row, own in zip(X[known : 2 * known], y[known : 2 * known], strict=True):
                away = [float(((earlier.components_ @ (row - mean)) ** 2).sum()) for mean in means]
                shares[place].append(away[own] / sum(away))
    np.testing.assert_allclose(model.losses_, np.mean(shares, axis=1), rtol=1e-9)


def test_a_last_bit_of_the_rows_does_not_change_the_choice():
    X, y = confusing(1000, 2)
    rng = np.random.default_rng(0)
    moved = X * (1 + 1e-12 * rng.normal(size=X.shape))
    models = [MarginRecursion(1, epsilon="auto").fit(rows, y) for rows in (X, moved)]
    assert models[0].epsilon_ == models[1].epsilon_
    np.testing.assert_allclose(models[0].predict_proba(X), models[1].predict_proba(X), atol=1e-6)


def test_a_chosen_model_goes_on_from_a_file(tmp_path):
    X, y = confusing(1000, 3)
    model = MarginRecursion(2, epsilon="auto").partial_fit(X[:700], y[:700])
    model.save(tmp_path / "model")
    loaded = kampong.load(tmp_path / "model").partial_fit(X[700:], y[700:])
    model.partial_fit(X[700:], y[700:])
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    np.testing.assert_array_equal(loaded.losses_, model.losses_)
    assert loaded.convergence_ == model.convergence_


def test_probabilities_are_those_of_equal_gaussian_classes():
    X, y = table(64)
    model = MarginRecursion(2).fit(X, y)
    half = MarginRecursion(2).fit(X[:32], y[:32])
    # the variance: rows 33 to 64 around the class means of row 32, in the directions of row 32
    away = (X[32:] - half.class_means_[y[32:]]) @ half.components_.T
    variance = (away**2).sum(axis=1).mean() / 2
    distances = ((model.transform(X)[:, None] - (model.class_means_ - model.mean_) @ model.components_.T) ** 2).sum(
        axis=2
    )
    expected = np.exp(-distances / (2 * variance))
    np.testing.assert_allclose(model.predict_proba(X), expected / expected.sum(axis=1, keepdims=True), atol=1e-12)
    np.testing.assert_array_equal(model.predict(X), np.argmin(distances, axis=1))


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("model", MODELS, ids=str)
def test_a_weight_of_two_is_the_row_twice_and_of_zero_its_absence(model, form):
    X, y = table(80, density=1.0 if form is np.asarray else 0.4)
    weights = np.random.default_rng(0).integers(0, 4, 80)
    weighted = clone(model).fit(form(X), y, sample_weight=weights)
    repeated = clone(model).fit(form(np.repeat(X, weights, axis=0)), np.repeat(y, weights))
    np.testing.assert_array_equal(weighted.predict_proba(X), repeated.predict_proba(X))
    np.testing.assert_array_equal(weighted.class_counts_, repeated.class_counts_)
    halves = clone(model)
    for i in range(80):
        halves.partial_fit(form(X[i : i + 1]), y[i : i + 1], classes=[0, 1, 2], sample_weight=[weights[i]])
    np.testing.assert_allclose(halves.vectors_, weighted.vectors_, atol=1e-12)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_weights_of_principal_components_are_repeated_rows(form):
    X, _ = table(80, density=1.0 if form is np.asarray else 0.4)
    weights = np.random.default_rng(0).integers(0, 4, 80)
    weighted = CandidCovarianceFreePCA(3).fit(form(X), sample_weight=weights)
    repeated = CandidCovarianceFreePCA(3).fit(form(np.repeat(X, weights, axis=0)))
    np.testing.assert_array_equal(weighted.vectors_, repeated.vectors_)
    assert weighted.n_samples_seen_ == weights.sum()
    parts = CandidCovarianceFreePCA(3)
    for start in range(0, 80, 7):
        some = slice(start, start + 7)
        parts.partial_fit(form(X[some]), sample_weight=weights[some])
    np.testing.assert_allclose(parts.vectors_, weighted.vectors_, atol=1e-12)
    halves = CandidCovarianceFreePCA(3).fit(form(X), sample_weight=np.where(np.arange(80) < 40, 0.5, 1.0))
    np.testing.assert_allclose(halves.mean_, (X[:40].sum(axis=0) / 2 + X[40:].sum(axis=0)) / 60, atol=1e-12)
    with pytest.raises(ValueError, match="CandidCovarianceFreePCA: the weight of every row is zero"):
        CandidCovarianceFreePCA().fit(X, sample_weight=np.zeros(80))
    with pytest.raises(ValueError, match="a row of weight w takes w steps"):
        CandidCovarianceFreePCA().fit(X, sample_weight=np.full(80, 1e9))


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_a_fraction_of_a_row_weighs_its_fraction(form):
    X, y = table(3000, density=1.0 if form is np.asarray else 0.4)
    weights = np.where(y == 2, 0.3, 1.0)
    model = MarginRecursion(2, epsilon=0.0).fit(form(X), y, sample_weight=weights)
    counts = np.array([np.sum(weights[y == k]) for k in range(3)])
    np.testing.assert_allclose(model.class_counts_, counts)
    np.testing.assert_allclose(model.mean_, weights @ X / weights.sum(), atol=1e-9)
    plain = MarginRecursion(2).fit(X, y, sample_weight=weights)
    formed = MarginRecursion(2).fit(form(X), y, sample_weight=weights)
    np.testing.assert_allclose(formed.vectors_, plain.vectors_, atol=1e-9)
    exact = kampong.InterClassScatter(2).fit(X, y, sample_weight=weights)
    assert np.abs(np.sum(model.components_ * exact.components_, axis=1)).min() > 0.99
    with pytest.raises(
        ValueError, match=r"sample_weight lies in \[1e\+09, 1e\+09\], but a row of weight w takes w steps"
    ):
        MarginRecursion().fit(X, y, sample_weight=np.full(3000, 1e9))
    with pytest.raises(ValueError, match="the weight of every row is zero"):
        MarginRecursion().fit(X, y, sample_weight=np.zeros(3000))
