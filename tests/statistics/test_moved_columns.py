"""Columns that move: statistics, models and merged streams are those of rows that always had them there."""

import numpy as np
import pytest
from scipy import sparse

import kampong
from kampong.statistics import ClassMeans, ClassReservoir, ClassScatter
from kampong.statistics.reservoir import SampledScatter

KINDS = {
    "means": (ClassMeans, {}),
    "scatter": (ClassScatter, {}),
    "reservoir": (ClassReservoir, {"budget": 20_000}),
    "both": (SampledScatter, {"budget": 20_000}),
}


def problem(rows=300, d=6, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, rows)
    X = (rng.normal(size=(rows, d)) + 2 * np.eye(3, d)[y]) * (rng.random((rows, d)) < 0.6)
    return X, y


def spread(X, places, width):
    wide = np.zeros((len(X), width))
    wide[:, places] = X
    return wide


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("places", [[0, 1, 2, 3, 4, 5], [7, 2, 9, 0, 4, 3]])
def test_moving_columns_is_learning_them_at_their_places(kind, form, places):
    (make, options), (X, y), places = KINDS[kind], problem(), np.array(places)
    moved = make(6, **options).update(form(X[:200]), y[:200]).move_columns(places, 11)
    moved.update(form(spread(X[200:], places, 11)), y[200:])
    whole = make(11, **options).update(form(spread(X[:200], places, 11)), y[:200])
    whole.update(form(spread(X[200:], places, 11)), y[200:])
    assert moved.n_features == 11
    np.testing.assert_allclose(moved.means, whole.means, atol=1e-12)
    np.testing.assert_allclose(moved.squares, whole.squares, rtol=1e-12)
    if make is not ClassMeans:
        block = np.random.default_rng(1).normal(size=(11, 3))
        sparse_sample = make is ClassReservoir and form is not np.asarray
        # A dense row of another width takes other bytes of the budget.
        if issubclass(make, ClassScatter) or sparse_sample:
            np.testing.assert_allclose(moved.within_times(block), whole.within_times(block), atol=1e-10)
    again = make.from_arrays(moved.to_arrays())
    np.testing.assert_array_equal(again.means, moved.means)


def test_a_dense_sample_moves_too():
    X, y = problem()
    places = np.array([7, 2, 9, 0, 4, 3])
    moved = ClassReservoir(6).update(X, y).move_columns(places, 11)
    whole = ClassReservoir(11).update(spread(X, places, 11), y)
    np.testing.assert_allclose(moved.within_times(np.eye(11)), whole.within_times(np.eye(11)), atol=1e-12)


def test_columns_that_are_not_zero_are_not_left_out():
    X, y = problem()
    means = ClassMeans(6).update(X, y)
    with pytest.raises(ValueError, match="column 4 or one after it is not zero; give it a place too"):
        means.move_columns(np.arange(4), 8)
    for places in ([0, 1, 2, 3, 4, 4], [0, 1, 2, 3, 4, 8], [-1, 1, 2, 3, 4, 5]):
        with pytest.raises(ValueError, match="the places must be different, and below the new width 8"):
            means.move_columns(np.array(places), 8)
    assert means.n_features == 6


def test_a_widened_predictor_answers_as_before():
    X, y = problem()
    frozen = kampong.FisherDiscriminant(ridge=0.1).partial_fit(X, y).freeze()
    wide = frozen.widened(9)
    for mine, other in zip(wide.answers(np.hstack([X, 5 * np.ones((len(X), 3))])), frozen.answers(X), strict=True):
        np.testing.assert_array_equal(mine, other)
