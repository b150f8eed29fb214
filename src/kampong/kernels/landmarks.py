"""Rows seen through their kernel values to a few landmarks: where those are placed, and the statistics of the values.

The images of m independent landmarks span an m-dimensional part of the kernel's feature space. With the Cholesky
factor K_mm = LLᵀ of their kernel matrix, L⁻¹k(x) are the coordinates of the projection of φ(x) on that part in an
orthonormal basis. Scatter is summed over the plain values k(x), at n·m², and turned by L⁻¹ when it is read, at m³.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy import linalg, sparse

from kampong._runtime.threads import blocks, one_blas_thread, run, split
from kampong.data.labels import check_indicator, check_labels, is_indicator
from kampong.data.rows import check_finite, check_rows, check_weights
from kampong.kernels.functions import TILE_BYTES, Kernel
from kampong.statistics import ClassScatter
from kampong.statistics.means import check_factor
from kampong.statistics.scatter import mirror

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kampong._runtime.arrays import Float, Integer, Rows
    from kampong.kernels.functions import Points
    from kampong.statistics import ClassMeans

VALUES_BYTES = 64 * 2**20
"""A block of kernel values: rows enough for the product that follows to run at full speed."""

DEPENDENT = 1e-8
"""A landmark is left out where the others explain all but this part of its kernel value with itself.

