"""Kernel values and Fourier features as steps of scikit-learn: its `Nystroem` and `RBFSampler` with other numbers.

Support vectors are such values too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.kernel_approximation import Nystroem, RBFSampler

from kampong.export.linear_steps import centre_steps, product, shifted
from kampong.kernels.fourier import FourierBasis
from kampong.kernels.functions import times_columns

if TYPE_CHECKING:
    from kampong._core.compute import Float
    from kampong.kernels.functions import Kernel
    from kampong.kernels.landmarks import LandmarkBasis


def kernel_steps(
    basis: LandmarkBasis | FourierBasis, coefficients: Float, centre: Float, sparse: bool | None
) -> list[tuple[str, Any]]:
    """Return steps for values(X)·coefficientsᵀ − centre.

    Parameters
    ----------
    basis : LandmarkBasis or FourierBasis
        What gives a row its values.
    coefficients : array of shape (p, m)
        What each direction multiplies them by.
    centre : array of shape (p,)
        What is taken off.
    sparse : bool or None
        True: sparse rows stay sparse. False: no sparse rows are taken. None: sparse rows are taken, and made dense
        where the kernel is centred.

    Returns
    -------
    list of pairs
        Names and fitted transformers.
    """
    if isinstance(basis, FourierBasis):
        return [("waves", _waves(basis)), ("directions", product(coefficients)), ("mean", shifted(centre))]
    kernel, landmarks = basis.kernel, basis.landmarks
    return [*value_steps("landmarks", kernel, landmarks, coefficients, sparse), ("mean", shifted(centre))]


def value_steps(
    name: str, kernel: Kernel, points: Any, coefficients: Float, sparse: bool | None
) -> list[tuple[str, Any]]:
    """Return steps for k(X, points)·coefficientsᵀ, in the units and about the centre of the kernel if it has them."""
    steps: list[tuple[str, Any]] = []
    if kernel.centre is not None and not sparse:  # the distances keep their digits
        steps = centre_steps(kernel.centre, sparse)
        points = _dense(points) - kernel.centre
    if kernel.units is not None:
        steps = [*steps, ("scale", shifted(None, kernel.units))]
        points = times_columns(points, 1.0 / kernel.units)
    return [*steps, (name, values_step(kernel, points, coefficients))]


def values_step(kernel: Kernel, points: Any, coefficients: Float) -> Nystroem:
    """Return x ↦ k(x, points)·coefficientsᵀ as a fitted transformer.

    Parameters
    ----------
    kernel : Kernel
        A kernel with a name.
    points : array or sparse matrix of shape (m, d)
        The points.
    coefficients : array of shape (p, m)
        What their kernel values are multiplied by.

    Returns
    -------
    Nystroem
        It computes k(x, points) for all rows at once.
    """
    if kernel.name == "precomputed":
        raise TypeError(
            "its kernel is precomputed, so there are no rows to compute kernel values with. Fit with a kernel by name: "
            "'linear', 'rbf', 'laplacian', 'polynomial' or 'sigmoid'."
        )
    if kernel.name == "callable":
        raise TypeError(
            f"its kernel is a function ({kernel.function!r}), which takes blocks of rows here and single rows in "
            "scikit-learn. Use a kernel by name: 'linear', 'rbf', 'laplacian', 'polynomial' or 'sigmoid'."
        )
    numbers: dict[str, Any] = {}
    if kernel.name != "linear":
        numbers["gamma"] = kernel.gamma
    if kernel.name in ("polynomial", "sigmoid"):
        numbers["coef0"] = kernel.coef0
    if kernel.name == "polynomial":
        numbers["degree"] = kernel.degree
    result: Any = Nystroem(kernel.name, n_components=points.shape[0], **numbers)
    result.components_ = points.astype(np.float64)
    result.component_indices_ = np.arange(points.shape[0])
    result.normalization_, result.n_features_in_ = coefficients, points.shape[1]
    fitted: Nystroem = result
    return fitted


def _dense(rows: Any) -> Any:
    return rows if isinstance(rows, np.ndarray) else rows.toarray()


def _waves(basis: FourierBasis) -> RBFSampler:
    """Return the Fourier features; a sine is a cosine a quarter turn late."""
    half = basis.rank // 2
    result: Any = RBFSampler(gamma=basis.kernel.gamma, n_components=basis.rank)
    result.random_weights_ = np.hstack([basis.frequencies.T, basis.frequencies.T])
    result.random_offset_ = np.repeat([0.0, -np.pi / 2], half)
    result.n_features_in_ = basis.width
    fitted: RBFSampler = result
    return fitted
