"""Weights as small or large as they may be, and long decay: a row stays a row, and a file can be read again."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kampong.data.validation import LEAST_WEIGHT, MOST_WEIGHT
from kampong.statistics import ClassMeans, ClassReservoir, ClassScatter
from kampong.statistics.held_out import TrainingStatistics
from kampong.statistics.reservoir import SampledScatter

KINDS = [ClassMeans, ClassScatter, ClassReservoir, SampledScatter]
EXPONENTS = st.floats(np.log10(LEAST_WEIGHT), np.log10(MOST_WEIGHT))


def check(statistics, rows):
    """Kish's number of rows lies between 1 and the rows that count; all is finite, and a file gives it back."""
    assert np.isfinite(statistics.weight_unit)
    assert statistics.weight_unit > 0
    assert 1 - 1e-9 <= statistics.effective_rows <= rows * (1 + 1e-9)
    view = statistics.in_rows()
    assert view.total == pytest.approx(statistics.effective_rows, rel=1e-9)
    assert np.isfinite(view.counts).all()
    again = type(statistics).from_arrays(statistics.to_arrays())
    assert again.weight_unit == statistics.weight_unit


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=30, deadline=None)
@given(
    exponents=st.lists(EXPONENTS, min_size=4, max_size=12),
    factors=st.lists(st.floats(1e-250, 1.0), max_size=4),
    seed=st.integers(0, 2**16),
)
def test_rows_count_whatever_they_weigh_and_however_they_fade(kind, exponents, factors, seed):
    rng = np.random.default_rng(seed)
    n = len(exponents)
    statistics = kind(2).update(rng.normal(size=(n, 2)), np.arange(n) % 2, 10.0 ** np.clip(exponents, -144.9, 144.9))
    check(statistics, n)
    for factor in factors:
        statistics.decay(factor)
        if statistics.total == 0:
            return
        check(statistics, n)


def test_squared_weights_outlive_a_factor_whose_square_is_zero():
    X, y = np.array([[0.0], [1.0], [4.0], [5.0]]), [0, 0, 1, 1]
    statistics = ClassScatter(1).update(X, y, np.full(4, 1e100)).decay(1e-200)
    assert statistics.weight_unit == pytest.approx(1e-100, rel=1e-9)
    assert statistics.effective_rows == pytest.approx(4.0, rel=1e-9)


@pytest.mark.parametrize("kind", KINDS)
def test_a_file_without_squared_weights_counts_rows_alike(kind):
    rng = np.random.default_rng(0)
    statistics = kind(2).update(rng.normal(size=(6, 2)), np.arange(6) % 2, np.full(6, 1e-100))
    arrays = {**statistics.to_arrays(), "seconds": np.zeros(2)}
    again = kind.from_arrays(arrays)
    assert again.effective_rows == pytest.approx(6.0, rel=1e-12)
    assert again.in_rows().total == pytest.approx(6.0, rel=1e-12)


def test_many_heavy_rows_can_be_read_again():
    statistics = ClassMeans(1).update([[0.0], [1.0]], [0, 1], np.full(2, MOST_WEIGHT))
    for _ in range(40):
        statistics = statistics.merge(statistics)
    check(statistics, 2**41)


def test_rows_left_in_a_fold_count_as_they_weigh():
    rng = np.random.default_rng(2)
    statistics = SampledScatter(2).update(rng.normal(size=(20, 2)), np.arange(20) % 2)
    held = TrainingStatistics(statistics, statistics.sample(), np.arange(5))
    assert held.effective_rows == pytest.approx(15.0, rel=1e-12)