L⁻¹ S L⁻ᵀ multiplies the rounding of S by the inverse of this, which must stay small beside the ridge.
"""


class LandmarkBasis:
    """An orthonormal basis of what the images of some landmarks span, and the map of rows to it.

    Landmarks whose image lies in the span of others, up to rounding, are left out: the span is the same.

    Parameters
    ----------
    kernel : Kernel
        The kernel. Where it is not positive definite, landmarks are left out until it is on the others.
    landmarks : array or sparse matrix of shape (m, n_features)
        The landmarks.

    Attributes
    ----------
    kernel : Kernel
        The kernel.
    landmarks : array or sparse matrix of shape (rank, n_features)
        Those that were kept, in their order.
    root : array of shape (rank, rank)
        The lower Cholesky factor L of their kernel matrix.
    """

    def __init__(self, kernel: Kernel, landmarks: Rows) -> None:
        wide = landmarks.astype(np.float64)
        points = kernel.prepare(wide)
        gram = kernel.between(points, points)
        gram = (gram + gram.T) / 2
        if not np.isfinite(gram).all():
            raise ValueError(
                f"The {kernel.name} kernel of the landmarks is not finite. Check the kernel, or scale the features, "
                "for instance with sklearn.preprocessing.StandardScaler."
            )
        kept = _independent(gram, landmarks.dtype)
        if not len(kept):
            raise ValueError(
                f"The {kernel.name} kernel is zero or negative at each of the {len(gram)} landmarks, so they span "
                "nothing. Use other landmarks or another kernel."
            )
        self.kernel = kernel
        self.landmarks = landmarks if len(kept) == len(gram) else landmarks[kept]
        self.root: Float = linalg.cholesky(gram[np.ix_(kept, kept)], lower=True, check_finite=False)
        self._points: dict[Any, Points] = {}

    @property
    def rank(self) -> int:
        """Return the number of landmarks kept, which is the width of the kernel values."""
        return len(self.root)

    @property
    def width(self) -> int:
        """Return the number of features of a landmark."""
        return int(self.landmarks.shape[1])

    def points(self, dtype: np.dtype[Any]) -> Points:
        """Return the landmarks as the kernel reads them, in the precision of the rows they will meet."""
        if dtype not in self._points:
            self._points[dtype] = self.kernel.prepare(self.landmarks.astype(dtype))
        return self._points[dtype]

    def values(self, X: Rows) -> Float:
        """Return the kernel values of rows to the landmarks, (n, rank), in the precision of the rows."""
        n, points = X.shape[0], self.points(X.dtype)
        out = np.empty((n, self.rank), dtype=X.dtype)
        step = max(128, TILE_BYTES // (X.dtype.itemsize * self.rank))
        tasks = split(n, -(-n // step))

        def tile(start: int, stop: int) -> None:
            out[start:stop] = self.kernel.between(self.kernel.prepare(X[start:stop]), points)

        if self.kernel.name == "callable" or len(tasks) == 1:  # a callable may not like threads
            for task in tasks:
                tile(*task)
            return out
        with one_blas_thread():
            run(tile, tasks)
        return out

    def coordinates(self, values: Float) -> Float:
        """Return the coordinates L⁻¹k in the orthonormal basis, for values k in the rows of an array."""
        solved: Float = linalg.solve_triangular(self.root, values.T, lower=True, check_finite=False)
        return np.ascontiguousarray(solved.T)

    def coefficients(self, components: Float) -> Float:
        """Return wᵀL⁻¹ for directions w in the rows of an array: what multiplies the kernel values."""
        solved: Float = linalg.solve_triangular(self.root, components.T, lower=True, trans=1, check_finite=False)
        return np.ascontiguousarray(solved.T)

    def same_as(self, other: LandmarkBasis) -> bool:
        """Tell whether both map every row to the same values."""
        mine, theirs = self.kernel, other.kernel
        if (mine.name, mine.gamma, mine.degree, mine.coef0) != (theirs.name, theirs.gamma, theirs.degree, theirs.coef0):
            return False
        if mine.function is not theirs.function or self.landmarks.shape != other.landmarks.shape:
            return False
        if isinstance(self.landmarks, np.ndarray) and isinstance(other.landmarks, np.ndarray):
            return bool(np.array_equal(self.landmarks, other.landmarks))
        if isinstance(self.landmarks, np.ndarray) or isinstance(other.landmarks, np.ndarray):
            return False
        difference: Any = self.landmarks - other.landmarks
        return bool(abs(difference).max() == 0)


class KernelScatter(ClassScatter):
    """Class means and scatter of φ(x) projected on the span of the landmarks: O(K·m + m²) memory.

    It is updated with rows, sums over their kernel values, and is read in orthonormal coordinates: means, `mean`,
    `between_factor`, `within_scatter` and `within_trace` are those of L⁻¹k(x). Every solver can work on it.

    Parameters
    ----------
    basis : LandmarkBasis
        The landmarks.
    """

    def __init__(self, basis: LandmarkBasis) -> None:
        super().__init__(basis.rank)
        self.basis = basis
        self._turned: Float | None = None

    @property
    def means(self) -> Float:
        """Return the mean of each class, (K, m)."""
        return self.basis.coordinates(super().means)

    @property
    def mean(self) -> Float:
        """Return the mean of the rows."""
        mean: Float = self.basis.coordinates(super().mean[None])[0]
        return mean

    @property
    def row_mean(self) -> Float:
        """Return the mean of the rows, each counted once."""
        return self.basis.coordinates(self._row_mean[None])[0] if self.multilabel else self.mean

    @property
    def squares(self) -> Float:
        """Refuse: distances from the class mean are known for all classes together (`within_trace`), not for each."""
        raise TypeError("KernelScatter knows the squared distances within all classes together: read within_trace.")

    @property
    def within_trace(self) -> float:
        """Return tr S_w."""
        return float(np.trace(self._turn()))

    def within_scatter(self) -> Float:
        """Return S_w, (m, m), symmetric."""
        return self._turn().copy()

    def within_variances(self) -> Float:
        """Return the diagonal of S_w."""
        variances: Float = self._turn().diagonal().copy()
        return variances

    def within_times(self, block: Float) -> Float:
        """Return S_w @ block."""
        product: Float = self._turn() @ block
        return product

    def update(self, X: Any, y: Any, sample_weight: Any = None, *, decay: float = 1.0) -> Self:
        """Learn a batch of rows in blocks, so that memory does not grow with the batch.

        Parameters
        ----------
        X : array or sparse matrix of shape (rows, n_features)
            The rows themselves, not their kernel values.
        y : array of shape (rows,) or indicator matrix of shape (rows, labels)
            One label a row, or a matrix of 0 and 1: then a row counts for each of its labels.
        sample_weight : array of shape (rows,), optional
            A weight of 2 is the row twice, a weight of 0 the row absent.
        decay : float
            First multiply the weights of everything learnt before by this factor in [0, 1].

        Returns
        -------
        KernelScatter
            This object.
        """
        X = check_rows(X, self.basis.width)
        check_finite(X, type(self).__name__)
        n = X.shape[0]
        weights = check_weights(sample_weight, n)
        check_factor(decay)
        if is_indicator(y):
            y = check_indicator(y, n)
        else:  # a label of the last block must not be refused after the first was learnt
            y, _, _ = check_labels(self._index, y, n)
        self._turned = None
        for part in blocks(n, self.basis.rank * X.dtype.itemsize, target=VALUES_BYTES):
            super().update(self.basis.values(X[part]), y[part], weights[part], decay=decay)
            decay = 1.0
        return self

    def decay(self, factor: float) -> Self:
        """Multiply every weight by `factor` in [0, 1]; the means stay where they are."""
        self._turned = None
        return super().decay(factor)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return the whole state as arrays; a kernel that is a Python function cannot be written so."""
        kernel, landmarks = self.basis.kernel, self.basis.landmarks
        if kernel.function is not None:
            raise TypeError("KernelScatter.to_arrays: a callable kernel is no array. Use one of the named kernels.")
        arrays = super().to_arrays()
        arrays["kernel"] = np.array(kernel.name)
        arrays["kernel_parameters"] = np.array([kernel.gamma, kernel.degree, kernel.coef0])
        for name in ("centre", "varying"):
            value = getattr(kernel, name)
            if value is not None:
                arrays[f"kernel_{name}"] = value.copy()
        if isinstance(landmarks, np.ndarray):
            return {**arrays, "landmarks": landmarks.copy()}
        parts = {f"landmarks_{name}": getattr(landmarks, name).copy() for name in ("data", "indices", "indptr")}
        return {**arrays, **parts, "landmarks_shape": np.array(landmarks.shape)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, np.ndarray]) -> Self:
        """Return the statistics that `to_arrays` wrote."""
        gamma, degree, coef0 = (float(value) for value in arrays["kernel_parameters"])
        centre, varying = arrays.get("kernel_centre"), arrays.get("kernel_varying")
        kernel = Kernel(str(arrays["kernel"]), gamma, degree, coef0, None, centre, varying)
        if "landmarks" in arrays:
            landmarks: Any = np.array(arrays["landmarks"])
        else:
            parts = tuple(arrays[f"landmarks_{name}"] for name in ("data", "indices", "indptr"))
            landmarks = sparse.csr_array(
                parts, shape=(int(arrays["landmarks_shape"][0]), int(arrays["landmarks_shape"][1]))
            )
        return cls.around(LandmarkBasis(kernel, landmarks), ClassScatter.from_arrays(arrays))

    def plain(self) -> ClassScatter:
        """Return a copy of the sums over kernel values, without the landmarks."""
        return ClassScatter.from_arrays(super().to_arrays())

    @classmethod
    def around(cls, basis: LandmarkBasis, plain: ClassScatter) -> Self:
        """Return the statistics whose sums over kernel values are those of `plain`."""
        result = cls(basis)
        result.__dict__.update(plain.__dict__)
        return result

    def _copy(self) -> Self:
        return type(self).around(self.basis, self.plain())

    def _check_mergeable(self, other: ClassMeans) -> None:
        if isinstance(other, KernelScatter) and not self.basis.same_as(other.basis):
            raise ValueError(
                "cannot merge statistics of different landmarks or kernels: their values mean different things. Place "
                "the landmarks once, and pass the same array `landmarks_` (and `gamma_`) to every part."
            )
        super()._check_mergeable(other)

    def _turn(self) -> Float:
        """Return S_w in orthonormal coordinates, L⁻¹ S L⁻ᵀ, computed once a state."""
        if self._turned is None:
            # two triangular solves: LAPACK's routine for both at once took nine times as long
            half = self.basis.coordinates(super().within_scatter())
            self._turned = self.basis.coordinates(np.ascontiguousarray(half.T))
            mirror(self._turned)
            diagonal = self._turned.diagonal()
            np.fill_diagonal(self._turned, np.maximum(diagonal, 0.0))  # rounding may leave less
        return self._turned


