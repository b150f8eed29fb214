"""Heads chosen for any criterion by rows held out, and heads that are trained on rows: what they see and state."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse, special
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from kampong import (
    FisherDiscriminant,
    InterClassScatter,
    KernelFisherDiscriminant,
    KernelMarginSubspace,
    MarginSubspace,
    MaximumMarginCriterion,
    SupervisedKampongMeasure,
    load,
)
from kampong.criteria import MarginCriterion
from kampong.datasets import sparse_text
from kampong.heads import Inside
from kampong.selection import choose, folds, leave_one_out
from kampong.selection.choose import choose_parameter
from kampong.selection.settings import SETTINGS
from kampong.selection.several_labels import fit_labels, fit_odds
from kampong.statistics.all_rows import ClassRows
from kampong.statistics.held_out import TrainingStatistics
from kampong.statistics.reservoir import SampledScatter

quiet = pytest.mark.filterwarnings("ignore::kampong.CriterionWarning")


def many_columns(seed=0, rows=1200, features=70, classes=3):
    """Return rows whose classes differ in means and in columns that hardly vary."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, rows)
    scales = 10.0 ** rng.uniform(-1.5, 0.5, features)
    means = rng.normal(size=(classes, features)) * 0.35
    return (means[y] + rng.normal(size=(rows, features))) * scales, y


def test_past_64_columns_logistic_regression_sees_all_of_them_with_the_penalty_it_states():
    X, y = many_columns()
    model = FisherDiscriminant(head="logistic", scale=False).fit(X, y)
    head = model.freeze().head
    means = np.array([X[y == k].mean(axis=0) for k in range(3)])
    values, vectors = np.linalg.eigh((X - means[y]).T @ (X - means[y]) / len(X))
    spread = values + max(model.ridge_, values.sum() / len(X))
    shape = np.sqrt(spread.mean() / spread)
    points = (X - X.mean(axis=0)) @ vectors / np.sqrt(spread) / np.sqrt(shape)
    peer = LogisticRegression(C=1.0 / (len(X) * head.penalty), tol=1e-10, max_iter=5000).fit(points, y)
    expected = peer.predict_proba(points)
    found = special.softmax(model.decision_function(X), axis=1)
    np.testing.assert_allclose(found, expected, atol=1e-4)
    assert np.abs(expected - expected.mean(axis=0)).max() > 0.5
    assert len(model.freeze().hidden) <= 3  # the weights have the rank of the classes


def test_what_logistic_regression_sees_beside_the_directions_is_saved_and_moves_with_the_stream(tmp_path):
    X, y = many_columns(1)
    model = FisherDiscriminant(head="logistic", scale=False).partial_fit(X[:1100], y[:1100])
    model.freeze()
    model.save(tmp_path / "model.kampong")
    again = load(tmp_path / "model.kampong")
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))
    before = model.freeze()
    model.partial_fit(X[1100:], y[1100:])
    kept = model.freeze(keep=before)
    np.testing.assert_array_equal(kept.hidden, before.hidden)
    assert np.abs(kept.probabilities(X) - before.probabilities(X)).max() < 0.2
    assert np.mean(kept.answers(X)[1] == y) == pytest.approx(again.score(X, y), abs=0.02)


# Heads of any criterion, tried on rows held out.


CHOOSING = {
    "epsilon": MarginSubspace(epsilon="auto"),
    "a": SupervisedKampongMeasure(a="auto"),
    "maximum margin": MaximumMarginCriterion(head="best"),
    "class means": InterClassScatter(head="best"),
    "plain Fisher": FisherDiscriminant(ridge=0.0, head="best"),
    "kernel": KernelMarginSubspace(landmarks=60, head="best"),
}


def halves():
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))  # the last rows were written by others
    X, y = X[order], y[order]
    return X[:1200], y[:1200], X[1200:], y[1200:]


def log_loss(model, T, t):
    return -np.log(np.maximum(model.predict_proba(T)[np.arange(len(t)), t], 1e-12)).mean()


