"""Fourier features that depend on a seed alone, and clients that never share a row: equal to one fit on all rows."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits, load_iris
from sklearn.metrics.pairwise import rbf_kernel

import kampong
from kampong import FisherDiscriminant, InterClassScatter, KernelFisherDiscriminant, KernelMarginSubspace
from kampong.adapters.federated import combine, contribution
from kampong.files.container import encode
from kampong.files.saved_models import pack
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
    letters = [contribution(agreed, X[share], y[share], number=i, min_class_rows=0) for i, share in enumerate(shares)]
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
    with pytest.raises(ValueError, match=r"1 of 2 classes have fewer rows than min_class_rows=10: 1 \(3\)\."):
        contribution(agreed, X[:53], y[:53], number=0)
    assert len(contribution(agreed, X[:53], y[:53], number=0, min_class_rows=3)) > 500
    with pytest.raises(ValueError, match="no row of positive weight"):
        contribution(agreed, X[:5], y[:5], np.zeros(5), number=0)


@pytest.mark.parametrize("scale", [1e-130, 1e-3, 1.0, 10.0, 1e140])
def test_a_heavy_row_is_one_row(scale):
    X, y = load_iris(return_X_y=True)
    few = X[:51], y[:51]  # one row of the second class
    with pytest.raises(ValueError, match=r"1 of 2 classes have fewer rows than min_class_rows=10: 1 \(1\)\."):
        contribution(FisherDiscriminant(ridge=0.1), *few, np.full(51, scale), number=0)
    many = X[:70], y[:70]
    assert contribution(FisherDiscriminant(ridge=0.1), *many, np.full(70, scale), number=0)
    one_counts = np.where(np.arange(70) < 51, scale, 1e-9 * scale)  # its mean is nearly the one row
    with pytest.raises(ValueError, match=r"min_class_rows=10: 1 \(1\)\."):
        contribution(FisherDiscriminant(ridge=0.1), *many, one_counts, number=0)
    both = np.column_stack([y[:70] == 0, np.arange(70) % 35 == 0]).astype(int)
    with pytest.raises(ValueError, match=r"min_class_rows=10: 1 \(2\)\."):
        contribution(InterClassScatter(), many[0], both, np.full(70, scale), number=0)


@pytest.mark.parametrize("dtype", [float, np.float32, int, list])
def test_landmarks_that_the_server_sends_can_be_saved_and_contributed(dtype, tmp_path):
    X, y = load_digits(return_X_y=True)
    landmarks = X[:60].tolist() if dtype is list else X[:60].astype(dtype)
    agreed = KernelFisherDiscriminant(landmarks=landmarks, gamma=1e-3, ridge=1e-3, head="gaussian")
    np.testing.assert_array_equal(kampong.from_bytes(agreed.to_bytes()).landmarks, X[:60])
    whole = type(agreed)(**agreed.get_params()).partial_fit(X, y)
    whole.save(tmp_path / "model")
    np.testing.assert_array_equal(kampong.load(tmp_path / "model").predict_proba(X), whole.predict_proba(X))
    letters = [contribution(agreed, X[i::3], y[i::3], number=i) for i in range(3)]
    merged = combine(letters, agreed=kampong.from_bytes(agreed.to_bytes()))
    scores, expected = merged.decision_function(X[:300]), whole.decision_function(X[:300])
    np.testing.assert_allclose(scores, expected, atol=1e-6 * np.abs(expected).max())
    other = KernelFisherDiscriminant(landmarks=X[1:61], gamma=1e-3, ridge=1e-3, head="gaussian")
    letters[1] = contribution(other, X[1::3], y[1::3], number=1)
    with pytest.raises(ValueError, match=r"client 1 \(contribution 1\) differs from client 0 .*: landmarks an array"):
        combine(letters)


def test_what_no_file_can_hold_is_refused_when_it_is_saved():
    X, _ = load_iris(return_X_y=True)
    for landmarks in (sparse.csr_array(X[:9]), np.full((3, 4), np.nan), X[:8].reshape(2, 4, 4), [[1.0, 2.0], [3.0]]):
        with pytest.raises(kampong.CheckpointError, match=r"KernelFisherDiscriminant cannot be saved: .* landmarks="):
            KernelFisherDiscriminant(landmarks=landmarks).to_bytes()


def letters_of(n_clients, **more):
    """Return the agreed model, and the contributions of clients to it."""
    X, y = load_iris(return_X_y=True)
    agreed = FisherDiscriminant(ridge=0.1)
    return agreed, [contribution(agreed, X[i::3], y[i::3], number=7 + i, **more) for i in range(n_clients)]


OTHERS = {
    "ridge": (FisherDiscriminant(ridge=0.2), lambda X, y: (X, y), r"ridge 0\.2 instead of 0\.1"),
    "several": (
        FisherDiscriminant(1, ridge=0.2),
        lambda X, y: (X, y),
        r"n_components 1 instead of None; ridge 0\.2 instead of 0\.1",
    ),
    "class": (InterClassScatter(), lambda X, y: (X, y), r"class 'InterClassScatter' instead of 'FisherDiscriminant'"),
    "width": (FisherDiscriminant(ridge=0.1), lambda X, y: (X[:, :3], y), r"number of columns 3 instead of 4"),
    "labels": (
        FisherDiscriminant(ridge=0.1),
        lambda X, y: (X, y.astype(str)),
        r"kind of labels 'str' instead of 'int'",
    ),
    "several labels": (
        FisherDiscriminant(ridge=0.1),
        lambda X, y: (X, np.eye(3, dtype=int)[y]),
        r"several labels per row True instead of False",
    ),
}


@pytest.mark.parametrize("case", OTHERS)
@pytest.mark.parametrize("place", [1, 2])
def test_a_client_with_another_model_is_named(case, place):
    agreed, letters = letters_of(3)
    model, change, text = OTHERS[case]
    X, y = load_iris(return_X_y=True)
    letters[place] = contribution(model, *change(X[::2], y[::2]), number=40)
    with pytest.raises(ValueError, match=rf"client 40 \(contribution {place}\) differs from client 7 .*{text}"):
        combine(letters)
    if case in ("ridge", "several", "class"):
        letters = [letters[place], *letters[:place]]  # the first one is told from the others by what was agreed
        with pytest.raises(ValueError, match=rf"client 40 \(contribution 0\) differs from the agreed model: .*{text}"):
            combine(letters, agreed=agreed)


def test_a_client_with_other_fourier_features_is_named():
    X, y = load_iris(return_X_y=True)
    agreed = KernelFisherDiscriminant(landmarks="fourier", gamma=0.1, ridge=1e-3, head="gaussian")
    other = KernelFisherDiscriminant(landmarks="fourier", gamma=0.1, ridge=1e-3, head="gaussian", random_state=1)
    letters = [contribution(other if i == 2 else agreed, X[i::4], y[i::4], number=i) for i in range(4)]
    with pytest.raises(ValueError, match=r"client 2 \(contribution 2\) differs from client 0 .*: kernel features"):
        combine(letters)
    with pytest.raises(ValueError, match=r"client 2 \(contribution 0\) differs from the agreed model: random_state"):
        combine(letters[2:], agreed=agreed)


def test_a_letter_counts_once():
    agreed, letters = letters_of(3)
    with pytest.raises(ValueError, match=r"contributions 1 and 3 are both of client 8, whose rows would count twice"):
        combine([*letters, letters[1]], agreed=agreed)
    X, y = load_iris(return_X_y=True)
    again = contribution(agreed, X[1::3], y[1::3], number=99)
    with pytest.raises(ValueError, match=r"client 99 \(contribution 3\) holds the same statistics as client 8"):
        combine([*letters, again])
    assert combine(iter(letters), agreed=agreed).n_samples_seen_ == 150


def test_a_letter_of_another_round_is_refused():
    agreed, letters = letters_of(3, round_number=4)
    assert combine(letters, agreed=agreed, round_number=4).n_samples_seen_ == 150
    with pytest.raises(ValueError, match=r"client 7 \(contribution 0\) is of round 4, and the others of round 5"):
        combine(letters, round_number=5)
    _, older = letters_of(3, round_number=3)
    with pytest.raises(ValueError, match=r"client 9 \(contribution 2\) is of round 3, and the others of round 4"):
        combine([*letters[:2], older[2]])


@pytest.mark.parametrize("scale", [1.001, 10.0, 1e140])
@pytest.mark.parametrize("several", [False, True])
def test_a_client_cannot_outweigh_the_rows_of_others(scale, several):
    X, y = load_iris(return_X_y=True)
    labels = np.eye(3, dtype=int)[y] | np.eye(3, dtype=int)[0] if several else y
    agreed = InterClassScatter()
    letters = [contribution(agreed, X[i::3], labels[i::3], number=i) for i in range(2)]
    heavy = contribution(agreed, X[2::3] + 9, labels[2::3], np.full(50, scale), number=2)
    with pytest.raises(ValueError, match=r"client 2 \(contribution 2\) has rows of mean weight .* max_mean_weight=1,"):
        combine([*letters, heavy])
    if scale < 1e9:
        assert combine([*letters, heavy], max_mean_weight=scale).n_samples_seen_ == 150


def test_weights_of_mean_one_and_below_are_taken():
    X, y = load_iris(return_X_y=True)
    rng, weights = np.random.default_rng(0), {}
    for i in range(3):
        weights[i] = rng.random(50)
        weights[i] *= (1.0, 50.0 / weights[i].sum(), 1e-6)[i]
    letters = [contribution(InterClassScatter(), X[i::3], y[i::3], weights[i], number=i) for i in range(3)]
    assert combine(letters).n_samples_seen_ == 150


def test_bytes_of_a_model_are_no_contribution():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(kampong.CheckpointError, match=r"contribution 0: it names no client and round"):
        combine([FisherDiscriminant(ridge=0.1).partial_fit(X, y).to_bytes()])
    with pytest.raises(kampong.CheckpointError, match=r"contribution 0: .*MarginRecursion cannot be learnt in parts"):
        combine([_as_letter(kampong.MarginRecursion(1).partial_fit(X, y))])


def _as_letter(model):
    arrays, facts = pack(model)
    return encode(arrays, {**facts, "letter": {"client": 0, "round": 0}})


def test_a_damaged_contribution_is_named():
    X, y = load_iris(return_X_y=True)
    letters = [contribution(FisherDiscriminant(ridge=0.1), X, y, number=i) for i in range(2)]
    with pytest.raises(kampong.CheckpointError, match=r"combine: contribution 1: "):
        combine([letters[0], letters[1][:-9] + bytes(9)])


def test_fourier_features_need_a_gaussian_kernel():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(
        ValueError, match=r"approximate the kernels 'rbf' and 'laplacian', and the kernel is 'polynomial'"
    ):
        KernelFisherDiscriminant(landmarks="fourier", kernel="polynomial").fit(X, y)
