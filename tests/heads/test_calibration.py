"""Weights of scores with bounds, several problems at once, and the least point of a curve."""

import itertools

import numpy as np
import pytest
from scipy import special
from scipy.interpolate import CubicSpline

from kampong.heads.calibration import (
    SPREAD,
    ValidationRows,
    bounded_step,
    calibrate_each,
    fit_calibration,
    fit_each,
    fit_weights,
    least_point,
)


@pytest.mark.parametrize("seed", range(20))
def test_a_bounded_step_is_the_least_point_of_all_active_sets(seed):
    rng = np.random.default_rng(seed)
    B, A = 5, 4
    roots = rng.normal(size=(B, A, A))
    hessian = roots @ roots.swapaxes(1, 2) + 0.01 * np.eye(A)
    b, gradient = np.maximum(rng.normal(size=(B, A)), 0.0), rng.normal(size=(B, A))
    bounded = np.array([True, True, True, False])
    step, free = bounded_step(b, gradient, hessian, bounded, rng.random((B, A)) < 0.5)
    assert ((b + step >= 0) | ~bounded).all()
    np.testing.assert_allclose((b + step)[~free], 0.0, atol=1e-12)
    for one in range(B):

        def value(s, one=one):
            return gradient[one] @ s + 0.5 * s @ hessian[one] @ s

        least = np.inf
        for fixed in itertools.product([False, True], repeat=3):
            held = np.array([*fixed, False])
            s = np.where(held, -b[one], 0.0)
            open_ = ~held
            matrix = hessian[one][np.ix_(open_, open_)]
            s[open_] = np.linalg.solve(matrix, -(gradient[one] + hessian[one] @ s)[open_])
            if ((b[one] + s >= -1e-12) | ~bounded).all():
                least = min(least, value(s))
        assert value(step[one]) == pytest.approx(least, rel=1e-9, abs=1e-12)


def test_a_problem_of_huge_scores_does_not_slow_the_others():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 3, 200)
    scores = 2.0 * np.eye(3)[codes] + rng.normal(size=(2, 3, 200, 3))
    scores[1] *= 1e9
    validation, start = ValidationRows(codes, np.ones(200)), np.array([0.3, 0.0, 0.0])
    together, _ = fit_each(scores, validation, start, signed=2, gain=1e-12)
    alone, _ = fit_each(scores[:1], validation, start, signed=2, gain=1e-12)
    np.testing.assert_allclose(together[:1], alone, rtol=1e-6)


@pytest.mark.parametrize("n", [40, 1500])
@pytest.mark.parametrize("signed", [None, 2])
def test_weights_of_several_problems_meet_the_conditions_of_the_least_loss(n, signed):
    rng = np.random.default_rng(n)
    codes, weights = rng.integers(0, 3, n), rng.exponential(size=n)
    scores = 2.0 * np.eye(3)[codes] * rng.normal(0.2, 0.5, size=(6, 3, 1, 1)) + rng.normal(size=(6, 3, n, 3))
    validation, start = ValidationRows(codes, weights), np.array([0.3, 0.0, 0.0])
    found, losses = fit_each(scores, validation, start, signed=signed, gain=1e-12)
    shares, total = weights / weights.sum(), weights.sum()
    assert (found == 0.0).any()
    for b, loss, one in zip(found, losses, scores, strict=True):
        logs = special.log_softmax(np.tensordot(b, one, 1), axis=1)
        assert loss == pytest.approx(-shares @ logs[np.arange(n), codes], rel=1e-6)
        error = np.exp(logs) - np.eye(3)[codes]
        slope = np.einsum("ank,nk,n->a", one, error, shares)
        sizes = np.sqrt(one.var(axis=2) @ shares) + 1e-9
        precision = (sizes / SPREAD) ** 2 / total
        if signed is not None:
            precision[signed] = 10.0 / total
        slope += precision * (b - start * min(1.0, 2.0 / (0.3 * sizes[0] + 1e-9)))
        held = (b == 0.0) & (np.arange(3) != (-1 if signed is None else signed))
        np.testing.assert_allclose(slope[~held], 0.0, atol=1e-5)
        assert (slope[held] > -1e-6).all()
        alone, least = fit_weights(one, validation, start, signed=signed, gain=1e-12)
        np.testing.assert_allclose(alone, b, atol=1e-6)
        assert least == pytest.approx(loss, rel=1e-9)
    begun, same = fit_each(scores, validation, start, signed=signed, begin=np.array([2.0, 0.0, 1.0]), gain=1e-12)
    np.testing.assert_allclose(begun, found, atol=1e-6)
    np.testing.assert_allclose(same, losses, rtol=1e-9)


def test_heads_are_calibrated_together_as_they_are_alone():
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 4, 300)
    scores = np.stack([s * (3 * np.eye(4)[codes] + rng.normal(size=(300, 4))) for s in (0.2, 1.0, 20.0, -1.0, 0.0)])
    validation = ValidationRows(codes, np.ones(300))
    together = calibrate_each(scores, validation)
    for one, found in zip(scores, together, strict=True):
        np.testing.assert_allclose(fit_calibration(one, validation), found, atol=1e-6)
    assert together[-1] == (1.0, 0.0)


@pytest.mark.parametrize("seed", range(30))
def test_the_least_point_is_that_of_the_cubic_spline(seed):
    rng = np.random.default_rng(seed)
    count = int(rng.integers(2, 8))
    nodes = np.cumsum(rng.uniform(0.1, 1.0, count))
    values = rng.normal(size=count) if seed % 2 else (nodes - rng.uniform(nodes[0], nodes[-1])) ** 2
    spline, found = CubicSpline(nodes, values), least_point(nodes, values)
    assert nodes[0] <= found <= nodes[-1]
    assert spline(found) <= spline(np.linspace(nodes[0], nodes[-1], 5001)).min() + 1e-9