@quiet
@pytest.mark.parametrize("name", CHOOSING)
def test_a_chosen_head_is_better_than_gaussian_classes_and_means_what_it_says(name):
    X, y, T, t = halves()
    model = clone(CHOOSING[name]).fit(X, y)
    plain = clone(CHOOSING[name]).set_params(head="gaussian").fit(X, y)
    assert len(model.choice_.heads) >= 2
    least = min(model.choice_.heads.values())
    assert model.choice_.heads[model.head_] <= least + 0.002
    assert model.score(T, t) >= plain.score(T, t) - 0.005
    assert log_loss(model, T, t) < log_loss(plain, T, t)
    sure = model.predict_proba(T).max(axis=1)
    assert abs(sure.mean() - model.score(T, t)) < 0.05


@quiet
@pytest.mark.parametrize("model", [FisherDiscriminant(), CHOOSING["epsilon"], CHOOSING["a"]])
def test_a_mixture_by_name_is_the_mixture_that_was_compared(model):
    X, y, T, _ = halves()
    chosen = clone(model).fit(X[:900], y[:900])
    named = clone(model).set_params(head="mixture").fit(X[:900], y[:900])
    assert named.head_ == "mixture"
    assert named.freeze().head.quadratic is not None
    np.testing.assert_allclose(named.components_, chosen.components_, rtol=1e-6, atol=1e-9)
    assert named.choice_.heads["mixture"] == pytest.approx(chosen.choice_.heads["mixture"], rel=1e-6)
    if chosen.head_ == "mixture":
        np.testing.assert_allclose(named.predict_proba(T), chosen.predict_proba(T), atol=1e-6)


@quiet
@pytest.mark.parametrize(
    "model",
    [
        FisherDiscriminant(ridge=0.1),
        MarginSubspace(epsilon=0.1),
        InterClassScatter(),
        KernelFisherDiscriminant(landmarks=50, gamma=0.02, ridge=1.0),
        KernelMarginSubspace(landmarks=50, gamma=0.02, epsilon=0.1),
    ],
)
def test_a_mixture_is_weighed_where_the_parameter_is_given_too(model, tmp_path):
    X, y, T, t = halves()
    best = clone(model).set_params(head="best").fit(X, y)
    for named in (
        clone(model).set_params(head="mixture").fit(X, y),
        clone(model).set_params(head="mixture").partial_fit(X, y),
    ):
        assert named.head_ == "mixture"
        assert np.count_nonzero(named.freeze().head.weights) > 1
        ahead, behind = (best, named) if best.head_ == "logistic" else (named, best)  # no member of the mixture
        assert log_loss(ahead, T, t) < 1.02 * log_loss(behind, T, t)
        named.save(tmp_path / "model")
        np.testing.assert_array_equal(load(tmp_path / "model").predict_proba(T), named.predict_proba(T))


@quiet
@pytest.mark.parametrize("name", CHOOSING)
def test_a_chosen_head_is_saved_merged_and_learnt_on(name, tmp_path):
    X, y, T, t = halves()
    model = clone(CHOOSING[name]).partial_fit(X[:600], y[:600]).partial_fit(X[600:], y[600:])
    before = model.predict_proba(T)
    model.save(tmp_path / "model.kampong")
    np.testing.assert_array_equal(load(tmp_path / "model.kampong").predict_proba(T), before)
    model.partial_fit(T[:100], t[:100])
    kept = model.freeze(keep=load(tmp_path / "model.kampong").freeze())
    assert kept.head.name == load(tmp_path / "model.kampong").head_
    assert np.mean(kept.answers(T)[1] == t) > model.score(T, t) - 0.03
    if name == "kernel":
        return
    first, second = (clone(CHOOSING[name]).partial_fit(X[part], y[part]) for part in (slice(600), slice(600, None)))
    merged = first.merge(second)
    np.testing.assert_allclose(np.abs(merged.components_), np.abs(model.fit(X, y).components_), atol=0.2)
    assert merged.score(T, t) > model.score(T, t) - 0.03


