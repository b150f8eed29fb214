"""The reservoir keeps the rows that a naive loop keeps, whatever the batches, and its totals are unbiased."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse, stats

from kampong.statistics import ClassMeans, ClassScatter
from kampong.statistics.all_rows import ClassRows
from kampong.statistics.reservoir import ClassReservoir
from problems import at_most, cut, problem, seeds
from reference_reservoir import (
    FORMS,
    assert_identical,
    feed,
    naive_keys,
    naive_sample,
    numbers,
    sample_arrays,
    segments,
    stream_of,
)


@pytest.mark.parametrize("form", FORMS)
@given(seed=seeds, budget=st.integers(150, 12_000))
@settings(max_examples=at_most(25))
def test_the_sample_is_the_longest_prefix_by_key_that_fits(form, seed, budget):
    rng = np.random.default_rng(seed)
    X, y, weights, sizes, labels = stream_of(form, rng)
    factors = segments(rng, 60)
    state = ClassReservoir(7, budget=budget, random_state=seed)
    feed(state, X, y, weights, factors, cut(rng, 60))
    keys = naive_keys(seed, weights, factors)
    keys[labels == 0] = np.inf
    kept, threshold = naive_sample(keys, sizes, budget)
    assert numbers(state) == kept
    assert state.n_kept == len(kept)
    assert state.full == (threshold < np.inf)
    assert state.nbytes <= budget
    if state.full:
        assert state._threshold - state._frame == pytest.approx(threshold, abs=1e-12)
    present = weights * np.array([np.prod(factors[i + 1 :]) for i in range(60)])
    share = -np.expm1(-present[kept] * np.exp(threshold)) if state.full else 1.0
    np.testing.assert_allclose(state.sample().weights, present[kept] / share, rtol=1e-10)


@pytest.mark.parametrize("form", FORMS)
@given(seed=seeds)
@settings(max_examples=at_most(25))
def test_batches_and_reads_change_nothing_not_a_bit(form, seed):
    rng = np.random.default_rng(seed)
    X, y, weights, _, _ = stream_of(form, rng)
    factors = segments(rng, 60)
    budget = int(rng.integers(500, 8000))
    whole = feed(ClassReservoir(7, budget=budget), X, y, weights, factors, [slice(0, 60)])
    parts = feed(ClassReservoir(7, budget=budget), X, y, weights, factors, cut(rng, 60))
    rows = feed(ClassReservoir(7, budget=budget), X, y, weights, factors, [slice(i, i + 1) for i in range(60)])
    watched = feed(ClassReservoir(7, budget=budget), X, y, weights, factors, cut(rng, 60), lambda state: state.sample())
    for other in (parts, rows, watched):
        assert_identical(sample_arrays(whole), sample_arrays(other))


def test_a_long_stream_in_any_batches_is_the_same_where_rows_wait():
    rng = np.random.default_rng(4)
    X, y, weights, _, _ = stream_of("sparse", rng, n=6000, d=50)
    states = []
    for size in (1, 17, 1000, 6000):
        state = ClassReservoir(50, budget=400_000)
        for a in range(0, 6000, size):
            state.update(X[a : a + size], y[a : a + size], weights[a : a + size])
        states.append(sample_arrays(state))
    for other in states[1:]:
        assert_identical(states[0], other)
    assert 500 < len(states[0]["sample_keys"]) < 2000


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("budget", [1200, 2**20])
def test_a_resumed_stream_is_the_uninterrupted_one(form, budget):
    rng = np.random.default_rng(2)
    X, y, weights, _, _ = stream_of(form, rng)
    first, second = slice(0, 25), slice(25, 60)
    state = ClassReservoir(7, budget=budget, random_state=2**64 - 1).update(X[first], y[first], weights[first])
    arrays = state.to_arrays()
    assert all(array.dtype != object for array in arrays.values())
    again = ClassReservoir.from_arrays({name: array.copy() for name, array in arrays.items()})
    assert state.full == (budget == 1200)
    assert_identical(arrays, again.to_arrays())
    state.update(X[second], y[second], weights[second], decay=0.7)
    again.update(X[second], y[second], weights[second], decay=0.7)
    assert_identical(state.to_arrays(), again.to_arrays())
    block = rng.standard_normal((7, 2))
    np.testing.assert_array_equal(state.within_times(block), again.within_times(block))


@pytest.mark.parametrize("form", FORMS)
def test_while_everything_fits_the_within_scatter_is_exact(form):
    rng = np.random.default_rng(9)
    X, y, weights, _, _ = stream_of(form, rng)
    block = rng.standard_normal((7, 3))
    parts, exact = [], []
    for seed, batch in enumerate((slice(0, 20), slice(20, 60))):
        parts.append(ClassReservoir(7, random_state=seed))
        exact.append(ClassScatter(7))
        for state in (parts[-1], exact[-1]):
            state.update(X[batch], y[batch], weights[batch]).update(X[batch], y[batch], decay=0.3)
    pairs = [*zip(parts, exact, strict=True), (parts[0].merge(parts[1]), exact[0].merge(exact[1]))]
    for state, scatter in pairs:
        expected = scatter.within_scatter() @ block
        assert not state.full
        np.testing.assert_allclose(state.within_times(block), expected, atol=1e-12 * np.abs(expected).max(), rtol=0)
        sample = state.sample()
        totals = np.bincount(sample.members.codes, weights=sample.members.weights, minlength=scatter.n_classes)
        np.testing.assert_allclose(totals, scatter.counts, rtol=1e-12)
    single = ClassReservoir(7).update(X, y, weights)
    np.testing.assert_array_equal(np.sort(single.sample().weights), np.sort(present_weights(y, weights)))
    np.testing.assert_allclose(single.within_times(block), ClassRows(7).update(X, y, weights).within_times(block))


def present_weights(y, weights):
    labelled = y.any(axis=1) if y.ndim == 2 else np.ones(len(y), dtype=bool)
    return weights[labelled & (weights > 0)]


def test_labels_are_positions_in_the_sorted_classes():
    X = np.arange(8.0)[:, None]
    y = np.array(["c", "a", "b", "c", "a", "a", "b", "c"])
    state = ClassReservoir(1).update(X, y)
    rows, members, *_ = state.sample()
    np.testing.assert_array_equal(state.classes[members.codes], y[rows.ravel().astype(int)])


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("merged", [False, True])
def test_totals_are_unbiased(weighted, merged):
    rng = np.random.default_rng(5)
    n = 80
    X = rng.exponential(size=(n, 3)) * (rng.random((n, 3)) < 0.6)
    X[:, 0] += np.arange(n) / n
    X, y = sparse.csr_array(X), rng.integers(0, 2, n)
    weights = rng.exponential(size=n) ** 2 + 0.01 if weighted else np.ones(n)
    decay, half = (0.4, 50) if weighted else (1.0, 50)
    present = np.where(np.arange(n) < half, decay, 1.0) * weights
    dense = X.toarray()
    values = np.column_stack([np.ones(n), dense, dense[:, 0] ** 2, np.diff(X.indptr)])
    exact = present @ values
    estimates = []
    for seed in range(400):
        state = ClassReservoir(3, budget=2500, random_state=2 * seed)
        first = state.update(X[:half], y[:half], weights[:half])
        if merged:
            other = ClassReservoir(3, budget=2500, random_state=2 * seed + 1)
            state = first.decay(decay).merge(other.update(X[half:], y[half:], weights[half:]))
        else:
            state = first.update(X[half:], y[half:], weights[half:], decay=decay)
        rows, _, kept, *_ = state.sample()
        x = rows.toarray()
        counts = np.diff(rows.indptr)
        estimates.append(kept @ np.column_stack([np.ones(len(x)), x, x[:, 0] ** 2, counts]))
        assert 10 < len(x) < 30
    estimates = np.array(estimates)
    z = (estimates.mean(axis=0) - exact) / (estimates.std(axis=0, ddof=1) / math.sqrt(len(estimates)))
    assert np.abs(z).max() < 3.5
    assert (estimates.std(axis=0) / exact).max() < 0.6


def test_every_position_is_kept_equally_often():
    n, repeats = 50, 2000
    X = np.arange(n, dtype=float)[:, None]
    y = np.zeros(n, dtype=int)
    counts = np.zeros(n)
    for seed in range(repeats):
        rows = ClassReservoir(1, budget=10 * 112, random_state=seed).update(X, y).sample().rows
        assert len(rows) == 10
        counts[rows.ravel().astype(int)] += 1
    share = 10 / n
    statistic = ((counts - repeats * share) ** 2).sum() / (repeats * share * (1 - share)) * (n - 1) / n
    assert stats.chi2.sf(statistic, n - 1) > 0.01


@pytest.mark.parametrize("decay", [1.0, 0.8])
def test_one_kept_row_is_drawn_in_proportion_to_its_present_weight(decay):
    n, repeats = 12, 1500
    X = np.arange(n, dtype=float)[:, None]
    y = np.zeros(n, dtype=int)
    weights = np.linspace(1, 3, n)
    counts = np.zeros(n)
    for seed in range(repeats):
        state = ClassReservoir(1, budget=112, random_state=seed)
        for i in range(0, n, 2):
            state.update(X[i : i + 2], y[i : i + 2], weights[i : i + 2], decay=decay)
        counts[int(state.sample().rows.item())] += 1
    present = weights * decay ** ((n - 1 - np.arange(n)) // 2)
    assert stats.chisquare(counts, repeats * present / present.sum()).pvalue > 0.01


@given(seed=seeds, budget=st.integers(300, 12_000))
@settings(max_examples=at_most(25))
def test_a_merge_is_the_prefix_of_both_streams(seed, budget):
    rng = np.random.default_rng(seed)
    X, y, weights, sizes, _ = stream_of("sparse", rng)
    spans = [slice(0, 20), slice(20, 45), slice(45, 60)]
    factors = [segments(rng, span.stop - span.start) for span in spans]
    leaves = []
    for k, (span, factor) in enumerate(zip(spans, factors, strict=True)):
        leaf = ClassReservoir(7, budget=budget, random_state=k)
        whole = slice(0, span.stop - span.start)
        leaves.append(feed(leaf, X[span], y[span], weights[span], factor, [whole]))
    before = [leaf.to_arrays() for leaf in leaves]
    keys = np.concatenate(
        [naive_keys(k, weights[span], f) for k, (span, f) in enumerate(zip(spans, factors, strict=True))]
    )
    kept, threshold = naive_sample(keys, sizes, budget)
    a, b, c = leaves
    for merged in (
        a.merge(b).merge(c),
        a.merge(b.merge(c)),
        c.merge(a).merge(b),
        a.merge(ClassReservoir(7, budget=budget)).merge(c).merge(b),
    ):
        assert numbers(merged) == kept
        assert merged.n_samples == np.count_nonzero(weights)
        assert merged.nbytes <= budget
        labels = merged.classes[merged.sample().members.codes]
        np.testing.assert_array_equal(labels, y[kept])
        if merged.full:
            assert merged._threshold - merged._frame == pytest.approx(threshold, abs=1e-12)
    for leaf, arrays in zip(leaves, before, strict=True):
        assert_identical(leaf.to_arrays(), arrays)


def test_rows_after_a_merge_draw_new_clocks():
    X, y = problem(0, rows=40)
    first = ClassReservoir(5, random_state=3).update(X, y)
    second = ClassReservoir(5, random_state=3).update(X[:7], y[:7])
    merged = first.merge(second).update(X, y)
    assert len(np.unique(merged._cut().keys)) == 80  # the second stream's seven are the first stream's


def test_rows_with_several_labels_are_kept_once_with_all_of_them():
    rng = np.random.default_rng(6)
    X, y, weights, _, labels = stream_of("multilabel", rng)
    state = ClassReservoir(7, budget=4000).update(X, y, weights)
    rows, members, kept_weights, *_ = state.sample()
    kept = numbers(state)
    assert len(set(kept)) == len(kept) == len(kept_weights) == rows.shape[0]
    assert state.full
    assert (labels[kept] > 0).all()
    again = np.zeros((len(kept), 4), dtype=int)
    again[members.rows, members.codes] = 1
    np.testing.assert_array_equal(again, y[kept])
    np.testing.assert_allclose(rows.toarray(), X[kept].toarray())
    present = np.unique(members.codes)
    totals = np.bincount(members.codes, weights=members.weights, minlength=4)
    np.testing.assert_allclose(totals[present], ClassMeans(7).update(X, y, weights).counts[present])


def test_a_batch_of_the_other_form_is_converted():
    rng = np.random.default_rng(7)
    X, y, weights, _, _ = stream_of("dense", rng)
    flat = sparse.csr_array(X)
    for one, other in ((X, flat), (flat, X), (X, np.asfortranarray(X))):
        plain = ClassReservoir(7, budget=3000).update(one[:20], y[:20], weights[:20])
        mixed = ClassReservoir(7, budget=3000).update(one[:20], y[:20], weights[:20])
        plain.update(one[20:], y[20:], weights[20:])
        mixed.update(other[20:], y[20:], weights[20:])
        assert_identical(sample_arrays(plain), sample_arrays(mixed))
        left = ClassReservoir(7, budget=3000).update(one, y, weights)
        right = ClassReservoir(7, budget=3000, random_state=1)
        same, converted = (left.merge(right._copy().update(form, y, weights)) for form in (one, other))
        assert_identical(sample_arrays(same), sample_arrays(converted))


def test_wider_numbers_make_all_rows_wider():
    rng = np.random.default_rng(8)
    X, y, weights, _, _ = stream_of("float32", rng)
    wide = X.astype(np.float64)
    mixed = ClassReservoir(7, budget=3000)
    mixed.update(X[:30], y[:30], weights[:30]).update(wide[30:], y[30:], weights[30:])
    mixed.update(X, y, weights)
    plain = ClassReservoir(7, budget=3000).update(wide, y, weights).update(wide, y, weights)
    assert_identical(sample_arrays(plain), sample_arrays(mixed))
    keys = naive_keys(0, np.tile(weights, 2))[-60:]
    last = np.argmax(np.where(np.isfinite(keys), keys, -np.inf))  # a row that does not stay
    narrow = ClassReservoir(7, budget=3000).update(X, y, weights).update(X[:last], y[:last], weights[:last])
    narrow.sample()
    narrow.update(wide[last:][:1], y[last:][:1], weights[last:][:1])
    assert narrow.sample().rows.dtype == np.float64
    narrow.update(X[last + 1 :], y[last + 1 :], weights[last + 1 :])
    assert_identical(sample_arrays(plain), sample_arrays(narrow))


def test_decay_to_nothing_forgets_and_very_long_decay_overflows_nothing():
    X, y = problem(3, rows=60)
    state = ClassReservoir(5, budget=3000).update(X, y)
    state.decay(0.0)
    assert (state.n_kept, state.full) == (0, False)
    with pytest.raises(ValueError, match="seen 60 rows, and the 0 kept within its budget of 3000 bytes have no weight"):
        state.within_times(np.eye(5))
    state.update(X[:8], y[:8])
    scatter = ClassScatter(5).update(X[:8], y[:8])
    np.testing.assert_allclose(state.within_times(np.eye(5)), scatter.within_scatter(), atol=1e-12)
    for _ in range(300):
        state.update(X, y, decay=1e-10)
    sample = state.sample()
    assert state.full
    assert state._frame < -5000
    assert np.isfinite(sample.weights).all()
    assert sample.weights.sum() == pytest.approx(60, rel=0.7)
    assert {tuple(row) for row in sample.rows} <= {tuple(row) for row in X}


def test_classes_without_a_row_are_taken_to_vary_as_the_others_do():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((200, 3)), np.repeat([0, 1], 100)
    for seed in range(20):
        state = ClassReservoir(3, budget=2 * 128, random_state=seed).update(X, y)
        codes = state.sample().members.codes
        assert len(codes) == 2
        x = state.sample().rows
        shift = x - state.means[codes]
        expected = shift.T @ shift / 2  # one class, or one row of each: 100 and 100 are the weights
        np.testing.assert_allclose(state.within_times(np.eye(3)), expected, atol=1e-12, rtol=1e-9)


def test_halves_estimate_the_error_of_the_whole():
    rng = np.random.default_rng(3)
    X, y = rng.standard_normal((1500, 4)) * [1, 2, 3, 4], rng.integers(0, 2, 1500)
    exact = ClassScatter(4).update(X, y).within_scatter()
    error = estimate = 0.0
    for seed in range(150):
        state = ClassReservoir(4, budget=100 * 136, random_state=seed).update(X, y)
        before = state.to_arrays()
        first, second = state.halves()
        assert_identical(before, state.to_arrays())
        rows = np.empty((100, 4))
        rows[::2], rows[1::2] = first.sample().rows, second.sample().rows
        np.testing.assert_array_equal(rows, state.sample().rows)
        for half in (first, second):
            np.testing.assert_array_equal(half.means, state.means)
            members = half.sample().members
            np.testing.assert_allclose(np.bincount(members.codes, weights=members.weights), state.counts)
        whole, one, two = (s.within_times(np.eye(4)) for s in (state, first, second))
        error += np.sum((whole - exact) ** 2)
        estimate += np.sum((one - two) ** 2) / 4
    assert estimate == pytest.approx(error, rel=0.15)


def test_columns_that_are_added_change_nothing_of_the_sample():
    """Rows that wait and rows that were cut alike stay as they are; the same as if all rows had come so wide."""
    rng = np.random.default_rng(5)
    X = sparse.csr_array((rng.random((600, 40)) < 0.2) * rng.normal(size=(600, 40)))
    y = rng.integers(0, 3, 600)
    wide, grown = (ClassReservoir(width, budget=20_000) for width in (70, 40))
    padded = sparse.csr_array((X.data, X.indices, X.indptr), shape=(600, 70))
    for start in range(0, 600, 50):
        wide.update(padded[start : start + 50], y[start : start + 50])
        part = X if grown.n_features == 40 else padded
        grown.update(part[start : start + 50], y[start : start + 50])
        if start == 300:
            grown.move_columns(np.arange(40), 70)
    mine, theirs = grown.to_state(), wide.to_state()
    for name, value in theirs.items():
        if isinstance(value, np.ndarray):
            np.testing.assert_array_equal(mine[name], value, err_msg=name)