def bytes_needed(n_landmarks: int, n_features: int) -> int:
    """Return what statistics and solution take at the most: eight m × m arrays, the landmarks and a block of values."""
    return 8 * n_landmarks * (8 * n_landmarks + 2 * n_features) + 2 * VALUES_BYTES


def most_landmarks(memory_bytes: float, n_features: int) -> int:
    """Return the largest number of landmarks whose `bytes_needed` fit."""
    rest = max(memory_bytes - 2 * VALUES_BYTES, 0.0) / 8
    return int((np.sqrt(n_features**2 + 8 * rest) - n_features) / 8)


def draw_rows(
    codes: Integer, weights: Float, n_landmarks: int, random_state: Any, shares: Float | None = None
) -> Integer:
    """Return which rows become landmarks, sorted by class: one of each class at the least.

    Without `shares` classes get equally many, as far as their rows go; with them, rows are drawn in proportion.

    Parameters
    ----------
    codes : array of shape (n,)
        The class of each row.
    weights : array of shape (n,)
        Rows of weight 0 are never drawn.
    n_landmarks : int
        How many, at most as many as there are rows of positive weight.
    random_state : int
        The seed.
    shares : array of shape (n,), optional
        How likely each row is to be drawn, up to a factor.

    Returns
    -------
    array of shape (n_landmarks,)
        Numbers of rows.
    """
    rng = np.random.default_rng(random_state)
    clocks = rng.exponential(size=len(codes))
    present = weights > 0
    if shares is not None:
        clocks /= np.maximum(shares, np.finfo(float).tiny)
    clocks[~present] = np.inf
    order = np.lexsort((clocks, codes))
    starts = np.concatenate([[0], np.flatnonzero(np.diff(codes[order])) + 1])
    rank = np.arange(len(codes)) - np.repeat(starts, np.diff(np.append(starts, len(codes))))
    place = np.empty(len(codes), dtype=np.int64)
    place[order] = rank
    # Equally many: the first of every class, then the second of every class; by clock: the first of each, then all.
    turn = place if shares is None else np.minimum(place, 1)
    turn = np.where(present, turn, len(codes))
    chosen = np.lexsort((clocks, turn))[:n_landmarks]
    return np.asarray(chosen[np.lexsort((chosen, codes[chosen]))])


