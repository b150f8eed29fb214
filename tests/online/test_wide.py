"""The learner of wide rows beside its formula, as a naive loop of NumPy."""

import numpy as np
import pytest
from scipy import sparse

from kampong.online.members import Rows
from kampong.online.members.wide import WideSoftmax
from kampong.online.settings import Settings
from reference_online import softmax

COLUMNS = 40


def stream(classes, seed=0):
    """Return sparse rows, one of them empty, their classes as they came, and weights, some of them 0."""
    rng = np.random.default_rng(seed)
    n = 4 * classes + 30
    X = rng.normal(size=(n, COLUMNS)) * (rng.random((n, COLUMNS)) < 0.2)
    X[7] = 0.0
    codes = np.minimum(rng.integers(0, classes, n), np.arange(n))
    codes[:classes] = np.arange(classes)
    return X, codes, rng.exponential(size=n) * (rng.random(n) < 0.9)


def rows_of(X, codes, weights):
    """Return rows as members read them."""
    matrix, learn = sparse.csr_array(X), weights > 0
    known = np.append(0, np.maximum.accumulate(np.where(learn, codes + 1, 0)))[:-1]
    parts = [matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64), matrix.data]
    nothing = np.zeros((0, 0)), np.zeros(1, dtype=np.int64)
    return Rows(*nothing, *parts, codes, known, weights, learn, nothing[0])


def naive(X, codes, weights, rate):
    """Return the scores of rows before each is learnt, row after row: adaptive steps as Duchi et al. write them."""
    classes = codes.max() + 1
    W, squares, known, found = np.zeros((classes, 1 + X.shape[1])), np.zeros(1 + X.shape[1]), 0, []
    for x, code, weight in zip(X, codes, weights, strict=True):
        row = np.append(1.0, x / (np.linalg.norm(x) or 1.0))
        found.append(np.where(np.arange(classes) < known, W @ row, 0.0))
        if weight > 0:
            known = max(known, code + 1)
            error = softmax(W[:known] @ row) - np.eye(known)[code]
            gradient = weight * np.outer(error, row)
            squares += np.square(gradient).sum(axis=0)
            root = np.sqrt(np.where(squares > 0, squares / known, 1.0))  # of the mean over the classes
            W[:known] -= rate * gradient / root
    return np.array(found), W


@pytest.mark.parametrize("classes", [1, 2, 3, 40])
def test_steps_are_those_of_adaptive_gradients(classes):
    X, codes, weights = stream(classes)
    weights[:classes] = 1.0
    member = WideSoftmax(Settings(), 0)
    member.resize(COLUMNS, classes)
    scores = np.zeros((1, len(X), classes))
    member.step(rows_of(X, codes, weights), scores)
    expected, W = naive(X, codes, weights, Settings().wide_rate)
    np.testing.assert_allclose(scores[0], expected, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(member.arrays["weights"].T, W, rtol=1e-9, atol=1e-11)


def test_one_learning_rate_serves_few_classes_and_many():
    """The first step moves the score of the right class of a row by as much however many classes there may be."""
    moved = []
    for classes in (2, 50):
        member = WideSoftmax(Settings(), 0)
        member.resize(1, classes)
        member.arrays["squares"][:] = 100.0 * classes  # as if each class had had as much gradient
        X, weights = np.ones((2, 1)), np.array([0.0, 1.0])
        rows = rows_of(X, np.array([classes - 1, 0]), weights)._replace(known=np.full(2, classes))
        member.step(rows, np.zeros((1, 2, classes)))
        weights = member.arrays["weights"][:, 0]
        moved.append(weights.sum() / (1 - 1 / classes))
    np.testing.assert_allclose(moved[1], moved[0], rtol=0.01)
