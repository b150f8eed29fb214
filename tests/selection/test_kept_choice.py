"""A predictor made again from later statistics with everything that was chosen kept: right, cheap and pure."""

import copy

import numpy as np
import pytest
from sklearn.datasets import load_digits, load_wine

import kampong
from kampong import (
    FisherDiscriminant,
    InterClassScatter,
    KernelFisherDiscriminant,
    MarginSubspace,
    SupervisedKampongMeasure,
)
from kampong import build as module
from kampong.datasets import sparse_text
from kampong.heads import logistic
from linear_models import quiet

DIGITS = load_digits(return_X_y=True)
HEADS = ["gaussian", "nearest_mean", "cosine", "regression", "mixture", "quadratic", "logistic", "hinge", "auto"]


def forbid_the_choice(monkeypatch):
    def refuse(*_):
        raise AssertionError("something was chosen")

    for name in ("_choose", "LeaveOneOut", "choose_parameter"):
        monkeypatch.setattr(module, name, refuse)


@pytest.mark.parametrize("head", HEADS)
def test_what_was_chosen_is_kept_and_nothing_is_tried(head, monkeypatch):
    X, y = DIGITS
    model = FisherDiscriminant(head=head).partial_fit(X[:900], y[:900])
    first = model.freeze()
    model.partial_fit(X[900:1400], y[900:1400])
    forbid_the_choice(monkeypatch)
    kept = model.freeze(keep=first)
    assert kept.head.name == first.head.name
    assert kept.criterion == first.criterion
    assert kept.choice == first.choice
    assert (kept.head.sharpness, kept.head.tail) == (first.head.sharpness, first.head.tail)
    assert kept.n_rows == 1400
    right = [(one.answers(X[1400:])[1] == y[1400:]).mean() for one in (first, kept)]
    assert right[1] > max(right[0] - 0.01, 0.85)


@pytest.mark.parametrize("head", ["gaussian", "nearest_mean", "cosine"])
def test_it_is_the_fit_of_all_rows_with_the_same_ridge(head):
    X, y = DIGITS
    model = FisherDiscriminant(head=head).partial_fit(X[:900], y[:900])
    first = model.freeze()
    kept = model.partial_fit(X[900:], y[900:]).freeze(keep=first)
    given = FisherDiscriminant(ridge=first.criterion.value, head=head).fit(X, y).freeze()
    np.testing.assert_allclose(kept.scores(X), given.scores(X), rtol=1e-7, atol=1e-7)
    assert kept.head.sharpness != given.head.sharpness


@pytest.mark.parametrize("head", HEADS)
def test_without_new_rows_it_answers_as_before(head):
    X, y = DIGITS
    model = FisherDiscriminant(head=head).partial_fit(X[:1200], y[:1200])
    first = model.freeze()
    kept = model.freeze(keep=first)
    agree = (kept.answers(X)[1] == first.answers(X)[1]).mean()
    assert agree > 0.99
    if not first.head.reads_sample:  # else it is trained on the sample again
        np.testing.assert_allclose(kept.scores(X), first.scores(X), rtol=1e-6, atol=1e-8)


def test_logistic_weights_go_with_the_coordinates(monkeypatch):
    X, y = DIGITS
    X = X[:, X.std(axis=0) > 1]  # fewer than 64 columns: all directions are seen, so nothing is lost on the way
    model = FisherDiscriminant(head="logistic").partial_fit(X[:900], y[:900])
    first = model.freeze()
    assert first.components.shape[0] + first.hidden.shape[0] == X.shape[1]
    model.partial_fit(X[900:], y[900:])
    monkeypatch.setattr(logistic, "STEPS", 0)
    kept = model.freeze(keep=first)
    assert not np.allclose(kept.components, first.components, rtol=1e-3)
    np.testing.assert_allclose(kept.scores(X), first.scores(X), rtol=1e-6, atol=1e-6)


