"""The frozen predictor: what it answers, when it is made, and what it does where classes allow fewer directions."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from scipy.special import log_softmax
from sklearn.base import clone
from sklearn.datasets import load_digits, load_iris, load_wine

import kampong
from kampong import (
    CriterionWarning,
    FisherDiscriminant,
    InterClassScatter,
    KernelFisherDiscriminant,
    KernelMarginSubspace,
    MarginSubspace,
    SupervisedKampongMeasure,
    predictor,
)
from kampong import build as module
from kampong._core.compute import project
from kampong.datasets import sparse_text
from kampong.heads import HEADS
from linear_models import MODELS, quiet
from problems import problem
from reference_linear import largest_angle


def total_scatter(X):
    centred = X - X.mean(axis=0)
    return centred.T @ centred / len(X)


@pytest.mark.parametrize(
    "model", [InterClassScatter(4), SupervisedKampongMeasure(4, a=1), MarginSubspace(4, epsilon=0)]
)
@pytest.mark.parametrize("solver", ["auto", "scatter", "resolvent"])
def test_past_the_classes_the_leading_directions_of_the_total_scatter_follow(model, solver):
    X, y = problem(3, classes=2, rows=60, features=6)
    with pytest.warns(CriterionWarning, match="1 of the 4 directions raise.*indifferent to the others.*S_t in what is"):
        found = clone(model).set_params(solver=solver).fit(X, y).components_
    np.testing.assert_allclose(found @ found.T, np.eye(4), atol=1e-10)
    step = X[y == 1].mean(axis=0) - X[y == 0].mean(axis=0)
    step /= np.linalg.norm(step)
    assert abs(found[0] @ step) == pytest.approx(1.0, abs=1e-10)
    outside = np.eye(6) - np.outer(step, step)
    _, vectors = np.linalg.eigh(outside @ total_scatter(X) @ outside)
    for place in range(1, 4):
        assert abs(found[place] @ vectors[:, -place]) == pytest.approx(1.0, abs=1e-8)


def test_past_the_classes_of_wide_rows():
    X, y = sparse_text(200, 9000, n_classes=2, random_state=0)
    with pytest.warns(CriterionWarning, match="1 of the 3 directions"):
        model = InterClassScatter(3).fit(X, y)
    dense = X.toarray()
    step = dense[y == 1].mean(axis=0) - dense[y == 0].mean(axis=0)
    step /= np.linalg.norm(step)
    centred = dense - dense.mean(axis=0)
    centred -= np.outer(centred @ step, step)
    _, _, rows = np.linalg.svd(centred, full_matrices=False)
    assert largest_angle(model.components_[1:], rows[:2]) < 1e-6
    np.testing.assert_array_equal(model.eigenvalues_[1:], 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.partial_fit(X, y)  # the class means are all that S_b needs to go on


def test_fisher_names_the_most_that_there_are():
    X, y = load_wine(return_X_y=True)
    with pytest.raises(
        ValueError, match=r"n_components=3, but 3 classes have at most K − 1 = 2 directions. Ask for at m"
    ):
        FisherDiscriminant(3).fit(X, y)


def shown_so_far(model, X, y, classes=None):
    with pytest.warns(
        CriterionWarning, match=r"2 classes have been seen so far, which have 1 of the 3 .*others are zero"
    ):
        points = model.partial_fit(X, y, classes=classes).transform(X)
    assert points.shape == (len(X), 3)
    assert (points[:, 0] != 0).any()
    np.testing.assert_array_equal(points[:, 1:], 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # said once
        assert set(model.partial_fit(X, y).predict(X)) <= set(y)
    return model


@pytest.mark.parametrize("model", [InterClassScatter(3), FisherDiscriminant(3), FisherDiscriminant(3, ridge="rule")])
@pytest.mark.parametrize("classes", [None, [0, 1, 2, 3]])
def test_a_stream_has_as_many_directions_as_its_classes_and_grows(model, classes):
    X, y = problem(5, classes=4, rows=200, features=6)
    early = y < 2
    model = shown_so_far(clone(model), X[early], y[early], classes)
    model.partial_fit(X[~early], y[~early])
    twice = clone(model).partial_fit(
        np.concatenate([X[early], X[early], X[~early]]), np.r_[y[early], y[early], y[~early]]
    )
    assert largest_angle(model.components_, twice.components_) < 1e-7
    assert np.linalg.matrix_rank(model.transform(X)) == 3


def test_a_wide_stream_too():
    X, y = sparse_text(300, 9000, n_classes=4, random_state=0)
    early = np.flatnonzero(y < 2)
    model = shown_so_far(MarginSubspace(3, epsilon=0.01), X[early].toarray(), y[early])
    assert model.solver_ == "reservoir"


def test_kernel_streams_too():
    X, y = problem(5, classes=4, rows=200, features=6)
    early = y < 2
    model = KernelFisherDiscriminant(3, landmarks=40)
    shown_so_far(model, X[early], y[early])
    assert np.linalg.matrix_rank(model.partial_fit(X, y).transform(X)) == 3


FITTED = [
    *MODELS,
    FisherDiscriminant(solver="resolvent"),
    KernelFisherDiscriminant(landmarks=30),
    KernelMarginSubspace(landmarks=30, epsilon=0.1),
]


def count_solves(monkeypatch):
    calls = []
    for name in ("solve", "choose_parameter"):
        original = getattr(module, name)

        def counted(*a, original=original, name=name, **k):
            calls.append(name)
            return original(*a, **k)

        monkeypatch.setattr(module, name, counted)
    return calls


@quiet
@pytest.mark.parametrize("model", FITTED, ids=str)
@pytest.mark.parametrize("streamed", [False, True])
def test_a_loaded_model_answers_with_the_same_bits_and_solves_nothing(model, streamed, tmp_path, monkeypatch):
    if streamed and getattr(model, "solver", "") == "resolvent":
        pytest.skip("a stream has no rows in memory")
    X, y = load_iris(return_X_y=True)
    model = clone(model).partial_fit(X, y) if streamed else clone(model).fit(X, y)
    model.save(tmp_path / "model")
    loaded = kampong.load(tmp_path / "model")
    calls = count_solves(monkeypatch)
    reads = ("transform", "predict", "predict_proba", "decision_function")
    for read in reads:
        np.testing.assert_array_equal(getattr(loaded, read)(X), getattr(model, read)(X))
    for name in ("components_", "eigenvalues_", "criterion_ratio_", "solver_", "solver_reason_", "head_", "n_steps_"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(model, name))
    assert calls == []
    assert (loaded.choice_ is None) == (model.choice_ is None)


@quiet
def test_a_frozen_predictor_stays_while_its_model_learns():
    X, y = load_digits(return_X_y=True)
    model = FisherDiscriminant(ridge="rule").partial_fit(X[:600], y[:600])
    frozen = model.freeze()
    points, labels = frozen.answers(X)
    model.partial_fit(X[600:], y[600:]).predict(X)
    np.testing.assert_array_equal(frozen.points(X), points)
    np.testing.assert_array_equal(frozen.answers(X)[1], labels)
    assert frozen.n_rows == 600
    assert model.freeze().n_rows == len(X)
    assert model.freeze() is model.freeze()


def test_what_is_to_be_said_is_said_by_the_loaded_model_too(tmp_path):
    X, y = load_iris(return_X_y=True)
    model = MarginSubspace(3).partial_fit(X, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.save(tmp_path / "model")  # nothing was read: nothing is said
    with pytest.warns(CriterionWarning, match="1 of the 3 directions raise"):
        kampong.load(tmp_path / "model").transform(X)


def test_a_model_of_one_class_can_be_saved(tmp_path):
    X = np.eye(3)
    FisherDiscriminant().partial_fit(X, [0, 0, 0]).save(tmp_path / "model")
    loaded = kampong.load(tmp_path / "model")
    assert loaded.freeze() is None
    loaded.partial_fit(sparse.csr_array(X) * 2.0, [1, 1, 1])
    assert loaded.predict(X).shape == (3,)


@pytest.mark.parametrize("rows", [0, 1, 5, 400])
def test_a_few_sparse_rows_have_the_coordinates_of_many(rows):
    """Few rows are projected with the columns that occur in them alone: the same sums, bit for bit."""
    rng = np.random.default_rng(0)
    X = sparse.csr_array(rng.random((400, 900)) * (rng.random((400, 900)) < 0.01))
    components, offset = rng.normal(size=(7, 900)), rng.normal(size=900)
    many = project(X, components, offset)
    np.testing.assert_array_equal(project(X[:rows], components, offset), many[:rows])
    np.testing.assert_array_equal(project(X[:rows], components, offset, centre=offset @ components.T), many[:rows])
    np.testing.assert_allclose(many, (X.toarray() - offset) @ components.T, atol=1e-12)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, lambda X: X.astype(np.float32)])
@pytest.mark.parametrize("priors", ["observed", "uniform"])
def test_linear_scores_read_a_row_once_and_say_what_directions_and_head_say(form, priors, monkeypatch):
    X, y = load_wine(return_X_y=True)
    rows = form(X)
    model = FisherDiscriminant(ridge=1e-3, priors=priors).fit(X, y)
    known = model.freeze()
    further = np.random.default_rng(0).normal(size=(4, 13))
    weights = np.random.default_rng(1).normal(size=(3, 6))
    head = HEADS["logistic"](False, weights, np.array([0.3, -0.2, 0.1]), 1e-3, sharpness=0.7)
    known = replace(known, hidden=further, head=head)
    seen = (X - known.mean) @ np.concatenate([known.components, further]).T
    expected = seen @ weights.T + head.offsets + (0.0 if known.shift is None else known.shift / 0.7)
    widths = []
    monkeypatch.setattr(
        predictor, "project", lambda X, W, *more, **named: widths.append(len(W)) or project(X, W, *more)
    )
    close = {"rtol": 1e-4, "atol": 1e-2} if rows.dtype == np.float32 else {"rtol": 1e-9, "atol": 1e-8}
    np.testing.assert_allclose(known.scores(rows), expected, **close)
    logs = log_softmax(0.7 * expected, axis=1)
    np.testing.assert_allclose(known.log_probabilities(rows), logs, **close)
    np.testing.assert_allclose(known.probabilities(rows), np.exp(logs), **close)
    np.testing.assert_array_equal(known.labels(rows), known.classes[np.argmax(expected, axis=1)])
    assert widths == [3, 3, 3, 3]  # one product of as many columns as classes for each of the four
    points, labels = known.answers(rows)
    np.testing.assert_allclose(points, seen[:, :2], **close)
    np.testing.assert_array_equal(labels, known.labels(rows))
