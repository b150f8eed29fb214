"""Heads that are trained on rows: what they see, and that their weights are those of the problem they state."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special
from sklearn.linear_model import LogisticRegression

from kampong import FisherDiscriminant, load


def many_columns(seed=0, rows=1200, features=70, classes=3):
    """Return rows whose classes differ in means and in columns that hardly vary."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, rows)
    scales = 10.0 ** rng.uniform(-1.5, 0.5, features)
    means = rng.normal(size=(classes, features)) * 0.35
    return (means[y] + rng.normal(size=(rows, features))) * scales, y


def test_past_64_columns_logistic_regression_sees_all_of_them_with_the_penalty_it_states():
    X, y = many_columns()
    model = FisherDiscriminant(head="logistic").fit(X, y)
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
    model = FisherDiscriminant(head="logistic").partial_fit(X[:1100], y[:1100])
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
