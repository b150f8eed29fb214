"""Logistic regression as it is trained: to the last digits, or near the answer by batches of rows."""

import numpy as np
import pytest
from scipy import special
from sklearn.datasets import load_digits, make_classification
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from threadpoolctl import threadpool_limits

from kampong import FisherDiscriminant
from kampong.heads import logistic_training
from kampong.heads.logistic import PENALTIES, fit_logistic, left_out_path, problem_of, pull_of
from kampong.heads.logistic_training import Problem, by_batches, contrasts, settle
from kampong.selection.leave_one_out import LeaveOneOut
from kampong.selection.settings import SETTINGS
from kampong.statistics.reservoir import SampledScatter


def by_hand(rows, codes, weights, pull, theta):
    """Return the mean log-loss and the penalty, row by row."""
    total = 0.0
    for row, code, weight in zip(rows, codes, weights, strict=True):
        scores = theta @ row
        total += weight * (special.logsumexp(scores) - scores[code])
    return total / weights.sum() + 0.5 * (pull * theta**2).sum()


def drawn(seed, n=60, classes=3, columns=4):
    rng = np.random.default_rng(seed)
    codes = np.concatenate([np.arange(classes), rng.integers(0, classes, n - classes)])
    rows = rng.normal(size=(n, columns)) + rng.normal(size=(classes, columns))[codes]
    return np.hstack([rows, np.ones((n, 1))]), codes, rng.integers(1, 4, n).astype(float)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("fresh", [False, True])
def test_settled_weights_are_those_of_least_loss(seed, fresh):
    rows, codes, weights = drawn(seed, n=30)
    pull = np.array([0.02, 0.01, 0.02, 0.01, 1e-3])
    problem = Problem(rows, codes, weights / weights.sum(), pull)
    found = settle(problem, np.zeros((3, 5)), fresh=fresh, gain=1e-15, most=60)[0]
    least = by_hand(rows, codes, weights, pull, found)
    assert problem.both(found)[0] == pytest.approx(least, rel=1e-12)
    # convex: no step along a coordinate or along a chance direction gains, to the square of the step
    rng = np.random.default_rng(seed)
    for step in [*(1e-3 * np.eye(15)), *(1e-3 * rng.normal(size=(15, 15)))]:
        for sign in (-1, 1):
            assert by_hand(rows, codes, weights, pull, found + sign * step.reshape(3, 5)) > least


def test_few_rows_show_the_way_and_all_decide(monkeypatch):
    """Whichever rows say how the loss bends, the weights are the same."""
    rows, codes, weights = drawn(0, n=900, classes=4, columns=6)
    problem = Problem(rows, codes, weights / weights.sum(), np.full(7, 1e-3))
    found = []
    for bent in (100, 300, 900):
        monkeypatch.setattr(logistic_training, "BENT", bent)
        found.append(settle(problem, np.zeros((4, 7)), fresh=True, gain=1e-18, most=100)[0])
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], atol=1e-7)
    _, slope = problem.both(found[0])
    np.testing.assert_allclose(slope, 0.0, atol=1e-8)


@pytest.mark.parametrize("weighted", [False, True])
def test_batches_come_near_to_the_least_loss(weighted):
    rows, codes, weights = drawn(1, n=3000, classes=10, columns=30)
    weights = weights if weighted else np.ones(3000)
    pull = np.append(np.full(30, 1e-2), 1e-6)
    problem = Problem(rows, codes, weights / weights.sum(), pull)
    best, _ = problem.both(settle(problem, np.zeros((10, 31)), fresh=True, gain=1e-15, most=100)[0])
    nothing = np.log(10)
    near = [problem.both(by_batches(rows[:, :-1], codes, weights, pull, np.zeros((10, 31)), n))[0] for n in (1, 3, 12)]
    assert near[0] - best < 0.1 * (nothing - best)
    assert near[1] - best < 0.02 * (nothing - best)
    assert near[2] - best < 0.005 * (nothing - best)


def test_one_row_of_huge_weight_does_not_throw_batches_off():
    rows, codes, _ = drawn(2, n=1000, classes=3, columns=8)
    weights = np.ones(1000)
    weights[500] = 1e5
    pull = np.append(np.full(8, 1e-2), 1e-6)
    problem = Problem(rows, codes, weights / weights.sum(), pull)
    start = np.zeros((3, 9))
    assert problem.both(by_batches(rows[:, :-1], codes, weights, pull, start, 5))[0] < problem.both(start)[0]


def many_columns(rows=2600):
    """Return rows of 180 columns and 14 classes: a logistic head sees all columns and is trained by batches."""
    options = {"n_informative": 25, "n_clusters_per_class": 1, "class_sep": 1.5, "random_state": 0}
    return make_classification(rows, 180, n_classes=14, **options)


def test_a_head_trained_by_batches_is_smooth_on_any_number_of_threads():
    X, y = many_columns()
    rng, found = np.random.default_rng(0), []
    for threads in (1, 2, 2):
        with threadpool_limits(threads, user_api="blas"):
            model = FisherDiscriminant(head="logistic").fit(X, y)
            found.append(model.predict_proba(X))
        X = X * (1 + 1e-12 * rng.uniform(-1, 1, X.shape))
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], atol=1e-6)
    assert (model.classes_[found[0].argmax(axis=1)] == y).mean() > 0.9