@quiet
@pytest.mark.parametrize("head", HEADS)
def test_a_class_that_came_since_is_predicted(head):
    X, y = DIGITS
    early = y[:1200] < 9
    model = FisherDiscriminant(head=head).partial_fit(X[:1200][early], y[:1200][early])
    first = model.freeze()
    model.partial_fit(X[:1200][~early], y[:1200][~early])
    kept = model.freeze(keep=first)
    nines = X[1200:][y[1200:] == 9]
    assert (kept.answers(nines)[1] == 9).mean() > 0.6
    assert (kept.answers(X[1200:])[1] == y[1200:]).mean() > 0.8


@pytest.mark.parametrize("head", ["quadratic", "logistic", "hinge", "auto"])
def test_it_follows_from_statistics_and_predictor_alone(head, tmp_path):
    X, y = DIGITS
    models = [FisherDiscriminant(head=head).partial_fit(X[:900], y[:900]) for _ in range(2)]
    first = models[0].freeze()
    for model in models:
        model.partial_fit(X[900:], y[900:])
    models[1].predict(X)  # a read in between
    models[1].save(tmp_path / "model")
    kept = [model.freeze(keep=first) for model in (*models, kampong.load(tmp_path / "model"))]
    for other in kept[1:]:
        np.testing.assert_array_equal(other.scores(X), kept[0].scores(X))
    assert models[0]._predictor is None


@quiet
@pytest.mark.parametrize(
    "model",
    [
        MarginSubspace(epsilon="auto"),
        MarginSubspace(epsilon=0.1),
        SupervisedKampongMeasure(a="auto"),
        InterClassScatter(),
        FisherDiscriminant(ridge="rule"),
        FisherDiscriminant(ridge=0.1, head="gaussian"),
        KernelFisherDiscriminant(landmarks=60),
    ],
    ids=str,
)
def test_every_estimator_can(model):
    X, y = load_wine(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    order = np.random.default_rng(0).permutation(len(y))
    X, y = X[order], y[order]
    model.partial_fit(X[:100], y[:100])
    first = model.freeze()
    kept = model.partial_fit(X[100:], y[100:]).freeze(keep=first)
    assert (kept.answers(X)[1] == y).mean() > 0.9
    assert kept.choice == first.choice


def test_a_wide_stream_too(monkeypatch):
    X, y = sparse_text(3000, 9000, 60, n_classes=5, random_state=0)
    model = FisherDiscriminant().partial_fit(X[:1000], y[:1000])
    first, states = model.freeze(), [copy.deepcopy(model._statistics)]
    model.partial_fit(X[1000:2000], y[1000:2000])
    forbid_the_choice(monkeypatch)
    kept = model.freeze(keep=first)
    states.append(model._statistics)
    assert kept.n_steps == first.n_steps
    usual = [type(one.criterion).usual(statistics) for one, statistics in zip((first, kept), states, strict=True)]
    ratio = kept.criterion.value / first.criterion.value
    np.testing.assert_allclose(ratio, usual[1] / usual[0])  # a ridge is chosen in units of tr S_w over the weight
    assert 0.3 < ratio < 0.7
    covariance = kept.components @ model._statistics.within_times(np.ascontiguousarray(kept.components.T))
    lifted = covariance + kept.criterion.value * kept.components @ kept.components.T
    np.testing.assert_allclose(lifted, np.eye(len(lifted)), atol=1e-8)
    right = [(one.answers(X[2000:])[1] == y[2000:]).mean() for one in (first, kept)]
    assert right[1] > right[0] + 0.02  # it has learnt from the rows since


def test_a_predictor_of_another_model_is_refused():
    X, y = load_wine(return_X_y=True)
    other = FisherDiscriminant().fit(X[:, :5], y).freeze()
    with pytest.raises(ValueError, match=r"FisherDiscriminant.freeze: keep is a predictor of 5 features and"):
        FisherDiscriminant().fit(X, y).freeze(keep=other)
