"""Random Fourier features: coordinates that approximate a kernel of differences and depend on a seed only.

For k(x, z) = exp(−γ|x − z|²) and frequencies w ~ N(0, 2γI), the mean of cos(wᵀ(x − z)) is k(x, z) (Rahimi and Recht
2007). So the features √(2/m)·[cos(wᵀx), sin(wᵀx)] of m/2 frequencies have inner products near the kernel. Frequencies
of one block are orthogonal to each other, with the lengths of Gaussian ones, which lowers the variance (Yu, Suresh,
Choromanski, Holtmann-Rice and Kumar 2016). For k(x, z) = exp(−γ Σ|x_j − z_j|) the entries of w are Cauchy, of scale γ.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy import linalg

from kampong._core.compute import compiled, csr_times_block, float_type, floats, mix, one_blas_thread, run
from kampong.files.contents import LARGEST_WIDTH
from kampong.kernels.functions import TILE_BYTES, Kernel
from kampong.statistics.sampling import STEP

if TYPE_CHECKING:
    from kampong._core.compute import Float, Rows
    from kampong.files.contents import Contents


class FourierBasis:
    """Random Fourier features of a Gaussian or Laplacian kernel, in the place of kernel values to landmarks.

    Two bases of the same kernel, width, number and seed are the same, wherever they were made.

    Parameters
    ----------
    kernel : Kernel
        A Gaussian or Laplacian kernel.
    width : int
        The number of features of a row.
    rank : int
        The number m of Fourier features, rounded up to an even one.
    seed : int
        The seed of the frequencies.
    """

    def __init__(self, kernel: Kernel, width: int, rank: int, seed: int) -> None:
        if kernel.name not in ("rbf", "laplacian"):
            raise ValueError(
                f"Fourier features approximate the kernels 'rbf' and 'laplacian', and the kernel is {kernel.name!r}. "
                "Use one of these, or landmarks placed on rows."
            )
        self.kernel, self.width, self.seed = kernel, int(width), int(seed)
        self.rank = 2 * -(-int(rank) // 2)
        self._columns: dict[Any, Float] = {}

    @functools.cached_property
    def frequencies(self) -> Float:
        """The frequencies, one per row, drawn when first needed: a file only claims their number and their width."""
        draw = draw_frequencies if self.kernel.name == "rbf" else draw_cauchy
        drawn = draw(self.width, self.rank // 2, self.kernel.gamma, self.seed)
        return drawn if self.kernel.units is None else drawn / self.kernel.units

    def values(self, X: Rows) -> Float:
        """Return the features of rows, (n, rank), in the precision of the rows."""
        out = np.empty((X.shape[0], self.rank), dtype=float_type(X))

        def tile(start: int, stop: int) -> None:
            self._fill(floats(X[start:stop]), out[start:stop])

        self._tiles(tile, X)
        return out

    def scores(self, X: Rows, columns: Float) -> Float:
        """Return the features of rows times a few columns, without holding all features."""
        out = np.empty((X.shape[0], columns.shape[1]))

        def tile(start: int, stop: int) -> None:
            features = np.empty((stop - start, self.rank), dtype=float_type(X))
            self._fill(floats(X[start:stop]), features)
            out[start:stop] = features @ columns.astype(features.dtype, copy=False)

        self._tiles(tile, X)
        return out

    def coordinates(self, values: Float) -> Float:
        """Return the values themselves: the features are coordinates already."""
        return np.ascontiguousarray(values)

    def embed(self, X: Rows) -> Float:
        """Return the features of rows, float64."""
        return self.values(X).astype(np.float64, copy=False)

    def turned(self, scatter: Float) -> Float:
        """Return the scatter itself: the features are coordinates already."""
        return scatter

    def coefficients(self, components: Float) -> Float:
        """Return directions as they multiply the features."""
        return np.ascontiguousarray(components)

    def to_state(self) -> dict[str, Any]:
        """Return what a checkpoint holds: the kernel, the number of features and the seed."""
        seed = np.array(self.seed, dtype=np.uint64)
        return {"kernel": self.kernel.to_state(), "n_fourier": self.rank, "seed": seed}

    @classmethod
    def from_state(cls, contents: Contents, width: int) -> Self:
        """Return the basis that `to_state` wrote, for rows of this width."""
        rank = contents.whole("n_fourier", low=2, high=LARGEST_WIDTH)
        contents.require(rank % 2 == 0, f"n_fourier is {rank}, expected an even number")
        kernel = Kernel.from_state(contents.part("kernel"), width)
        result = cls(kernel, width, rank, int(contents.array("seed", np.uint64, ())))
        contents.finish()
        return result

    def same_as(self, other: Any) -> bool:
        """Tell whether both map every row to the same features."""
        if not isinstance(other, FourierBasis):
            return False
        mine, theirs = ((one.width, one.rank, one.seed, one.kernel.name, one.kernel.gamma) for one in (self, other))
        return mine == theirs and self.kernel.same_units(other.kernel)

    def _fill(self, X: Rows, out: Float) -> None:
        """Write the features of rows."""
        if X.dtype not in self._columns:
            self._columns[X.dtype] = np.ascontiguousarray(self.frequencies.T, dtype=X.dtype)
        columns, half = self._columns[X.dtype], self.rank // 2
        phases = X @ columns if isinstance(X, np.ndarray) else csr_times_block(X, columns)
        np.cos(phases, out=out[:, :half])
        np.sin(phases, out=out[:, half:])
        out *= math.sqrt(2.0 / self.rank)

    def _tiles(self, tile: Any, X: Rows) -> None:
        widest = max(self.rank, X.shape[1] if isinstance(X, np.ndarray) else 0)
        step = max(128, TILE_BYTES // (float_type(X).itemsize * widest))
        tasks = [(start, min(start + step, X.shape[0])) for start in range(0, X.shape[0], step)]
        if len(tasks) == 1:
            tile(*tasks[0])
            return
        with one_blas_thread():
            run(tile, tasks)


def draw_frequencies(width: int, count: int, gamma: float, seed: int) -> Float:
    """Return frequencies for the kernel exp(−γ|x − z|²), one per row, orthogonal in blocks of up to `width`.

    Parameters
    ----------
    width : int
        The number of features of a row.
    count : int
        The number of frequencies.
    gamma : float
        The factor γ.
    seed : int
        The seed: the same numbers on every machine, up to rounding.

    Returns
    -------
    array of shape (count, width)
        The frequencies.
    """
    directions = np.empty((count, width))
    for first in range(0, count, width):
        size = min(width, count - first)
        block = np.empty((width, size))
        _fill_normal(block.reshape(-1), np.uint64(seed), np.uint64(first * width))
        orthogonal, triangle = linalg.qr(block, mode="economic", check_finite=False)
        directions[first : first + size] = (orthogonal * np.sign(triangle.diagonal())).T
    lengths = np.zeros(count)
    with np.errstate(over="ignore"):
        apart = np.uint64(seed) ^ STEP
    for part in range(0, width, 256):
        block = np.empty((min(256, width - part), count))
        _fill_normal(block.reshape(-1), apart, np.uint64(part * count))
        lengths += np.square(block).sum(axis=0)
    return np.asarray(directions * np.sqrt(2.0 * gamma * lengths)[:, None])


def draw_cauchy(width: int, count: int, gamma: float, seed: int) -> Float:
    """Return frequencies for the kernel exp(−γ Σ|x_j − z_j|), one per row: ratios of two normal numbers, times γ.

    Parameters
    ----------
    width : int
        The number of features of a row.
    count : int
        The number of frequencies.
    gamma : float
        The factor γ.
    seed : int
        The seed: the same numbers on every machine, up to rounding.

    Returns
    -------
    array of shape (count, width)
        The frequencies.
    """
    drawn = np.empty((2, count, width))
    _fill_normal(drawn.reshape(-1), np.uint64(seed), np.uint64(0))
    return np.asarray(gamma * drawn[0] / drawn[1])


@compiled
def _fill_normal(out: Float, seed: Any, first: Any) -> None:
    """Write standard normal numbers, each from its own number and the seed (Box and Muller)."""
    start = mix(seed + STEP)
    for i in range(len(out)):
        number = (first + np.uint64(i)) * np.uint64(2)
        one = mix(mix((number + np.uint64(1)) * STEP) ^ start) >> np.uint64(12)
        two = mix(mix((number + np.uint64(2)) * STEP) ^ start) >> np.uint64(12)
        radius = np.sqrt(-2.0 * np.log((np.float64(one) + 0.5) * 2.0**-52))
        out[i] = radius * np.cos(2.0 * np.pi * (np.float64(two) + 0.5) * 2.0**-52)
