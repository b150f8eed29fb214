"""The gate for rows: what compiled loops read is what the caller meant, or the caller is told."""

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from kampong import FisherDiscriminant, InformationGain, InterClassScatter, MinOverClassifier
from kampong.data.validation import LONG, MARK, admit, check_weights
from kampong.statistics import ClassMeans
from problems import at_most


@settings(max_examples=at_most(60), deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([np.int32, np.int64]))
def test_repeated_and_unsorted_entries_mean_their_sum(seed, dtype):
    rng = np.random.default_rng(seed)
    shape = int(rng.integers(1, 9)), int(rng.integers(1, 7))
    n = int(rng.integers(0, 30))
    rows, columns = np.sort(rng.integers(shape[0], size=n)), rng.integers(shape[1], size=n)
    data = rng.integers(-4, 5, size=n).astype(float)
    dense = np.zeros(shape)
    np.add.at(dense, (rows, columns), data)
    indptr = np.append(0, np.cumsum(np.bincount(rows, minlength=shape[0])))
    matrix = sparse.csr_array(shape)
    matrix.data, matrix.indices, matrix.indptr = data, columns.astype(dtype), indptr.astype(dtype)
    matrix.has_sorted_indices = matrix.has_canonical_format = True  # a lie, as it may be after a change in place
    before = [array.copy() for array in (matrix.data, matrix.indices, matrix.indptr)]
    found = admit(matrix)
    assert np.array_equal(found.toarray(), dense)
    assert all((np.diff(row) > 0).all() for row in np.split(found.indices, found.indptr[1:-1]))
    for array, copy in zip((matrix.data, matrix.indices, matrix.indptr), before, strict=True):
        assert np.array_equal(array, copy)


@pytest.mark.parametrize("place", [0, LONG // 2, LONG + 5, -1])
def test_every_part_of_a_long_matrix_is_looked_at(place):
    n = LONG + 1000
    matrix = sparse.csr_array((n, 3))
    matrix.data, matrix.indices, matrix.indptr = np.ones(n), np.zeros(n, np.int32), np.arange(n + 1, dtype=np.int32)
    assert np.shares_memory(admit(matrix).indices, matrix.indices)  # a good matrix is not copied
    matrix.indices[place] = 3
    with pytest.raises(ValueError, match="indices from 0 to 3, outside 0 … 2"):
        admit(matrix)


def test_a_matrix_is_checked_again_after_a_change():
    X = sparse.csr_array(np.eye(4))
    model = InterClassScatter().fit(X, [0, 0, 1, 1])
    model.predict(X)
    X.indices[2] = 2**30
    for method in (model.predict, model.transform, model.decision_function):
        with pytest.raises(ValueError, match=r"broken sparse matrix.*Check it with X.check_format"):
            method(X)


def test_what_is_said_of_a_broken_matrix():
    def broken(**arrays):
        X = sparse.csr_array(np.eye(3))
        for name, value in arrays.items():
            setattr(X, name, value)
        return X

    for arrays, said in (
        ({"indptr": np.array([0, 2, 1, 3])}, "row pointers that do not rise from 0 to at most its 3 entries"),
        ({"indptr": np.array([0, 1, 2, 9])}, "row pointers that do not rise"),
        ({"indptr": np.array([0, 1, 2])}, "3 values, 3 indices and 3 pointers"),
        ({"data": np.ones(2)}, "2 values, 3 indices and 4 pointers"),
        ({"indices": np.zeros(3)}, "indices of dtype float64"),
        ({"indices": np.array([0, -1, 2])}, "indices from -1 to 2, outside 0 … 2"),
    ):
        with pytest.raises(ValueError, match=said):
            ClassMeans(3).update(broken(**arrays), [0, 1, 2])
    csc = sparse.csc_array(np.eye(3))
    csc.indices[0] = 9
    with pytest.raises(ValueError, match="X is a broken sparse matrix"):
        InformationGain(1).fit(csc, [0, 1, 1])
    y = sparse.csr_array(np.eye(3))
    y.indices[1] = 77
    with pytest.raises(ValueError, match="y is a broken sparse matrix"):
        ClassMeans(3).update(np.eye(3), y)


def test_masked_values_are_not_data():
    X = np.ma.MaskedArray(np.eye(4), mask=np.eye(4, k=1, dtype=bool))
    with pytest.raises(ValueError, match=r"X is a masked array with 3 masked entries.*numpy.ma.filled"):
        FisherDiscriminant().fit(X, [0, 0, 1, 1])
    with pytest.raises(ValueError, match="y is a masked array"):
        InterClassScatter().fit(np.eye(4), np.ma.MaskedArray([0, 0, 1, 1], mask=[0, 0, 0, 1]))
    with pytest.raises(ValueError, match="sample_weight is a masked array"):
        check_weights(np.ma.MaskedArray([1.0, 2.0], mask=[0, 1]), 2)
    bare = np.ma.MaskedArray(np.eye(4))
    assert np.array_equal(InterClassScatter().fit(bare, [0, 0, 1, 1]).mean_, np.full(4, 0.25))


def test_margins_do_not_depend_on_the_order_of_entries():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 5)) * (rng.random((30, 5)) < 0.6)
    y = (X[:, 0] > 0).astype(int)
    sorted_rows = sparse.csr_array(X)
    turned = sorted_rows.copy()
    for i in range(30):
        part = slice(turned.indptr[i], turned.indptr[i + 1])
        turned.indices[part], turned.data[part] = turned.indices[part][::-1].copy(), turned.data[part][::-1].copy()
    turned.has_sorted_indices = False
    kinds = [MinOverClassifier(kernel="rbf", tol=0.05).fit(rows, y) for rows in (sorted_rows, turned)]
    assert np.array_equal(kinds[0].decision_function(sorted_rows), kinds[1].decision_function(turned))


