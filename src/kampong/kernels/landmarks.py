"""Landmarks: a few points whose kernel values represent a row, how they are placed, and their basis.

The images of m independent landmarks span an m-dimensional part of the kernel's feature space. With the Cholesky
factor K_mm = LLᵀ of their kernel matrix, L⁻¹k(x) are the coordinates of the projection of φ(x) on that part in an
orthonormal basis. Scatter is summed over the plain values k(x), at n·m², and turned by L⁻¹ when it is read, at m³.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from scipy import linalg, sparse

from kampong._core.compute import blocks, float_type, floats, one_blas_thread, run, split
from kampong.data.saved_rows import rows_from, rows_state
from kampong.files.contents import LARGEST_WIDTH
from kampong.kernels.functions import TILE_BYTES, Kernel, kernel_scores, times_columns
from kampong.statistics.kernel_scatter import VALUES_BYTES
from kampong.statistics.sampling import STEP, ranks_in_groups, row_keys

if TYPE_CHECKING:
    from kampong._core.compute import Float, Integer, Rows
    from kampong.files.contents import Contents
    from kampong.kernels.functions import PreparedRows

DEPENDENT = 1e-8
"""A landmark is left out if the others explain all but this part of its kernel value with itself.

L⁻¹ S L⁻ᵀ multiplies the rounding of S by the inverse of this, which must stay small compared with the ridge.
"""


EQUAL = 1e-9
"""Products that differ by a smaller part are equal."""

STEPS = 1024.0
"""Steps in the unit of a column in which entries count where rows are numbered by what they hold."""


class LandmarkBasis:
    """An orthonormal basis of the span of the images of some landmarks, and the map of rows to it.

    Landmarks whose image lies in the span of others, up to rounding, are left out: the span is the same.

    Parameters
    ----------
    kernel : Kernel
        The kernel. If it is not positive definite, landmarks are left out until it is so on the rest.
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
        landmarks = floats(landmarks)
        with one_blas_thread():  # the same bits wherever a file is read again
            gram = _gram(kernel, landmarks)
            if not np.isfinite(gram).all():
                raise ValueError(
                    f"The {kernel.name} kernel of the landmarks is not finite. Check the kernel, or scale the "
                    "features, for instance with sklearn.preprocessing.StandardScaler."
                )
            kept, root = _independent(gram, landmarks.dtype)
            while root is None and len(kept):  # as if the others had never been there: a loaded basis has the same bits
                landmarks = landmarks[kept]
                gram = _gram(kernel, landmarks)
                kept, root = _independent(gram, landmarks.dtype)
        if root is None:
            raise ValueError(
                f"The {kernel.name} kernel is zero or negative at each of the {len(gram)} landmarks, so they span "
                "nothing. Use other landmarks or another kernel."
            )
        self.kernel = kernel
        self.landmarks = landmarks
        self.root: Float = root
        self._points: dict[Any, PreparedRows] = {}

    @property
    def rank(self) -> int:
        """Return the number of landmarks kept, which is the width of the kernel values."""
        return len(self.root)

    @property
    def width(self) -> int:
        """Return the number of features of a landmark."""
        return int(self.landmarks.shape[1])

    def points(self, dtype: np.dtype[Any]) -> PreparedRows:
        """Return the landmarks as the kernel reads them, in the precision of the rows."""
        if dtype not in self._points:
            self._points[dtype] = self.kernel.prepare(self.landmarks.astype(dtype))
        return self._points[dtype]

    def values(self, X: Rows) -> Float:
        """Return the kernel values of rows to the landmarks, (n, rank), in the precision of the rows."""
        n, dtype = X.shape[0], float_type(X)
        points, out = self.points(dtype), np.empty((n, self.rank), dtype=dtype)
        widest = max(self.rank, X.shape[1] if isinstance(X, np.ndarray) else 0)  # of values and of prepared rows
        step = max(128, TILE_BYTES // (dtype.itemsize * widest))
        tasks = split(n, -(-n // step))

        def tile(start: int, stop: int) -> None:
            out[start:stop] = self.kernel.between(self.kernel.prepare(floats(X[start:stop])), points)

        if self.kernel.name == "callable" or len(tasks) == 1:  # a callable may not be safe in threads
            for task in tasks:
                tile(*task)
            return out
        with one_blas_thread():
            run(tile, tasks)
        return out

    def scores(self, X: Rows, columns: Float) -> Float:
        """Return the kernel values of rows times a few columns, without holding all values."""
        return kernel_scores(self.kernel, X, self.points(float_type(X)), columns)

    def coordinates(self, values: Float) -> Float:
        """Return the coordinates L⁻¹k in the orthonormal basis, for values k in the rows of an array."""
        solved: Float = linalg.solve_triangular(self.root, values.T, lower=True, check_finite=False)
        return np.ascontiguousarray(solved.T)

    def embed(self, X: Rows) -> Float:
        """Return the coordinates of rows in the orthonormal basis; those of a landmark are its row of L."""
        places = self._places_of(X)
        new = np.flatnonzero(places < 0)
        coordinates: Float = self.root[places]
        if len(new):
            coordinates[new] = self.coordinates(self.values(X[new]).astype(np.float64, copy=False))
        return coordinates

    def turned(self, scatter: Float) -> Float:
        """Return the lower triangle of L⁻¹SL⁻ᵀ for a symmetric S, of which the lower triangle is read."""
        result, _ = linalg.lapack.dsygst(scatter.T, self.root.T, overwrite_a=1)  # upper triangles of the transposes
        turned: Float = result.T
        return turned

    def coefficients(self, components: Float) -> Float:
        """Return wᵀL⁻¹ for directions w in the rows of an array: what multiplies the kernel values."""
        with one_blas_thread():  # a model that was loaded solves this again
            solved: Float = linalg.solve_triangular(self.root, components.T, lower=True, trans=1, check_finite=False)
        return np.ascontiguousarray(solved.T)

    def _places_of(self, X: Rows) -> Integer:
        """Return where rows stand among the landmarks, −1 for those that are none."""
        places, own = np.full(X.shape[0], -1), self.landmarks
        if isinstance(X, np.ndarray) and isinstance(own, np.ndarray):
            both = np.result_type(X, own)  # where equal rows have equal bytes
            known = {row.tobytes(): place for place, row in enumerate(own.astype(both, copy=False))}
            places[:] = [known.get(row.tobytes(), -1) for row in X.astype(both, copy=False)]
        return places

    def to_state(self) -> dict[str, Any]:
        """Return what a checkpoint holds: the kernel and the landmarks kept."""
        return {"kernel": self.kernel.to_state(), "n_landmarks": self.rank, "landmarks": rows_state(self.landmarks)}

    @classmethod
    def from_state(cls, contents: Contents, width: int) -> Self:
        """Return the basis that `to_state` wrote, for rows of this width."""
        m = contents.whole("n_landmarks", low=1, high=LARGEST_WIDTH)
        kernel = Kernel.from_state(contents.part("kernel"), width)
        landmarks = rows_from(contents.part("landmarks"), (m, width))
        dense = isinstance(landmarks, np.ndarray)
        contents.require(dense or kernel.centre is None, "the landmarks are sparse, and the kernel has a centre")
        result = cls(kernel, landmarks)
        if result.rank != m:
            contents.refuse(f"{m - result.rank} of {m} landmarks depend on the others")
        contents.finish()
        return result

    def same_as(self, other: Any) -> bool:
        """Tell whether both map every row to the same values."""
        if not isinstance(other, LandmarkBasis):
            return False
        mine, theirs = self.kernel, other.kernel
        if (mine.name, mine.gamma, mine.degree, mine.coef0) != (theirs.name, theirs.gamma, theirs.degree, theirs.coef0):
            return False
        if mine.function is not theirs.function or self.landmarks.shape != other.landmarks.shape:
            return False
        if not mine.same_units(theirs):
            return False
        if isinstance(self.landmarks, np.ndarray) and isinstance(other.landmarks, np.ndarray):
            return bool(np.array_equal(self.landmarks, other.landmarks))
        if isinstance(self.landmarks, np.ndarray) or isinstance(other.landmarks, np.ndarray):
            return False
        difference: Any = self.landmarks - other.landmarks
        return bool(abs(difference).max() == 0)


def bytes_needed(n_landmarks: int, n_features: int) -> int:
    """Return the most bytes of statistics and solution: eight m × m arrays, the landmarks and a block of values."""
    return 8 * n_landmarks * (8 * n_landmarks + 2 * n_features) + 2 * VALUES_BYTES


def most_landmarks(memory_bytes: float, n_features: int) -> int:
    """Return the largest number of landmarks whose `bytes_needed` fit."""
    rest = max(memory_bytes - 2 * VALUES_BYTES, 0.0) / 8
    return int((np.sqrt(n_features**2 + 8 * rest) - n_features) / 8)


def content_numbers(X: Rows, units: Float, codes: Integer, weights: Float) -> Integer:
    """Return a number for each row that follows from the row itself and not from its place: draws by it have no order.

    Entries count in steps of a small part of their column's unit, so that neither the unit nor rounding matters. Equal
    rows get different numbers, by class and weight; which of two copies gets which changes nothing.

    Parameters
    ----------
    X : array or sparse matrix of shape (n, d)
        The rows.
    units : array of shape (d,)
        The standard deviation of each column.
    codes : array of shape (n,)
        The place of each row's class among the sorted labels.
    weights : array of shape (n,)
        Their weights.

    Returns
    -------
    array of uint64 of shape (n,)
        The numbers.
    """
    n, factors = X.shape[0], np.asarray(np.random.PCG64(0).random_raw(X.shape[1]), dtype=np.uint64)
    numbers, sums = np.empty(n, dtype=np.uint64), np.empty(n)
    for start, stop in split(n, 1 + n // 4096):
        part: Any = times_columns(X[start:stop].astype(np.float64), STEPS / units)
        sums[start:stop] = part.sum(axis=1)
        entries = part if isinstance(part, np.ndarray) else part.data
        whole = np.rint(np.clip(entries, -(2.0**60), 2.0**60)).astype(np.int64).view(np.uint64)
        if isinstance(part, np.ndarray):
            numbers[start:stop] = whole @ factors
        else:
            passed = np.concatenate([np.zeros(1, dtype=np.uint64), np.cumsum(whole * factors[part.indices])])
            numbers[start:stop] = passed[part.indptr[1:]] - passed[part.indptr[:-1]]
    order = np.lexsort((sums, weights, codes, numbers))
    ordered = numbers[order]
    numbers[order] += (np.arange(n) - np.searchsorted(ordered, ordered)).astype(np.uint64) * STEP
    return numbers


def draw_rows(
    codes: Integer,
    weights: Float,
    n_landmarks: int,
    random_state: Any,
    shares: Float | None = None,
    numbers: Integer | None = None,
) -> Integer:
    """Return which rows become landmarks, sorted by class: at least one of each class.

    Without `shares` classes get equally many, as far as they have rows; with them, rows are drawn in proportion.

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
    numbers : array of shape (n,), optional
        The numbers from which the keys are made, by default those of the rows, counted from 1.

    Returns
    -------
    array of shape (n_landmarks,)
        Numbers of rows.
    """
    present = weights > 0
    likely = np.ones(len(codes)) if shares is None else np.maximum(shares, np.finfo(float).tiny)
    numbers = np.arange(1, len(codes) + 1) if numbers is None else numbers
    keys = row_keys(numbers, np.where(present, likely, 0.0), random_state)
    place = ranks_in_groups(keys, codes)
    # Equally many: the first of every class, then the second of every class; by shares: the first of each, then all.
    turn = place if shares is None else np.minimum(place, 1)
    turn = np.where(present, turn, len(codes))
    chosen = np.lexsort((keys, turn))[:n_landmarks]
    return np.asarray(chosen[np.lexsort((numbers[chosen], codes[chosen]))])


def move_to_centres(X: Float, codes: Integer, weights: Float, seeds: Integer, units: Float | None = None) -> Float:
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
    units : array of shape (d,), optional
        What each column is divided by to tell what is near.

    Returns
    -------
    array of shape (m, d)
        One centre a seed, in the precision of the rows.
    """
    dtype = float_type(X)
    centres: Float = floats(X[seeds])
    divisors = np.ones(1, dtype=dtype) if units is None else units.astype(dtype)
    for code in np.unique(codes[seeds]):
        rows, places = np.flatnonzero(codes == code), np.flatnonzero(codes[seeds] == code)
        chosen = floats(X[seeds[places]]) / divisors
        norms = np.einsum("ij,ij->i", chosen, chosen) / 2
        sums, total = np.zeros((len(places), X.shape[1])), np.zeros(len(places))
        for part in blocks(len(rows), dtype.itemsize * (len(places) + X.shape[1]), target=VALUES_BYTES):
            block = floats(X[rows[part]])
            near = (block / divisors) @ chosen.T - norms
            # seeds that are equally near share a row: on whole numbers a last bit would decide between them
            top = near.max(axis=1, keepdims=True)
            equal = max(EQUAL, 4 * float(np.finfo(dtype).eps)) * (np.abs(top) + norms.max())
            mine, nearest = np.nonzero(near >= top - equal)
            parts = weights[rows[part]] / np.bincount(mine, minlength=len(block))
            belongs = sparse.csr_array((parts[mine].astype(dtype), (nearest, mine)), shape=(len(places), len(block)))
            sums += belongs @ block
            total += np.bincount(nearest, weights=parts[mine], minlength=len(places))
        filled = total > 0
        centres[places[filled]] = sums[filled] / total[filled, None]
    return centres


def _gram(kernel: Kernel, landmarks: Rows) -> Float:
    """Return the kernel matrix of landmarks, symmetric to the last bit."""
    points = kernel.prepare(landmarks.astype(np.float64))
    gram: Float = kernel.between(points, points)
    return (gram + gram.T) / 2


def _independent(gram: Float, dtype: np.dtype[Any]) -> tuple[Integer, Float | None]:
    """Return the points whose images are linearly independent, and the lower Cholesky factor if they all are.

    A factorisation that picks the farthest tells. Its pivots are never below the least eigenvalue, so it is left out
    where an estimate of that, at most three times too large as a rule, is far above the limit.
    """
    limit = max(DEPENDENT, float(np.finfo(dtype).eps)) * float(gram.diagonal().max())
    if limit <= 0:
        return np.zeros(0, dtype=np.int64), None
    with contextlib.suppress(linalg.LinAlgError):
        root: Float = linalg.cholesky(gram, lower=True, check_finite=False)
        norm = np.abs(gram).sum(axis=0).max()
        if norm * linalg.lapack.dpocon(root, norm, uplo="L")[0] > 10 * limit:
            return np.arange(len(gram)), root
    _, order, rank, _ = linalg.lapack.dpstrf(gram, tol=limit, lower=1)
    kept = np.sort(np.asarray(order[:rank], dtype=np.int64) - 1)
    return kept, linalg.cholesky(gram, lower=True, check_finite=False) if rank == len(gram) else None
