"""Callbacks of scikit-learn, from its version 1.9 on: what they hear of a fit, the model they see, and ending a fit."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning

from kampong import (
    FisherDiscriminant,
    InterClassScatter,
    KernelFisherDiscriminant,
    KernelMarginSubspace,
    MarginSubspace,
    MaximumMarginDiscriminant,
)
from kampong.estimators import kernel_subspace as kernel_subspace
from kampong.estimators import rounds as linear_rounds
from kampong.margin import CoreVectorClassifier, MaxMinOverClassifier, MinOverClassifier
from kampong.margin import problem as problem_module

callback = pytest.importorskip("sklearn.callback", reason="this scikit-learn has no callbacks")


@pytest.fixture(autouse=True)
def several_rounds(monkeypatch):
    """Have a small fit take several rounds."""
    monkeypatch.setattr(problem_module, "SMALL", 16)
    monkeypatch.setattr(kernel_subspace, "VALUES_BYTES", 1)
    monkeypatch.setattr(linear_rounds, "ROUNDS", 15)


def overlapping(seed=0, n=120, classes=2):
    return make_classification(
        n, 6, n_informative=4, n_classes=classes, n_clusters_per_class=1, class_sep=0.7, random_state=seed
    )


class Recorder:
    """Notes what it is told, and asks for the end after some rounds."""

    def __init__(self, rounds=10**9):
        self.rounds, self.events, self.models = rounds, [], []

    def setup(self, estimator, context):
        self.events.append(("setup", context.task_name))

    def teardown(self, estimator, context):
        self.events.append(("teardown", context.task_name))

    def on_fit_task_begin(self, estimator, context):
        self.events.append(("begin", context.task_name))

    def on_fit_task_end(self, estimator, context, *, fitted_estimator=None):
        self.events.append(("end", context.task_name))
        self.models.append(fitted_estimator)
        return context.task_name != "fit" and len(self.models) >= self.rounds


MARGIN = [
    CoreVectorClassifier(tol=1e-4),
    MaxMinOverClassifier(nu=0.2, tol=1e-4),
    MinOverClassifier(gamma=5.0, tol=1e-4),
    MinOverClassifier(gamma=5.0, tol=0.1, walk="paper"),
    MaxMinOverClassifier(gamma=5.0, tol=0.1, walk="paper"),
    MaximumMarginDiscriminant(2, tol=1e-4),
    MaximumMarginDiscriminant(2, tol=1e-4, orthogonal="all"),
]
LANDMARKS = [KernelFisherDiscriminant(landmarks=40), KernelMarginSubspace(landmarks=40, epsilon=0.1)]


LINEAR = [
    FisherDiscriminant(),
    FisherDiscriminant(half_life=100.0, ridge=0.1),
    InterClassScatter(),
    MarginSubspace(1, epsilon=0.1),
]


def independent(seed, n, classes):
    """Return overlapping classes whose columns do not depend on each other."""
    X, y = overlapping(seed, n, classes)
    return X + 0.3 * np.random.default_rng(seed).standard_normal(X.shape), y


@pytest.mark.parametrize("model", LINEAR)
@pytest.mark.parametrize("classes", [2, 3])
def test_linear_fits_are_heard_of_in_parts_of_the_rows(model, classes):
    X, y = independent(1, 150, classes)
    quiet, recorder = clone(model).fit(X, y), Recorder()
    watched = clone(model).set_callbacks(recorder).fit(X, y)
    np.testing.assert_allclose(watched.decision_function(X), quiet.decision_function(X), rtol=1e-6, atol=1e-8)
    rounds = recorder.events[2:-2]
    assert rounds == [("begin", "rows"), ("end", "rows")] * 15
    for place, partial in enumerate(recorder.models[:-1]):
        assert partial.n_samples_seen_ == 10 * (place + 1)
        assert np.isfinite(partial.decision_function(X)).all()
    assert recorder.models[-1].score(X, y) == quiet.score(X, y)
    one = clone(model).fit(X[:70], y[:70])
    same = recorder.models[6].decision_function(X)
    if not isinstance(model, InterClassScatter):  # whose head is measured on rows in memory
        np.testing.assert_allclose(same, one.decision_function(X), rtol=1e-6, atol=1e-8)
    assert not hasattr(watched, "_callback_fit_ctx")


def test_rows_in_order_of_their_classes_are_one_round_until_there_are_two():
    X, y = independent(1, 150, 3)
    order, recorder = np.argsort(y, kind="stable"), Recorder()
    FisherDiscriminant().set_callbacks(recorder).fit(X[order], y[order])
    first = np.searchsorted(y[order], 1) // 10 + 1
    assert recorder.models[0].n_samples_seen_ == 10 * first
    assert len(recorder.models) == 1 + 15 - first + 1


@pytest.mark.parametrize("model", LINEAR)
def test_a_callback_may_end_a_linear_fit(model):
    X, y = independent(1, 150, 3)
    weights = np.linspace(0.5, 2.0, 150)
    with pytest.warns(ConvergenceWarning, match="a callback ended it after 50 of 150 rows"):
        ended = clone(model).set_callbacks(Recorder(rounds=5)).fit(X, y, sample_weight=weights)
    assert ended.n_samples_seen_ == 50
    expected = clone(model).fit(X[:50], y[:50], sample_weight=weights[:50])
    np.testing.assert_allclose(ended.predict_proba(X), expected.predict_proba(X), rtol=1e-6, atol=1e-8)


def test_wide_rows_in_hand_are_one_round():
    X, y = independent(1, 150, 3)
    recorder = Recorder()
    model = FisherDiscriminant(solver="resolvent").set_callbacks(recorder).fit(X, y)
    assert recorder.events[2:-2] == [("begin", "rows"), ("end", "rows")]
    np.testing.assert_array_equal(model.predict(X), FisherDiscriminant(solver="resolvent").fit(X, y).predict(X))


@pytest.mark.parametrize("model", [*MARGIN, *LANDMARKS])
@pytest.mark.parametrize("classes", [2, 3])
def test_callbacks_hear_of_every_round_and_see_the_model(model, classes):
    X, y = overlapping(1, 150, classes)
    quiet, recorder = clone(model).fit(X, y), Recorder()
    watched = clone(model).set_callbacks(recorder).fit(X, y)
    np.testing.assert_array_equal(watched.decision_function(X), quiet.decision_function(X))
    rounds, task = recorder.events[2:-2], "round" if hasattr(model, "tol") else "rows"
    assert [*recorder.events[:2], *recorder.events[-2:]] == [
        ("setup", "fit"),
        ("begin", "fit"),
        ("end", "fit"),
        ("teardown", "fit"),
    ]
    assert len(rounds) >= 4
    assert rounds == [("begin", task), ("end", task)] * (len(rounds) // 2)
    for partial in recorder.models:
        assert np.isfinite(partial.decision_function(X)).all()
    assert recorder.models[-2].score(X, y) > recorder.models[0].score(X, y) - 0.05
    np.testing.assert_allclose(recorder.models[-1].decision_function(X), quiet.decision_function(X))
    assert not hasattr(watched, "_callback_fit_ctx")


def test_a_callback_sees_features_of_earlier_rounds_as_they_will_stay():
    X, y = overlapping(1, 150, 3)
    recorder = Recorder()
    model = MaximumMarginDiscriminant(3).set_callbacks(recorder)
    Z = model.fit_transform(X, y)
    counts = [partial.features_.shape[0] for partial in recorder.models]
    assert counts == sorted(counts)
    assert {3, 6, 9} <= set(counts)
    two = next(partial for partial in reversed(recorder.models) if partial.features_.shape[0] == 6)
    np.testing.assert_allclose(two.transform(X)[:, ::2], Z[:, ::3], atol=1e-10)


@pytest.mark.parametrize("model", MARGIN)
def test_a_callback_may_end_the_fit(model):
    X, y = overlapping(1, 150, 3)
    recorder = Recorder(rounds=1)
    with pytest.warns(ConvergenceWarning, match="interrupted; the hyperplane reached so far is kept"):
        ended = clone(model).set_callbacks(recorder).fit(X, y)
    assert recorder.events.count(("end", "round")) == 1
    assert recorder.events[-1] == ("teardown", "fit")
    assert "interrupted" in ended.status_
    assert np.isfinite(ended.decision_function(X)).all()


@pytest.mark.parametrize("model", LANDMARKS)
def test_a_callback_may_end_the_fit_after_some_of_the_rows(model):
    X, y = overlapping(1, 150, 3)
    model = clone(model).set_params(scale=False)
    with pytest.warns(ConvergenceWarning, match="a callback ended it after 50 of 150 rows"):
        ended = clone(model).set_callbacks(Recorder(rounds=1)).fit(X, y)
    assert ended.n_samples_seen_ == 50
    # which rows come first is a matter of their content, so the test asks where the library asks
    part = np.argsort(kernel_subspace._numbered(X, y, np.ones(len(y)))[1])[::3]
    expected = clone(model).set_params(landmarks=ended.landmarks_, gamma=ended.gamma_).fit(X[part], y[part])
    np.testing.assert_allclose(ended.transform(X), expected.transform(X), atol=1e-8)


@pytest.mark.parametrize(
    "model", [CoreVectorClassifier(tol=1e-3), MaximumMarginDiscriminant(2), LANDMARKS[0], *LINEAR[:2]]
)
def test_the_progress_bar_and_the_scores_of_scikit_learn(capsys, model):
    pytest.importorskip("rich", reason="scikit-learn's progress bar needs rich")
    X, y = overlapping(1, 150, 3)
    monitor = callback.ScoringMonitor(scoring="accuracy")
    model = clone(model).set_callbacks(callback.ProgressBar(), monitor).fit(X, y)
    assert f"{type(model).__name__} - fit" in capsys.readouterr().out
    scores = [entry["accuracy"] for entry in monitor.get_logs().data]
    assert len(scores) >= 3
    assert scores[-1] == model.score(X, y)
