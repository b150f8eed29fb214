"""Fourier features that depend on a seed alone, and clients that never share a row: equal to one fit on all rows."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits, load_iris
from sklearn.metrics.pairwise import rbf_kernel

import kampong
from kampong import FisherDiscriminant, InterClassScatter, KernelFisherDiscriminant, KernelMarginSubspace
from kampong.adapters.federated import combine, contribution
from kampong.kernels.fourier import FourierBasis, draw_frequencies
from kampong.kernels.functions import Kernel

AGREED = [
    FisherDiscriminant(ridge=0.5),
    InterClassScatter(),
    KernelFisherDiscriminant(landmarks="fourier", gamma=1e-3, ridge=1e-3, head="gaussian"),
    KernelMarginSubspace(landmarks=300, placement="fourier", gamma=1e-3, head="gaussian"),
]


def rbf(gamma=1e-3):
    """Return a Gaussian kernel."""
    return Kernel("rbf", gamma, 3.0, 0.0)


def test_inner_products_of_the_features_are_the_kernel_on_average():
    X, _ = load_digits(return_X_y=True)
    exact = rbf_kernel(X[:100], gamma=1e-3)
    means, errors = np.zeros_like(exact), {}
    for m in (256, 4096):
        values = FourierBasis(rbf(), 64, m, seed=1).values(X[:100])
        errors[m] = np.sqrt(np.mean((values @ values.T - exact) ** 2))
    assert errors[4096] < errors[256] / 3  # as one over the root of their number
    for seed in range(200):
        values = FourierBasis(rbf(), 64, 64, seed).values(X[:100])
        means += values @ values.T / 200
    assert np.abs(means - exact).max() < 6 / np.sqrt(64 * 200)


def test_frequencies_are_orthogonal_in_blocks_and_as_long_as_gaussian_ones():
    found = draw_frequencies(20, 50, 0.5, 3)
    for block in (found[:20], found[20:40], found[40:]):
        gram = block @ block.T
        np.testing.assert_allclose(gram, np.diag(gram.diagonal()), atol=1e-12)
    squares = (draw_frequencies(20, 4000, 0.5, 3) ** 2).sum(axis=1)  # chi-squared of 20 degrees for 2γ = 1
    assert squares.mean() == pytest.approx(20, rel=0.02)
    assert squares.var() == pytest.approx(40, rel=0.1)
    every = draw_frequencies(20, 4000, 0.5, 3)
    assert abs(every.mean()) < 0.02
    assert every.var() == pytest.approx(1, rel=0.02)
    assert not np.allclose(found, draw_frequencies(20, 50, 0.5, 4))


def test_sparse_rows_and_a_few_columns_at_once_give_the_same_features():
    X, _ = load_digits(return_X_y=True)
    basis = FourierBasis(rbf(), 64, 100, seed=0)
    values, columns = basis.values(X), np.random.default_rng(0).normal(size=(100, 3))
    np.testing.assert_allclose(basis.values(sparse.csr_array(X)), values, atol=1e-12)
    np.testing.assert_allclose(basis.scores(X, columns), values @ columns, atol=1e-12)
    np.testing.assert_allclose(basis.values(X.astype(np.float32)), values, atol=1e-5)


@pytest.mark.parametrize("agreed", AGREED, ids=repr)
def test_a_hundred_clients_of_one_or_two_classes_are_one_fit_on_all_rows(agreed):
    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    shares = np.array_split(np.argsort(y, kind="stable"), 100)  # sorted by class, so of one or two classes each
    letters = [contribution(agreed, X[share], y[share], number=i, min_class_weight=0) for i, share in enumerate(shares)]
    order = rng.permutation(100)
    merged = combine([letters[i] for i in order], fan_in=int(rng.integers(2, 9)))
    whole = type(agreed)(**agreed.get_params()).partial_fit(X, y)
    scores, expected = merged.decision_function(X[:300]), whole.decision_function(X[:300])
    np.testing.assert_allclose(scores, expected, atol=1e-9 * np.abs(expected).max())
    assert merged.n_samples_seen_ == len(y)


def test_a_client_can_be_taken_out_again():
    X, y = load_iris(return_X_y=True)
    agreed = KernelFisherDiscriminant(landmarks=50, placement="fourier", gamma=0.1, ridge=1e-3, head="gaussian")
    merged = combine(contribution(agreed, X[i::3], y[i::3], number=i) for i in range(3))
    receipt = merged.unlearn(X[2::3], y[2::3])
    assert receipt.remarks == ()
    two = combine(contribution(agreed, X[i::3], y[i::3], number=i) for i in range(2))
    expected = two.decision_function(X)
    np.testing.assert_allclose(merged.decision_function(X), expected, atol=1e-9 * np.abs(expected).max())


def test_saved_features_give_the_same_bits(tmp_path):
    X, y = load_digits(return_X_y=True)
    model = KernelFisherDiscriminant(landmarks=200, placement="fourier").partial_fit(X[:900], y[:900])
    model.save(tmp_path / "model")
    loaded = kampong.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    both = [one.partial_fit(X[900:], y[900:]).predict_proba(X) for one in (model, loaded)]
    np.testing.assert_array_equal(*both)
    assert model.score(X, y) > 0.95
    with pytest.raises(AttributeError, match="has no landmarks_: see frequencies_"):
        _ = model.landmarks_
    with pytest.raises(AttributeError, match="has no frequencies_: see landmarks_"):
        _ = KernelFisherDiscriminant(landmarks=20).fit(X, y).frequencies_


def test_what_would_send_rows_is_refused():
    X, y = load_iris(return_X_y=True)
    for model, text in (
        (FisherDiscriminant(), r"FisherDiscriminant keeps a sample of the rows .* its bytes would hold them"),
        (KernelFisherDiscriminant(landmarks=20, ridge=0.1, gamma=0.1, head="gaussian"), r"Use landmarks='fourier'"),
        (
            KernelFisherDiscriminant(landmarks="fourier", gamma="mean", ridge=0.1, head="gaussian"),
            r"gamma='mean' would",
        ),
        (FisherDiscriminant(ridge=0.1, half_life=50), r"half_life=50 ages rows"),
    ):
        with pytest.raises(ValueError, match=text):
            contribution(model, X, y, number=0)
    with pytest.raises(TypeError, match=r"MarginRecursion cannot be learnt in parts"):
        contribution(kampong.MarginRecursion(1), X, y, number=0)


def test_a_class_of_few_rows_is_sent_only_if_asked():
    X, y = load_iris(return_X_y=True)
    agreed = FisherDiscriminant(ridge=0.1)
    with pytest.raises(ValueError, match=r"1 of 2 classes weigh less than min_class_weight=10: 1 \(3\)\."):
        contribution(agreed, X[:53], y[:53], number=0)
    assert len(contribution(agreed, X[:53], y[:53], number=0, min_class_weight=3)) > 500
    with pytest.raises(ValueError, match="no row of positive weight"):
        contribution(agreed, X[:5], y[:5], np.zeros(5), number=0)


def test_a_damaged_contribution_is_named():
    X, y = load_iris(return_X_y=True)
    letters = [contribution(FisherDiscriminant(ridge=0.1), X, y, number=i) for i in range(2)]
    with pytest.raises(kampong.CheckpointError, match=r"combine: contribution 1: "):
        combine([letters[0], letters[1][:-9] + bytes(9)])


def test_fourier_features_need_a_gaussian_kernel():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=r"approximate the kernel 'rbf', and the kernel is 'polynomial'"):
        KernelFisherDiscriminant(landmarks="fourier", kernel="polynomial").fit(X, y)
