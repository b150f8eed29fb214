"""Units of columns: large ones are held to the variance of √d columns, and rows are divided in their floats."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from kampong.data.labels import Members
from kampong.statistics.all_rows import ClassRows, PartRows, within_squares, within_times
from kampong.statistics.means import ClassMeans
from kampong.statistics.reservoir import ClassReservoir
from kampong.statistics.units import capped, divided


@given(seed=st.integers(0, 2**16), d=st.integers(5, 300), spread=st.floats(0, 20))
def test_large_columns_get_the_variance_at_which_the_root_of_d_columns_would_hold_all(seed, d, spread):
    units = np.exp(spread * np.random.default_rng(seed).normal(size=d))
    found = capped(units)
    after = np.square(units / found)
    assert (found >= 1).all()
    large = found > 1 + 1e-9
    assert after.sum() / after.max() >= np.sqrt(d) * (1 - 1e-9)
    if large.any():
        np.testing.assert_allclose(after[large], after.max(), rtol=1e-9)
        assert after.sum() == pytest.approx(np.sqrt(d) * after.max())
        assert units[~large].max(initial=0) <= units[large].min()


def test_columns_of_about_one_size_stay_and_lone_ones_too():
    np.testing.assert_array_equal(capped(np.linspace(1, 2, 50)), np.ones(50))
    lone = np.zeros(50)
    lone[3] = 7.0
    np.testing.assert_array_equal(capped(lone), np.ones(50))


@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.uint8])
def test_rows_are_divided_in_their_floats(form, dtype):
    X = np.random.default_rng(0).integers(0, 9, (20, 6)).astype(dtype)
    units = 10.0 ** np.arange(6)
    found = divided(X if form == "dense" else sparse.csr_array(X), units)
    expected = X / units.astype(np.float64)
    assert found.dtype == (np.float32 if dtype == np.float32 else np.float64)
    np.testing.assert_allclose(found if form == "dense" else found.toarray(), expected, rtol=1e-6)


class Here:
    """Rows of one part, as if they lay elsewhere."""

    def __init__(self, X, members):
        self.X, self.members = X, members

    def product(self, means, block):
        return within_times(self.X, self.members, means, block)

    def squares(self, means):
        return within_squares(self.X, self.members, means)


@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize("kind", ["rows", "sample", "parts"])
def test_statistics_of_rows_in_units_are_those_of_divided_rows(form, kind):
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(60, 5)) * (rng.random((60, 5)) < 0.7) * 10.0 ** np.arange(5), rng.integers(0, 3, 60)
    units, block = 10.0 ** rng.uniform(-1, 3, 5), rng.normal(size=(5, 2))

    def learnt(rows):
        rows = rows if form == "dense" else sparse.csr_array(rows)
        if kind == "sample":
            return ClassReservoir(5, budget=2**20).update(rows, y)
        if kind == "rows":
            return ClassRows(5).update(rows, y)
        codes = np.unique(y, return_index=True)[1].argsort().argsort()[y]  # as the classes appeared
        return PartRows(ClassMeans(5).update(rows, y), Here(rows, Members(np.arange(60), codes, np.ones(60), 60)))

    view, wanted = learnt(X).in_units(units), learnt(X / units)
    np.testing.assert_allclose(view.means, wanted.means, rtol=1e-9)
    np.testing.assert_allclose(view.within_times(block), wanted.within_times(block), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(view.within_variances(), wanted.within_variances(), rtol=1e-9)
    np.testing.assert_allclose(view.units(), wanted.units(), rtol=1e-6)
    assert view.within_trace == pytest.approx(wanted.within_trace)
    if kind != "parts":
        found, expected = (one.held()[0] for one in (view, wanted))
        as_array = np.asarray if form == "dense" else lambda rows: rows.toarray()
        np.testing.assert_allclose(as_array(found), as_array(expected), rtol=1e-9)
