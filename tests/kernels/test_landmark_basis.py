"""Rows and scatter matrices in the orthonormal basis of landmarks, against the definition with plain inverses."""

import numpy as np
import pytest
from scipy import sparse
from threadpoolctl import threadpool_limits

from kampong.kernels.functions import Kernel
from kampong.kernels.landmarks import LandmarkBasis

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 3))


def value(a, b):
    """Return one kernel value."""
    return np.exp(-0.5 * sum((p - q) ** 2 for p, q in zip(a, b, strict=True)))


def naive(basis, rows):
    """Return L⁻¹k(x) row by row, with L from the definition."""
    points, rows = (block if isinstance(block, np.ndarray) else block.toarray() for block in (basis.landmarks, rows))
    inverse = np.linalg.inv(np.linalg.cholesky([[value(a, b) for b in points] for a in points]))
    return np.array([inverse @ np.array([value(b, x) for b in points]) for x in rows])


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("known", [0, 4, 12])
def test_rows_and_landmarks_have_the_coordinates_of_the_definition(known, form):
    basis = LandmarkBasis(Kernel("rbf", gamma=0.5), form(X[:12]))
    rows = np.concatenate([X[12:20], X[:known]])[RNG.permutation(8 + known)]
    np.testing.assert_allclose(basis.embed(form(rows)), naive(basis, rows), atol=1e-8)


def test_kernel_values_of_landmarks_are_not_computed_again(monkeypatch):
    basis, asked = LandmarkBasis(Kernel("rbf", gamma=0.5), X[:12]), []
    real = LandmarkBasis.values
    monkeypatch.setattr(LandmarkBasis, "values", lambda self, rows: (asked.append(len(rows)), real(self, rows))[1])
    basis.embed(X[5:12])
    basis.embed(X[5:15])
    assert asked == [3]


def test_a_scatter_is_turned_as_its_rows_are():
    basis = LandmarkBasis(Kernel("rbf", gamma=0.5), X[:12])
    values = basis.values(X)
    turned = basis.turned(np.tril(values.T @ values))
    coordinates = naive(basis, X)
    np.testing.assert_allclose(np.tril(turned), np.tril(coordinates.T @ coordinates), atol=1e-8)


def test_the_threads_of_blas_change_no_bit_of_what_a_file_leaves_out():
    X = np.random.default_rng(0).normal(size=(400, 5))
    directions = np.random.default_rng(1).normal(size=(3, 400))
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            basis = LandmarkBasis(Kernel("rbf", gamma=0.5), X)
            assert basis.rank == 400
            found.append((basis.root, basis.coefficients(directions)))
    for one, two in zip(*found, strict=True):
        np.testing.assert_array_equal(one, two)