def test_other_rows_than_validation_rows_are_left_out_right_on_average():
    """Above 64 columns part of the length of a row is known: each row is left out nearly, all of them exactly."""
    X, y = many_columns()
    assert X.shape[1] > SETTINGS.exact_columns
    rows = LeaveOneOut(SampledScatter(X.shape[1]).update(X, y))
    ridge, others = rows.usual, np.setdiff1d(np.arange(len(X)), rows.validation_rows)
    assert len(rows.validation_rows) == SETTINGS.wide_rows
    scaled, metric = rows.means / (rows.values + ridge), 1 / (rows.values + ridge)
    fisher = np.linalg.qr((rows.means * np.sqrt(metric)).T)[0]
    more = np.linalg.qr(np.eye(X.shape[1])[:, -40:] - fisher @ fisher[-40:].T)[0] * np.sqrt(metric)[:, None]
    found, along = rows.products(ridge, more)
    turned = rows.plain @ rows.vectors
    np.testing.assert_allclose(along, turned @ more, atol=1e-9 * np.abs(along).max())
    plain = turned @ scaled.T
    exact = rows._without(plain, np.square(turned) @ metric, scaled @ rows.means.T, slice(None))[0]
    mine = np.arange(len(X)), rows.codes
    moved, off = (exact - plain)[mine], (found - exact)[mine]
    np.testing.assert_allclose(off[rows.validation_rows], 0.0, atol=1e-9 * np.abs(moved).max())
    assert abs(off[others].mean()) < 0.03 * abs(moved.mean())
    assert np.abs(off[others]).mean() < 0.25 * abs(moved.mean())


@pytest.mark.parametrize(("classes", "columns"), [(2, 3), (3, 4), (5, 2)])
@pytest.mark.parametrize("begun", [True, False])
def test_the_hessian_is_the_change_of_the_slope(classes, columns, begun):
    rows, codes, weights = drawn(3, classes=classes, columns=columns)
    problem = Problem(rows, codes, weights / weights.sum(), np.zeros(columns + 1))
    C, rng = contrasts(classes), np.random.default_rng(0)
    np.testing.assert_allclose(C.T @ C, np.eye(classes - 1), atol=1e-14)
    np.testing.assert_allclose(C.sum(axis=0), 0.0, atol=1e-14)
    theta, inner = rng.normal(size=(classes, columns + 1)), rng.normal(size=(classes - 1, columns + 1))
    theta[:, :-1] *= begun  # at the start only the offsets are not zero
    step = 1e-5 * C @ inner
    change = (problem.both(theta + step)[1] - problem.both(theta - step)[1]) / 2e-5
    found = problem.hessian(theta) @ inner.ravel()
    np.testing.assert_allclose(found, (C.T @ change).ravel(), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("classes", [2, 4])
def test_a_row_left_out_scores_what_a_newton_step_without_it_gives(seed, classes):
    rows, codes, weights = drawn(seed, n=40, classes=classes)
    weights, pull = weights / weights.sum(), np.array([0.02, 0.01, 0.02, 0.01, 1e-3])
    problem = Problem(rows, codes, weights, pull)
    theta = settle(problem, np.zeros((classes, 5)), fresh=True, gain=1e-15, most=60)[0]
    some, gone = np.arange(0, 40, 3), np.linspace(0.3, 1.0, 14)
    found = problem.left_out(theta, problem.curvature(problem.hessian(theta)), some, gone)
    for place, (row, share) in enumerate(zip(some, gone, strict=True)):
        left = weights.copy()
        left[row] *= 1.0 - share
        without = Problem(rows, codes, left, pull)
        slope = contrasts(classes).T @ without.both(theta)[1]
        matrix = without.hessian(theta) + np.diag(np.tile(pull, classes - 1))
        step = contrasts(classes) @ np.linalg.solve(matrix, slope.ravel()).reshape(slope.shape)
        np.testing.assert_allclose(found[place], (theta - step) @ rows[row], rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("classes", [2, 3])
def test_rows_left_out_score_about_what_they_would_after_training_without_them(classes):
    """The step is the first of Newton's method: it makes most of the way, so the log-loss is that of training anew."""
    rows, codes, _ = drawn(5, n=80, classes=classes)
    points, counts, every = rows[:, :-1], np.bincount(codes).astype(float), np.arange(80)
    thetas, found = left_out_path(points, codes, np.ones(80), counts, PENALTIES[:2], every, np.ones(80))
    for theta, scores, penalty in zip(thetas, found, PENALTIES, strict=False):
        again = np.empty_like(scores)
        for row in every:
            rest = np.delete(every, row)
            given = (points[rest], codes[rest], np.ones(79), counts, float(penalty) * 80 / 79)
            weights = fit_logistic(*given)
            again[row] = points[row] @ weights[:, :-1].T + weights[:, -1]
        known = points @ theta[:, :-1].T + theta[:, -1]
        flattered, said, exact = (-special.log_softmax(s, axis=1)[every, codes].mean() for s in (known, scores, again))
        assert abs(said - exact) < 0.1 * (exact - flattered)


def test_weights_of_classes_that_are_nearly_apart_have_the_least_loss():
    X, y = load_digits(return_X_y=True)
    points = LinearDiscriminantAnalysis().fit(X, y).transform(X)
    counts, own = np.bincount(y).astype(float), np.ones(len(y))
    theta = fit_logistic(points, y, own, counts, 1e-3)
    problem = problem_of(points, y, own).with_pull(pull_of(1e-3, points.shape[1] + 1, None))
    assert np.abs(problem.both(theta)[1]).max() < 1e-6
