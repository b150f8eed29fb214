"""The reservoir keeps to its budget of memory, and refuses what makes no sense without a trace."""

import tracemalloc

import numpy as np
import pytest
from scipy import sparse

from kampong._core.loops import Loop
from kampong.statistics import ClassMeans
from kampong.statistics.reservoir import ClassReservoir, _move
from problems import problem
from reference_reservoir import assert_identical


@pytest.mark.parametrize("form", ["dense", "sparse"])
def test_memory_stays_within_twice_the_budget_however_long_the_stream(form):
    rng = np.random.default_rng(1)
    budget = 2**20
    X = rng.standard_normal((2000, 10)) * (rng.random((2000, 10)) < 0.7)
    X, y = (sparse.csr_array(X) if form == "sparse" else X), rng.integers(0, 3, 2000)
    state = ClassReservoir(10, budget=budget)
    for a in range(0, 2000, 500):  # compile, and make everything that is made once
        ClassReservoir(10, budget=20_000).update(X[a : a + 500], y[a : a + 500]).sample()
    peaks = []
    tracemalloc.start()
    for _ in range(3):
        for _ in range(20):
            state.update(X, y)
            assert state._size(*state._used, np.dtype(np.float64)) <= budget / 16
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.reset_peak()
        assert 0.5 * budget < state.nbytes <= budget
    tracemalloc.stop()
    assert max(peaks) < 2.2 * budget
    assert peaks[2] <= 1.05 * peaks[1]


def test_row_by_row_memory_is_counted_in_full(monkeypatch):
    monkeypatch.setattr(Loop, "__call__", Loop.as_python)  # a compiler would be loaded meanwhile
    state = ClassReservoir(2, budget=2**18)
    row, label = np.ones((1, 2)), np.array([0])
    state.update(row, label)
    tracemalloc.start()
    for _ in range(4000):
        state.update(row, label)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2.2 * 2**18


@pytest.mark.parametrize("budget", [700, 2**20])
def test_a_refused_batch_leaves_no_trace(budget):
    X, y = problem(1, rows=50)
    state = ClassReservoir(5, budget=budget).update(X, y)
    before = state.to_arrays()
    bad = X.copy()
    bad[-1, 2] = np.nan
    for broken, labels, weights, match in [
        (bad, y, None, "Input X contains NaN"),
        (sparse.csr_array(bad), y, None, "Input X contains NaN"),
        (np.abs(X[:1]) * np.inf, y[:1], None, "Input X contains infinity"),
        (X, y.astype(str), None, "a string, next to labels such as"),
        (X, y, -np.ones(50), "negative weight"),
        (X[:, :4], y, None, "4 features, but 5"),
        (X, np.eye(3)[y], None, "the form of y changed"),
    ]:
        with pytest.raises(ValueError, match=match):
            state.update(broken, labels, weights, decay=0.5)
    assert_identical(before, state.to_arrays())
    with pytest.raises(ValueError, match="factor in"):
        state.decay(1.5)
    assert_identical(before, state.to_arrays())


def test_the_caller_keeps_his_arrays():
    X, y = problem(2, rows=80)
    flat = sparse.csr_array(X)
    weights = np.linspace(0, 2, 80)
    arrays = X, y, weights, flat.data, flat.indices, flat.indptr
    copies = [array.copy() for array in arrays]
    for array in arrays:
        array.flags.writeable = False
    for rows in (X, flat):
        state = ClassReservoir(5, budget=2000).update(rows, y, weights)
        kept = state.sample().rows
        assert not np.shares_memory(kept if rows is X else kept.data, X if rows is X else flat.data)
        state.merge(ClassReservoir(5, budget=2000, random_state=1).update(rows, y, weights)).within_times(np.eye(5))
    for now, then in zip(arrays, copies, strict=True):
        np.testing.assert_array_equal(now, then)


@pytest.mark.parametrize(
    ("parameters", "match"),
    [
        ({"budget": 0}, "budget must be an integer of at least 1, got 0. It is the number of bytes"),
        ({"budget": 1e6}, "budget must be an integer of at least 1, got 1000000.0"),
        ({"random_state": -1}, "random_state must be an integer of at least 0, got -1. It is the seed"),
        ({"random_state": None}, "random_state must be an integer of at least 0, got None"),
        ({"random_state": True}, "random_state must be an integer of at least 0, got True"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(parameters, match):
    with pytest.raises(ValueError, match=match):
        ClassReservoir(3, **parameters)


def test_what_cannot_be_merged_is_refused():
    X, y = problem(1)
    state = ClassReservoir(5, budget=1000).update(X, y)
    with pytest.raises(ValueError, match="budget 1000 with one of budget 2000"):
        state.merge(ClassReservoir(5, budget=2000).update(X, y))
    with pytest.raises(TypeError, match="cannot merge ClassReservoir with ClassMeans"):
        state.merge(ClassMeans(5).update(X, y))


def test_a_budget_too_small_for_any_row_says_so():
    X, y = problem(1)
    state = ClassReservoir(5, budget=100).update(X, y)
    assert (state.n_kept, state.full, state.nbytes) == (0, True, 0)
    with pytest.raises(ValueError, match=r"budget of 100 bytes have no weight: .* Give it rows, or a larger budget"):
        state.within_times(np.eye(5))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
@pytest.mark.parametrize(("rows", "longest"), [(5, 4), (300, 1), (300, 9), (900, 700)])
def test_rows_are_moved_to_their_places_however_many_there_are(rows, longest, dtype):
    rng = np.random.default_rng(rows)
    count = rng.integers(0, longest + 1, rows) if longest > 1 else np.ones(rows, dtype=np.int64)
    source = rng.integers(0, 1000, 2 * count.sum()).astype(dtype)
    first, order = 2 * (np.cumsum(count) - count), rng.permutation(rows)
    to = np.empty(rows, dtype=np.int64)
    to[order] = np.cumsum(count[order]) - count[order]
    target = np.full(count.sum(), -1, dtype=dtype)
    _move(source, first, target, to, count)
    expected = np.concatenate([source[first[row] : first[row] + count[row]] for row in order])
    np.testing.assert_array_equal(target, expected)
