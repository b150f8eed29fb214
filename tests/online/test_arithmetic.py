"""The arithmetic of the members' loops against NumPy's, and the inverse of moments against a solve."""

import numpy as np
import pytest

from kampong._core.compute import vectorised
from kampong.online import arithmetic


@vectorised
def exponentials(x, out):
    for i in range(len(x)):
        out[i] = arithmetic.exponential(x[i])


@vectorised
def logarithms(x, out):
    for i in range(len(x)):
        out[i] = arithmetic.logarithm(x[i])


@pytest.mark.parametrize("seed", range(3))
def test_elementary_functions_are_exact_to_the_last_places(seed):
    rng = np.random.default_rng(seed)
    x, out = np.append(rng.uniform(-699, 699, 5000), [0.0, -0.0, 1e-300, 700.0, -700.0]), np.empty(5005)
    exponentials(x, out)
    np.testing.assert_allclose(out, np.exp(x), rtol=2e-15)
    x = np.append(10.0 ** rng.uniform(-300, 300, 5000), [1.0, 2.0, 0.5, np.nextafter(1.0, 2.0), 2.0**0.5])
    logarithms(x, out)
    np.testing.assert_allclose(out, np.log(x), rtol=2e-15, atol=0.0)
    x, cosines, sines = rng.normal(size=5000) * 10.0 ** rng.uniform(-5, 5, 5000), np.empty(5000), np.empty(5000)
    arithmetic.cosines_and_sines(x, 0.25, cosines, sines)
    np.testing.assert_allclose(cosines, 0.25 * np.cos(x), rtol=0.0, atol=1e-15)
    np.testing.assert_allclose(sines, 0.25 * np.sin(x), rtol=0.0, atol=1e-15)


def test_exponentials_beyond_the_range_stay_finite_and_nan_stays():
    x, out = np.array([-1e308, -np.inf, 1e308, np.inf, np.nan]), np.empty(5)
    exponentials(x, out)
    np.testing.assert_allclose(out[:4], np.exp([-700.0, -700.0, 700.0, 700.0]), rtol=1e-13)
    assert np.isnan(out[4])


@pytest.mark.parametrize("size", [1, 7, 8, 9, 31, 200])
def test_an_inner_product_is_that_of_numpy(size):
    left, right = np.random.default_rng(size).normal(size=(2, size))
    assert arithmetic.dot(left, right) == pytest.approx(left @ right, rel=1e-13)
    assert arithmetic.dot.py_func(left, right) == arithmetic.dot(left, right)


@pytest.mark.parametrize("size", [1, 2, 5, 17, 21])
def test_the_inverse_of_moments_is_that_of_a_solve(size):
    rng, keep = np.random.default_rng(size), 0.99
    moments, inverse, gain = np.eye(size), np.eye(size), np.zeros(size)
    for step in range(300):
        row, weight, place, ridge = rng.normal(size=size), rng.uniform(0.1, 3.0), step % size, 1.0 - keep**size
        arithmetic.add_to_inverse(inverse, row, weight, keep, gain)
        moments = keep * moments + weight * np.outer(row, row)
        np.testing.assert_allclose(gain, weight * np.linalg.solve(moments, row), rtol=1e-8, atol=1e-10)
        arithmetic.add_ridge_to_inverse(inverse, place, ridge, gain)
        moments[place, place] += ridge
        unit = np.eye(size)[place]
        np.testing.assert_allclose(gain, ridge * np.linalg.solve(moments, unit), rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(inverse, np.linalg.inv(moments), rtol=1e-8, atol=1e-10)


def test_both_triangles_of_an_inverse_stay_the_same():
    """A difference between them would grow while rows fade."""
    rng, size, keep = np.random.default_rng(0), 21, 0.5 ** (1 / 1000)
    inverse, gain = np.eye(size), np.zeros(size)
    mixed = rng.normal(size=(size, size))
    for step, row in enumerate(rng.normal(size=(50_000, size)) @ mixed):
        arithmetic.add_to_inverse(inverse, row, 1.0, keep, gain)
        arithmetic.add_ridge_to_inverse(inverse, step % size, 1.0 - keep**size, gain)
    assert np.abs(inverse - inverse.T).max() <= 1e-12 * np.abs(inverse).max()
    assert np.linalg.eigvalsh(inverse).min() > 0.0
