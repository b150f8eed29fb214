"""Information gain against scikit-learn's mutual information, a naive count, and the laws of a merged stream."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.feature_selection import mutual_info_classif
from sklearn.utils.estimator_checks import parametrize_with_checks

import reference
from kampong.datasets import sparse_text
from kampong.selectors import InformationGain
from problems import at_most


@parametrize_with_checks([InformationGain(), InformationGain(1)])
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def documents(n=120, d=15, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    shares = rng.random((3, d))
    return np.where(rng.random((n, d)) < shares[y], rng.normal(size=(n, d)), 0.0), y


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_scores_are_scikit_learns_mutual_information_of_presence(form):
    X, y = documents()
    X[:, 3] = 0.0
    X[:, 4] = 7.0
    X[:, 5] = y == 1
    peer = mutual_info_classif((X != 0).astype(int), y, discrete_features=True)
    scores = InformationGain().fit(form(X), y).scores_
    np.testing.assert_allclose(scores, peer, atol=1e-10, rtol=0)
    np.testing.assert_allclose(scores, reference.information_gain(X, y), atol=1e-12, rtol=0)
    assert scores[3] == 0.0


def test_wide_sparse_text_agrees_with_the_peer():
    X, y = sparse_text(3000, 2000, 30, random_state=0)
    model = InformationGain(50).fit(X, y)
    peer = mutual_info_classif((X != 0).astype(int), y, discrete_features=True)
    np.testing.assert_allclose(model.scores_, peer, atol=1e-10, rtol=0)
    chosen = model.get_support(indices=True)
    assert peer[chosen].min() >= np.delete(peer, chosen).max() - 1e-12
    np.testing.assert_array_equal(model.transform(X).toarray(), X[:, chosen].toarray())


@settings(max_examples=at_most(40), deadline=None)
@given(
    cut=st.integers(1, 59),
    seed=st.integers(0, 2**16),
    weighted=st.booleans(),
    form=st.sampled_from(["dense", "sparse"]),
)
def test_batches_order_and_merge_change_nothing(cut, seed, weighted, form):
    X, y = documents(60, 9, seed)
    rows = X if form == "dense" else sparse.csr_array(X)
    weights = np.random.default_rng(seed).integers(0, 4, 60).astype(float) if weighted else np.ones(60)
    weights[[0, -1]] = 1.0
    whole = InformationGain(4).fit(rows, y, sample_weight=weights)
    first, second = (
        InformationGain(4).partial_fit(rows[part], y[part], sample_weight=weights[part])
        for part in (slice(0, cut), slice(cut, 60))
    )
    before = first.presence_.copy()
    streamed = InformationGain(4).partial_fit(rows[cut:], y[cut:], sample_weight=weights[cut:])
    streamed.partial_fit(rows[:cut], y[:cut], sample_weight=weights[:cut])
    for model in (first.merge(second), second.merge(first), streamed):
        np.testing.assert_array_equal(model.presence_, whole.presence_)
        np.testing.assert_array_equal(model.scores_, whole.scores_)
        np.testing.assert_array_equal(model.get_support(), whole.get_support())
        assert model.n_samples_seen_ == whole.n_samples_seen_ == np.count_nonzero(weights)
    np.testing.assert_array_equal(first.presence_, before)


def test_a_weight_is_so_many_rows():
    X, y = documents()
    weights = np.random.default_rng(1).integers(0, 3, len(y))
    weighted = InformationGain().fit(X, y, sample_weight=weights)
    repeated = InformationGain().fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
    np.testing.assert_array_equal(weighted.scores_, repeated.scores_)
    np.testing.assert_array_equal(weighted.class_counts_, repeated.class_counts_)


def test_rows_of_no_weight_add_no_class():
    X, y = documents()
    model = InformationGain().fit(X, y, sample_weight=(y != 2).astype(float))
    assert model.classes_.tolist() == [0, 1]
    with pytest.raises(ValueError, match="all sample weights are zero"):
        InformationGain().fit(X, y, sample_weight=np.zeros(len(y)))


def test_among_equal_scores_the_lower_column_comes_first():
    X, y = documents(d=3)
    tied = np.hstack([X[:, :1], X[:, 1:2], X[:, 1:2] * 5.0, (X[:, 1:2] == 0).astype(float)])
    scores = InformationGain().fit(tied, y).scores_
    best = int(np.argmax(scores[:2]))
    expected = [1] if best else [0]
    assert InformationGain(1).fit(tied, y).get_support(indices=True).tolist() == expected
    reversed_ = InformationGain(1).fit(tied[:, 1:], y).get_support(indices=True).tolist()
    assert reversed_ == [0]
    assert InformationGain(2).fit(np.zeros((4, 5)), [0, 1, 0, 1]).get_support(indices=True).tolist() == [0, 1]


def test_stored_zeros_and_duplicates_count_once():
    X = sparse.csr_array(
        (np.array([1.0, -1.0, 0.0, 2.0, 3.0]), np.array([0, 0, 1, 2, 2]), np.array([0, 3, 5])), shape=(2, 3)
    )
    model = InformationGain().fit(X, ["a", "b"])
    np.testing.assert_array_equal(model.presence_, [[0, 0, 0], [0, 0, 1]])
    assert X.nnz == 5


def test_names_and_width_beyond_the_columns():
    pandas = pytest.importorskip("pandas")
    X, y = documents(d=4)
    frame = pandas.DataFrame(X, columns=list("wxyz"))
    model = InformationGain(2).set_output(transform="pandas").fit(frame, y)
    kept = [name for name, keep in zip("wxyz", model.get_support(), strict=True) if keep]
    assert list(model.transform(frame).columns) == kept == model.get_feature_names_out().tolist()
    assert InformationGain(100).fit(X, y).get_support().all()
    with pytest.raises(ValueError, match="feature names differ"):
        model.merge(InformationGain(2).fit(X, y))
    assert model.merge(model).feature_names_in_.tolist() == list("wxyz")


def test_new_classes_join_and_a_class_may_be_declared():
    X, y = documents()
    names = np.array(["b", "c", "a"])[y]
    model = InformationGain()
    for label in "cab":
        model.partial_fit(X[names == label], names[names == label], classes=["z"])
    assert model.classes_.tolist() == ["a", "b", "c", "z"]
    np.testing.assert_allclose(model.scores_, InformationGain().fit(X, names).scores_, atol=1e-15)


def test_refusals_say_what_is_wrong_and_leave_the_state():
    X, y = documents()
    model = InformationGain(3).fit(X, y)
    before = model.presence_.copy()
    broken = X.copy()
    broken[0, 0] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        model.partial_fit(broken, y)
    with pytest.raises(ValueError, match="negative weight"):
        model.partial_fit(X, y, sample_weight=-np.ones(len(y)))
    with pytest.raises(ValueError, match="one label"):
        model.partial_fit(X, np.eye(3, dtype=int)[y])
    np.testing.assert_array_equal(model.presence_, before)
    with pytest.raises(ValueError, match="n_features must be a whole number ≥ 1, got 0"):
        InformationGain(0).fit(X, y)
    with pytest.raises(TypeError, match="another InformationGain, got int"):
        model.merge(3)
    with pytest.raises(ValueError, match="n_features=3 and n_features=4"):
        model.merge(InformationGain(4).fit(X, y))
    with pytest.raises(ValueError, match="one has 15 features, the other 14"):
        model.merge(InformationGain(3).fit(X[:, 1:], y))