def move_to_centres(X: Float, codes: Integer, weights: Float, seeds: Integer) -> Float:
    """Return the weighted means of the rows nearest to each seed among the seeds of their class (one step of Lloyd).

    Parameters
    ----------
    X : array of shape (n, d)
        Dense rows.
    codes : array of shape (n,)
        The class of each row.
    weights : array of shape (n,)
        The weight of each row in the means.
    seeds : array of shape (m,)
        Numbers of rows, sorted by class.

    Returns
    -------
    array of shape (m, d)
        One centre a seed, in the precision of the rows.
    """
    centres = X[seeds].copy()
    for code in np.unique(codes[seeds]):
        rows, places = np.flatnonzero(codes == code), np.flatnonzero(codes[seeds] == code)
        chosen = X[seeds[places]]
        norms = np.einsum("ij,ij->i", chosen, chosen) / 2
        sums, total = np.zeros((len(places), X.shape[1])), np.zeros(len(places))
        for part in blocks(len(rows), X.dtype.itemsize * (len(places) + X.shape[1]), target=VALUES_BYTES):
            block = X[rows[part]]
            nearest = np.argmax(block @ chosen.T - norms, axis=1)
            belongs = sparse.csr_array(
                (weights[rows[part]].astype(X.dtype), (nearest, np.arange(len(block)))), shape=(len(places), len(block))
            )
            sums += belongs @ block
            total += np.bincount(nearest, weights=weights[rows[part]], minlength=len(places))
        filled = total > 0
        centres[places[filled]] = sums[filled] / total[filled, None]
    return centres


def _independent(gram: Float, dtype: np.dtype[Any]) -> Integer:
    """Return the points whose images are linearly independent, by a Cholesky factorisation that picks the farthest."""
    tolerance = max(DEPENDENT, float(np.finfo(dtype).eps))
    largest = float(gram.diagonal().max())
    if largest <= 0:
        return np.zeros(0, dtype=np.int64)
    _, order, rank, _ = linalg.lapack.dpstrf(gram, tol=tolerance * largest, lower=1)
    return np.sort(np.asarray(order[:rank], dtype=np.int64) - 1)
