"""Rows taken out again: the model that never saw them, to rounding; what cannot have been learnt is refused."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from scipy import sparse
from sklearn.datasets import load_digits, load_iris

import kampong
from kampong import (
    FisherDiscriminant,
    InformationGain,
    InterClassScatter,
    KernelFisherDiscriminant,
    MarginSubspace,
)
from kampong.statistics.means import ClassMeans
from kampong.statistics.receipt import Receipt
from kampong.statistics.reservoir import ClassReservoir, SampledScatter
from kampong.statistics.scatter import ClassScatter
from problems import at_most, seeds

KINDS = [ClassMeans, ClassScatter, ClassReservoir, SampledScatter]
FORMS = [np.asarray, sparse.csr_array]


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def assert_same(left, expected, tolerance=1e-9, spread=None):
    """Compare statistics after a removal with those that never saw the rows; `spread` is tr S_w before it."""
    np.testing.assert_array_equal(left.classes, expected.classes)
    np.testing.assert_allclose(left.counts, expected.counts, rtol=1e-12)
    if not expected.n_samples:
        return
    scale = np.abs(expected.means).max() + 1e-300
    np.testing.assert_allclose(left.means, expected.means, atol=tolerance * scale, rtol=0)
    spread = spread or expected.within_trace
    assert left.within_trace == pytest.approx(expected.within_trace, abs=tolerance * spread)
    if expected.holds_within:
        eye = np.eye(expected.n_features)
        difference = np.abs(left.within_times(eye) - expected.within_times(eye)).max()
        assert difference <= tolerance * spread


def assert_same_scores(model, expected, X, tolerance=1e-9):
    """Compare every score of two models, in units of the largest."""
    np.testing.assert_array_equal(model.classes_, expected.classes_)
    scores, wanted = model.decision_function(X), expected.decision_function(X)
    np.testing.assert_allclose(scores, wanted, atol=tolerance * np.abs(wanted).max(), rtol=0)


def rows(rng, n=60, d=4, classes=3):
    """Return rows of a few classes far from each other and from the origin, some of them twice, with weights."""
    y = rng.integers(0, classes, n)
    X = rng.normal(size=(n, d)) + 3.0 * y[:, None] + 10.0
    X[n // 2 : n // 2 + 3], y[n // 2 : n // 2 + 3] = X[0], y[0]
    return X * (rng.random((n, d)) < 0.8), y, rng.integers(0, 3, n).astype(float)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", FORMS)
@given(seed=seeds)
@settings(max_examples=at_most(25))
def test_what_is_left_are_the_statistics_of_the_other_rows(kind, form, seed):
    rng = np.random.default_rng(seed)
    X, y, weights = rows(rng)
    out = rng.random(len(X)) < rng.random()
    model = kind(4).update(form(X), y, weights)
    spread = model.within_trace
    for part in np.array_split(rng.permutation(np.flatnonzero(out)), 3):
        model.unlearn(form(X[part]), y[part], weights[part])
    expected = kind(4).update(form(X[~out]), y[~out], weights[~out])
    assert_same(model, expected, spread=spread)
    assert model.n_samples == expected.n_samples


@pytest.mark.parametrize("kind", KINDS)
@given(seed=seeds)
@settings(max_examples=at_most(15))
def test_any_sequence_of_update_merge_unlearn_save_and_load_is_the_rows_that_remain(kind, seed):
    rng = np.random.default_rng(seed)
    X, y, weights = rows(rng, n=80)
    model, held = kind(4), np.zeros(len(X), dtype=int)
    for _ in range(12):
        act = rng.integers(4)
        new = np.flatnonzero(held == 0)
        some = rng.permutation(new)[: rng.integers(0, 12)]
        if act == 0:
            model.update(X[some], y[some], weights[some])
            held[some] = 1
        elif act == 1:
            other = kind(4) if not issubclass(kind, ClassReservoir) else kind(4, random_state=7)
            model = model.merge(other.update(X[some], y[some], weights[some]))
            held[some] = 1
        elif act == 2:
            gone = rng.permutation(np.flatnonzero(held))[: rng.integers(0, 12)]
            model.unlearn(X[gone], y[gone], weights[gone])
            held[gone] = 0
        else:
            model = kind.from_arrays(model.to_arrays())
    here = held == 1
    expected = kind(4).update(X[here], y[here], weights[here])
    if not expected.n_samples:
        assert model.n_samples == 0
        return
    seen = expected.counts > 0
    np.testing.assert_array_equal(model.classes[model.counts > 0], expected.classes[seen])
    np.testing.assert_allclose(model.counts[model.counts > 0], expected.counts[seen], rtol=1e-12)
    np.testing.assert_allclose(model.means[model.counts > 0], expected.means[seen], atol=1e-9)
    assert model.n_samples == expected.n_samples
    if expected.holds_within:
        difference = model.within_times(np.eye(4)) - expected.within_times(np.eye(4))
        assert np.abs(difference).max() <= 1e-9 * 100  # the rows have squares of about 100 a column


@pytest.mark.parametrize("kind", KINDS)
def test_several_labels_a_row(kind, rng):
    X, Y = rng.normal(size=(50, 4)) + 5, (rng.random((50, 3)) < 0.4).astype(int)
    model = kind(4).update(X, Y).unlearn(X[::3], Y[::3])
    stay = np.arange(50) % 3 != 0
    expected = kind(4).update(X[stay], Y[stay])
    assert_same(model, expected)
    np.testing.assert_allclose(model.row_mean, expected.row_mean, atol=1e-12)
    assert model.row_weight == expected.row_weight


def test_class_means_far_apart_keep_six_digits_of_the_scatter(rng):
    y = rng.integers(0, 3, 300)
    X = rng.normal(size=(300, 5)) + 1e7 * y[:, None]
    model = ClassScatter(5).update(X, y).unlearn(X[:100], y[:100])
    assert_same(model, ClassScatter(5).update(X[100:], y[100:]), tolerance=1e-6)


def test_a_weight_of_two_is_the_row_twice_when_it_leaves_too(rng):
    X, y = rng.normal(size=(20, 3)), np.arange(20) % 2
    twice = SampledScatter(3).update(np.vstack([X, X[:4]]), np.append(y, y[:4])).unlearn(X[:4], y[:4], [2.0] * 4)
    assert_same(twice, SampledScatter(3).update(X[4:], y[4:]))
    half = SampledScatter(3).update(X, y, [2.0] * 20).unlearn(X, y)
    expected = SampledScatter(3).update(X, y)
    np.testing.assert_allclose(half.counts, expected.counts)
    np.testing.assert_allclose(half.sample().own, 1.0)
    np.testing.assert_allclose(half.sample().rows, expected.sample().rows)  # the clocks are the same, so is their order


def test_a_kept_row_that_is_taken_out_leaves_the_sample(rng):
    X, y = rng.normal(size=(3000, 4)), np.arange(3000) % 2
    model = ClassReservoir(4, budget=40_000).update(X, y)
    assert model.full
    kept = {row.tobytes() for row in model.sample().rows}
    model.unlearn(X[:1000], y[:1000])
    assert {row.tobytes() for row in model.sample().rows} == kept - {row.tobytes() for row in X[:1000]}
    np.testing.assert_allclose(model.means, ClassMeans(4).update(X[1000:], y[1000:]).means, atol=1e-12)
    total = model.sample().weights.sum()
    assert total == pytest.approx(2000, rel=0.2)  # unbiased, with the threshold as it was
    more = rng.normal(size=(1000, 4))
    model.update(more, y[:1000])
    assert np.unique(model._cut().keys).size == model.n_kept  # no clock is drawn twice


def test_estimators_become_those_that_never_saw_the_rows():
    X, y = load_digits(return_X_y=True)
    rng = np.random.default_rng(0)
    out = rng.random(len(X)) < 0.1
    for model in (
        FisherDiscriminant(ridge=1.0),
        MarginSubspace(5, epsilon=0.1),
        InterClassScatter(),
        KernelFisherDiscriminant(landmarks=X[:300].copy(), gamma=1e-3, ridge=1e-3),
    ):
        learnt = model.partial_fit(X, y)
        before = learnt.state_digest()
        receipt = learnt.unlearn(X[out], y[out])
        expected = type(model)(**model.get_params()).partial_fit(X[~out], y[~out])
        assert_same_scores(learnt, expected, X[:200])
        assert (receipt.before, receipt.after) == (before, learnt.state_digest())
        assert (receipt.rows, receipt.weight, receipt.exact) == (out.sum(), out.sum(), True)


@pytest.mark.parametrize("head", ["gaussian", "nearest_mean", "cosine", "regression"])
def test_with_ridge_and_head_given_probabilities_are_those_of_a_fresh_fit(head):
    X, y = load_digits(return_X_y=True)
    out = np.random.default_rng(1).random(len(X)) < 0.3
    model = FisherDiscriminant(ridge=1.0, head=head).partial_fit(X, y)
    model.unlearn(X[out], y[out])
    expected = FisherDiscriminant(ridge=1.0, head=head).partial_fit(X[~out], y[~out])
    np.testing.assert_allclose(model.predict_proba(X), expected.predict_proba(X), rtol=0, atol=1e-12)


def test_a_whole_class_and_all_rows_of_one_client():
    X, y = load_iris(return_X_y=True)
    model = FisherDiscriminant(ridge=0.1).partial_fit(X, y)
    receipt = model.unlearn(X[y == 1], y[y == 1])
    assert receipt.classes_gone == (1,)
    assert_same_scores(model, FisherDiscriminant(ridge=0.1).partial_fit(X[y != 1], y[y != 1]), X)
    client, others = np.arange(150) % 3 == 0, np.arange(150) % 3 != 0
    merged = FisherDiscriminant(ridge=0.1).fit(X[client], y[client])
    merged = merged.merge(FisherDiscriminant(ridge=0.1).fit(X[others], y[others]))
    merged.unlearn(X[client], y[client])
    assert_same_scores(merged, FisherDiscriminant(ridge=0.1).fit(X[others], y[others]), X)


@pytest.mark.parametrize("model", [InterClassScatter(), FisherDiscriminant()], ids=repr)
def test_a_class_is_taken_out_by_its_name_where_the_statistics_allow_it(model):
    X, y = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[y]
    receipt = model.fit(X, names, sample_weight=np.arange(150) % 3).unlearn_class("setosa")
    stay = names != "setosa"
    expected = type(model)().fit(X[stay], names[stay], sample_weight=(np.arange(150) % 3)[stay])
    assert model.classes_.tolist() == ["versicolor", "virginica"]
    assert model.n_samples_seen_ == expected.n_samples_seen_
    np.testing.assert_allclose(model.class_means_, expected.class_means_, atol=1e-12)
    assert (receipt.rows, receipt.weight, receipt.classes_gone) == (33, 49.0, ("setosa",))


@pytest.mark.parametrize("width", [4, 200], ids=["narrow", "wide"])
def test_what_follows_drift_is_dropped_and_the_rest_is_exact(width):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 600)
    X = rng.normal(size=(600, width)) + 2 * np.eye(3, width)[(y + (np.arange(600) > 300)) % 3]
    model = FisherDiscriminant(half_life="auto", ridge=0.1).partial_fit(X, y)
    before = model.state_digest()
    with pytest.raises(ValueError, match="unlearn"):
        model.unlearn(X[:5] + 1e6, y[:5])
    assert model.state_digest() == before  # a refused call leaves no trace
    out = rng.choice(600, 80, replace=False)
    receipts = [model.unlearn(X[some], y[some]) for some in (out[:50], out[50:])]
    stay = np.setdiff1d(np.arange(600), out)
    expected = FisherDiscriminant(ridge=0.1).partial_fit(X[stay], y[stay])
    assert ["It has been dropped" in str(one.remarks) for one in receipts] == [True, False]
    assert receipts[1].exact
    np.testing.assert_allclose(model.class_means_, expected.class_means_, atol=1e-10)
    np.testing.assert_allclose(model.components_, expected.components_, atol=1e-7)
    assert model.predict(X).tolist() == expected.predict(X).tolist()


def test_what_cannot_be_undone_is_refused_by_name():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(
        ValueError, match=r"FisherDiscriminant.unlearn: with half_life=50 rows lose weight as others come"
    ):
        FisherDiscriminant(half_life=50).fit(X, y).unlearn(X[:5], y[:5])
    with pytest.raises(ValueError, match=r"cannot be taken out by its name: the scatter of all classes is kept as one"):
        FisherDiscriminant(ridge=0.1).fit(X, y).unlearn_class(0)
    wide = sparse.csr_array(np.hstack([X, np.zeros((150, 9000))]))
    with pytest.raises(ValueError, match=r"fitted with the rows at hand .* Fit again without the rows"):
        FisherDiscriminant().fit(wide, y).unlearn(wide[:5], y[:5])
    Y = np.eye(3)[y]
    with pytest.raises(ValueError, match=r"InterClassScatter.unlearn_class: with several labels per row"):
        InterClassScatter().fit(X, Y).unlearn_class(0)


@pytest.mark.parametrize("kind", [FisherDiscriminant(ridge=0.1), FisherDiscriminant(), InformationGain(2)], ids=repr)
def test_more_than_was_learnt_is_refused_and_leaves_no_trace(kind):
    X, y = load_iris(return_X_y=True)
    model = kind.fit(X, y)
    before = model.state_digest()
    for rows_, labels, text in (
        (X[:1], [7], r"class 7 was never learnt"),
        (np.repeat(X[:1], 60, axis=0), [0] * 60, r"class 0"),
        (X[:50] - 1.0, y[:50], r"not among"),
    ):
        if isinstance(kind, InformationGain) and text == "not among":
            continue  # presence counts cannot tell them apart
        with pytest.raises(ValueError, match=text):
            model.unlearn(rows_, labels)
        assert model.state_digest() == before


def test_an_indefinite_scatter_is_refused(rng):
    X, y = rng.normal(size=(200, 3)), np.zeros(200, dtype=int)
    X[:, 1] = X[:, 0] + 1e-3 * X[:, 1]
    model = ClassScatter(3).update(X, y)
    across = X[:20] * [1.0, -1.0, 1.0]  # as large as the rows, but where they never were
    with pytest.raises(ValueError, match=r"not positive"):
        model.unlearn(across, y[:20])


def test_a_row_that_the_complete_sample_does_not_hold_is_refused():
    X, y = load_iris(return_X_y=True)
    with pytest.raises(ValueError, match=r"row 1 of X, with its label, is not among the rows learnt"):
        FisherDiscriminant().fit(X, y).unlearn(np.vstack([X[0], X[1] + 1e-9]), y[:2])


def test_all_rows_taken_out_leave_a_model_that_learns_again():
    X, y = load_iris(return_X_y=True)
    model = FisherDiscriminant().fit(X, y)
    receipt = model.unlearn(X, y)
    assert receipt.classes_gone == (0, 1, 2)
    with pytest.raises(ValueError, match="not fitted"):
        model.predict(X)
    model.partial_fit(X, y.astype(str))
    assert model.score(X, y.astype(str)) > 0.95


def test_information_gain(rng):
    X, y = (rng.random((300, 8)) < 0.3) * rng.random((300, 8)), np.array(list("abc"))[rng.integers(0, 3, 300)]
    weights = rng.random(300)
    out = rng.random(300) < 0.4
    for form in FORMS:
        model = InformationGain(3).fit(form(X), y, sample_weight=weights)
        receipt = model.unlearn(form(X[out]), y[out], weights[out])
        expected = InformationGain(3).fit(form(X[~out]), y[~out], sample_weight=weights[~out])
        np.testing.assert_allclose(model.presence_, expected.presence_, atol=1e-12)
        np.testing.assert_allclose(model.scores_, expected.scores_, atol=1e-12)
        assert model.n_samples_seen_ == expected.n_samples_seen_
        assert receipt.rows == out.sum()
        receipt = model.unlearn_class("b")
        assert model.classes_.tolist() == ["a", "c"]
        assert receipt.rows == np.count_nonzero(~out & (y == "b"))


def test_a_receipt_goes_to_json_and_back_and_fits_the_file(tmp_path):
    X, y = load_iris(return_X_y=True)
    model = FisherDiscriminant().fit(X, y)
    receipt = model.unlearn(X[:5], y[:5])
    assert Receipt.from_json(receipt.to_json()) == receipt
    assert json.loads(receipt.to_json())["rows"] == 5
    model.save(tmp_path / "model")
    assert kampong.load(tmp_path / "model").state_digest() == receipt.after
    for text in (
        "",
        "{}",
        "[1]",
        receipt.to_json().replace(receipt.after, "x"),
        receipt.to_json().replace("5,", '"5",'),
    ):
        with pytest.raises(ValueError, match="not a receipt of kampong"):
            Receipt.from_json(text)


def test_a_full_sample_and_landmarks_from_rows_are_reported():
    X, y = load_digits(return_X_y=True)
    wide = sparse.csr_array(np.hstack([X, np.zeros((len(X), 9000))]))
    stream = FisherDiscriminant(ridge=0.1, reservoir_bytes=100_000).partial_fit(wide, y)
    receipt = stream.unlearn(wide[:50], y[:50])
    assert not receipt.exact
    assert "S_w is estimated from a sample" in receipt.remarks[0]
    kernel = KernelFisherDiscriminant(landmarks=50).fit(X, y).unlearn(X[:50], y[:50])
    assert kernel.exact
    assert kernel.exact
    assert "landmarks were placed with rows" in kernel.remarks[-1]


def test_half_precision_rows_are_learnt_as_single_precision_ones():
    X, y = load_digits(return_X_y=True)
    half = (X / 16).astype(np.float16)
    model = FisherDiscriminant(ridge=0.1).fit(half, y)
    expected = FisherDiscriminant(ridge=0.1).fit(half.astype(np.float32), y)
    np.testing.assert_array_equal(model.predict_proba(half), expected.predict_proba(half.astype(np.float32)))
    assert model.transform(half).dtype == np.float32


def test_a_kernel_model_that_chooses_lets_go_of_its_validation_rows():
    X, y = load_iris(return_X_y=True)
    model = KernelFisherDiscriminant(landmarks=X[::3].copy()).partial_fit(X, y)
    before = model.state_digest()
    with pytest.raises(ValueError, match=r"row 1 of X, with its label, is not among the rows learnt"):
        model.unlearn(np.vstack([X[0], X[1] + 1e-9]), y[:2])
    assert model.state_digest() == before
    model.unlearn(X[:10], y[:10])
    left = model._statistics.kept.sample().rows
    assert not {row.tobytes() for row in X[:10]} & {row.tobytes() for row in left} - {row.tobytes() for row in X[10:]}
    assert len(left) == 140
    receipt = model.unlearn_class(2)
    assert (receipt.rows, receipt.classes_gone) == (50, (2,))
    fixed = {"gamma": model.gamma_, "landmarks": X[::3].copy(), "ridge": 0.1, "head": "gaussian"}
    expected = KernelFisherDiscriminant(**fixed).partial_fit(X[10:100], y[10:100])
    np.testing.assert_allclose(model.class_means_, expected.class_means_, atol=1e-9)


@pytest.mark.parametrize("ridge", ["rule", "auto", 0.1])
@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize("seed", range(10))
def test_one_row_a_class_is_left(seed, form, ridge):
    """What is left predicts as if the other rows had never come: all variances are zero, and not rounding."""
    rng = np.random.default_rng(seed)
    X, y = rng.standard_normal((30, 4)) + 100.0, np.arange(30) % 3
    rows = sparse.csr_array(np.pad(X, ((0, 0), (0, 60)))) if form == "sparse" else X
    rest = np.sort(rng.permutation(30).reshape(10, 3)[0])
    kept = [int(np.flatnonzero(y == k)[seed % 10]) for k in range(3)]
    gone = np.setdiff1d(np.arange(30), kept)
    model = FisherDiscriminant(ridge=ridge, half_life=None).partial_fit(rows[rest], y[rest])
    others = np.setdiff1d(np.arange(30), rest)
    model.partial_fit(rows[others], y[others]).unlearn(rows[gone], y[gone])
    fresh = FisherDiscriminant(ridge=ridge, half_life=None).partial_fit(rows[kept], y[kept])
    assert model._statistics.within_trace == fresh._statistics.within_trace == 0
    np.testing.assert_array_equal(model.predict(rows), fresh.predict(rows))
