"""Data that needs no download: complete designs and generators from the papers' experiments."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from kampong._core.compute import Float, Integer

__all__ = ["balance_scale", "monk_problem", "sparse_text", "waveform"]


def balance_scale() -> tuple[Float, np.ndarray]:
    """Return the balance scale data: all 625 loads of a scale, and the side that goes down.

    Returns
    -------
    X : array of shape (625, 4)
        Left weight, left distance, right weight, right distance, each 1 … 5.
    y : array of shape (625,)
        "B" balanced, "L" left, "R" right.

    Examples
    --------
    >>> X, y = balance_scale()
    >>> [int((y == side).sum()) for side in "BLR"]
    [49, 288, 288]
    """
    X = np.array(list(product(range(1, 6), repeat=4)), dtype=np.float64)
    torque = X[:, 0] * X[:, 1] - X[:, 2] * X[:, 3]
    return X, np.array(["R", "B", "L"])[np.sign(torque).astype(int) + 1]


def monk_problem() -> tuple[Float, Integer]:
    """Return the first of the MONK's problems: all 432 robots, and whether a robot is a friend.

    Returns
    -------
    X : array of shape (432, 6)
        The six attributes, numbered from 1.
    y : array of shape (432,)
        1 where the first two attributes agree or the fifth is 1, else 0.

    Examples
    --------
    >>> X, y = monk_problem()
    >>> len(X), int(y.sum())
    (432, 216)
    """
    values = (3, 3, 2, 3, 4, 2)
    X = np.array(list(product(*(range(1, n + 1) for n in values))), dtype=np.float64)
    return X, ((X[:, 0] == X[:, 1]) | (X[:, 4] == 1)).astype(np.int64)


def waveform(n_samples: int = 5000, *, random_state: Any = None) -> tuple[Float, Integer]:
    """Generate Breiman's waveforms: three classes of noisy mixtures of two of three triangles, 21 points each.

    Parameters
    ----------
    n_samples : int, default=5000
        How many.
    random_state : int, Generator or None
        Seed.

    Returns
    -------
    X : array of shape (n_samples, 21)
        The waveforms, with unit normal noise.
    y : array of shape (n_samples,)
        Classes 0, 1, 2.

    Examples
    --------
    >>> waveform(10, random_state=0)[0].shape
    (10, 21)
    """
    rng = np.random.default_rng(random_state)
    point = np.arange(1, 22)
    triangles = np.maximum(6 - np.abs(point - np.array([[11], [15], [7]])), 0)
    y = rng.integers(0, 3, n_samples)
    first, second = np.array([[0, 0, 1], [1, 2, 2]])[:, y]
    share = rng.random((n_samples, 1))
    X = share * triangles[first] + (1 - share) * triangles[second] + rng.standard_normal((n_samples, 21))
    return X, y


def sparse_text(
    n_samples: int, n_features: int, n_nonzero: int = 76, *, n_classes: int = 4, random_state: Any = None
) -> tuple[Any, Integer]:
    """Generate rows that look like tf-idf documents: few terms each, frequent terms shared, some typical of a class.

    Parameters
    ----------
    n_samples, n_features : int
        The shape.
    n_nonzero : int, default=76
        Terms drawn for each row; a term drawn twice makes the row a little shorter.
    n_classes : int, default=4
        Classes.
    random_state : int, Generator or None
        Seed.

    Returns
    -------
    X : csr_array of shape (n_samples, n_features)
        Rows of unit length, 32-bit indices.
    y : array of shape (n_samples,)
        Classes 0 … n_classes − 1.

    Examples
    --------
    >>> X, y = sparse_text(100, 1000, 20, random_state=0)
    >>> X.shape, bool((X.multiply(X).sum(axis=1).round(6) == 1).all())
    ((100, 1000), True)
    """
    from scipy import sparse

    rng = np.random.default_rng(random_state)
    y = rng.integers(0, n_classes, n_samples)
    terms = (n_features * rng.random((n_samples, n_nonzero), dtype=np.float32) ** 3).astype(np.int32)
    typical = rng.random((n_samples, n_nonzero), dtype=np.float32) < 0.15
    shift = (y[:, None] - terms) % n_classes
    terms = np.where(typical, terms + shift.astype(np.int32), terms) % n_features
    terms.sort(axis=1)
    values = 1.0 + rng.random((n_samples, n_nonzero))
    indptr = np.arange(n_samples + 1, dtype=np.int32) * n_nonzero
    X = sparse.csr_array((values.ravel(), terms.ravel(), indptr), shape=(n_samples, n_features))
    X.sum_duplicates()
    lengths = np.sqrt(np.add.reduceat(X.data**2, X.indptr[:-1]))
    X.data /= np.repeat(lengths, np.diff(X.indptr))
    return X, y
