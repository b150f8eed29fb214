"""Columns in units of their own: the ridge means the same for each, and the answers are for the rows as they come."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_digits, load_wine, make_classification
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.preprocessing import StandardScaler

import kampong
from kampong import FisherDiscriminant
from kampong.statistics.reservoir import SampledScatter
from kampong.statistics.scatter import ClassScatter

RAGGED = [load_wine, load_breast_cancer]


@given(seed=st.integers(0, 2**16), as_sparse=st.booleans(), weighted=st.booleans())
def test_statistics_in_units_are_those_of_the_divided_rows(seed, as_sparse, weighted):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(40, 5)) * (rng.random((40, 5)) < 0.7), rng.integers(0, 3, 40)
    weights = rng.uniform(0.5, 2.0, 40) if weighted else None
    units = 10.0 ** rng.uniform(-3, 3, 5)
    form = sparse.csr_array if as_sparse else np.asarray
    view = SampledScatter(5, budget=2**20).update(form(X), y, weights).in_units(units)
    divided = SampledScatter(5, budget=2**20).update(form(X / units), y, weights)
    assert_allclose(view.means, divided.means, rtol=1e-9, atol=1e-12 / units.min())
    assert_allclose(view.within_scatter(), divided.within_scatter(), rtol=1e-9, atol=1e-9 * divided.within_trace)
    assert view.within_trace == pytest.approx(divided.within_trace)
    found, wanted = view.sample(), divided.sample()
    dense = [one.rows if isinstance(one.rows, np.ndarray) else one.rows.toarray() for one in (found, wanted)]
    assert_allclose(*dense)
    assert_array_equal(found.members.codes, wanted.members.codes)


def test_units_are_standard_deviations_and_a_constant_column_is_not_blown_up():
    X, y = load_wine(return_X_y=True)
    assert_allclose(ClassScatter(13).update(X, y).units(), X.std(axis=0), rtol=1e-9)
    rng = np.random.default_rng(0)
    noise = 1e6 * (1 + 1e-13 * rng.normal(size=len(X)))
    wide = np.column_stack([X, noise, np.zeros(len(X))])
    units = ClassScatter(15).update(wide, y).units()
    assert units[13] == pytest.approx(1.0)
    assert units[14] == 1.0
    model, plain = FisherDiscriminant(scale=True).fit(wide, y), FisherDiscriminant(scale=True).fit(X, y)
    assert_allclose(model.predict_proba(wide), plain.predict_proba(X), atol=1e-5)


@pytest.mark.parametrize("load", RAGGED)
@pytest.mark.parametrize("form", ["fit", "stream"])
def test_ragged_columns_are_scaled_by_default_as_standard_scaler_would(load, form, tmp_path):
    X, y = load(return_X_y=True)
    A, a = X[::2], y[::2]
    model = FisherDiscriminant()
    model = model.fit(A, a) if form == "fit" else model.partial_fit(A[:50], a[:50]).partial_fit(A[50:], a[50:])
    assert model.choice_.scaled
    assert_allclose(model.scale_, A.std(axis=0), rtol=1e-9)
    scaler = StandardScaler().fit(A)
    plain = FisherDiscriminant(scale=False).fit(scaler.transform(A), a)
    assert plain.scale_ is None
    assert model.ridge_ == pytest.approx(plain.ridge_, rel=1e-5)
    assert_allclose(model.predict_proba(X), plain.predict_proba(scaler.transform(X)), atol=1e-6)
    assert_allclose(model.transform(X), plain.transform(scaler.transform(X)), atol=1e-6)
    model.save(tmp_path / "model")
    loaded = kampong.load(tmp_path / "model")
    assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert_array_equal(loaded.scale_, model.scale_)
    assert_allclose(model.to_sklearn().predict_proba(X), model.predict_proba(X), atol=1e-9)


@pytest.mark.parametrize("load", RAGGED)
def test_what_was_chosen_is_kept_in_the_units_of_the_rows_of_now(load):
    X, y = load(return_X_y=True)
    half = len(X) // 2
    order = np.random.default_rng(0).permutation(len(X))
    A, a = X[order[:half]], y[order[:half]]
    model = FisherDiscriminant(scale=True).partial_fit(A, a)
    first = model.freeze()
    scaler = StandardScaler().fit(A)
    plain = FisherDiscriminant(scale=False).partial_fit(scaler.transform(A), a)
    again = model.freeze(keep=first).probabilities(X)
    assert_allclose(again, plain.freeze(keep=plain.freeze()).probabilities(scaler.transform(X)), atol=1e-6)
    model.partial_fit(X[order[half:]], y[order[half:]])
    kept = model.freeze(keep=first)
    assert kept.choice.scaled
    assert kept.criterion.value == first.criterion.value
    given_ridge = FisherDiscriminant(ridge=first.criterion.value, scale=True, head="gaussian").fit(X, y)
    assert_allclose(np.abs(kept.components), np.abs(given_ridge.components_), rtol=1e-6, atol=1e-9)


def test_parts_that_merge_are_the_whole():
    X, y = load_breast_cancer(return_X_y=True)
    whole = FisherDiscriminant().partial_fit(X, y)
    halves = [FisherDiscriminant(random_state=i).partial_fit(X[i::2], y[i::2]) for i in (0, 1)]
    merged = kampong.merge_all(halves)
    assert merged.choice_.scaled
    assert whole.choice_.scaled
    assert merged.ridge_ == pytest.approx(whole.ridge_, rel=1e-6)
    assert_allclose(merged.predict_proba(X), whole.predict_proba(X), atol=1e-6)


@given(seed=st.integers(0, 2**16))
def test_units_do_not_matter_to_a_scaled_model(seed):
    rng = np.random.default_rng(seed)
    X, y = make_classification(120, 6, n_informative=4, n_classes=3, n_clusters_per_class=1, random_state=seed)
    units = 10.0 ** rng.uniform(-4, 4, 6)
    for ridge in (0.1, "auto"):
        model = FisherDiscriminant(ridge=ridge, scale=True).fit(X, y)
        moved = FisherDiscriminant(ridge=ridge, scale=True).fit(X * units, y)
        assert moved.ridge_ == pytest.approx(model.ridge_, rel=1e-6)
        assert_allclose(moved.predict_proba(X * units), model.predict_proba(X), atol=1e-6)


def test_where_the_units_of_the_rows_are_right_they_stay():
    X, y = load_digits(return_X_y=True)
    model = FisherDiscriminant().fit(X[::2], y[::2])
    assert not model.choice_.scaled
    assert model.scale_ is None
    X, y = load_wine(return_X_y=True)
    assert FisherDiscriminant(ridge=0.1).fit(X, y).scale_ is None


def test_unlike_units_no_longer_cost_what_they_did():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(1000, 10)) * 10.0 ** np.arange(10)
    y = (X[:, 0] + X[:, 9] / 1e9 > 0).astype(int)
    model, peer = FisherDiscriminant().fit(X[:500], y[:500]), LinearDiscriminantAnalysis().fit(X[:500], y[:500])
    assert FisherDiscriminant(scale=False).fit(X[:500], y[:500]).score(X[500:], y[500:]) < 0.85
    assert model.score(X[500:], y[500:]) >= peer.score(X[500:], y[500:]) - 0.005


@pytest.mark.parametrize("seed", range(4))
def test_the_choice_does_not_hang_on_a_last_bit(seed):
    X, y = load_wine(return_X_y=True)
    moved = X * (1 + 1e-12 * np.random.default_rng(seed).uniform(-1, 1, X.shape))
    model, other = FisherDiscriminant().fit(X, y), FisherDiscriminant().fit(moved, y)
    assert model.choice_.scaled
    assert other.ridge_ == pytest.approx(model.ridge_, rel=1e-6)
    assert_allclose(other.predict_proba(X), model.predict_proba(X), atol=1e-6)


def test_several_labels_a_row_and_priors():
    X, y = load_wine(return_X_y=True)
    scaled = StandardScaler().fit_transform(X)
    labels = np.eye(3, dtype=int)[y]
    for more in ({"priors": "uniform"}, {}):
        target = y if more else labels
        model = FisherDiscriminant(ridge=0.1, scale=True, **more).fit(X, target)
        plain = FisherDiscriminant(ridge=0.1, **more).fit(scaled, target)
        assert_allclose(model.predict_proba(X), plain.predict_proba(scaled), atol=1e-8)


@pytest.mark.parametrize("scale", ["yes", None, 2.0])
def test_another_word_is_refused(scale):
    X, y = load_wine(return_X_y=True)
    with pytest.raises(ValueError, match=r"scale must be True, False or 'auto', and is .* True divides each column"):
        FisherDiscriminant(scale=scale).fit(X, y)


def test_rows_without_a_scatter_cannot_be_scaled():
    rng = np.random.default_rng(0)
    X, y = sparse.csr_array(rng.random((60, 9000)) * (rng.random((60, 9000)) < 0.01)), np.arange(60) % 3
    with pytest.raises(ValueError, match=r"scale=True needs the d × d scatter.* these have 9000, or solver is 'auto'"):
        FisherDiscriminant(ridge=0.1, scale=True).fit(X, y)
    assert FisherDiscriminant(ridge=0.1).fit(X, y).scale_ is None