@quiet
@pytest.mark.parametrize("value", [0.0, 0.5])
def test_rows_held_back_are_scored_by_what_has_not_seen_them(value):
    X, y, _, _ = halves()
    statistics = SampledScatter(64).update(X, y)
    sample = statistics.sample(8192)
    _, _, source = choose_parameter(MarginCriterion, statistics, 3, "best", value)
    fold = np.arange(len(y))[::5]
    rows = np.asarray(sample.rows)
    others = np.setdiff1d(np.arange(len(y)), fold)
    codes = sample.members.codes
    means = np.array([rows[others][codes[others] == k].mean(axis=0) for k in range(10)])
    priors = np.bincount(codes[others]) / len(others)
    mean = priors @ means
    centred = rows[others] - means[codes[others]]
    within = centred.T @ centred / len(others)
    between = (priors[:, None] * (means - mean)).T @ (means - mean)
    directions = np.linalg.eigh(between - value * within)[1][:, -3:]
    covariance = directions.T @ within @ directions
    away = (rows[fold][:, None] - means) @ directions
    expected = -0.5 * np.einsum("nkp,pq,nkq->nk", away, np.linalg.inv(covariance), away) + np.log(priors)
    inside = Inside(np.zeros((10, 3)), np.ones(10), np.eye(3), 1.0, False, np.zeros(3), 1.0)
    found = source.evidence(inside, np.zeros((3, 64))).scores[0][: len(fold)]
    difference = found - expected
    np.testing.assert_allclose(difference, np.broadcast_to(difference[:, :1], difference.shape), atol=1e-6)


