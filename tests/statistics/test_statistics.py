"""The statistics are a monoid and keep their digits: against naive loops, exact arithmetic and the laws."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import reference_linear as reference
from kampong.statistics import ClassMeans, ClassScatter
from kampong.statistics import batch as module
from problems import cut, problem, problems, seeds, sparse_rows

BOTH = [ClassMeans, ClassScatter]


def assert_same(first, second, tolerance=1e-10):
    """Compare two states up to rounding."""
    np.testing.assert_array_equal(first.classes, second.classes)
    np.testing.assert_allclose(first.counts, second.counts, rtol=1e-12)
    scale = np.abs(first.means).max() + 1e-300
    np.testing.assert_allclose(first.means, second.means, atol=tolerance * scale, rtol=0)
    spread = max(first.within_trace, 1e-300)
    np.testing.assert_allclose(first.squares, second.squares, atol=tolerance * spread * first.total, rtol=0)
    assert first.n_samples == second.n_samples
    if isinstance(first, ClassScatter):
        difference = np.abs(first.within_scatter() - second.within_scatter()).max()
        assert difference <= tolerance * spread


def assert_is(statistics, X, memberships, weights=None, tolerance=1e-12):
    """Compare a state with the naive definitions."""
    between, within, priors, means = reference.scatters(X, memberships, weights)
    size = np.trace(within) + np.trace(between)
    factor = statistics.between_factor()
    np.testing.assert_allclose(factor.T @ factor, between, atol=tolerance * size)
    np.testing.assert_allclose(statistics.means[statistics.counts > 0], means, atol=tolerance * np.abs(means).max())
    np.testing.assert_allclose(statistics.counts[statistics.counts > 0] / statistics.total, priors, rtol=1e-12)
    assert statistics.within_trace == pytest.approx(np.trace(within), rel=1e-9, abs=tolerance * size)
    if isinstance(statistics, ClassScatter):
        np.testing.assert_allclose(statistics.within_scatter(), within, atol=tolerance * size)


@pytest.mark.parametrize("kind", BOTH)
@given(data=problems(), seed=seeds)
def test_batches_in_any_order_and_any_merge_tree_give_the_naive_scatters(kind, data, seed):
    X, y = data
    rng = np.random.default_rng(seed)
    whole = kind(X.shape[1]).update(X, y)
    assert_is(whole, X, reference.single(y))
    order = rng.permutation(len(X))
    batches = cut(rng, len(X))
    streamed = kind(X.shape[1])
    for batch in batches:
        streamed.update(X[order][batch], y[order][batch])
    assert_same(whole, streamed)
    leaves = [kind(X.shape[1]).update(X[order][b], y[order][b]) for b in batches] + [kind(X.shape[1])]
    while len(leaves) > 1:
        first, second = rng.choice(len(leaves), 2, replace=False)
        joined = leaves[first].merge(leaves[second])
        leaves = [leaf for i, leaf in enumerate(leaves) if i not in (first, second)] + [joined]
    assert_same(whole, leaves[0])


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("rows", [5, 60])
@given(seed=seeds)
def test_weight_two_is_the_row_twice_and_weight_zero_is_the_row_absent(kind, rows, seed):
    X, y = problem(seed, rows=rows)
    weights = np.random.default_rng(seed).integers(0, 4, rows)
    weights[:2] = 1, 2
    repeated = np.repeat(np.arange(rows), weights)
    weighted = kind(X.shape[1]).update(X, y, weights)
    twice = kind(X.shape[1]).update(X[repeated], y[repeated])
    twice.n_samples = weighted.n_samples
    assert_same(weighted, twice)
    assert_is(weighted, X, reference.single(y), weights)


@pytest.mark.parametrize("kind", BOTH)
@given(data=problems(), factor=st.floats(0.01, 1.0))
def test_decay_is_a_weight_on_everything_learnt_before(kind, data, factor):
    X, y = data
    half = len(X) // 2
    decayed = kind(X.shape[1]).update(X[:half], y[:half]).decay(factor).update(X[half:], y[half:])
    in_update = kind(X.shape[1]).update(X[:half], y[:half]).update(X[half:], y[half:], decay=factor)
    weights = np.where(np.arange(len(X)) < half, factor, 1.0)
    assert_same(decayed, kind(X.shape[1]).update(X, y, weights))
    assert_same(decayed, in_update, tolerance=1e-15)
    whole = kind(X.shape[1]).update(X, y)
    assert_same(whole, kind(X.shape[1]).update(X, y).decay(1.0), tolerance=0.0)


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("density", [0.03, 0.3, 1.0])
@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_is_dense(kind, density, index, dtype):
    rng = np.random.default_rng(3)
    X = sparse_rows((300, 40), density, rng).astype(dtype)
    X.indices, X.indptr = X.indices.astype(index), X.indptr.astype(index)
    y = rng.integers(0, 4, 300)
    dense = X.toarray()
    sparse_state = kind(40).update(X, y)
    assert_same(kind(40).update(dense.astype(np.float64), y), sparse_state, tolerance=1e-12)
    assert_same(kind(40).update(dense, y), sparse_state, tolerance=1e-12)
    assert_is(sparse_state, dense, reference.single(y))
    np.testing.assert_array_equal(X.toarray(), dense)


@pytest.mark.parametrize("kind", BOTH)
def test_sparse_matrices_with_duplicate_or_unsorted_entries_mean_what_they_say(kind):
    data, indices, indptr = [1.0, 2.0, 3.0, 4.0, 5.0], [2, 0, 2, 1, 0], [0, 3, 5]
    X = sparse.csr_array((data, indices, indptr), shape=(2, 3))
    before = X.data.copy(), X.indices.copy(), X.indptr.copy()
    rows = sparse.vstack([X] * 3, format="csr")
    rows.has_canonical_format = False
    dense = np.array([[2.0, 0.0, 4.0], [5.0, 4.0, 0.0]] * 3)
    y = [0, 0, 1, 1, 0, 1]
    assert_is(kind(3).update(rows, y), dense, reference.single(y))
    kind(3).update(X, [0, 1])
    for now, then in zip((X.data, X.indices, X.indptr), before, strict=True):
        np.testing.assert_array_equal(now, then)


def test_a_broken_sparse_matrix_is_refused():
    X = sparse.csr_array(np.eye(3))
    X.indices = np.array([0, 1, 7], dtype=np.int32)
    with pytest.raises(ValueError, match=r"broken sparse matrix: it has indices from 0 to 7, outside 0 … 2"):
        ClassMeans(3).update(X, [0, 1, 0])


def exact(X, y):
    """Return class means and pooled within scatter in rational arithmetic."""
    rows = [[Fraction(v) for v in row] for row in X.tolist()]
    d, total, means, within = len(rows[0]), len(rows), {}, None
    within = [[Fraction(0)] * d for _ in range(d)]
    for k in sorted(set(y.tolist())):
        mine = [row for row, label in zip(rows, y.tolist(), strict=True) if label == k]
        mean = [sum(column) / len(mine) for column in zip(*mine, strict=True)]
        means[k] = mean
        for row in mine:
            step = [a - b for a, b in zip(row, mean, strict=True)]
            for i in range(d):
                for j in range(d):
                    within[i][j] += step[i] * step[j] / total
    return np.array([[float(v) for v in means[k]] for k in means]), np.array([[float(v) for v in r] for r in within])


@pytest.mark.parametrize("form", ["dense", "rows", "batches", "sparse", "merged"])
def test_data_far_from_the_origin_keep_their_digits(form):
    rng = np.random.default_rng(11)
    y = rng.integers(0, 3, 400)
    X = 1e6 + rng.standard_normal((400, 4)) + y[:, None]
    means, within = exact(X, y)
    state = ClassScatter(4)
    if form == "dense":
        state.update(X, y)
    elif form == "sparse":
        state.update(sparse.csr_array(X), y)
    elif form == "merged":
        state = ClassScatter(4).update(X[:100], y[:100]).merge(ClassScatter(4).update(X[100:], y[100:]))
    else:
        step = 1 if form == "rows" else 37
        for start in range(0, 400, step):
            state.update(X[start : start + step], y[start : start + step])
    np.testing.assert_allclose(state.means, means, rtol=1e-15)
    np.testing.assert_allclose(state.within_scatter(), within, rtol=0, atol=1e-8 * np.abs(within).max())
    difference = state.means - state.mean
    exact_difference = means - means.mean(axis=0, keepdims=True)
    np.testing.assert_allclose(difference - difference.mean(axis=0), exact_difference, atol=1e-8)
    assert state.within_trace == pytest.approx(np.trace(within), rel=1e-8)
    light = ClassMeans(4).update(sparse.csr_array(X) if form == "sparse" else X, y)
    assert light.within_trace == pytest.approx(np.trace(within), rel=1e-8)


@pytest.mark.parametrize("form", ["dense", "rows", "sparse"])
def test_classes_far_from_each_other_keep_the_digits_of_their_scatter(form):
    rng = np.random.default_rng(12)
    y = rng.integers(0, 2, 300)
    X = rng.standard_normal((300, 3)) + np.where(y, 1e7, -1e7)[:, None]
    _, within = exact(X, y)
    state = ClassScatter(3)
    if form == "rows":
        for row, label in zip(X, y, strict=True):
            state.update(row[None], [label])
    else:
        state.update(X if form == "dense" else sparse.csr_array(X), y)
    np.testing.assert_allclose(state.within_scatter(), within, rtol=0, atol=1e-8)


def test_one_far_column_among_sparse_ones_keeps_its_digits():
    rng = np.random.default_rng(13)
    X = sparse_rows((500, 60), 0.05, rng).tolil()
    X[:, [7]] = 1e6 + rng.standard_normal((500, 1))
    X[:, [9]] = 1.0
    X = X.tocsr()
    y = rng.integers(0, 3, 500)
    _, within = exact(X.toarray()[:, [7, 9, 11]], y)
    state = ClassScatter(60).update(X, y)
    np.testing.assert_allclose(state.within_scatter()[np.ix_([7, 9, 11], [7, 9, 11])], within, rtol=0, atol=1e-8)
    np.testing.assert_allclose(
        state.within_scatter(), ClassScatter(60).update(X.toarray(), y).within_scatter(), atol=1e-8
    )


@pytest.mark.parametrize(
    "labels", [[3, 1, 2, 1], ["b", "a", "c", "a"], [True, False, True, True], [2.0, 0.0, 1.0, 0.0]]
)
def test_labels_of_every_kind_come_back_sorted_in_their_own_type(labels):
    X = np.arange(8.0).reshape(4, 2)
    state = ClassMeans(2)
    for row, label in zip(X, labels, strict=True):
        state.update(row[None], np.array([label]))
    np.testing.assert_array_equal(state.classes, np.unique(labels))
    assert state.classes.dtype == np.unique(labels).dtype
    assert_same(state, ClassMeans(2).update(X, labels))


def test_integer_labels_far_apart_and_object_labels():
    X = np.arange(6.0).reshape(3, 2)
    wide = ClassMeans(2).update(X, [-(10**12), 10**12, 5])
    assert wide.classes.tolist() == [-(10**12), 5, 10**12]
    objects = ClassMeans(2).update(X, np.array(["x", "yy", "x"], dtype=object))
    assert objects.classes.dtype == object
    assert objects.counts.tolist() == [2.0, 1.0]


def test_multilabel_rows_count_for_each_of_their_labels():
    rng = np.random.default_rng(5)
    X = rng.standard_normal((50, 4))
    Y = (rng.random((50, 3)) < 0.4).astype(int)
    weights = rng.integers(0, 3, 50).astype(float)
    pairs = [(i, k) for i, k in zip(*np.nonzero(Y), strict=True)]
    for kind in BOTH:
        dense = kind(4).update(X, Y, weights)
        assert_is(dense, X, pairs, weights)
        assert_same(dense, kind(4).update(sparse.csr_array(X), sparse.csc_array(Y), weights))
        parts = kind(4).update(X[:20], Y[:20], weights[:20]).merge(kind(4).update(X[20:], Y[20:], weights[20:]))
        assert_same(dense, parts)
        np.testing.assert_allclose(parts.row_mean, weights @ X / weights.sum(), atol=1e-12)
        assert parts.row_weight == pytest.approx(weights.sum())


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("labels", [[0, 1, 1, 2], ["b", "a", "b", "b"], [True, False, True, False]])
def test_arrays_hold_the_whole_state(kind, labels):
    X = np.random.default_rng(0).standard_normal((4, 3))
    state = kind(3).update(X, labels).declare([labels[0]])
    arrays = state.to_arrays()
    assert all(array.dtype != object for array in arrays.values())
    again = kind.from_arrays(arrays)
    assert_same(state, again, tolerance=0.0)
    assert_same(state.update(X, labels), again.update(X, labels), tolerance=0.0)


@pytest.mark.parametrize("kind", BOTH)
@pytest.mark.parametrize("rows", [3, 50])
def test_a_refused_batch_leaves_no_trace(kind, rows):
    X, y = problem(1, rows=50)
    state = kind(5).update(X, y)
    before = state.to_arrays()
    bad = X[:rows].copy()
    bad[-1, 2] = np.nan
    new_labels = np.arange(rows) + 100
    for broken, labels, match in [
        (bad, new_labels, "Input X contains NaN"),
        (np.where(np.isnan(bad), np.inf, bad), new_labels, "Input X contains infinity"),
        (np.where(np.isnan(bad), 1e200, bad), new_labels, r"squares of X overflow \(largest magnitude 1e\+200"),
        (X[:rows], np.array(["a"] * rows), "label 'a', a string, next to labels such as"),
        (sparse.csr_array(bad), new_labels, "Input X contains NaN"),
    ]:
        with pytest.raises(ValueError, match=match):
            state.update(broken, labels, decay=0.5)
    for name, array in state.to_arrays().items():
        np.testing.assert_array_equal(array, before[name])


def test_what_cannot_be_merged_is_refused():
    X, y = problem(1)
    state = ClassMeans(5).update(X, y)
    with pytest.raises(TypeError, match="cannot merge ClassMeans with ClassScatter"):
        state.merge(ClassScatter(5).update(X, y))
    with pytest.raises(ValueError, match="5 features with statistics of 4 features"):
        state.merge(ClassMeans(4).update(X[:, :4], y))
    with pytest.raises(ValueError, match="a string, next to labels such as"):
        state.merge(ClassMeans(5).update(X, y.astype(str)))
    with pytest.raises(ValueError, match="single labels with statistics of indicator matrices"):
        state.merge(ClassMeans(5).update(X, np.eye(3)[y]))


def test_the_caller_keeps_his_arrays():
    X, y = problem(2, rows=80)
    weights = np.linspace(0, 2, 80)
    copies = X.copy(), y.copy(), weights.copy()
    for array in (X, y, weights):
        array.flags.writeable = False
    ClassScatter(5).update(X, y, weights)
    ClassScatter(5).update(np.asfortranarray(X), y, weights)
    for now, then in zip((X, y, weights), copies, strict=True):
        np.testing.assert_array_equal(now, then)


def test_large_batches_on_threads_equal_small_ones():
    rng = np.random.default_rng(8)
    X, y = rng.standard_normal((30_000, 20)), rng.integers(0, 5, 30_000)
    state = ClassScatter(20)
    for start in range(0, 30_000, 1000):
        state.update(X[start : start + 1000], y[start : start + 1000])
    assert_same(state, ClassScatter(20).update(X, y), tolerance=1e-12)
    assert_same(state, ClassScatter(20).update(np.asfortranarray(X), y), tolerance=1e-12)
    rows = sparse_rows((40_000, 500), 0.02, rng)
    labels = rng.integers(0, 5, 40_000)
    parts = [ClassScatter(500).update(rows[a : a + 8000], labels[a : a + 8000]) for a in range(0, 40_000, 8000)]
    merged = parts[0]
    for part in parts[1:]:
        merged = merged.merge(part)
    assert_same(merged, ClassScatter(500).update(rows, labels), tolerance=1e-12)


def test_memory_does_not_grow_with_the_stream():
    state = ClassMeans(50)
    rng = np.random.default_rng(0)
    sizes = []
    for _ in range(30):
        state.update(rng.standard_normal((200, 50)), rng.integers(0, 4, 200))
        sizes.append(sum(array.nbytes for array in vars(state).values() if isinstance(array, np.ndarray)))
    assert len(set(sizes)) == 1
    assert sizes[0] <= 8 * (4 * 50 + 2 * 4 + 50)


def test_the_row_by_row_path_is_taken_for_few_rows(monkeypatch):
    def refuse(*_):
        raise AssertionError("a single row was summarised as a batch")

    monkeypatch.setattr(module, "_summarise_dense", refuse)
    ClassScatter(3).update(np.ones((1, 3)), np.array([0]))
    with pytest.raises(AssertionError, match="summarised as a batch"):
        ClassScatter(3).update(np.ones((9, 3)), np.zeros(9, dtype=int))