@pytest.mark.parametrize(
    ("X", "said"),
    [
        (np.full((2, 2), 1j), "omplex"),
        (np.zeros((2, 2), "datetime64[s]"), "it needs numbers"),
        (np.zeros((2, 2), "V4"), "it needs numbers"),
        (np.array([[10**400, 0], [0, 1]], dtype=object), "past the range of floats"),
    ],
)
def test_values_that_are_no_numbers(X, said):
    with pytest.raises(ValueError, match=said):
        InterClassScatter().fit(X, [0, 1])
    if X.dtype != object:
        with pytest.raises(ValueError, match=said):
            ClassMeans(2).update(X, [0, 1])


@pytest.mark.parametrize("labels", [np.array(["a", "b", "c"]), np.array([0, 1, 2]), np.array([True, False, True])])
def test_a_later_batch_passes_the_gate_too(labels):
    """scikit-learn's checks are left out for a CSR array of a stream that is plainly right; ours are not."""
    whole = sparse.csr_array(np.eye(3))
    model = FisherDiscriminant(ridge=1.0).partial_fit(whole, labels)
    twice = sparse.csr_array((np.ones(4), np.array([2, 0, 0, 1]), np.array([0, 2, 3, 4])), shape=(3, 3))
    unsorted = twice.copy()
    model.partial_fit(twice, labels)
    np.testing.assert_array_equal(twice.indices, unsorted.indices)  # the caller's array is as it was
    again = FisherDiscriminant(ridge=1.0).partial_fit(whole, labels).partial_fit(twice.toarray(), labels)
    np.testing.assert_allclose(model.class_means_, again.class_means_, atol=1e-15)
    broken = sparse.csr_array((3, 3))
    broken.data, broken.indices, broken.indptr = np.ones(3), np.array([0, 7, 1]), np.array([0, 1, 2, 3])
    with pytest.raises(ValueError, match="7"):
        model.partial_fit(broken, labels)
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(sparse.csr_array(np.eye(3, 5)), labels)
    with pytest.raises(ValueError, match=r"NaN|finite"):
        model.partial_fit(sparse.csr_array(np.array([[np.nan, 0, 0]] * 3)), labels)
    with pytest.raises(ValueError, match=r"inconsistent|labels"):
        model.partial_fit(whole, labels[:2])


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_a_fit_takes_rows_and_labels_through_the_gate_once(form):
    X, y = form(np.random.default_rng(0).normal(size=(60, 4))), np.arange(60) % 3
    taken = []

    def count(frame, event, _):
        if event == "call" and frame.f_code is admit.__code__ and not hasattr(frame.f_locals["X"], MARK):
            taken.append(frame.f_locals["name"])

    sys.setprofile(count)
    try:
        FisherDiscriminant().fit(X, y)
    finally:
        sys.setprofile(None)
    assert sorted(taken) == ["X", "y"]