@quiet
def test_no_trained_head_has_seen_its_validation_rows():
    """Labels drawn at random cannot be told from new rows, whatever is trained."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(600, 20)), rng.integers(0, 3, 600)
    models = [MarginSubspace(12, epsilon="auto", head=head) for head in ("quadratic", "logistic", "gaussian", "auto")]
    for model in (*models, MarginSubspace(12, epsilon=0.0, head="best")):
        model.fit(X, y)
        assert min(model.choice_.heads.values()) > 0.6  # two thirds are wrong, and a little of the log-loss
        assert model.predict_proba(X).max(axis=1).mean() < 0.45


@quiet
@pytest.mark.parametrize("name", ["epsilon", "a", "maximum margin", "kernel"])
def test_the_choice_of_a_head_is_smooth_for_any_criterion(name):
    X, y, T, _ = halves()
    X, y = X[:500], y[:500]
    first = clone(CHOOSING[name]).fit(X, y)
    rng = np.random.default_rng(0)
    for _ in range(3):
        moved = X * (1 + 1e-12 * rng.uniform(-1, 1, X.shape))
        other = clone(CHOOSING[name]).fit(moved, y)
        assert other.head_ == first.head_
        np.testing.assert_allclose(other.predict_proba(T), first.predict_proba(T), atol=1e-6)


@quiet
def test_while_everything_fits_a_wide_stream_trains_as_a_fit():
    X, y = sparse_text(1500, 9000, 30, n_classes=3, random_state=0)
    for model in (
        FisherDiscriminant(head="logistic"),
        FisherDiscriminant(head="hinge"),
        FisherDiscriminant(head="quadratic"),
        InterClassScatter(head="best"),
    ):
        fitted, streamed = clone(model).fit(X, y), clone(model)
        for part in np.array_split(np.arange(len(y)), 4):
            streamed.partial_fit(X[part], y[part])
        assert streamed.head_ == fitted.head_
        np.testing.assert_allclose(streamed.predict_proba(X), fitted.predict_proba(X), atol=1e-6)


@pytest.fixture
def many_rows(monkeypatch):
    """Return text of which few rows validate, and whose training takes long by the measure of a small test."""
    monkeypatch.setattr(choose, "SETTINGS", replace(SETTINGS, validation_rows=256))
    monkeypatch.setattr(folds, "SETTINGS", replace(SETTINGS, logistic_cost=0.0))
    return sparse_text(8200, 9000, 6, n_classes=6, random_state=0)


def test_where_training_takes_long_what_was_calibrated_is_what_predicts(many_rows, monkeypatch):
    X, y = many_rows
    made, calibrated = [], folds.HeldOutEvidence.calibrated

    def watched(evidence, candidates):
        made.extend(one.scores for one in candidates)
        return calibrated(evidence, candidates)

    monkeypatch.setattr(folds.HeldOutEvidence, "calibrated", watched)
    model = FisherDiscriminant(head="logistic").fit(X, y)
    judges = ClassRows(9000).update(X, y, np.ones(len(y))).sample(256).rows
    np.testing.assert_allclose(model.decision_function(judges), made[-1], atol=1e-8)
    assert np.ptp(made[-1]) > 1.0


def test_on_text_support_vector_machines_are_a_member_of_the_mixture(many_rows, tmp_path):
    X, y = many_rows
    X, y, T = X[:8192], y[:8192], X[8192 - 500 :]
    model = FisherDiscriminant(head="mixture").fit(X, y)
    known = model.freeze()
    head, points = known.head, known.seen_points(T)
    assert head.weights[-1] > 0.01
    others = replace(head, trained=None).scores(points)
    np.testing.assert_allclose(head.scores(points), others + head.weights[-1] * head.trained.scores(points), atol=1e-9)
    single = FisherDiscriminant(head="hinge").fit(X, y)
    assert model.choice_.heads["mixture"] < single.choice_.heads["hinge"] + 1e-3
    model.save(tmp_path / "model.kampong")
    np.testing.assert_array_equal(load(tmp_path / "model.kampong").predict_proba(T), model.predict_proba(T))
    np.testing.assert_allclose(model.to_sklearn(sparse=True).predict_proba(T), model.predict_proba(T), atol=1e-10)
    streamed = FisherDiscriminant(head="mixture").partial_fit(X, y)
    np.testing.assert_allclose(streamed.predict_proba(T), model.predict_proba(T), atol=1e-6)
    known = streamed.freeze()
    kept = streamed.partial_fit(X[:50], y[:50]).freeze(keep=known)
    assert kept.head.trained is not None
    losses = [-np.log(one.probabilities(X)[np.arange(len(y)), y]).mean() for one in (kept, known)]
    assert abs(losses[0] - losses[1]) < 0.02
    assert np.log(6) - losses[1] > 0.05  # something was learnt that could be lost


def test_a_mixture_with_support_vector_machines_leaves_for_other_runtimes(many_rows):
    onnxruntime = pytest.importorskip("onnxruntime")
    adapter = pytest.importorskip("kampong.adapters.onnx")
    X, y = many_rows
    model = FisherDiscriminant(head="mixture").fit(X, y)
    rows = X[:50].toarray().astype(np.float32)
    session = onnxruntime.InferenceSession(adapter.to_onnx(model).SerializeToString())
    chances = session.run(None, {"X": rows})[1]
    np.testing.assert_allclose(chances, model.predict_proba(rows.astype(np.float64)), atol=1e-6)


def test_kernel_sums_without_some_rows_are_those_of_the_others():
    X, y, _, _ = halves()
    model = KernelMarginSubspace(landmarks=40, head="best").fit(X, y)
    everything = model._statistics
    sample = everything.sample(2048)
    fold = np.arange(0, sample.rows.shape[0], 3)
    held = TrainingStatistics(everything, sample, fold)
    rows, codes = np.asarray(sample.rows), sample.members.codes
    others = np.setdiff1d(np.arange(len(codes)), fold)
    means = np.array([rows[others][codes[others] == k].mean(axis=0) for k in range(10)])
    np.testing.assert_allclose(held.means, means, atol=1e-8)
    centred = rows[others] - means[codes[others]]
    block = np.random.default_rng(0).normal(size=(rows.shape[1], 3))
    np.testing.assert_allclose(held.within_times(block), centred.T @ (centred @ block) / len(others), atol=1e-8)


def test_the_rows_of_a_fit_are_drawn_without_being_copied():
    X, y, _, _ = halves()
    weights = np.tile([0.0, 1.0, 2.0], 400)
    statistics = ClassRows(64).update(sparse.csr_array(X), y, weights)
    sample = statistics.sample(300)
    places, codes, own = statistics.drawn(300)
    np.testing.assert_array_equal(sample.rows.toarray(), X[places])
    np.testing.assert_array_equal(codes, y[places])
    np.testing.assert_array_equal(own, weights[places])
    assert own.min() > 0
    np.testing.assert_array_equal(own, sample.own)


# Several labels per row.


def labelled(seed=0, rows=4000, labels=4):
    """Return rows with independent labels of different frequency, each by a line that is not through the mean."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 12))
    slopes = rng.normal(size=(labels, 12))
    Y = (X @ slopes.T + rng.normal(size=(rows, labels)) > np.linspace(-1.0, 4.0, labels)).astype(int)
    has = Y.any(axis=1)
    return X[has], Y[has]


