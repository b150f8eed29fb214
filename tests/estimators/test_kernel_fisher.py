"""Kernel discriminants against dense definitions, the linear estimators, and the laws of their statistics."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import linalg, sparse
from scipy.special import softmax
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.metrics.pairwise import polynomial_kernel, rbf_kernel
from sklearn.preprocessing import scale
from sklearn.svm import SVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from kampong import CriterionWarning, FisherDiscriminant, MarginSubspace
from kampong.estimators.kernel_fisher import KernelFisherDiscriminant, KernelMarginSubspace
from kampong.files.saved_models import pack, unpack
from kampong.kernels.functions import Kernel
from kampong.kernels.landmarks import LandmarkBasis, bytes_needed, draw_rows, most_landmarks
from kampong.statistics.kernel_scatter import KernelScatter
from kampong.statistics.scatter import ClassScatter
from problems import at_most


def wine():
    X, y = load_wine(return_X_y=True)
    return scale(X), y


def scatters(K, y):
    """Return the between-class and within-class forms of classical kernel discriminants, in the n dual coefficients."""
    n = len(y)
    between, within = np.zeros((n, n)), np.zeros((n, n))
    mean = K.mean(axis=1)
    for label in np.unique(y):
        columns = K[:, y == label]
        step = columns.mean(axis=1) - mean
        between += columns.shape[1] / n * np.outer(step, step)
        for column in columns.T:
            step = column - columns.mean(axis=1)
            within += np.outer(step, step) / n
    return between, within


def same_up_to_sign(mine, theirs, tolerance):
    signs = np.sign(np.sum(mine * theirs, axis=0))
    np.testing.assert_allclose(mine * signs, theirs, atol=tolerance * np.abs(theirs).max())


@pytest.mark.parametrize("kernel", ["rbf", "polynomial"])
def test_all_rows_as_landmarks_is_the_classical_kernel_fisher_discriminant(kernel):
    X, y = wine()
    X, X_test, y = X[::2], X[1::2], y[::2]
    model = KernelFisherDiscriminant(kernel=kernel, gamma=0.1, degree=2, coef0=1.0, ridge=1e-3, landmarks=len(X))
    model.fit(X, y)
    function = {
        "rbf": lambda a, b: rbf_kernel(a, b, 0.1),
        "polynomial": lambda a, b: polynomial_kernel(a, b, 2, 0.1, 1),
    }
    K = function[kernel](X, X)
    between, within = scatters(K, y)
    # the trace of S_w in the feature space is the mean squared distance of the images from their class means
    trace = sum((np.trace(B) - B.sum() / len(B)) for B in (K[np.ix_(y == k, y == k)] for k in range(3))) / len(y)
    assert model.ridge_ == pytest.approx(1e-3 * trace, rel=1e-6)
    # the dense problem is singular beside rounding, so a part of 1e-13 of the identity makes it solvable
    metric = within + 1e-3 * trace * K + 1e-13 * np.trace(K) * np.eye(len(K))
    values, vectors = linalg.eigh(between, metric)
    expected = (function[kernel](X_test, X) - K.mean(axis=0)) @ vectors[:, ::-1][:, :2]
    np.testing.assert_allclose(model.eigenvalues_, values[::-1][:2], rtol=1e-6)
    same_up_to_sign(model.transform(X_test), expected, 1e-5)


def test_all_rows_as_landmarks_is_the_kernel_maximum_margin_criterion():
    X, y = wine()
    model = KernelMarginSubspace(gamma=0.1, epsilon=0.5, landmarks=len(X)).fit(X, y)
    K = rbf_kernel(X, X, 0.1)
    between, within = scatters(K, y)
    values, vectors = linalg.eigh(between - 0.5 * within, K)
    assert len(model.eigenvalues_) == np.count_nonzero(values > 1e-9)
    np.testing.assert_allclose(model.eigenvalues_, values[::-1][: len(model.eigenvalues_)], rtol=1e-8)
    expected = (K - K.mean(axis=0)) @ vectors[:, ::-1][:, : len(model.eigenvalues_)]
    same_up_to_sign(model.transform(X), expected, 1e-7)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_the_linear_kernel_is_the_linear_estimator(dtype):
    X, y = wine()
    X = X.astype(dtype)
    tolerance = 1e-8 if dtype == np.float64 else 2e-3
    mine = KernelFisherDiscriminant(kernel="linear", landmarks=60, ridge=1e-2).fit(X, y)
    assert len(mine.landmarks_) == X.shape[1]  # the others depend on them
    theirs = FisherDiscriminant(ridge=mine.ridge_).fit(X, y)
    np.testing.assert_allclose(mine.eigenvalues_, theirs.eigenvalues_, rtol=tolerance)
    same_up_to_sign(mine.transform(X), theirs.transform(X), tolerance)
    margin = KernelMarginSubspace(kernel="linear", landmarks=60, epsilon=0.3).fit(X, y)
    linear = MarginSubspace(epsilon=0.3).fit(X, y)
    np.testing.assert_allclose(margin.eigenvalues_, linear.eigenvalues_, rtol=tolerance)
    same_up_to_sign(margin.transform(X), linear.transform(X), tolerance)


def test_the_head_of_the_linear_kernel_is_that_of_the_linear_estimator():
    X, y = wine()
    mine = KernelFisherDiscriminant(kernel="linear", landmarks=60, ridge=1e-10, head="gaussian").fit(X, y)
    theirs = FisherDiscriminant(ridge=mine.ridge_, head="gaussian").fit(X, y)
    scores = [model.decision_function(X) for model in (mine, theirs)]
    np.testing.assert_allclose(scores[0] - scores[0][:, :1], scores[1] - scores[1][:, :1], rtol=1e-5, atol=1e-5)
    assert mine.freeze().head.sharpness != 1.0  # its probabilities are calibrated on rows left out
    Y = np.eye(3, dtype=int)[y]
    Y[:, 2] |= X[:, 0] > 0
    mine, theirs = (clone(model).fit(X, Y) for model in (mine, theirs))
    np.testing.assert_allclose(mine.predict_proba(X), theirs.predict_proba(X), atol=1e-7)
    # with a ridge that matters, the covariance of the head is that of the criterion: the identity
    model = KernelFisherDiscriminant(landmarks=60, ridge=0.1, head="gaussian").fit(X, y)
    means = np.array([model.transform(X)[y == k].mean(axis=0) for k in range(3)])
    distances = ((model.transform(X)[:, None] - means) ** 2).sum(axis=2)
    np.testing.assert_allclose(
        softmax(model.decision_function(X), axis=1), softmax(np.log(np.bincount(y)) - distances / 2, axis=1), atol=1e-8
    )


def test_statistics_are_those_of_the_whitened_kernel_values():
    X, y = wine()
    basis = LandmarkBasis(Kernel("rbf", gamma=0.05), X[::6])
    statistics = KernelScatter(basis).update(X, y)
    root = linalg.cholesky(rbf_kernel(X[::6], X[::6], 0.05), lower=True)
    Z = linalg.solve_triangular(root, rbf_kernel(X[::6], X, 0.05), lower=True).T
    within = sum(((y == k).mean() * np.cov(Z[y == k].T, bias=True) for k in range(3)), np.zeros((30, 30)))
    np.testing.assert_allclose(statistics.mean, Z.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(statistics.means, [Z[y == k].mean(axis=0) for k in range(3)], atol=1e-12)
    np.testing.assert_allclose(statistics.within_scatter(), within, atol=1e-12)
    np.testing.assert_allclose(statistics.within_variances(), np.diag(within), atol=1e-12)
    np.testing.assert_allclose(statistics.within_times(np.eye(30)[:, :4]), within[:, :4], atol=1e-12)
    assert statistics.within_trace == pytest.approx(np.trace(within))
    with pytest.raises(TypeError, match="within_trace"):
        _ = statistics.squares


@settings(max_examples=at_most(15))
@given(cuts=st.lists(st.integers(1, 177), max_size=4), seed=st.integers(0, 100), order=st.permutations(range(3)))
def test_batches_order_and_merges_do_not_matter(cuts, seed, order):
    X, y = wine()
    landmarks = X[np.random.default_rng(seed).permutation(len(X))[:40]]
    whole = KernelFisherDiscriminant(landmarks=landmarks).fit(X, y)
    stream = KernelFisherDiscriminant(landmarks=landmarks)
    for part in np.split(np.random.default_rng(seed).permutation(len(X)), sorted(set(cuts))):
        stream.partial_fit(X[part], y[part])
    parts = [KernelFisherDiscriminant(landmarks=landmarks).partial_fit(X[i::3], y[i::3]) for i in order]
    merged = parts[0].merge(parts[1]).merge(parts[2])
    for model in (stream, merged):
        np.testing.assert_allclose(model.eigenvalues_, whole.eigenvalues_, rtol=1e-8)
        np.testing.assert_allclose(model.transform(X), whole.transform(X), atol=1e-8 * np.abs(whole.transform(X)).max())
        assert model.n_samples_seen_ == len(X)
    assert clone(merged).landmarks.shape == landmarks.shape


def test_blocks_of_one_update_do_not_matter(monkeypatch):
    X, y = load_digits(return_X_y=True)
    basis = LandmarkBasis(Kernel("rbf", gamma=1e-3), X[:50])
    whole = KernelScatter(basis).update(X, y)
    monkeypatch.setattr("kampong.statistics.kernel_scatter.VALUES_BYTES", 64)
    cut = KernelScatter(basis).update(X, y)
    np.testing.assert_allclose(cut.within_scatter(), whole.within_scatter(), atol=1e-12)
    np.testing.assert_allclose(cut.means, whole.means, atol=1e-12)


def test_a_weight_is_a_number_of_rows_in_the_kernel_width_too():
    X, y = wine()
    weights = np.random.default_rng(0).integers(0, 3, len(X))
    for gamma in ("mean", "scale"):
        model = KernelFisherDiscriminant(gamma=gamma, ridge=1e-3, scale=False)
        weighted = clone(model).fit(X, y, sample_weight=weights)
        repeated = clone(model).fit(np.repeat(X, weights, axis=0), np.repeat(y, weights))
        assert weighted.gamma_ == pytest.approx(repeated.gamma_, rel=1e-12)
        np.testing.assert_allclose(weighted.transform(X), repeated.transform(X), atol=1e-6)
    sparse_rows = KernelFisherDiscriminant().fit(sparse.csr_array(X), y, sample_weight=weights)
    assert sparse_rows.gamma_ == pytest.approx(KernelFisherDiscriminant().fit(X, y, sample_weight=weights).gamma_)


def test_sparse_rows_and_float32_rows_give_what_dense_float64_rows_give():
    X, y = load_digits(return_X_y=True)
    landmarks = X[::20]
    plain = KernelFisherDiscriminant(gamma=5e-4, landmarks=landmarks).fit(X, y)
    wanted = plain.transform(X)
    thin = KernelFisherDiscriminant(gamma=5e-4, landmarks=sparse.csr_array(landmarks)).fit(sparse.csr_array(X), y)
    same_up_to_sign(thin.transform(sparse.csr_array(X)), wanted, 1e-7)
    same_up_to_sign(plain.transform(sparse.csr_array(X)), wanted, 1e-7)
    short = KernelFisherDiscriminant(gamma=5e-4, landmarks=landmarks).fit(X.astype(np.float32), y)
    assert short.transform(X.astype(np.float32)).dtype == np.float32
    assert np.mean(short.predict(X.astype(np.float32)) == plain.predict(X)) > 0.999
    np.testing.assert_allclose(short.eigenvalues_, plain.eigenvalues_, rtol=1e-3)
    drawn = KernelFisherDiscriminant(landmarks=100).fit(sparse.csr_array(X), y)
    assert sparse.issparse(drawn.landmarks_)
    assert drawn.score(sparse.csr_array(X), y) > 0.97


def test_repeated_landmarks_change_nothing():
    X, y = wine()
    once = KernelFisherDiscriminant(landmarks=X[:50], gamma=0.05).fit(X, y)
    twice = KernelFisherDiscriminant(landmarks=np.repeat(X[:50], 3, axis=0), gamma=0.05).fit(X, y)
    assert len(twice.landmarks_) == 50
    np.testing.assert_allclose(twice.transform(X), once.transform(X), atol=1e-7)
    plain = KernelFisherDiscriminant(ridge=1e-3, gamma="mean", scale=False)  # a copy of a row left out would judge it
    same = clone(plain).fit(np.repeat(X, 2, axis=0), np.repeat(y, 2))
    np.testing.assert_allclose(same.eigenvalues_, plain.fit(X, y).eigenvalues_, rtol=1e-6)


def test_more_components_of_the_margin_criterion_are_orthonormal_in_feature_space():
    X, y = wine()
    with pytest.warns(CriterionWarning, match="raise the"):
        model = KernelMarginSubspace(8, epsilon=0.5, landmarks=40).fit(X, y)
    gram = rbf_kernel(model.landmarks_, model.landmarks_, model.gamma_)
    np.testing.assert_allclose(model.coefficients_ @ gram @ model.coefficients_.T, np.eye(8), atol=1e-9)


def test_landmarks_are_balanced_repeatable_and_of_positive_weight():
    codes = np.repeat([0, 1, 2], [1, 50, 949])
    weights = np.ones(1000)
    weights[60:500] = 0
    rows = draw_rows(codes, weights, 61, 0)
    assert np.bincount(codes[rows]).tolist() == [1, 30, 30]
    assert weights[rows].all()
    assert len(set(rows)) == 61
    assert np.array_equal(rows, draw_rows(codes, weights, 61, 0))
    assert not np.array_equal(rows, draw_rows(codes, weights, 61, 1))
    shares = np.where(np.arange(1000) < 600, 1e-9, 1.0)
    drawn = draw_rows(codes, weights, 100, 0, shares)
    assert np.bincount(codes[drawn]).tolist() == [1, 1, 98]
    assert (drawn[2:] >= 600).all()


def test_the_choice_of_landmarks_repeats_and_depends_on_the_seed():
    X, y = load_digits(return_X_y=True)
    first, again = (KernelFisherDiscriminant(landmarks=60).fit(X, y) for _ in range(2))
    assert np.array_equal(first.transform(X), again.transform(X))
    other = KernelFisherDiscriminant(landmarks=60, random_state=1).fit(X, y)
    assert not np.array_equal(first.landmarks_, other.landmarks_)


def test_a_stream_places_landmarks_with_its_first_batch():
    X, y = load_digits(return_X_y=True)
    model = KernelFisherDiscriminant(landmarks=200).partial_fit(X[:600], y[:600], classes=np.arange(11))
    landmarks = model.landmarks_.copy()
    model.partial_fit(X[600:1200], y[600:1200])
    assert np.array_equal(model.landmarks_, landmarks)
    assert model.predict_proba(X[1200:]).shape == (597, 11)
    assert model.score(X[1200:], y[1200:]) > 0.93
    given = KernelFisherDiscriminant(landmarks=landmarks, gamma=model.gamma_).fit(X[:1200], y[:1200])
    np.testing.assert_allclose(given.eigenvalues_, model.eigenvalues_, rtol=1e-7)


def test_centres_beat_rows_and_both_beat_the_linear_discriminant(real_data):
    X, y = real_data("letter")
    train, test = slice(0, 4000), slice(16000, 20000)
    scores = {}
    for placement in ("rows", "centres"):
        model = KernelFisherDiscriminant(landmarks=300, placement=placement).fit(X[train], y[train])
        scores[placement] = model.score(X[test], y[test])
    linear = FisherDiscriminant(head="gaussian").fit(X[train], y[train]).score(X[test], y[test])
    assert scores["centres"] > scores["rows"] > linear + 0.1


def test_predictions_are_as_good_as_a_support_vector_machine(real_data):
    X, y = real_data("optdigits")
    train, test = slice(0, 2500), slice(2500, None)
    model = KernelFisherDiscriminant(landmarks=800).fit(X[train], y[train])
    peer = SVC(gamma=model.gamma_).fit(X[train], y[train])
    assert model.score(X[test], y[test]) >= peer.score(X[test], y[test]) - 0.002


def test_state_as_arrays_and_back():
    X, y = load_digits(return_X_y=True)
    for rows in (X, sparse.csr_array(X)):
        statistics = KernelFisherDiscriminant(landmarks=50).fit(rows, y)._statistics
        plain = ClassScatter.from_arrays(statistics.plain().to_arrays())
        back = KernelScatter.around(statistics.basis, plain)
        for state in (back, statistics):
            state.update(rows[:100], y[:100])
        np.testing.assert_array_equal(back.within_scatter(), statistics.within_scatter())
        np.testing.assert_array_equal(back.means, statistics.means)
    with pytest.raises(TypeError, match="give its landmarks too"):
        KernelScatter.from_arrays(statistics.to_arrays())


def test_a_checkpoint_goes_on_bit_for_bit():
    X, y = load_digits(return_X_y=True)
    for rows in (X, X.astype(np.float32), sparse.csr_array(X)):
        for kind in (KernelFisherDiscriminant, KernelMarginSubspace):
            model = kind(landmarks=50).partial_fit(rows[:900], y[:900])
            back = unpack(*pack(model))
            assert np.array_equal(back.transform(rows), model.transform(rows))
            for one in (back, model):
                one.partial_fit(rows[900:], y[900:])
            assert np.array_equal(back.predict_proba(rows), model.predict_proba(rows))
    assert not hasattr(unpack(*pack(KernelFisherDiscriminant(landmarks=7))), "_statistics")


def test_the_memory_estimate_inverts():
    for budget in (2**28, 2**31):
        for width in (3, 784, 40_000):
            most = most_landmarks(budget, width)
            assert bytes_needed(most, width) <= budget < bytes_needed(most + 1, width)


def test_statistics_stay_as_they_were_when_a_batch_is_refused():
    X, y = load_digits(return_X_y=True)
    model = KernelFisherDiscriminant(landmarks=50).partial_fit(X[:500], y[:500])
    before = model.transform(X)
    with pytest.raises(ValueError, match="NaN"):
        model.partial_fit(np.where(np.arange(len(X))[:, None] == 1700, np.nan, X), y)
    labels = y.astype(object)
    labels[-1] = "nine"
    with pytest.raises(ValueError, match="label"):
        model.partial_fit(X, labels)
    assert np.array_equal(model.transform(X), before)


def nan_kernel(a, b):
    return np.full((len(a), len(b)), np.nan)


def test_kernels_of_ones_own():
    X, y = wine()
    own = KernelFisherDiscriminant(kernel=lambda a, b: rbf_kernel(a, b, 0.1), landmarks=50, ridge=1e-4).fit(X, y)
    named = KernelFisherDiscriminant(gamma=0.1, landmarks=50, placement="rows", ridge=1e-4).fit(X, y)
    np.testing.assert_allclose(own.transform(X), named.transform(X), atol=1e-7)
    with pytest.raises(ValueError, match="NaN"):
        KernelFisherDiscriminant(kernel=nan_kernel).fit(X, y)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"ridge": -1.0}, "ridge must be a number"),
        ({"ridge": "none"}, "ridge must be a number"),
        ({"landmarks": 0}, "landmarks must be"),
        ({"landmarks": True}, "landmarks must be"),
        ({"landmarks": "many"}, "landmarks must be one of"),
        ({"landmarks": 179}, "there are 178 of positive weight"),
        ({"landmarks": np.zeros((5, 12))}, "landmarks has 12 features, but X has 13"),
        ({"landmarks": np.full((5, 13), np.nan)}, "NaN"),
        ({"kernel": "linear", "landmarks": np.zeros((5, 13))}, "span nothing"),
        ({"landmarks": 100, "memory_bytes": 1000}, r"100 landmarks of 13 features need about .* Raise memory_bytes\.$"),
        ({"landmarks": 150, "memory_bytes": 134_900_000}, r"need about .* Ask for at most 101 landmarks, or raise"),
        ({"memory_bytes": 0}, "memory_bytes must be a number"),
        ({"kernel": "precomputed"}, "callable of two blocks"),
        ({"kernel": "cosine"}, "kernel must be"),
        ({"gamma": -1.0}, "gamma must be"),
        ({"placement": "corners"}, "placement must be one of"),
        ({"kernel": rbf_kernel, "placement": "centres", "landmarks": 9}, "needs dense rows and a named kernel"),
        ({"head": "tree"}, "head must be one of"),
        ({"n_components": 3}, "3 classes have at most K − 1 = 2 directions"),
        ({"n_components": 0}, "n_components must be a whole number"),
    ],
)
def test_what_cannot_be_met_is_refused(parameters, message):
    X, y = wine()
    with pytest.raises(ValueError, match=message):
        KernelFisherDiscriminant(**parameters).fit(X, y)


def test_merge_refuses_other_landmarks_kernels_and_classes():
    X, y = wine()
    first = KernelFisherDiscriminant(landmarks=50).fit(X, y)
    with pytest.raises(ValueError, match="different landmarks or kernels"):
        first.merge(KernelFisherDiscriminant(landmarks=50).fit(X[::2], y[::2]))
    with pytest.raises(ValueError, match="landmarks=50 and landmarks='rows'"):
        first.merge(KernelFisherDiscriminant(landmarks=X[:50]).fit(X, y))
    given = KernelFisherDiscriminant(landmarks=X[:50]).fit(X, y)
    with pytest.raises(ValueError, match="different landmarks or kernels"):
        given.merge(KernelFisherDiscriminant(landmarks=X[1:51]).fit(X, y))
    with pytest.raises(ValueError, match="gamma"):
        given.merge(KernelFisherDiscriminant(landmarks=X[:50], gamma=1.0).fit(X, y))
    with pytest.raises(TypeError, match="needs another"):
        given.merge(KernelMarginSubspace(landmarks=X[:50], epsilon=0.1).fit(X, y))
    with pytest.raises(TypeError, match="no inverse"):
        given.inverse_transform(np.zeros((1, 2)))


def test_hard_cases_are_learnt():
    X, y = wine()
    lonely = np.where(np.arange(len(X)) == 7, 9, y)
    model = KernelFisherDiscriminant(landmarks=30, gamma="mean").fit(X, lonely)
    assert model.predict(X[7:8]).tolist() == [9]
    points = np.repeat(np.eye(3), 4, axis=0)
    model = KernelFisherDiscriminant().fit(points, np.repeat([0, 1, 2], 4))
    assert model.predict(np.eye(3)).tolist() == [0, 1, 2]
    with pytest.warns(CriterionWarning, match="S_w vanishes in"):
        KernelFisherDiscriminant(ridge=0.0, gamma=1e3).fit(X, y)
    with pytest.raises(ValueError, match="one label here"):
        KernelMarginSubspace().fit(X, np.eye(3, dtype=int)[y])
    with pytest.raises(ValueError, match="y holds only one class"):
        KernelFisherDiscriminant().fit(X, np.zeros(len(X), dtype=int))


def test_the_callers_arrays_stay_as_they_are():
    X, y = wine()
    landmarks = X[:40].copy()
    for array in (X, y, landmarks):
        array.flags.writeable = False
    model = KernelFisherDiscriminant(landmarks=landmarks).fit(X, y)
    model.partial_fit(X, y)
    assert model.landmarks is landmarks


def test_output_containers_and_names():
    X, y = load_iris(return_X_y=True, as_frame=True)
    model = KernelFisherDiscriminant(landmarks=30).set_output(transform="pandas").fit(X, y)
    assert list(model.transform(X).columns) == ["kernelfisherdiscriminant0", "kernelfisherdiscriminant1"]


ESTIMATORS = [
    KernelFisherDiscriminant(),
    KernelFisherDiscriminant(kernel="linear", head="nearest_mean"),
    KernelMarginSubspace(),
]
RELATIVE = (
    "The ridge and the calibration count rows, and weights only compare them: their scale does not matter. With a "
    "given ridge the directions are those of the row twice (a_weight_is_a_number_of_rows_in_the_kernel_width_too). "
    "No rule has both (docs/decisions/19_weights_compare_rows.md)."
)


def expected(estimator):
    return {f"check_sample_weight_equivalence_on_{kind}_data": RELATIVE for kind in ("dense", "sparse")}


@pytest.mark.filterwarnings("ignore::kampong.CriterionWarning")
@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_a_warm_start_keeps_the_landmarks_and_prints_its_way(capsys):
    X, y = wine()
    model = KernelFisherDiscriminant(landmarks=40, warm_start=True, verbose=1).fit(X, y)
    text = f"KernelFisherDiscriminant: {len(X)} of {len(X)} rows, 40 landmarks"
    assert text in capsys.readouterr().out
    landmarks, gamma = model.landmarks_, model.gamma_
    model.set_params(ridge=1e-3).fit(X[::2] + 1.0, y[::2])
    assert model.landmarks_ is landmarks
    assert model.gamma_ == gamma
    cold = KernelFisherDiscriminant(landmarks=landmarks, gamma=gamma, ridge=1e-3).fit(X[::2] + 1.0, y[::2])
    np.testing.assert_allclose(model.transform(X), cold.transform(X), atol=1e-10)
    assert model.set_params(warm_start=False).fit(X[::2], y[::2]).landmarks_ is not landmarks
    narrow = model.set_params(warm_start=True).fit(X[:, :5], y)
    assert narrow.landmarks_.shape == (40, 5)
