"""What KernelFisherDiscriminant() chooses: the head, its calibration and the kernel's width, by rows left out."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.preprocessing import scale

import kampong
from kampong import KernelFisherDiscriminant, KernelMarginSubspace
from kampong.kernels.functions import Kernel
from kampong.selection import kernel_width
from kampong.selection.kernel_width import FACTORS, LandmarkLeaveOneOut, _whitener
from kampong.statistics.kernel_scatter import KernelScatter

DIGITS = load_digits(return_X_y=True)
HEADS = ["gaussian", "nearest_mean", "cosine", "regression", "mixture", "quadratic", "logistic", "hinge", "auto"]


def test_a_row_left_out_in_closed_form_is_a_fit_without_it():
    X, y = load_iris(return_X_y=True)
    X = scale(X)
    model = KernelFisherDiscriminant(landmarks=X[::5], gamma=0.2, ridge=1e-3).fit(X, y)
    statistics, ridge = model._statistics, model.ridge_
    left_out = LandmarkLeaveOneOut(statistics, statistics.sample(150), ridge)
    found = left_out.parts(1.0)
    rows, n = statistics.sample(150).rows, len(y)
    for i in (3, 60, 149):
        own = np.flatnonzero((statistics.basis.coordinates(statistics.basis.values(X)) == rows[i]).all(axis=1))[0]
        others = np.arange(n) != own
        without = KernelScatter(statistics.basis).update(X[others], y[others])
        # the ridge counts as a sum over rows, and so shrinks with them no faster than S_w is divided by fewer
        metric = np.linalg.inv(without.within_scatter() + ridge * n / (n - 1) * np.eye(len(rows[i])))
        means = without.means - statistics.mean
        np.testing.assert_allclose(found.products[i], means @ metric @ (rows[i] - statistics.mean), rtol=1e-6)
        np.testing.assert_allclose(found.squares[i], np.einsum("ki,ij,kj->k", means, metric, means), rtol=1e-6)


def test_a_scatter_that_rounding_has_made_indefinite_is_whitened_all_the_same():
    rng = np.random.default_rng(0)
    turn, _ = np.linalg.qr(rng.normal(size=(6, 6)))
    values = np.array([-1e-9, 0.0, 1e-3, 0.1, 1.0, 2.0])
    within, ridge = turn * values @ turn.T, 1e-10
    white = _whitener(within, ridge)(np.eye(6))
    expected = turn / (np.maximum(values, 2e-14) + ridge) @ turn.T
    np.testing.assert_allclose(white @ white.T, expected, rtol=1e-4, atol=1e-4 * expected.max())
    fine = _whitener(within, 1e-6)(np.eye(6))  # by Cholesky
    np.testing.assert_allclose(fine @ fine.T, np.linalg.inv(within + 1e-6 * np.eye(6)), rtol=1e-6)


@pytest.mark.parametrize(("wanted", "compared"), [(0, 500), (2000, 500), (2400, 600)])
def test_widths_for_more_landmarks_are_compared_on_more(monkeypatch, wanted, compared):
    rng = np.random.default_rng(0)
    X, codes = rng.normal(size=(6000, 2)), rng.integers(0, 2, 6000)
    called, real = [], kernel_width._loss

    def watched(kernel, X, codes, weights, landmarks, validated, ridge=None):
        called.append((len(codes), len(landmarks), len(np.intersect1d(landmarks, validated))))
        return real(kernel, X, codes, weights, landmarks[:20], validated, ridge)

    monkeypatch.setattr(kernel_width, "_loss", watched)
    kernel_width.choose_kernel(
        lambda factor, _: Kernel("rbf", gamma=0.3 * 10.0**factor),
        (False,),
        FACTORS,
        (X, codes, np.ones(6000)),
        rng.random(6000),
        wanted,
    )
    # as many rows for each landmark: 4,096 for 500
    assert set(called) == {(4096 * compared // 500, compared, 0)}


@pytest.mark.parametrize("head", HEADS)
def test_every_head_is_calibrated_and_at_least_as_good(head):
    X, y = DIGITS
    model = KernelFisherDiscriminant(landmarks=200, head=head).fit(X[:1200], y[:1200])
    assert model.head_ == head or head == "auto"
    chances = model.predict_proba(X[1200:])
    right = chances.argmax(axis=1) == y[1200:]
    assert right.mean() > 0.93
    assert abs(chances.max(axis=1).mean() - right.mean()) < 0.05
    assert set(model.choice_.heads) <= set(HEADS)


def test_the_width_is_chosen_near_the_usual_one():
    X, y = DIGITS
    model = KernelFisherDiscriminant(landmarks=200).fit(X, y)
    usual = KernelFisherDiscriminant(landmarks=200, gamma="mean").fit(X, y).gamma_
    np.testing.assert_allclose(model.choice_.values, usual * 10.0**FACTORS)
    assert model.choice_.value == model.gamma_
    assert model.choice_.values[0] <= model.gamma_ <= model.choice_.values[-1]
    given = KernelFisherDiscriminant(landmarks=200, gamma=model.gamma_).fit(X, y)
    np.testing.assert_allclose(given.predict_proba(X), model.predict_proba(X), atol=1e-9)
    assert given.choice_.values.size == 0


def test_where_it_cannot_be_chosen_it_is_the_usual_one():
    X, y = load_wine(return_X_y=True)
    X = scale(X)
    usual = KernelFisherDiscriminant(gamma="mean").fit(X, y).gamma_
    Y = np.eye(3, dtype=int)[y]
    assert KernelFisherDiscriminant().fit(X, Y).gamma_ == pytest.approx(usual)
    assert KernelFisherDiscriminant(landmarks=X).fit(X, y).gamma_ == pytest.approx(usual)
    few = np.r_[0:4, 60:64]
    assert KernelFisherDiscriminant().fit(X[few], y[few]).choice_ is None
    assert KernelMarginSubspace(epsilon=0.1, gamma="auto").fit(X, y).gamma_ > 0


def test_a_stream_that_fits_its_sample_is_the_fit():
    X, y = DIGITS
    fixed = {"landmarks": X[:200], "gamma": 0.001}
    fitted = KernelFisherDiscriminant(**fixed).fit(X[:1500], y[:1500])
    streamed = KernelFisherDiscriminant(**fixed)
    for start in range(0, 1500, 100):
        streamed.partial_fit(X[start : start + 100], y[start : start + 100])
    assert streamed.head_ == fitted.head_
    np.testing.assert_allclose(streamed.predict_proba(X), fitted.predict_proba(X), atol=1e-6)


def test_a_merge_has_the_rows_of_both():
    X, y = DIGITS
    fixed = {"landmarks": X[:100], "gamma": 0.001}
    parts = [KernelFisherDiscriminant(**fixed, random_state=i).partial_fit(X[i::2], y[i::2]) for i in range(2)]
    merged = parts[0].merge(parts[1])
    assert merged._statistics.kept.n_kept == len(X)
    assert merged.choice_.n_rows == len(X)
    whole = KernelFisherDiscriminant(**fixed).fit(X, y)
    assert (
        np.abs(merged.predict_proba(X) - whole.predict_proba(X)).max() < 0.02
    )  # another order of the same validation rows


def test_a_loaded_stream_goes_on_with_the_same_bits(tmp_path):
    X, y = DIGITS
    model = KernelFisherDiscriminant(landmarks=100).partial_fit(X[:900], y[:900])
    model.save(tmp_path / "model")
    loaded = kampong.load(tmp_path / "model")
    assert loaded.choice_.value == model.choice_.value
    for one in (model, loaded):
        one.partial_fit(X[900:], y[900:])
    np.testing.assert_array_equal(loaded.predict_proba(X), model.predict_proba(X))
    assert loaded.choice_.heads == model.choice_.heads


def test_rows_that_are_taken_out_leave_the_sample_too():
    X, y = DIGITS
    fixed = {"landmarks": X[:100], "gamma": 0.001}
    model = KernelFisherDiscriminant(**fixed).fit(X, y)
    model.unlearn(X[1000:], y[1000:])
    assert model._statistics.kept.n_kept == 1000
    never = KernelFisherDiscriminant(**fixed).fit(X[:1000], y[:1000])
    np.testing.assert_allclose(model.predict_proba(X), never.predict_proba(X), atol=1e-5)


@pytest.mark.parametrize("data", ["digits", "wine", "ties"])
def test_a_last_bit_decides_nothing(data):
    X, y = DIGITS if data == "digits" else load_wine(return_X_y=True)
    if data == "wine":
        X = scale(X)
    if data == "ties":  # whole numbers: many distances are equal
        rng = np.random.default_rng(0)
        X, y = rng.integers(0, 3, (900, 6)).astype(float), rng.integers(0, 3, 900)
        X[:, 0] += y
    model = KernelFisherDiscriminant(landmarks=min(150, len(y) // 2))
    first = clone(model).fit(X, y)
    for seed in range(3):
        noise = 1 + 1e-12 * np.random.default_rng(seed).uniform(-1, 1, X.shape)
        other = clone(model).fit(X * noise, y)
        assert other.gamma_ == pytest.approx(first.gamma_, rel=1e-6)
        assert other.head_ == first.head_
        np.testing.assert_allclose(other.predict_proba(X), first.predict_proba(X), atol=1e-6)