def label_loss(model, T, S):
    chances = np.clip(model.predict_proba(T), 1e-12, 1 - 1e-12)
    return -np.mean(S * np.log(chances) + (1 - S) * np.log(1 - chances))


@quiet
@pytest.mark.parametrize(
    "model", [FisherDiscriminant(), MarginSubspace(epsilon="auto"), InterClassScatter(head="best")], ids=str
)
def test_heads_of_several_labels_are_calibrated_and_chosen(model, tmp_path):
    X, Y = labelled()
    half = len(X) // 2
    plain = FisherDiscriminant(ridge=0.1).fit(X[:half], Y[:half])
    model = clone(model).fit(X[:half], Y[:half])
    assert set(model.choice_.heads) == {"gaussian", "logistic"}
    assert model.choice_.heads[model.head_] <= 1.002 * min(model.choice_.heads.values())
    assert label_loss(model, X[half:], Y[half:]) < label_loss(plain, X[half:], Y[half:])
    mean = model.predict_proba(X[half:]).mean(axis=0)
    np.testing.assert_allclose(mean, Y[half:].mean(axis=0), atol=0.04)
    model.save(tmp_path / "model.kampong")
    np.testing.assert_array_equal(load(tmp_path / "model.kampong").predict_proba(X), model.predict_proba(X))
    stream = clone(model).partial_fit(X[:half], Y[:half])
    before = stream.freeze()
    stream.partial_fit(X[half : half + 50], Y[half : half + 50])
    kept = stream.freeze(keep=before)
    assert kept.head.name == before.head.name
    assert np.abs(kept.probabilities(X) - before.probabilities(X)).max() < 0.3


def test_logistic_regression_of_each_label_is_that_of_a_peer():
    X, Y = labelled(1)
    X = X / X.std(axis=0)
    theta = fit_labels(X, np.asarray(Y, dtype=float), np.ones(len(X)), 1e-3)
    for label in range(Y.shape[1]):
        peer = LogisticRegression(C=1.0 / (len(X) * 1e-3), tol=1e-10, max_iter=1000).fit(X, Y[:, label])
        np.testing.assert_allclose(theta[label, :-1], peer.coef_[0], atol=5e-3)
    everybody = np.hstack([np.ones((len(X), 1)), np.zeros((len(X), 1)), Y[:, :1]])
    theta = fit_labels(X, everybody, np.ones(len(X)), 1e-3)
    assert theta[0, -1] == np.inf
    assert theta[1, -1] == -np.inf
    assert np.isfinite(theta[2]).all()


def test_the_calibration_of_labels_is_the_least_loss():
    rng = np.random.default_rng(0)
    scores = rng.normal(size=(400, 3)) * 2
    truth = (rng.random((400, 3)) < special.expit(0.4 * scores - 0.8)).astype(float)
    b, c, loss = fit_odds(scores, truth, np.ones(400))
    assert b == pytest.approx(0.4, abs=0.1)
    assert c == pytest.approx(-0.8, abs=0.15)
    for other in ((b + 0.05, c), (b - 0.05, c), (b, c + 0.05), (b, c - 0.05)):
        logs = special.log_expit(np.where(truth > 0, other[0] * scores + other[1], -other[0] * scores - other[1]))
        assert -logs.mean() > loss


@quiet
def test_rows_without_labels_leave_the_head_as_it_is():
    X, Y = labelled(2)
    Y[:200] = 0
    assert FisherDiscriminant().fit(X, Y).choice_.heads == {}


def test_a_head_learns_from_the_coordinates_that_it_will_see(monkeypatch):
    """Rows left out one by one lie where how far they moved would tell their class: no head must learn that."""
    X, y = load_digits(return_X_y=True)
    X = X[:, :40]
    taught = []
    train = leave_one_out.left_out_path
    monkeypatch.setattr(leave_one_out, "left_out_path", lambda *a: taught.append(a[0]) or train(*a))
    model = FisherDiscriminant(head="logistic").fit(X, y)
    seen = model.freeze().seen_points(X)
    for place in range(seen.shape[1]):
        np.testing.assert_allclose(np.sort(taught[-1][:, place]), np.sort(seen[:, place]), atol=1e-8)
